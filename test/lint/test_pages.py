"""Links of every page lead somewhere, and the front page stays short."""

import functools
import pathlib
import re
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = re.compile(r"^```.*?^```$|^ {4}.*?$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
NOT_OURS = {".git", "build", "node_modules", ".venv"}


def read(page):
    return page.read_text(encoding="utf-8")


def pages(root):
    return [path for path in sorted(root.rglob("*.md"))
            if not NOT_OURS & set(path.relative_to(root).parts)]


@functools.cache
def anchors(page):
    """The anchors that GitHub gives to the headings of a page."""
    found, seen = set(), {}
    text = CODE.sub(lambda code: "" if code[0].startswith("```") else code[0], read(page))
    for title in re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        seen[anchor] = seen.get(anchor, -1) + 1
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
    return found


def broken_links(root):
    findings = []
    for page in pages(root):
        text = CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), read(page))
        for number, line in enumerate(text.splitlines(), 1):
            for link in LINK.findall(line):
                if urllib.parse.urlsplit(link).scheme:
                    continue
                path, _, anchor = link.partition("#")
                target = (page.parent / path).resolve() if path else page
                where = f"{page.relative_to(root)}:{number}: {link}"
                if not target.exists():
                    findings.append(f"{where}: there is no such file")
                elif anchor and (target.suffix != ".md" or anchor not in anchors(target)):
                    findings.append(f"{where}: there is no such heading")
    return findings


def test_every_relative_link_and_anchor_leads_somewhere():
    assert len(pages(ROOT)) > 20
    assert not broken_links(ROOT)


def test_a_broken_link_is_reported_with_its_line(tmp_path):
    (tmp_path / "other.md").write_text(
        "# Why does it hang?\n## `run` (again)\n## Twice\n## Twice\n")
    (tmp_path / "page.md").write_text(
        "# Page\n[a](other.md) [b](other.md#why-does-it-hang) [c](#page) [d](other.md#run-again)\n"
        "[e](other.md#twice-1) [f](https://example.org/no#where) `[g](none.md)`\n\n"
        "    [h](none.md)\n"
        "```\n[i](none.md)\n```\n[j](none.md) [k](#none)\n| [l](other.md#twice-2) |\n")
    assert broken_links(tmp_path) == [
        "page.md:9: none.md: there is no such file", "page.md:9: #none: there is no such heading",
        "page.md:10: other.md#twice-2: there is no such heading"]


def test_the_front_page_has_at_most_150_lines():
    assert len(read(ROOT / "README.md").splitlines()) <= 150


# A row of the front page's table, and the row of test/bench/README.md that it is taken from.
MEASURED = {
    "allreduce of 1 KiB, C++": "blocking allreduce 1 KiB, C++, median",
    "allreduce of 64 KiB, C++": "64 KiB in place, private buffers",
    "allreduce of 64 MiB, C++": "64 MiB in place, private buffers",
    "the gradients of ResNet-50, C++": "ResNet-50 gradients",
    "1,000 tensors of 1,024 floats, C++": "1,000 tensors of 1,024 floats",
    "`allreduce_` of 1 KiB, PyTorch": "allreduce_ of 1 KiB",
    "`allreduce_` of 64 MiB, PyTorch": "allreduce_ of 64 MiB",
    "training step of VGG-11, PyTorch 1.13": "VGG-11, batch 32: step of 2 ranks",
    "training step of ResNet-18, PyTorch 1.13": "ResNet-18, batch 32: step of 2 ranks",
    "training step of a small MLP, PyTorch 1.13": "MLP 784-256-256-10, batch 64: step of 2 ranks",
}


def rows(text):
    cells = ([cell.strip() for cell in line.strip("|").split("|")]
             for line in text.splitlines() if line.startswith("| "))
    return {what: rest for what, *rest in cells}


def test_the_ratios_of_the_front_page_are_those_that_were_measured():
    measured = rows(read(ROOT / "test" / "bench" / "README.md"))
    section = read(ROOT / "README.md").split("\n## Speed\n")[1].split("\n## ")[0]
    shown = {what: rest[1].split()[0] for what, rest in rows(section).items() if what != "what"}
    assert shown == {ours: f"{float(measured[row][3]):.2f}" for ours, row in MEASURED.items()}

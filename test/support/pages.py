"""The pages that users read: README.md, docs/*.md and the README of each folder."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def user_pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page, language):
    """(title of the section, text) of each fenced block of `language` on a page of user_pages()."""
    text = (ROOT / page).read_text(encoding="utf-8")
    titles = [(match.start(), match[1]) for match in re.finditer(r"^#+ (.*)$", text, re.MULTILINE)]
    return [(max(title for title in titles if title[0] < match.start())[1], match[2])
            for match in FENCE.finditer(text) if match[1] == language]

"""The path of a gradient is as docs/a-gradient.md tells it, and no longer."""

import functools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "docs/a-gradient.md"
MOST_STATIONS, MOST_FUNCTIONS, MOST_FORMS = 15, 49, 8
FILE = re.compile(r"\[`[^`]+`\]\(\.\./([^)]+)\): ((?:`\w+`(?:, )?)+)")


@functools.cache
def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def rows(page, heading):
    """The cells of the table below it."""
    section = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def stations(page):
    """For each station its functions, as (file, [name, ...]) in order."""
    return [[(path, re.findall(r"`(\w+)`", names)) for path, names in FILE.findall(row[2])]
            for row in rows(page, "Stations")]


@functools.cache
def definitions(path, name):
    """(class or "", signature, body) of each function of this name that the file defines."""
    text = read(path) if (ROOT / path).exists() else ""
    found = []
    start = re.compile(r"^( *)(?:[\w:<>,&* ]+[ &*])?(?:(\w+)::)*" + name
                       + r"\(((?:[^(){};]|\([^()]*\))*)\)[^;{}]*\{", re.MULTILINE)
    for match in start.finditer(text):
        end = re.compile("^" + match[1] + r"\}", re.MULTILINE).search(text, match.end())
        around = re.findall(r"^class (\w+)", text[:match.start()], re.MULTILINE) if match[1] else []
        owner = match[2] or (around[-1] if around else "")
        found.append((owner, match[0], text[match.start():end.start()]))
    return found


def calls(a, b):
    """Whether a function of the one calls one of the other, by the name of the object that has it, or
    has its class as a template's argument."""
    text = "\n".join(body for name in a[1] for _, _, body in definitions(a[0], name))
    for name in b[1]:
        if name[0].isupper() and re.search(rf"\b{name}\b", header_of(a[0])):
            return True
        has_its_own = a[0] != b[0] and definitions(a[0], name)
        for owner, _, _ in definitions(b[0], name):
            for object_of in re.findall(rf"(?:(\w+)(?:\(\)|\[[^\]]*\])?(?:\.|->|::)|\b){name}\(", text):
                if object_of and owner.lower().endswith(object_of.strip("_").lower()):
                    return True
                if not (object_of or owner or has_its_own):
                    return True
    return False


def links(a, b):
    return calls(a, b) or calls(b, a)


def header_of(path):
    header = path.replace(".cc", ".h")
    return read(header) if (ROOT / header).exists() else ""


def gaps(page):
    """Functions that are not where the page says, and files that nothing before them leads to."""
    found = []
    seen, before = set(), []
    for number, station in enumerate(stations(page), 1):
        for path, names in station:
            found += [f"station {number}: {path} does not define {name}" for name in names
                      if not definitions(path, name)]
        # An object that has come by may still have it.
        left = [each for each in station if seen and each[0] not in seen]
        reached = [*before, *(each for each in station if each not in left)]
        while linked := [each for each in left if any(links(each, other) for other in reached)]:
            reached += linked
            left = [each for each in left if each not in linked]
        found += [f"station {number}: nothing before it calls {path}, nor does it fetch from there"
                  for path, _ in left]
        seen |= {path for path, _ in station}
        before = station
    return found


def unknown_types(page):
    """Types that the functions are given, and that the page does not name."""
    known = set(re.findall(r"`([A-Z]\w+)`", page.split("## Forms\n")[1].split("\n## ")[0]))
    found = []
    for station in stations(page):
        for path, names in station:
            for name in names:
                types = [set(re.findall(r"\b([A-Z]\w+)\b(?!::)", parameters_of(signature, name)))
                         - {"RecycledVector"}
                         for _, signature, _ in definitions(path, name)]
                if types and not any(each <= known for each in types):
                    found.append(f"{path}: {name}() takes {sorted(types[0] - known)}: another form?")
    return found


def parameters_of(signature, name):
    return re.search(rf"\b{name}\(((?:[^()]|\([^()]*\))*)\)", signature)[1]


def forms(page):
    return [re.findall(r"`(\w+)`", row[1])[0] for row in rows(page, "Forms")]


def test_every_function_is_there_and_leads_to_the_next():
    assert not gaps(read(PAGE))


def test_what_they_are_given_is_a_form_of_the_table():
    page = read(PAGE)
    assert not unknown_types(page)
    for row in rows(page, "Forms"):
        form, path = re.findall(r"`(\w+)`", row[1])[0], re.search(r"\.\./([^)]+)", row[2])[1]
        assert re.search(rf"\b(?:struct|class|using) {form}\b", read(path)), (form, path)
        station = stations(page)[int(row[3]) - 1]
        makers = [read(file) + header_of(file) for file, _ in station]
        assert any(re.search(rf"\b{form}\b", text) for text in makers), (form, row[3])


def test_there_are_no_more_stations_and_forms_than_these():
    page = read(PAGE)
    assert len(stations(page)) <= MOST_STATIONS
    assert sum(len(names) for station in stations(page) for _, names in station) <= MOST_FUNCTIONS
    assert len(forms(page)) <= MOST_FORMS


@pytest.mark.parametrize("number", [2, 3, 4, 5, 6, 7, 8, 11, 12])
def test_a_station_that_is_left_out_is_reported(number):
    page = re.sub(rf"^\| {number} \| .*\n", "", read(PAGE), count=1, flags=re.MULTILINE)
    assert gaps(page)


def test_what_is_not_there_any_more_is_reported():
    page = read(PAGE)
    assert ("station 11: core/runtime/executor.cc does not define begin_waiting"
            in gaps(page.replace("`start_waiting`", "`begin_waiting`")))
    assert any("run() takes ['RunBatch']" in each
               for each in unknown_types(page.replace("`RunBatch`", "a batch")))

"""SECURITY.md promises nothing without a test, and every test that it names exists."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = re.compile(r"`((\w+\.py)::(test_\w+)|([A-Z]\w+)\.([A-Z]\w+))`")


def sources(pattern):
    return [path for path in (ROOT / "test").rglob(pattern) if "build" not in path.parts]


def defined_tests():
    names = set()
    for path in sources("*.py"):
        text = path.read_text(encoding="utf-8")
        names |= {f"{path.name}::{name}" for name in re.findall(r"^def (test_\w+)", text, re.M)}
    for path in sources("*.cc"):
        text = path.read_text(encoding="utf-8")
        names |= {f"{suite}.{name}"
                  for suite, name in re.findall(r"^(?:TYPED_)?TEST(?:_[FP])?\((\w+),\s+(\w+)\)", text, re.M)}
    return names


def promises():
    """(line number, promise, names of tests) of every row."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("|") and not line.startswith(("|---", "| promise |")):
            _, promise, tests, _ = line.split("|")
            yield number, promise.strip(), [match[1] for match in NAME.finditer(tests)]


def test_every_promise_has_a_test_that_exists():
    defined = defined_tests()
    rows = list(promises())
    assert len(rows) > 10
    missing = [f"SECURITY.md:{number}: {name}" for number, _, names in rows
               for name in names if name not in defined]
    assert not missing, missing
    assert not [f"SECURITY.md:{number}: no test" for number, _, names in rows if not names]

"""What a check found."""

import dataclasses

LEVELS = ("ok", "warning", "problem")


@dataclasses.dataclass
class Finding:
    """One line of the report.

    Attributes:
        level: "ok"; "warning": jobs run, but slower or not everywhere; "problem": they do not.
        name: what was looked at.
        text: what was found.
        fix: what to do about it; empty where nothing is wrong.
    """

    level: str
    name: str
    text: str
    fix: str = ""


def ok(name: str, text: str) -> Finding:
    return Finding("ok", name, text)


def warning(name: str, text: str, fix: str) -> Finding:
    return Finding("warning", name, text, fix)


def problem(name: str, text: str, fix: str) -> Finding:
    return Finding("problem", name, text, fix)

"""The HOROVOD_* and HVD_* variables that are set here."""

import os
import tempfile
from collections.abc import Mapping
from typing import Any

import horovod_cpp as hvd
from horovod_cpp.doctor.finding import Finding, ok, problem, warning

_PREFIXES = ("HOROVOD_", "HVD_")
# Numbers that a launcher gives its ranks, and their least values.
_PLACES = {"HOROVOD_RANK": 0, "HOROVOD_SIZE": 1, "HOROVOD_LOCAL_RANK": 0, "HOROVOD_LOCAL_SIZE": 1,
           "HOROVOD_CROSS_RANK": 0, "HOROVOD_CROSS_SIZE": 1}


def checks() -> list[Finding]:
    names = sorted(name for name in os.environ if name.startswith(_PREFIXES))
    if not names:
        return [ok("variables", "no HOROVOD_ or HVD_ variable is set: defaults everywhere")]
    values = {name: os.environ.pop(name) for name in names}
    known = {row["name"]: row for row in hvd.config()}
    found = [_alone(name, value, known) for name, value in values.items()]
    os.environ.update(values)
    if all(each.level == "ok" for each in found):
        found += _together()
    return found


def _alone(name: str, value: str, known: Mapping[str, Any]) -> Finding:
    if name in _PLACES and not (value.isdecimal() and int(value) >= _PLACES[name]):
        return problem(name, f"{name}='{value}': must be an integer of at least {_PLACES[name]}",
                       f"unset {name}: launchers such as hvdrun set it for each rank")
    os.environ[name] = value
    try:
        said = _warnings_of_config()
    except hvd.InvalidArgumentError as error:
        return problem(name, str(error), f"unset {name}, or give it such a value")
    finally:
        del os.environ[name]
    if said:
        return warning(name, said, f"unset {name}, or correct it")
    if name in known:
        return ok(name, f"'{value}': {known[name]['meaning']}")
    return ok(name, f"'{value}'")


def _together() -> list[Finding]:
    """Two good values may contradict each other."""
    try:
        hvd.config()
    except hvd.InvalidArgumentError as error:
        return [problem("together", str(error), "unset one of them")]
    return []


def _warnings_of_config() -> str:
    """What reading the settings prints on standard error, without the time and level."""
    with tempfile.TemporaryFile("w+") as file:
        before = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            hvd.config()
        finally:
            os.dup2(before, 2)
            os.close(before)
        file.seek(0)
        return " ".join(line.partition("warning: ")[2] or line for line in file.read().splitlines())

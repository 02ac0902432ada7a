"""Compares what the ranks reported with the oracle."""

import dataclasses

import numpy

from loops.oracle import expected_of


@dataclasses.dataclass
class Fault:
    """`kind`: "wrong" values, "diverged" ranks, "error" where there should be none, "stalled",
    or "accepted", where there should be an error."""

    kind: str
    at: int | None  # the operation
    text: str


def fault_of(program, reports):
    """None if all is right."""
    expected = expected_of(program)
    errors = [report["error"] for report in reports]
    if not any(errors):
        fault = _fault_of_values(program, expected, reports)
        if fault is None and expected and expected[-1].must_refuse:
            return Fault("accepted", len(expected) - 1, "an error was due")
        return fault
    fault = _fault_of_values(program, expected, reports)  # those that came before the error
    return fault or _fault_of_errors(expected, reports)


def _fault_of_errors(expected, reports):
    words = "\n".join(f"rank {rank}: {report['error']}: {report['text']}" if report["error"]
                      else f"rank {rank}: no error" for rank, report in enumerate(reports))
    at = [report["at"] if report["error"] else None for report in reports]
    if any(report["error"] and report["over"] for report in reports):
        return Fault("stalled", next((each for each in at if each is not None), None), words)
    if any(each is None or each != at[0] for each in at):
        return Fault("diverged", at[0], words)
    alike = all(report["error"] == reports[0]["error"] and report["refusal"] for report in reports)
    allowed = at[0] < len(expected) and (expected[at[0]].may_refuse or expected[at[0]].must_refuse)
    return None if alike and allowed else Fault("error", at[0], words)


def _fault_of_values(program, expected, reports):
    tolerance = tolerance_of(program)
    common = min(len(report["trace"]) for report in reports)
    for at, want in enumerate(expected[:common]):
        got = [report["trace"][at] for report in reports]
        if want.values is None:
            continue
        right = [_flat(value) for value in want.values]
        words = "\n".join([f"expected {right}", *(f"rank {rank}   {values}"
                                                   for rank, values in enumerate(got))])
        if any(values != got[0] for values in got):
            return Fault("diverged", at, words)
        for have, should in zip(got[0], right, strict=True):
            if not numpy.allclose(have, should, rtol=tolerance, atol=tolerance):
                return Fault("wrong", at, words)
    return None


def _flat(value):
    value = numpy.ascontiguousarray(value).reshape(-1)
    return (value.view(float) if numpy.iscomplexobj(value) else value).tolist()


def tolerance_of(program):
    kinds = {param["kind"] for param in program["params"]}
    compressed = any(each["options"].get("compression") for each in program["optimizers"])
    return 3e-2 if compressed or "half" in kinds else 1e-4 if "float32" in kinds else 1e-9

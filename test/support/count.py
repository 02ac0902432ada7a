#!/usr/bin/env python3
"""Adds up a run of test/run.sh or test/gpu/run.sh.  count.py RESULTS

RESULTS/steps.tsv names the steps and their exit codes; a step that wrote NAME.xml or NAME.*.xml
(JUnit) counts for the cases in them, another one for one case. A case that was skipped, a step without a single
case and a step that failed without a failing case count as failures: nothing may be left out
silently. A strict xfail, which fails as soon as it passes, counts as passed and is named with its reason. Prints
what failed, then `N passed, M failed`; exits 1 if M is not 0 or N is.
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def cases_of(file):
    """Yields (name, what went wrong or None) for each case of a JUnit file."""
    for case in ElementTree.parse(file).getroot().iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        wrong = None
        for tag in ("failure", "error", "skipped"):
            found = case.find(tag)
            if found is None:
                continue
            if found.get("type") == "pytest.xfail":
                print(f"known to fail: {name}: {found.get('message')}")
            else:
                wrong = "skipped" if tag == "skipped" else "failed"
        if wrong is None and case.get("status", "run") not in ("run", "passed"):
            wrong = f"not run ({case.get('status')})"
        yield name, wrong


def count(results):
    """Returns (passed, list of failures)."""
    passed, failures = 0, []
    for line in (results / "steps.tsv").read_text(encoding="utf-8").splitlines():
        step, code = line.split("\t")
        files = [*results.glob(f"{step}.xml"), *sorted(results.glob(f"{step}.*.xml"))]
        if not files:
            if code == "0":
                passed += 1
            else:
                failures.append(f"{step}: exit code {code}")
            continue
        wrong = []
        cases = 0
        for file in files:
            try:
                for name, what in cases_of(file):
                    cases += 1
                    if what:
                        wrong.append(f"{step}: {name} {what}")
            except ElementTree.ParseError as error:
                wrong.append(f"{step}: {file.name} is broken: {error}")
        passed += max(cases - len(wrong), 0)
        if cases == 0 and not wrong:
            wrong.append(f"{step}: not one test case")
        if code != "0" and not wrong:
            wrong.append(f"{step}: exit code {code}")
        failures += wrong
    return passed, failures


def main():
    passed, failures = count(pathlib.Path(sys.argv[1]))
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"{passed} passed, {len(failures)} failed")
    return 0 if passed and not failures else 1


if __name__ == "__main__":
    sys.exit(main())

"""test/support/count.py: nothing may be left out silently."""

import pathlib
import subprocess
import sys

import pytest

COUNT = pathlib.Path(__file__).resolve().parents[1] / "support" / "count.py"

PASS = '<testcase classname="A" name="a"/>'
CTEST_PASS = '<testcase classname="A" name="a" status="run"/>'
FAIL = '<testcase classname="A" name="b"><failure message="no"/></testcase>'
ERROR = '<testcase classname="A" name="c"><error message="no"/></testcase>'
SKIP = '<testcase classname="A" name="d"><skipped message="no"/></testcase>'
XFAIL = '<testcase classname="A" name="f"><skipped type="pytest.xfail" message="not yet"/></testcase>'
NOT_RUN = '<testcase classname="A" name="e" status="notrun"/>'


def count(folder, steps, **xml):
    """Returns (exit code, printed lines)."""
    lines = "".join(f"{name}\t{code}\n" for name, code in steps.items())
    (folder / "steps.tsv").write_text(lines)
    for name, cases in xml.items():
        (folder / f"{name}.xml").write_text(f"<testsuite>{cases}</testsuite>")
    run = subprocess.run([sys.executable, str(COUNT), str(folder)], capture_output=True, text=True,
                         check=False)
    return run.returncode, run.stdout.splitlines()


def test_cases_are_summed_over_steps(tmp_path):
    code, lines = count(tmp_path, {"lint": 0, "cpp": 0, "py": 0}, cpp=CTEST_PASS * 3, py=PASS * 2)
    assert (code, lines) == (0, ["6 passed, 0 failed"])


def test_a_step_may_write_several_files(tmp_path):
    code, lines = count(tmp_path, {"tsan": 0}, **{"tsan.ops_test.0": PASS, "tsan.ops_test.1": FAIL})
    assert (code, lines[-1]) == (1, "1 passed, 1 failed")


@pytest.mark.parametrize("case", [FAIL, ERROR, SKIP, NOT_RUN])
def test_a_case_that_did_not_pass_is_a_failure_even_if_the_step_says_ok(tmp_path, case):
    code, lines = count(tmp_path, {"cpp": 0}, cpp=PASS + case)
    assert code == 1
    assert lines[-1] == "1 passed, 1 failed"
    assert lines[0].startswith("FAILED cpp: A.")


def test_a_case_that_is_known_to_fail_is_named_and_no_failure(tmp_path):
    assert count(tmp_path, {"py": 0}, py=PASS + XFAIL) == (
        0, ["known to fail: A.f: not yet", "2 passed, 0 failed"])


@pytest.mark.parametrize("steps,xml", [
    ({"lint": 1}, {}),                 # a step that failed
    ({"cpp": 1}, {"cpp": PASS}),       # all cases passed, yet the runner failed
    ({"cpp": 0}, {"cpp": ""}),         # no case at all
])
def test_a_step_without_a_failing_case_can_still_fail(tmp_path, steps, xml):
    code, lines = count(tmp_path, steps, **xml)
    assert code == 1
    assert lines[-1].endswith(" 1 failed")


def test_a_broken_file_is_a_failure(tmp_path):
    (tmp_path / "cpp.xml").write_text("<testsuite><testcase")
    code, lines = count(tmp_path, {"cpp": 0})
    assert (code, lines[-1]) == (1, "0 passed, 1 failed")


def test_a_run_without_any_step_fails(tmp_path):
    assert count(tmp_path, {})[0] == 1

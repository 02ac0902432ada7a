"""python -m horovod_cpp.doctor, on this machine as it is and with one thing broken at a time."""

import ctypes
import faulthandler
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import sysconfig
import time

import pytest
from waiting import wait_for

from horovod_cpp.doctor.bounded import capture, ok, run_check
from horovod_cpp.doctor.machine import _quota

WITHOUT = pathlib.Path(__file__).resolve().parents[1] / "support" / "without.py"
ALL = ["versions", "mpi", "memory", "network", "ssh", "gpu", "threads", "limits", "settings",
       "allreduce"]


@pytest.fixture
def doctor(tmp_path, monkeypatch):
    """Runs it; returns the exit code and the findings by (check, name)."""
    for name in list(os.environ):
        if name.startswith(("HOROVOD_", "HVD_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"])

    def run(*options, environment=None, prefix=()):
        done = subprocess.run(
            [*prefix, sys.executable, "-m", "horovod_cpp.doctor", "--json", *options],
            cwd=tmp_path, capture_output=True, text=True, timeout=120,
            env={**os.environ, **(environment or {})})
        assert done.stdout, done.stderr
        report = json.loads(done.stdout)
        found = {(check["check"], each["name"]): each
                 for check in report["checks"] for each in check["findings"]}
        only = " ".join(itertools.takewhile(lambda word: word[:2] != "--", options[1:]))
        assert {check["check"] for check in report["checks"]} == set(
            only.replace(",", " ").split() if options[:1] == ("--only",) else ALL)
        for each in found.values():
            assert each["level"] in ("ok", "warning", "problem") and each["text"], each
            assert bool(each["fix"]) == (each["level"] != "ok"), each
        for level in ("ok", "warning", "problem"):
            assert report[level] == sum(
                each["level"] == level for check in report["checks"] for each in check["findings"])
        assert done.returncode == (1 if report["problem"] else 0), done.stderr
        return done.returncode, found

    return run


@pytest.fixture
def program(tmp_path):
    """Makes a program of this name, the first one in the PATH that it returns."""
    def make(name, text):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
        return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    return make


def without(*things):
    return [sys.executable, WITHOUT, *things, "--"]


def test_a_machine_that_runs_the_tests_has_no_problem(doctor, marked_processes):
    before = set(os.listdir("/dev/shm"))
    code, found = doctor()
    assert code == 0, found
    assert "GNU" in found["versions", "horovod_cpp"]["text"]
    assert found["versions", "Python"]["text"].startswith(sys.version.split()[0])
    assert "Open MPI" in found["mpi", "library"]["text"]
    assert "MPI_THREAD_MULTIPLE" in found["mpi", "2 ranks by mpirun"]["text"]
    assert found["memory", "segment"]["level"] == "ok"
    assert "127.0.0.1" in found["network", "lo"]["text"]
    assert found["threads", "cores"]["text"].startswith(str(len(os.sched_getaffinity(0))))
    assert "2 ranks, without MPI" in found["allreduce", "2 ranks by hvdrun"]["text"]
    assert "ms (median of 11)" in found["allreduce", "2 ranks by hvdrun"]["text"]  # warm ones
    assert any(word in found["gpu", "backend"]["text"] for word in ("CUDA", "NCCL", "nccl"))
    wait_for(marked_processes, [])
    assert not [name for name in set(os.listdir("/dev/shm")) - before if "hvd" in name]


def test_the_text_names_the_level_and_what_to_do_and_the_help_explains_both():
    command = [sys.executable, "-m", "horovod_cpp.doctor"]
    settings = {**os.environ, "HOROVOD_FUSION_THRESHOLD": "64MB"}
    done = subprocess.run([*command, "--only", "settings"], capture_output=True, text=True,
                          env=settings, timeout=60)
    assert done.returncode == 1
    assert "PROBLEM  HOROVOD_FUSION_THRESHOLD" in done.stdout and "-> unset" in done.stdout
    assert "problem: 1" in done.stdout
    text = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60).stdout
    assert all(f"  {name} " in text for name in ALL) and "exit code" in text
    wrong = subprocess.run([*command, "--only", "weather"], capture_output=True, text=True, timeout=60)
    assert wrong.returncode == 2 and "weather" in wrong.stderr and "allreduce" in wrong.stderr


@pytest.mark.parametrize("words", [["memory,limits"], ["memory,", "limits"]])
def test_several_checks_are_named_with_blanks_or_commas(doctor, words):
    _, found = doctor("--only", *words)
    assert {check for check, _ in found} == {"memory", "limits"}


def test_every_malformed_variable_is_a_problem_and_a_misspelt_one_a_warning(doctor):
    code, found = doctor("--only", "settings", environment={
        "HOROVOD_FUSION_THRESHOLD": "64MB", "HOROVOD_CYCLE_TIME": "-1", "HOROVOD_CACHE_CAPACITY": "8",
        "HOROVOD_FUSION_TRESHOLD": "1", "HOROVOD_NUM_NCCL_STREAMS": "4", "HVD_STAT": "1"})
    assert code == 1
    levels = {name: each["level"] for (_, name), each in found.items()}
    assert levels == {
        "HOROVOD_FUSION_THRESHOLD": "problem", "HOROVOD_CYCLE_TIME": "problem",
        "HOROVOD_CACHE_CAPACITY": "ok", "HOROVOD_FUSION_TRESHOLD": "warning",
        "HOROVOD_NUM_NCCL_STREAMS": "warning", "HVD_STAT": "warning"}
    assert "64MB" in found["settings", "HOROVOD_FUSION_THRESHOLD"]["text"]
    assert "did you mean HVD_STATS?" in found["settings", "HVD_STAT"]["text"]


def test_settings_that_contradict_each_other_are_a_problem(doctor):
    code, found = doctor("--only", "settings", environment={
        "HOROVOD_DETERMINISTIC": "1", "HOROVOD_AUTOTUNE": "1"})
    assert code == 1
    assert "HOROVOD_AUTOTUNE" in found["settings", "together"]["text"]


def test_a_setting_that_ends_jobs_shows_in_the_real_job_too(doctor):
    code, found = doctor("--only", "allreduce", environment={"HOROVOD_CYCLE_TIME": "soon"})
    assert code == 1
    assert "HOROVOD_CYCLE_TIME='soon'" in found["allreduce", "2 ranks by hvdrun"]["text"]


def test_without_mpirun_one_machine_is_fine(doctor):
    code, found = doctor("--only", "mpi", "allreduce",
                         environment={"PATH": sysconfig.get_path("scripts")})
    assert code == 0
    assert found["mpi", "mpirun"]["level"] == "warning"
    assert "apt-get install openmpi-bin" in found["mpi", "mpirun"]["fix"]
    assert "without MPI" in found["allreduce", "2 ranks by hvdrun"]["text"]


@pytest.mark.parametrize("path", [":/bin", ":/usr/bin"])
def test_it_does_not_matter_by_which_name_of_a_folder_mpirun_is_found(doctor, path):
    code, found = doctor("--only", "mpi",
                         environment={"PATH": sysconfig.get_path("scripts") + path})
    assert code == 0, found
    assert found["mpi", "2 ranks by mpirun"]["level"] == "ok"


@pytest.mark.parametrize("launcher, how", [
    (["mpirun", "--allow-run-as-root"], "without MPI"), (["hvdrun"], "without MPI"),
    (["hvdrun", "--mpi"], "with MPI")], ids=["mpirun", "hvdrun", "hvdrun-mpi"])
def test_a_rank_of_a_job_can_ask_too(tmp_path, launcher, how):
    done = subprocess.run(
        [*launcher, "-np", "1", sys.executable, "-m", "horovod_cpp.doctor", "--only", "mpi",
         "allreduce"],
        capture_output=True, text=True, timeout=120, cwd=tmp_path,
        env={**os.environ, "PATH": f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "problem: 0" in done.stdout and f"2 ranks, {how}" in done.stdout


def test_an_mpi_library_that_is_not_there_is_named(doctor):
    code, found = doctor("--only", "mpi", "allreduce", prefix=without("mpi"))
    assert code == 0
    assert found["mpi", "library"]["level"] == "warning"
    assert "libmpi.so.40" in found["mpi", "library"]["text"]
    assert "without MPI" in found["allreduce", "2 ranks by hvdrun"]["text"]


def test_an_mpirun_without_its_library_is_told_about_the_search_path(doctor):
    libraries = f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}/libmpi.so*"
    code, found = doctor("--only", "mpi", prefix=without(libraries))
    assert code == 0
    assert "LD_LIBRARY_PATH" in found["mpi", "library"]["fix"]


def test_another_mpis_mpirun_is_recognised(doctor, program):
    path = program("mpirun", "echo 'HYDRA build details:'")
    code, found = doctor("--only", "mpi", environment=path)
    assert code == 0
    assert found["mpi", "mpirun"]["level"] == "warning"
    assert "HYDRA" in found["mpi", "mpirun"]["text"] and "--gloo" in found["mpi", "mpirun"]["fix"]


def test_ranks_of_mpirun_that_meet_without_mpi_are_a_problem(doctor, program):
    path = program("mpirun", "echo 'mpirun (Open MPI) 4.1.4; rank 0 says: 2 ranks, without MPI'")
    code, found = doctor("--only", "mpi", environment=path)
    assert code == 1
    assert found["mpi", "2 ranks by mpirun"]["text"] == "the ranks met without MPI"


@pytest.mark.parametrize("size", ["64k", "64m"])
def test_a_small_shared_memory_is_a_warning_and_the_job_runs(doctor, size):
    code, found = doctor("--only", "memory", "allreduce", prefix=without(f"shm={size}"))
    assert code == 0
    assert found["memory", "size"]["level"] == "warning"
    assert "--shm-size" in found["memory", "size"]["fix"]
    assert found["memory", "segment"]["level"] == "ok"
    assert found["allreduce", "2 ranks by hvdrun"]["level"] == "ok"


def test_interfaces_that_are_down_or_do_not_exist_are_problems(doctor):
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    code, found = doctor("--only", "network", environment={"HOROVOD_GLOO_IFACE": "nosuch0"},
                         prefix=["unshare", *user, "--net", "--"])
    assert code == 1
    assert found["network", "lo"]["level"] == "problem"
    assert "nosuch0" in found["network", "HOROVOD_GLOO_IFACE"]["text"]


def test_an_ssh_that_hangs_is_stopped(doctor, program, marked_processes):
    path = program("ssh", "exec sleep 1000")
    begin = time.monotonic()
    code, found = doctor("--only", "ssh", "--hosts", "localhost", environment=path)
    assert code == 1 and time.monotonic() - begin < 40
    assert "no end in sight" in found["ssh", "localhost"]["text"]
    wait_for(marked_processes, [])


def test_on_one_machine_a_login_that_fails_is_fine(doctor, program):
    code, found = doctor("--only", "ssh", environment=program("ssh", "exit 255"))
    assert code == 0 and {each["level"] for each in found.values()} == {"ok"}
    assert "not needed on one machine" in found["ssh", "localhost"]["text"]


def test_a_host_that_ssh_would_take_for_an_option_is_refused(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "horovod_cpp.doctor", "--only", "ssh",
         f"--hosts=-oProxyCommand=touch${{IFS}}{tmp_path}/was_here"],
        capture_output=True, text=True, timeout=120)
    assert not (tmp_path / "was_here").exists()
    assert done.returncode == 2 and "is not a host name" in done.stderr


def test_ssh_is_told_where_its_options_end(doctor, program, tmp_path):
    path = program("ssh", 'echo "$@" >> $(dirname "$0")/said')
    doctor("--only", "ssh", "--hosts", "node1", environment=path)
    assert (tmp_path / "said").read_text().endswith(" -- node1 true\n")


@pytest.mark.parametrize("error, words", [
    ("RuntimeError('Numpy is not available')", '"numpy<2"'),
    ("ImportError('libtorch.so: cannot open')", "reinstall torch"),
])
def test_a_torch_that_does_not_work_with_this_numpy_is_a_warning(doctor, tmp_path, error, words):
    (tmp_path / "torch.py").write_text(f"def from_numpy(array):\n    raise {error}\n")
    about = tmp_path / "torch-9.8.7.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 9.8.7\n")
    _, found = doctor("--only", "versions", environment={"PYTHONPATH": str(tmp_path)})
    assert found["versions", "torch"]["level"] == "warning"
    assert "9.8.7 does not work with numpy" in found["versions", "torch"]["text"]
    assert words in found["versions", "torch"]["fix"]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_reader_that_leaves_early_ends_it_without_a_traceback(options):
    doctor = subprocess.Popen(
        [sys.executable, "-m", "horovod_cpp.doctor", "--only", "network", "limits", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    doctor.stdout.close()
    _, errors = doctor.communicate(timeout=60)
    assert errors == "" and doctor.returncode == 128 + signal.SIGPIPE


def test_checks_are_seen_to_end_where_that_signal_was_ignored():
    done = subprocess.run(["env", "--ignore-signal=CHLD", sys.executable, "-m", "horovod_cpp.doctor",
                           "--only", "limits"], capture_output=True, text=True, timeout=60)
    assert done.stderr == "" and "open files" in done.stdout


@pytest.mark.parametrize("name, value", [("HOROVOD_RANK", "zz"), ("HOROVOD_SIZE", "0")])
def test_a_malformed_place_in_a_job_is_a_problem(doctor, name, value):
    code, found = doctor("--only", "settings", environment={name: value})
    assert code == 1
    assert f"{name}='{value}'" in found["settings", name]["text"]
    assert f"unset {name}" in found["settings", name]["fix"]


def test_a_path_that_is_not_set_is_named(doctor):
    code, found = doctor("--only", "versions", "mpi", "allreduce", prefix=["env", "-u", "PATH"])
    assert code == 1
    assert "PATH is not set" in found["versions", "PATH"]["text"]
    fixes = [each["fix"] for each in found.values() if each["level"] == "problem"]
    assert fixes and all(fix.startswith("export PATH=") for fix in fixes)


def test_a_host_that_was_asked_for_and_does_not_answer_is_a_problem():
    done = subprocess.run(
        [sys.executable, "-m", "horovod_cpp.doctor", "--only", "ssh", "--hosts", "nosuch.invalid"],
        capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "PROBLEM  nosuch.invalid" in done.stdout and "ssh-copy-id nosuch.invalid" in done.stdout


def test_a_missing_hvdrun_is_a_problem_that_says_how_to_get_it(doctor):
    hvdrun = shutil.which("hvdrun", path=sysconfig.get_path("scripts"))
    code, found = doctor("--only", "versions", "allreduce", prefix=without(hvdrun))
    assert code == 1
    assert found["versions", "hvdrun"]["level"] == "problem"
    assert "pip install" in found["allreduce", "2 ranks by hvdrun"]["fix"]


def test_few_files_and_senseless_thread_numbers_are_warnings(doctor):
    code, found = doctor("--only", "threads", "limits", environment={"OMP_NUM_THREADS": "many"},
                         prefix=["bash", "-c", 'ulimit -Sn 256; exec "$@"', "bash"])
    assert code == 0
    assert found["threads", "OMP_NUM_THREADS"]["level"] == "warning"
    assert "ulimit -n" in found["limits", "open files"]["fix"]


@pytest.mark.parametrize("files, cores", [
    ({"cpu.max": "max 100000"}, None), ({"cpu.max": "150000 100000"}, 1.5), ({}, None)])
def test_the_limit_of_control_groups_is_the_smallest_on_the_way_up(tmp_path, files, cores):
    inner = tmp_path / "root" / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "groups").write_text("0::/a/b\n")
    for name, text in files.items():
        (inner.parent / name).write_text(text + "\n")
    (inner / "cpu.max").write_text("400000 100000\n")
    found = _quota(tmp_path / "groups", tmp_path / "root")
    assert found == (4 if cores is None else cores)


def test_a_check_that_hangs_is_stopped_with_all_that_it_started(marked_processes):
    def hang():
        subprocess.Popen(["sleep", "1000"])
        time.sleep(1000)

    begin = time.monotonic()
    found = run_check(hang, 1)
    assert time.monotonic() - begin < 30
    assert [each.level for each in found] == ["problem"] and "no answer after 1 s" in found[0].text
    wait_for(marked_processes, [])  # the sleep is nobody's child


def test_a_check_that_crashes_or_raises_is_a_problem_and_the_doctor_goes_on():
    crash = run_check(lambda: (faulthandler.disable(), ctypes.string_at(0)), 30)
    assert [each.level for each in crash] == ["problem"] and "SIGSEGV" in crash[0].text
    error = run_check(lambda: {}["key"], 30)
    assert [each.level for each in error] == ["problem"] and "KeyError" in error[0].text
    assert run_check(lambda: [ok("name", "text")], 30) == [ok("name", "text")]


def test_a_program_that_ignores_signals_is_killed():
    begin = time.monotonic()
    output = capture(["bash", "-c", "trap '' TERM; echo here; while :; do sleep 0.1; done"], 1)
    assert output.code is None and time.monotonic() - begin < 20


#!/usr/bin/env python3
"""Plants defects one at a time and shows which test finds each.

    planted_defects.py list                     the table below, and where it no longer fits
    planted_defects.py plant FOLDER             clones HEAD into FOLDER, with all defects in it
    planted_defects.py run FOLDER [NAME...]     the default's tests on each of them

All are built once: each waits behind a switch, which the environment variable PLANTED_DEFECT turns
on by its name. Without it the program is as before.

    python3 test/lint/planted_defects.py plant ../planted
    (cd ../planted && bash test/run.sh)         all tests of the program are to pass
    python3 test/lint/planted_defects.py run ../planted

(clang-format, structure.py and its tests have findings there.) `run` goes through the steps of
test/run.sh that a defect's folder can change, likely and quick ones first, until one fails or does
not end. What failed runs once more without the defect, and does not count if it fails then too.
Logs are in FOLDER/build/planted. Exit code 1: some were not found; 2: nothing was tried.
"""

import argparse
import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Defect:
    """`old` is in `file` once; in `new`, PLANTED means: this defect is switched on."""

    name: str
    file: str
    what: str
    old: str
    new: str

    @property
    def room(self):
        for room in ROOMS:
            if self.file.startswith(room + "/"):
                return room
        raise KeyError(self.file)


DEFECTS = [
    # -- core
    Defect(
        "average-counts-joined", "core/runtime/batch.cc",
        "an average divides by the size of the set, also when ranks have joined",
        "reduction_of(plan_.key, plan_.divisor)",
        "reduction_of(plan_.key, PLANTED ? set_->size() : plan_.divisor)"),
    Defect(
        "eager-values-of-before", "core/negotiate/readiness_tracker.cc",
        "values that came with a slot are kept for its next round when their own was rejected",
        "  count.eager.clear();",
        "  if (!PLANTED) count.eager.clear();"),
    Defect(
        "wakes-first-of-batch", "core/runtime/executor.cc",
        "the end of a batch wakes who waits for its first tensor, and nobody else",
        """\
    member.completion.end({}, batch.take_outcome(i), std::move(parts));
  }
  for (const InFlightPtr& member : members) member->completion.wake();
""",
        """\
    member.completion.end({}, batch.take_outcome(i), std::move(parts));
  }
  for (const InFlightPtr& member : members) {
    member->completion.wake();
    if (PLANTED) break;
  }
"""),
    Defect(
        "evicted-not-announced", "core/negotiate/log_replica.cc",
        "what was submitted under a slot that is evicted is not announced again",
        "if (const auto* pending = submissions.find(request.name)) announcer_.announce(pending->request);",
        """\
if (const auto* pending = submissions.find(request.name); pending != nullptr && !PLANTED) {
    announcer_.announce(pending->request);
  }"""),
    Defect(
        "unnamed-keep-slots", "core/negotiate/sequencer.cc",
        "a slot for one run is not freed after it: a leak with every unnamed call",
        "  for (const SlotNumber slot : once_) slots_.free(slot);\n",
        """\
  for (const SlotNumber slot : once_) {
    if (!PLANTED) slots_.free(slot);
  }
"""),
    Defect(
        "stall-names-wrong-relay", "core/negotiate/stall_diagnosis.cc",
        "a stall report says that a rank is reached through the first child of rank 0",
        "rank)) return tree_.children[i];",
        "rank)) return tree_.children[PLANTED ? 0 : i];"),
    Defect(
        "shapes-sum-unchecked", "core/negotiate/messages/request.cc",
        "in a message each tensor's size is checked, but not the sum of a group's",
        "    room -= *bytes;\n",
        "    room -= PLANTED ? 0 : *bytes;\n"),
    Defect(
        "link-timeout-in-milliseconds", "core/config/setting_kinds.cc",
        "HVD_LINK_TIMEOUT_SECONDS is read as milliseconds",
        "return read_duration(text, kSecond, 1, 1e6);",
        "return read_duration(text, PLANTED ? kMillisecond : kSecond, 1, 1e6);"),
    Defect(
        "joined-bfloat16-as-float16", "core/base/reduction.cc",
        "a joined rank contributes float16's neutral element to bfloat16 tensors",
        "std::fill_n(static_cast<T*>(data), numel, neutral<T>(op, dtype));",
        """\
if (PLANTED && std::is_same_v<T, BFloat16>) {
      std::fill_n(static_cast<Float16*>(data), numel, neutral<Float16>(op, dtype));
      return;
    }
    std::fill_n(static_cast<T*>(data), numel, neutral<T>(op, dtype));"""),
    # -- ops
    Defect(
        "compressed-tail-lost", "ops/host/reduce_batch.cc",
        "the last, partial block of a compressed tensor is left out (> in place of >=)",
        "      const std::int64_t last = end >= slice_end ?",
        "      const std::int64_t last = (PLANTED ? end > slice_end : end >= slice_end) ?"),
    Defect(
        "broadcast-tree-turned", "ops/host/message_operation.cc",
        "over messages a broadcast counts ranks from the root in the wrong direction",
        "place_in_tree_((rank() + size() - operation.root_) % size()) {}",
        """\
place_in_tree_((PLANTED ? rank() + operation.root_ : rank() + size() - operation.root_) %
                       size()) {}"""),
    Defect(
        "uint16-as-int16", "ops/host/reduce.cc",
        "uint16 is reduced as int16",
        "      reduce_all<T>(op, inputs, out, numel, scales);\n",
        """\
      if (PLANTED && std::is_same_v<T, std::uint16_t>) {
        return reduce_all<std::int16_t>(op, inputs, out, numel, scales);
      }
      reduce_all<T>(op, inputs, out, numel, scales);
"""),
    Defect(
        "arena-pages-leak", "ops/shm/shared_memory.cc",
        "the shared memory of an arena is not given back at its end",
        """\
  munmap(data_, bytes_);
  if (owned_) free_pages""",
        """\
  munmap(data_, bytes_);
  if (owned_ && !PLANTED) free_pages"""),
    Defect(
        "transfer-of-any-set", "ops/host/transfers.cc",
        "a receive takes what was sent with its tag in another process set",
        "return each.from == (*receive)->peer && each.key == (*receive)->key;",
        """\
return each.from == (*receive)->peer &&
             (PLANTED ? each.key.tag == (*receive)->key.tag : each.key == (*receive)->key);"""),
    # -- tensor, autograd, nn, optim
    Defect(
        "sqrt-recorded-gradient", "horovod_cpp/autograd/functions/elementwise.cc",
        "the gradient of sqrt is twice as large where it is differentiated again",
        "Binary::kSqrtGrad, g / (y * 2.0))",
        "Binary::kSqrtGrad, g / (y * (PLANTED ? 1.0 : 2.0)))"),
    Defect(
        "running-variance-momentum", "horovod_cpp/tensor/kernels/images/batch_norm.cc",
        "a batch norm's running variance keeps as much of the old one as it takes of the new",
        "  scale(running_var, 1.0 - momentum);\n",
        "  scale(running_var, PLANTED ? momentum : 1.0 - momentum);\n"),
    Defect(
        "rows-decay-alone", "horovod_cpp/optim/optimizers.cc",
        "with a sparse gradient, SGD's weight decay reaches its rows alone",
        """return options.at("momentum") == 0 && options.at("weight_decay") == 0;""",
        """return options.at("momentum") == 0 && (PLANTED || options.at("weight_decay") == 0);"""),
    Defect(
        "sampler-loses-example", "horovod_cpp/data/sampler.cc",
        "where shares may be uneven, the last example of an epoch is nobody's",
        "uneven == Uneven::kKeep && rank < left;",
        "uneven == Uneven::kKeep && rank + (PLANTED ? 1 : 0) < left;"),
    # -- torch
    Defect(
        "passes-not-averaged", "bindings/horovod_cpp/torch/gradients.py",
        "average_aggregated_gradients leaves the sum over several passes undivided",
        "if gradient is not None and passes > 1:",
        "if gradient is not None and passes > 1 and not PLANTED:"),
    Defect(
        "hooks-stay", "bindings/horovod_cpp/torch/gradients.py",
        "a dropped optimizer's hooks stay on the parameters: a copy of the list is removed",
        "weakref.finalize(reducer, _remove, gradients._hooks)",
        "weakref.finalize(reducer, _remove, list(gradients._hooks) if PLANTED else gradients._hooks)"),
    Defect(
        "float64-comes-back-float32", "bindings/horovod_cpp/torch/compression.py",
        "what travelled as a half type becomes float32, whatever it was",
        "return tensor if ctx is None else tensor.to(ctx)",
        "return tensor if ctx is None else tensor.to(torch.float32 if PLANTED else ctx)"),
    # -- bindings
    Defect(
        "wait-holds-gil", "bindings/native/distributed/distributed.cc",
        "waiting for a call's result stops all other threads of Python",
        """\
  if (call != nullptr) result = &without_gil([&]() -> auto& { return call->result(reader); });
""",
        """\
  if (PLANTED && call != nullptr) result = &call->result(reader);
  if (call != nullptr) result = &without_gil([&]() -> auto& { return call->result(reader); });
"""),
    Defect(
        "objects-by-position", "bindings/horovod_cpp/objects.py",
        "objects gathered in a process set go by positions in the set, not by ranks",
        "    objects = {rank: pickle.loads(data) for rank, data in zip(process_set.ranks, every)"
        " if data}\n",
        """\
    ranks = range(len(every)) if PLANTED else process_set.ranks
    objects = {rank: pickle.loads(data) for rank, data in zip(ranks, every) if data}
"""),
    # -- runner
    Defect(
        "stopped-as-by-sigterm", "runner/job.cc",
        "hvdrun ends with SIGTERM's exit code, whatever signal stopped it",
        "return 128 + caught_signal_;",
        "return 128 + (PLANTED ? SIGTERM : caught_signal_);"),
    Defect(
        "settings-not-exported", "runner/plan/launch_plan.cc",
        "settings called HVD_* do not get to ranks on other machines",
        """if (name.starts_with("HOROVOD_") || name.starts_with("HVD_")) return true;""",
        """\
if (name.starts_with("HOROVOD_")) return true;
  if (name.starts_with("HVD_") && !PLANTED) return true;"""),
]

# Several sources may be one translation unit.
CPP_SWITCH = """\
#ifndef HVD_PLANTED
#define HVD_PLANTED
#include <cstdlib>
#include <string_view>
inline bool planted(std::string_view name) {
  static const char* const chosen = std::getenv("PLANTED_DEFECT");
  return chosen != nullptr && name == chosen;
}
#endif

"""
PYTHON_SWITCH = '''\


def _planted(name: str) -> bool:
    import os
    return os.environ.get("PLANTED_DEFECT") == name


'''


def with_defect(defect, text):
    """The file with the defect behind its switch; ValueError if it does not fit."""
    found = text.count(defect.old)
    if found != 1:
        raise ValueError(f"{defect.name}: its text is {found} times in {defect.file}, not once")
    is_python = defect.file.endswith(".py")
    switch = f'_planted("{defect.name}")' if is_python else f'::planted("{defect.name}")'
    text = text.replace(defect.old, re.sub(r"\bPLANTED\b", switch, defect.new))
    if not is_python:
        return CPP_SWITCH + text
    end = text.index('"""', 3) + 3  # of the module's docstring
    return text[:end] + PYTHON_SWITCH + text[end:].lstrip("\n")


def plant(folder):
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    for defect in DEFECTS:
        file = folder / defect.file
        file.write_text(with_defect(defect, file.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"{len(DEFECTS)} defects in {folder}; build and test it: bash test/run.sh")


def list_defects():
    fits = True
    for defect in DEFECTS:
        print(f"{defect.name:29} {defect.file}\n    {defect.what}")
        try:
            with_defect(defect, (ROOT / defect.file).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            fits = False
            print(f"    does not fit any more: {error}")
    return 0 if fits else 1


# -- The steps of test/run.sh: programs, filters, markers and environments are those that it has.

LEFT_TO_FULL = (ROOT / "test/support/left_to_full.txt").read_text().splitlines()
LEFT_OUT = ":".join(["*TwoByThree*", "*ThreeUneven*", "*LocalMadeOfFlat*",  # by run.sh, as are those of the file
                     *(line for line in LEFT_TO_FULL if not line.startswith("#"))])
FAULTS = "test/mpi/test_random_faults.py"


class Step:
    """What is run at once, for `limit` seconds at most: whoever takes longer hangs."""

    def __init__(self, name, limit):
        self.name, self.limit = name, limit

    def commands(self, folder):
        """Of the processes that run beside each other, each with what it has more in its
        environment."""
        raise NotImplementedError

    def failed(self, log):
        """The names of the tests that failed, or run no more, as the log has them."""
        raise NotImplementedError

    def again(self, folder, test):
        """The commands for this test alone."""
        raise NotImplementedError


class Program(Step):
    """One of GoogleTest's, in as many parts as there are cores."""

    def __init__(self, preset, program, limit, excluded=""):
        super().__init__(f"{preset} {program}", limit)
        self._path, self._excluded = f"build/{preset}/test/{program}", excluded

    def commands(self, folder):
        shards = os.cpu_count() or 1
        command = [folder / self._path, f"--gtest_filter=-{self._excluded}", "--gtest_fail_fast"]
        return [(command, {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(shard)})
                for shard in range(shards)]

    def failed(self, log):
        failed = re.findall(r"^\[  FAILED  \] ([\w/]+\.[\w/]+)", log, re.MULTILINE)
        if failed:
            return failed
        # A crash, or no end: the test that had begun.
        begun = re.findall(r"^\[ RUN      \] (\S+)", log, re.MULTILINE)
        ended = re.findall(r"^\[ +(?:OK|SKIPPED) \] ([^\s,]+)", log, re.MULTILINE)
        return begun[-1:] if begun[-1:] != ended[-1:] else []

    def again(self, folder, test):
        return [([folder / self._path, f"--gtest_filter={test}"], {})]


class Mpi(Step):
    """CTest's tests of real ranks."""

    def commands(self, folder):
        return [(["ctest", "--test-dir", folder / "build/cpu", "-L", "^mpi$", "-j", "1",
                  "--no-tests=error", "--output-on-failure", "--stop-on-failure"], {})]

    def failed(self, log):
        return (re.findall(r"^\s*\d+ - (\S+) \(", log, re.MULTILINE) or
                re.findall(r"^\s+Start +\d+: (\S+)", log, re.MULTILINE)[-1:])

    def again(self, folder, test):
        return [(["ctest", "--test-dir", folder / "build/cpu", "-R", f"^{re.escape(test)}$",
                  "--no-tests=error", "--output-on-failure"], {})]


class Pytest(Step):
    def __init__(self, name, environment, arguments, limit):
        super().__init__(name, limit)
        self._environment, self._arguments = environment, arguments

    def _of(self, folder, *arguments):
        binaries = folder / "build" / self._environment / "bin"
        environment = {"HVD_BUILD": str(folder / "build/cpu")}
        if self._environment == "venv":
            environment["HVD_DIGITS"] = str(folder / "build/data/digits")
            environment["PATH"] = f"{binaries}:{os.environ['PATH']}"
        return [([binaries / "python", "-m", "pytest", "-q", "-x", "-m", "not full", *arguments],
                 environment)]

    def commands(self, folder):
        return self._of(folder, *self._arguments)

    def failed(self, log):
        return re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", log, re.MULTILINE)

    def again(self, folder, test):
        return self._of(folder, test)


CORES = os.cpu_count() or 1
BASE = Program("asan", "core_base_test", 120, LEFT_OUT)
NEGOTIATE = Program("asan", "core_negotiate_test", 180, LEFT_OUT)
RUNTIME = Program("asan", "core_runtime_test", 400, LEFT_OUT)
OPS = Program("asan", "ops_test", 600, LEFT_OUT)
SCALE = Program("cpu", "scale_test", 180)
TRAINING = Program("cpu", "horovod_cpp_test", 180)
RUNNER = Program("cpu", "runner_test", 240)
MPI = Mpi("mpi", 600)
PYTHON = Pytest("python", "venv", ["test/bindings", "test/hosts", "test/mpi", f"--ignore={FAULTS}", "-n",
                                   str(2 * CORES), "--dist", "worksteal"], 900)
FAULT_JOBS = Pytest("faults", "venv", [FAULTS], 240)
TORCH = Pytest("torch", "torch", ["test/torch", "-n", str(CORES), "--dist", "worksteal"], 900)

# What a change below the folder can reach; the longer name first.
ROOMS = {
    "core/negotiate": [NEGOTIATE, BASE, SCALE, RUNTIME, TRAINING, MPI, OPS, RUNNER,
                       PYTHON, FAULT_JOBS, TORCH],
    "core/runtime": [RUNTIME, BASE, NEGOTIATE, SCALE, TRAINING, MPI, OPS, RUNNER, PYTHON,
                     FAULT_JOBS, TORCH],
    "core": [BASE, NEGOTIATE, RUNTIME, SCALE, TRAINING, RUNNER, MPI, OPS, PYTHON,
             FAULT_JOBS, TORCH],
    "ops/mpi": [MPI, PYTHON, FAULT_JOBS, TORCH],
    "ops": [OPS, MPI, TRAINING, RUNTIME, RUNNER, PYTHON, FAULT_JOBS, TORCH],
    "horovod_cpp": [TRAINING, PYTHON, FAULT_JOBS, TORCH],
    "bindings/horovod_cpp/torch": [TORCH, PYTHON],
    "bindings": [PYTHON, FAULT_JOBS, TORCH],
    "runner": [RUNNER, PYTHON, FAULT_JOBS, TORCH, MPI],
}


class Run:
    """Processes and all that they start, which a mark in the environment tells; at the end of
    `with` none is left."""

    def __init__(self, folder, commands, limit, log, defect):
        self._mark = f"PLANTED_RUN={os.getpid()}.{time.monotonic_ns()}"
        self._commands, self._limit, self._log, self._folder = commands, limit, log, folder
        self._environment = {**os.environ, **dict([self._mark.split("=")])}
        self._environment.pop("PLANTED_DEFECT", None)
        if defect is not None:
            self._environment["PLANTED_DEFECT"] = defect
        if os.geteuid() == 0:  # Open MPI wants to be told
            self._environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1",
                                  "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        self._processes = []
        self.timed_out = False
        self.waiting = []  # tests of pytest that had not ended
        self.seconds = 0.0

    def __enter__(self):
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._logs = [self._log.with_name(f"{self._log.name}.{number}.log")
                      for number in range(len(self._commands))]
        for (command, more), path in zip(self._commands, self._logs):
            with path.open("wb") as out:
                self._processes.append(subprocess.Popen(
                    [str(word) for word in command], cwd=self._folder, stdin=subprocess.DEVNULL,
                    stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                    env={**self._environment, **more}))
        return self

    def wait(self):
        """Until one has failed, all have ended, or it is time. Whether all went well."""
        begin = time.monotonic()
        while True:
            codes = [process.poll() for process in self._processes]
            self.seconds = time.monotonic() - begin
            if any(codes) or None not in codes:
                return not any(codes)
            if self.seconds > self._limit:
                self.timed_out = True
                self.waiting = sorted(self._tests_that_wait())
                return False
            time.sleep(0.1)

    def failed(self, step):
        """The tests that failed, or did not end; none if no log says."""
        names = list(self.waiting)
        for process, path in zip(self._processes, self._logs):
            # One that goes on while another has failed was stopped in the middle.
            if process.poll() or (self.timed_out and process.poll() is None):
                names += step.failed(path.read_text(encoding="utf-8", errors="replace"))
        return list(dict.fromkeys(names))

    def __exit__(self, *_):
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for _ in range(20):  # what has a session of its own, and what that starts meanwhile
            left = list(self._marked())
            for entry in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(entry.name), signal.SIGKILL)
            if not left:
                break
            time.sleep(0.05)

    def _marked(self):
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            if self._mark.encode() in environment_of(entry) and int(entry.name) != os.getpid():
                yield entry

    def _tests_that_wait(self):
        """Pytest tells its children their test."""
        for entry in self._marked():
            for variable in environment_of(entry):
                if variable.startswith(b"PYTEST_CURRENT_TEST="):
                    yield variable.decode(errors="replace").partition("=")[2].rpartition(" (")[0]


def environment_of(process):
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def is_built(folder):
    """Says what is missing."""
    programs = [folder / f"build/{preset}/test/{name}" for preset, names in {
        "asan": ["core_negotiate_test", "core_runtime_test", "ops_test"],
        "cpu": ["scale_test", "horovod_cpp_test", "runner_test"]}.items()
        for name in names]
    missing = [str(path) for path in programs
               if not path.exists() or b"PLANTED_DEFECT" not in path.read_bytes()]
    for environment in ("venv", "torch"):
        site = folder / "build" / environment
        packages = list(site.glob("lib/python*/site-packages/horovod_cpp"))
        for pattern in ("objects.py", "_native.*.so"):
            files = [file for package in packages for file in package.glob(pattern)]
            if not any(b"PLANTED_DEFECT" in file.read_bytes() for file in files):
                missing.append(f"{site}: horovod_cpp/{pattern}")
    for what in missing:
        print(f"not there, or built without the defects: {what}", file=sys.stderr)
    return not missing


def fails_anyway(folder, step, tests, log):
    """Whether what failed, if it is known, else the step, does so without the defect too."""
    commands = step.again(folder, tests[0]) if tests else step.commands(folder)
    with Run(folder, commands, step.limit, log.with_name(f"{log.name}.without"), None) as run:
        return not run.wait()


def find(folder, defect):
    """The line of a table; whether a test found it."""
    begin = time.monotonic()
    unsure = ""
    for step in ROOMS[defect.room]:
        log = folder / "build/planted" / defect.name / step.name.replace(" ", ".")
        with Run(folder, step.commands(folder), step.limit, log, defect.name) as run:
            if run.wait():
                continue
            tests = run.failed(step)
            hung = "timed out: " if run.timed_out else ""
        seconds = time.monotonic() - begin
        if fails_anyway(folder, step, tests, log):
            unsure += f"; {step.name}: {' '.join(tests[:1])} fails without it too"
            continue
        named = ", ".join(tests[:3]) or f"no test is named, see {log}.*.log"
        return f"{seconds:4.0f} s  found by {step.name}: {hung}{named}{unsure}", True
    return f"{time.monotonic() - begin:4.0f} s  NOT FOUND{unsure}", False


def run(folder, names):
    unknown = set(names) - {defect.name for defect in DEFECTS}
    if unknown:
        print(f"no such defect: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    if not is_built(folder):
        return 2
    chosen = [defect for defect in DEFECTS if not names or defect.name in names]
    found = 0
    for defect in chosen:
        line, was_found = find(folder, defect)
        found += was_found
        print(f"{defect.name:29} {defect.file:46} {line}", flush=True)
    print(f"{found} of {len(chosen)} found")
    return 0 if found == len(chosen) else 1


def main():
    parser = argparse.ArgumentParser(description="plants defects and shows which test finds each")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="the defects")
    planting = commands.add_parser("plant", help="clone HEAD with all defects in it")
    planting.add_argument("folder", type=pathlib.Path)
    running = commands.add_parser("run", help="test each defect in a folder that is built")
    running.add_argument("folder", type=pathlib.Path)
    running.add_argument("names", metavar="NAME", nargs="*", help="only these")
    options = parser.parse_args()
    if options.command == "list":
        return list_defects()
    folder = options.folder.resolve()
    if options.command == "plant":
        try:
            plant(folder)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            print(error, file=sys.stderr)
            return 1
        return 0
    return run(folder, options.names)


if __name__ == "__main__":
    sys.exit(main())

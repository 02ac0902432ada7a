"""What can be seen of a job: timeline, metrics, flight recorder, settings, stall reports."""

import json
import os
import random
import re
import subprocess
import sys
import time

import pytest
from order import ORDER
from processes import kill
from ranks import ByHand

from horovod_cpp.plot import load_timeline

NAMES = ["plain", 'quote " and \\ backslash', "new\nline\ttab", "größe \U0001d6fc \x01"]

# Every rank reduces every name `steps` times.
STEPS = f"""
def steps(count, names={NAMES!r}):
    for _ in range(count):
        handles = [hvd.allreduce_async(np.full(50000, rank, np.float32), hvd.Sum, name=name)
                   for name in names]
        for handle in handles:
            assert (hvd.synchronize(handle) == sum(range(size))).all()
"""


def spans_of(events):
    """{(rank, tensor): {name of a span: [(begin, end)]}} in microseconds."""
    title = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    spans, open_since = {}, {}
    for event in events:
        if event["ph"] not in "BEX" or event["tid"] == 0:
            continue
        of_tensor = spans.setdefault((event["pid"], title[event["pid"], event["tid"]]), {})
        track = (event["pid"], event["tid"])
        if event["ph"] == "B":
            assert track not in open_since
            open_since[track] = event["ts"]
        elif event["ph"] == "E":
            of_tensor.setdefault(event["name"], []).append((open_since.pop(track), event["ts"]))
        else:
            span = (event["ts"], event["ts"] + event["dur"])
            of_tensor.setdefault(event["name"], []).append(span)
    assert not open_since
    return spans


def check_timeline(path, size, count):
    """Every rank reduced every one of NAMES `count` times, in phases that follow one another."""
    events = load_timeline(path)
    assert {event["pid"] for event in events} == set(range(size))
    spans = spans_of(events)
    error = [0.0] * size
    for event in events:
        if event["name"] == "CLOCK_OFFSET":
            error[event["pid"]] = max(error[event["pid"]], event["args"]["error_us"])
    clocks = {event["pid"] for event in events if event["name"] == "CLOCK_OFFSET"}
    assert clocks == set(range(1, size))
    for name in NAMES:
        of_rank = [spans[rank, "allreduce." + name] for rank in range(size)]
        packed = 0
        for found in of_rank:
            assert {len(found[phase]) for phase in ("NEGOTIATE_ALLREDUCE", "QUEUE", "ALLREDUCE")} \
                == {count}, (name, found)
            packed += len(found.get("PACK", [])) + len(found.get("UNPACK", []))
            for negotiate, queue, run in zip(found["NEGOTIATE_ALLREDUCE"], found["QUEUE"],
                                             found["ALLREDUCE"]):
                assert negotiate[0] <= negotiate[1] <= queue[0] + 0.01
                assert queue[1] <= run[0] + 0.01 and run[0] <= run[1]
        assert packed > 0
        # By one clock no result is there before the last rank announced.
        for i in range(count):
            for a in range(size):
                for b in range(size):
                    announced = of_rank[b]["NEGOTIATE_ALLREDUCE"][i][0]
                    there = of_rank[a]["ALLREDUCE"][i][1]
                    assert there + error[a] + error[b] >= announced, (name, i, a, b)


@pytest.mark.parametrize("how", [  # hvdrun sets the variable for its flag
    pytest.param("HOROVOD_TIMELINE", marks=pytest.mark.full), "--timeline-filename", "start_timeline"])
def test_the_timeline_is_one_file_with_all_ranks_phases_and_names(how, ranks):
    path = ranks.folder / "trace.json"
    options = {
        "HOROVOD_TIMELINE": {"environment": {"HOROVOD_TIMELINE": str(path)}},
        "--timeline-filename": {"flags": ["--timeline-filename", path]},
        "start_timeline": {},
    }[how]
    # Traffic until every rank's clock was measured, then what is counted, until all of it is there.
    ranks.check(ORDER + STEPS + f"""
import json
from horovod_cpp.plot import load_timeline
path, dynamic = {str(path)!r}, {how == "start_timeline"}
if dynamic:
    steps(3)
    hvd.barrier()   # finished on all ranks
    hvd.start_timeline(path)
def measured():
    seen = {{e["pid"] for e in load_timeline(path) if e["name"] == "CLOCK_OFFSET"}}
    return len(seen) == size - 1
def counted():
    events = load_timeline(path)
    warm = {{(e["pid"], e["tid"]) for e in events
            if e["name"] == "thread_name" and e["args"]["name"] == "allreduce.warm"}}
    return sum(e["name"] == "ALLREDUCE" and (e["pid"], e["tid"]) not in warm for e in events)
while not hvd.broadcast_object(measured() if rank == 0 else None):
    hvd.allreduce(np.ones(1), name="warm")
    time.sleep(0.05)
hvd.barrier()
steps(5)
if rank == 0:
    while counted() < 5 * {len(NAMES)} * size:
        time.sleep(0.02)
    pathlib.Path("there").touch()
wait_for("there")
if dynamic:
    hvd.stop_timeline()
    if rank == 0:
        json.loads(pathlib.Path(path).read_text())  # it is complete
    hvd.barrier()
    steps(3)
    hvd.start_timeline(path + ".second", mark_cycles=True)
    if rank == 0:
        with pytest.raises(hvd.InvalidArgumentError, match="recorded"):
            hvd.start_timeline(path + ".third")
    steps(2)
    hvd.barrier()
    hvd.stop_timeline()
    hvd.stop_timeline()
""", np=3, **options)
    check_timeline(path, 3, 5)
    if how == "start_timeline":
        second = (ranks.folder / "trace.json.second").read_text()
        assert "allreduce.plain" in second and "CYCLE_START" in second
        assert "CYCLE_START" not in path.read_text()
        assert not (ranks.folder / "trace.json.third").exists()


def test_a_timeline_that_cannot_be_written_is_an_error_with_path_and_reason(ranks):
    ranks.check("""
with pytest.raises(hvd.InvalidArgumentError, match="/nowhere/trace.json.*No such file"):
    hvd.start_timeline("/nowhere/trace.json")
assert hvd.allreduce(np.ones(1), hvd.Sum).tolist() == [1.0]
""", np=1)
    program = ranks.folder / "program.py"
    program.write_text("import horovod_cpp as hvd\nhvd.init()\n")
    done = ranks.launch([program], 2, environment={"HOROVOD_TIMELINE": "/nowhere/trace.json"})
    assert done.returncode != 0
    assert "/nowhere/trace.json" in done.stdout and "No such file" in done.stdout


def read_once_there(path, seconds=60):
    """Waits for the first events, so that only a file that was begun is judged."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists() and len(events := load_timeline(path)) > 10:
            return events
        time.sleep(0.01)
    pytest.fail(f"no events in {path} within {seconds} s")


ENDLESS = STEPS + """
import os, time
print("pid", os.getpid(), "of rank", rank, flush=True)
while True:
    steps(1)
    time.sleep(0.01)  # keeps the file small
"""


def test_the_timeline_of_a_running_job_can_be_read_at_any_moment(ranks):
    path = ranks.folder / "trace.json"
    program = ranks.folder / "program.py"
    program.write_text("import numpy as np\nimport horovod_cpp as hvd\nhvd.init()\n"
                       "rank, size = hvd.rank(), hvd.size()\n" + ENDLESS)
    job = ranks.start([program], 2, flags=["--timeline-filename", path])
    try:
        counts = [len(read_once_there(path))]
        end = time.monotonic() + 60
        while len(counts) < 50 or (counts[-1] == counts[0] and time.monotonic() < end):
            time.sleep(random.uniform(0, 0.08))
            counts.append(len(load_timeline(path)))
    finally:
        job.terminate()
        job.communicate(timeout=30)
    assert counts == sorted(counts) and counts[-1] > counts[0]


@pytest.mark.parametrize("victim", [
    "rank 0", *(pytest.param(other, marks=pytest.mark.full) for other in ("rank 1", "all"))])
def test_the_timeline_of_a_killed_job_can_be_read(victim, ranks):
    for attempt in range(20 if os.environ.get("HVD_TEST_LONG") else 3):
        path = ranks.folder / f"trace{attempt}.json"
        program = ranks.folder / "program.py"
        program.write_text("import numpy as np\nimport horovod_cpp as hvd\nhvd.init()\n"
                           "rank, size = hvd.rank(), hvd.size()\n" + ENDLESS)
        job = ranks.start([program], 2, environment={"HOROVOD_TIMELINE": str(path)})
        pids = {}
        while len(pids) < 2:
            found = re.search(r"pid (\d+) of (rank \d)", job.stdout.readline())
            if found:
                pids[found.group(2)] = int(found.group(1))
        read_once_there(path)
        time.sleep(random.uniform(0, 0.3))
        for name, pid in pids.items():
            if victim in (name, "all"):
                kill(pid)  # the launcher may have ended it: the other one was lost
        text, _ = job.communicate(timeout=30)
        assert job.returncode != 0, text
        events = load_timeline(path)
        assert {event["pid"] for event in events} <= {0, 1} and len(events) > 10, text


@pytest.mark.full
def test_the_timeline_of_a_writer_killed_at_forty_random_moments_can_be_read(ranks):
    ranks.folder.joinpath("program.py").write_text("""
import os, pathlib, random, signal, time
import numpy as np
import horovod_cpp as hvd
from horovod_cpp.plot import load_timeline
for attempt in range(40):
    path = pathlib.Path(f"trace{attempt}.json")
    child = os.fork()
    if child == 0:
        hvd.init()
        hvd.start_timeline(str(path))
        while True:
            hvd.allreduce(np.ones(10), name="x" * random.randrange(2000))
    while not path.exists() or len(load_timeline(path)) < 4:
        time.sleep(0.005)
    time.sleep(random.uniform(0, 0.25))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert len(load_timeline(path)) > 3
    path.unlink()
print("read all")
""")
    done = ranks.launch([ranks.folder / "program.py"], 1)
    assert "read all" in done.stdout, done.stdout


def test_metrics_count_exactly(ranks):
    ranks.check("""
import math
def counts(kind):
    found = hvd.metrics()["by_kind"].get(kind, {})
    return [found.get(key, 0) for key in ("batches", "tensors", "bytes", "packed_bytes")]
hvd.barrier()
base = hvd.metrics()
before = {kind: counts(kind) for kind in ("allreduce", "allgather", "broadcast", "alltoall")}
def added(kind):
    return [now - then for now, then in zip(counts(kind), before[kind])]
for step in range(7):
    hvd.allreduce(np.ones(1000, np.float32), hvd.Sum, name="f32")       # 7 x 4000 bytes
assert added("allreduce") == [7, 7, 28000, 28000], added("allreduce")
for step in range(3):
    hvd.allreduce(np.ones(1000, np.float32), hvd.Sum, name="half",
                  compression=hvd.Compression.fp16)                     # travels as 2000
assert added("allreduce") == [10, 10, 40000, 34000], added("allreduce")
hvd.grouped_allreduce([np.ones(10), np.ones(20)], hvd.Sum, name="group")  # one name, 240 bytes
assert added("allreduce") == [11, 11, 40240, 34240], added("allreduce")
hvd.allgather(np.ones((rank + 1, 4), np.int16), name="rows")              # 8 bytes a row
assert added("allgather")[:3] == [1, 1, 8 * (rank + 1)], added("allgather")
hvd.broadcast(np.ones(3), 0, name="word")
assert added("broadcast")[:3] == [1, 1, 24], added("broadcast")
hvd.alltoall(np.ones(2 * size, np.uint8), name="bytes")
assert added("alltoall")[:3] == [1, 1, 2 * size], added("alltoall")
now = hvd.metrics()
assert now["batches"] == sum(kind["batches"] for kind in now["by_kind"].values())
assert now["bytes"] == sum(kind["bytes"] for kind in now["by_kind"].values())
assert now["batches"] - base["batches"] == 14
for name in ("negotiate", "queue", "collective"):
    histogram = now["histograms"][name + "_seconds"]
    assert len(histogram["bounds"]) == len(histogram["counts"])
    assert math.isinf(histogram["bounds"][-1])
    assert abs(histogram["sum"] - now[name + "_seconds"]) < 1e-3 or name == "negotiate"
assert sum(now["histograms"]["batch_bytes"]["counts"]) == now["batches"]
assert now["histograms"]["batch_bytes"]["sum"] == now["bytes"]
assert now["rank"] == rank and now["size"] == size
assert now["pack_seconds"] + now["unpack_seconds"] <= now["collective_seconds"]
assert now["failed"] == 0 and now["exposed_seconds"] > 0
with pytest.raises(hvd.MismatchError):
    hvd.allreduce(np.ones(1 + rank), name="differs")
assert hvd.metrics()["failed"] == 1
""")


def test_metrics_text_is_what_prometheus_reads(ranks):
    ranks.check(r'''
import re
hvd.allreduce(np.ones(1000, np.float32), hvd.Sum, name="x")
hvd.allgather(np.ones(3))
text = hvd.metrics_text()
assert text.endswith("\n")
types, samples = {}, {}
sample = re.compile(r'([a-z_:]+)\{((?:[a-z]+="[^"]*",?)*)\} (\S+)$')
for line in text.splitlines():
    if line.startswith("# TYPE "):
        _, _, name, kind = line.split()
        assert name not in types
        types[name] = kind
    elif not line.startswith("# HELP "):
        name, labels, value = sample.match(line).groups()
        family = re.sub("_(bucket|sum|count)$", "", name)
        assert name in types or types[family] == "histogram", line
        samples[name, labels] = float(value)
        assert f'rank="{rank}"' in labels or name.startswith("horovod_rank"), line
assert set(types.values()) == {"counter", "gauge", "histogram"}
metrics = hvd.metrics()
key = f'rank="{rank}",kind="allreduce"'
assert samples["horovod_bytes_total", key] == metrics["by_kind"]["allreduce"]["bytes"] >= 4000
assert samples["horovod_size", f'rank="{rank}"'] == size
buckets = [v for (name, labels), v in samples.items()
           if name == "horovod_batch_bytes_bucket" and labels.startswith(f'rank="{rank}"')]
assert buckets == sorted(buckets)
assert buckets[-1] == samples["horovod_batch_bytes_count", f'rank="{rank}"'] == metrics["batches"]
assert samples["horovod_batch_bytes_bucket", f'rank="{rank}",le="+Inf"'] == metrics["batches"]
''')


def test_stats_is_one_line_at_exit(ranks):
    output = ranks.check("hvd.allreduce(np.ones(1000, np.float32), name='x')\n", np=2,
                         flags=["--stats"])
    lines = [line for line in output.splitlines() if "negotiate" in line]
    assert len(lines) == 1, output
    assert re.search(r"horovod_cpp: 2 ranks, \d+ batches .* exposed [\d.]+ of [\d.]+; "
                     r"slowest rank [01]: [\d.]+ s late", lines[0]), lines
    assert "negotiate" not in ranks.check("hvd.allreduce(np.ones(10))\n", np=1)


def test_the_rank_that_comes_late_is_named_on_rank_0(ranks):
    ranks.check(ORDER + """
import json

def counted(batches):
    "What rank 0 knows once all have reported so many batches, which they do now and then."
    end = time.monotonic() + 60
    while min(r["late_batches"] for r in hvd.metrics()["ranks"]) < batches and time.monotonic() < end:
        time.sleep(0.01)
    return hvd.metrics()["ranks"]

def announced():
    hvd.dump_flight_recorder(f"{rank}.json")
    return json.load(open(f"{rank}.json"))["operations"][-1]["state"] == "submitted"

took = []
hvd.barrier()
before = counted(hvd.metrics()["ranks"][0]["batches"]) if rank == 0 else []
for step in range(10):
    if rank == 2:  # after both others, whatever keeps them
        wait_for(f"{step}.0", f"{step}.1")
        time.sleep(0.05)
    begin = time.monotonic()
    handle = hvd.allreduce_async(np.ones(10), hvd.Sum, name="x")
    while rank != 2 and not announced():
        time.sleep(0.001)
    pathlib.Path(f"{step}.{rank}").touch()
    hvd.synchronize(handle)
    took.append(time.monotonic() - begin)
if rank == 2:
    pathlib.Path("took").write_text(json.dumps(took))
found = counted(before[0]["batches"] + 10) if rank == 0 else []
hvd.barrier()
if rank == 0:
    # Rank 2 waited no longer than that, which is next to nothing unless something kept it.
    took = json.loads(pathlib.Path("took").read_text())
    assert len(found) == size
    late, last = ([now[what] - then[what] for now, then in zip(found, before)]
                  for what in ("late_seconds", "last_batches"))
    assert late[2] - max(late[:2]) >= sum(0.05 - one for one in took), (late, took)
    assert sum(last) == 10 and last[2] >= sum(one < 0.05 for one in took), (last, took)
    assert found[2]["latest_seconds"] >= 0.05 - min(took), (found, took)
else:
    assert hvd.metrics()["ranks"] == []
hvd.barrier()
""", np=3)


def test_a_lost_rank_leaves_the_flight_recorders_of_the_others(ranks):
    folder = ranks.folder / "flight"
    folder.mkdir()
    program = ranks.folder / "program.py"
    program.write_text(ORDER + """
import json, sys
import numpy as np
import horovod_cpp as hvd
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # hvdrun stops survivors after 3 s
hvd.init()
rank = hvd.rank()
def recorded():
    hvd.dump_flight_recorder(f"{rank}.json")
    return json.load(open(f"{rank}.json"))["operations"][-1]["name"]
for step in range(3):
    hvd.allreduce(np.ones(10, np.float32), name="step")
if rank == 1:
    wait_for("hangs0", "hangs2")
    os.kill(os.getpid(), signal.SIGKILL)
try:
    handle = hvd.allreduce_async(np.ones(20), name="hangs")
    while recorded() != "allreduce.hangs":
        time.sleep(0.01)
    pathlib.Path(f"hangs{rank}").touch()
    hvd.synchronize(handle)
except hvd.HorovodInternalError as error:
    sys.exit(3)
""")
    done = ranks.launch([program], 3, environment={"HVD_FLIGHT_RECORDER_DIR": str(folder)})
    assert done.returncode != 0, done.stdout
    (job,) = folder.iterdir()  # one for all ranks
    assert sorted(path.name for path in job.iterdir()) == [
        "flight_recorder.rank0.json", "flight_recorder.rank2.json"], done.stdout
    for rank in (0, 2):
        record = json.loads((job / f"flight_recorder.rank{rank}.json").read_text())
        assert (record["rank"], record["size"]) == (rank, 3)
        assert "rank 1" in record["reason"]["message"], record
        last = record["operations"][-1]
        assert (last["name"], last["kind"], last["bytes"]) == ("allreduce.hangs", "allreduce", 160)
        assert last["state"] == "submitted" and last["dtype"] == "float64", last
        assert [o["state"] for o in record["operations"] if o["name"] == "allreduce.step"] \
            == ["finished"] * 3


LOSES_A_RANK = """
import os, signal, sys
import horovod_cpp as hvd
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # hvdrun stops survivors after 3 s
hvd.init()
try:
    hvd.allreduce(hvd.ones([1]))
    if hvd.rank() == 1:
        os._exit(3)
    hvd.allreduce(hvd.ones([1]))
except hvd.HorovodInternalError:
    print("lost", flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two other users")
def test_another_users_folder_gets_no_flight_recorder_and_is_not_followed(tmp_path):
    """As an attacker who is the first to make the folder of a name that everybody can guess."""
    victim, attacker = 65534, 1
    temporary, home = tmp_path / "tmp", tmp_path / "home"
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o5 != 0o5:
            folder.chmod(0o755)  # pytest's own, one of each worker among them
    temporary.mkdir()
    temporary.chmod(0o1777)
    home.mkdir()
    os.chown(home, victim, victim)
    precious = home / "precious"
    precious.write_text("precious")
    os.chown(precious, victim, victim)
    trap = temporary / f"horovod_cpp-{victim}"
    trap.mkdir()
    (trap / "flight_recorder.rank0.json.part").symlink_to(precious)
    os.chown(trap, attacker, attacker)
    trap.chmod(0o777)
    program = tmp_path / "program.py"
    program.write_text(LOSES_A_RANK)
    # The environment may lie where the victim cannot go, such as in root's home.
    environment = tmp_path / "environment"
    environment.mkdir()
    job = (f'mount --bind "{sys.prefix}" "$0" && exec setpriv --reuid={victim} --regid={victim} '
           '--clear-groups "$0/bin/hvdrun" --gloo -np 2 "$0/bin/python" "$1"')
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", job, environment, program], cwd="/", text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False,
        env={**os.environ, "TMPDIR": str(temporary), "HOME": str(home)})
    assert "lost" in done.stdout, done.stdout
    assert precious.read_text() == "precious"
    assert [path.name for path in trap.iterdir()] == ["flight_recorder.rank0.json.part"]
    assert "belongs to another user" in done.stdout, done.stdout


def test_a_job_that_fails_without_an_operation_of_its_own_leaves_no_flight_recorder(ranks):
    program = ranks.folder / "program.py"
    program.write_text("""
import os
import horovod_cpp as hvd
hvd.init()
if hvd.rank() == 1:
    os._exit(3)
while hvd.is_initialized():
    hvd.dump_flight_recorder("x.json")
    if '"reason":null' not in open("x.json").read():
        break
""")
    folder = ranks.folder / "flight"
    folder.mkdir()
    done = ranks.launch([program], 2, environment={"HVD_FLIGHT_RECORDER_DIR": str(folder)})
    assert done.returncode != 0 and list(folder.iterdir()) == [], done.stdout


def test_without_a_launcher_the_first_rank_says_where_the_flight_recorders_are(ranks, tmp_path):
    by_hand = ByHand(tmp_path, port="0")
    meeting = {"HVD_RENDEZVOUS": f"file://{tmp_path}/meeting",
               "HVD_FLIGHT_RECORDER_DIR": str(tmp_path / "flight")}
    started = [by_hand.start(LOSES_A_RANK, rank, 3, meeting) for rank in range(3)]
    try:
        said = "".join(process.communicate(timeout=120)[0] for process in started)
    finally:
        by_hand.end()
    (job,) = (tmp_path / "flight").iterdir()
    assert said.count("lost\n") == 2 and len(list(job.iterdir())) == 2, said
    assert said.count(f"are in {job}") == 1, said


def test_the_flight_recorder_on_request(ranks):
    ranks.check("""
import json
for step in range(5):
    hvd.allreduce(np.ones(10, np.float32), hvd.Sum, name=f"step{step}")
handle = hvd.allreduce_async(np.ones(4), name="waits") if rank == 0 else None
path = f"record{rank}.json"
import time
end = time.monotonic() + 60
while time.monotonic() < end:
    hvd.dump_flight_recorder(path)
    record = json.load(open(path))
    if rank != 0 or record["operations"][-1]["name"] == "allreduce.waits":
        break
    time.sleep(0.02)
assert record["reason"] is None and record["rank"] == rank and record["size"] == size
operations = {o["name"]: o for o in record["operations"]}
assert len(record["operations"]) <= 4                      # HVD_FLIGHT_RECORDER_SIZE
done = operations["allreduce.step4"]
assert (done["state"], done["bytes"], done["dtype"]) == ("finished", 40, "float32")
times = [done[key] for key in ("submitted", "negotiated", "started", "finished")]
assert times == sorted(times) and done["failed"] is None
if rank == 0:
    waits = operations["allreduce.waits"]
    assert waits["state"] == "submitted" and waits["negotiated"] is None
hvd.barrier()
if rank == 1:
    hvd.allreduce(np.ones(4), name="waits")
else:
    hvd.synchronize(handle)
with pytest.raises(hvd.InvalidArgumentError, match="/nowhere/x.json.*No such file"):
    hvd.dump_flight_recorder("/nowhere/x.json")
""", environment={"HVD_FLIGHT_RECORDER_SIZE": "4"})


def test_config_shows_value_and_source(ranks):
    (ranks.folder / "job.yaml").write_text("params:\n  cache_capacity: 77\n  cycle_time_ms: 2\n")
    ranks.check("""
rows = {row["name"]: row for row in hvd.config()}
def seen(name):
    return rows[name]["value"], rows[name]["source"]
assert seen("HOROVOD_FUSION_THRESHOLD") == ("1048576", "default")
assert seen("HOROVOD_LOG_LEVEL") == ("error", "environment")
assert seen("HOROVOD_CYCLE_TIME") == ("1.5", "hvdrun --cycle-time-ms")
assert seen("HOROVOD_CACHE_CAPACITY")[0] == "77"
assert seen("HOROVOD_CACHE_CAPACITY")[1].endswith("job.yaml:2"), seen("HOROVOD_CACHE_CAPACITY")
assert rows["HOROVOD_CYCLE_TIME"]["default"] == "0" and rows["HOROVOD_CYCLE_TIME"]["meaning"]
""", flags=["--config-file", ranks.folder / "job.yaml", "--cycle-time-ms", "1.5"],
                environment={"HOROVOD_LOG_LEVEL": "error"})


def test_on_stall_gets_the_text_of_the_warning(ranks):
    ranks.check(ORDER + """
told, texts = threading.Event(), []
def report(text):
    if "'late' (allreduce)" in text:  # any rank may be late at "before"
        texts.append(text)
        told.set()
hvd.on_stall(report)
hvd.allreduce(np.ones(1), name="before")
if rank == 0:
    handle = hvd.allreduce_async(np.ones(1), hvd.Sum, name="late")
    assert told.wait(60)
    assert "rank 1" in texts[0], texts
    hvd.on_stall(None)
    pathlib.Path("told").touch()
else:
    wait_for("told")
    handle = hvd.allreduce_async(np.ones(1), hvd.Sum, name="late")
assert hvd.synchronize(handle).tolist() == [2.0]
""", environment={"HOROVOD_STALL_CHECK_TIME_SECONDS": "1"})

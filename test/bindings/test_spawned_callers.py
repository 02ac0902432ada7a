"""run() and Cluster from processes of multiprocessing, where the main script is __mp_main__."""

import subprocess
import sys

import pytest

SCRIPT = """
import multiprocessing, sys
import horovod_cpp as hvd

BASE = 10

class Point:
    def __init__(self, x):
        self.x = x

class Lost(Exception):
    pass

def work(point):
    hvd.init()
    return Point(point.x + BASE + hvd.rank())

def fail():
    raise Lost("here")

def show(points):
    print([each.x for each in points], all(isinstance(each, Point) for each in points), flush=True)

def run():
    found = hvd.run(work, args=(Point(1),), np=2)
    show(found)
    try:
        hvd.run(fail, np=2)
    except hvd.RankError as error:
        print(type(error.__cause__).__name__, "program.py" in str(error), flush=True)

def cluster():
    with hvd.Cluster(np=2) as ranks:
        found = ranks.run(work, args=(Point(1),))
        ranks.push({"start": Point(5)})
        pulled = ranks.pull("start")
        show(found)
        show(pulled)

if __name__ == "__main__":
    job = globals()[sys.argv[1]]
    if sys.argv[2] == "main":
        job()
    else:
        child = multiprocessing.get_context(sys.argv[2]).Process(target=job)
        child.start()
        child.join()
        sys.exit(child.exitcode)
"""


def said_by(tmp_path, job, where):
    program = tmp_path / "program.py"
    program.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(program), job, where], text=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("job", ["run", "cluster"])
@pytest.mark.parametrize("method", ["spawn", pytest.param("forkserver", marks=pytest.mark.full)])
def test_a_spawned_process_calls_ranks_as_the_main_process_does(tmp_path, job, method):
    said = said_by(tmp_path, job, method)
    assert "[11, 12] True" in said
    assert said == said_by(tmp_path, job, "main")

"""%%hvd and %hvd, in a real kernel."""

import pathlib
import re

import nbformat
import pytest
from kernels import running_kernel
from nbclient import NotebookClient
from waiting import wait_for
from widgets import WIDGET, bar_in

BAR = """%%hvd
import time
from {module} import tqdm
for i in tqdm(range(20), desc=f"rank {{hvd.rank()}}"):
    time.sleep(0.02)
"""


def segments():
    return {path for path in pathlib.Path("/dev/shm").glob("hvd-*")}


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory):
    with running_kernel(tmp_path_factory.mktemp("kernel")) as kernel:
        kernel.execute("%load_ext horovod_cpp")
        yield kernel


@pytest.fixture
def notebook(module_kernel):
    """A kernel with the magics and no ranks; nothing may be left when those of the test were stopped."""
    before = segments()
    yield module_kernel
    module_kernel.execute("%hvd stop")
    wait_for(lambda: len(module_kernel.processes()), 1)
    wait_for(lambda: segments() - before, set())  # another job may start just now


@pytest.fixture
def own_notebook(kernel):
    """The same in a kernel of the test's own; nothing may be left when it was shut down."""
    before = segments()
    kernel.execute("%load_ext horovod_cpp")
    yield kernel
    kernel.client.shutdown()
    wait_for(kernel.processes, [])
    wait_for(lambda: segments() - before, set())


def test_the_first_cell_starts_two_ranks_and_says_so(own_notebook):
    reply, printed, _ = own_notebook.execute("%%hvd\nx = hvd.rank() * 10\nx")
    assert reply["status"] == "ok"
    assert "started 2 ranks" in printed and "[0] 0\n" in printed and "[1] 10\n" in printed


def test_cells_run_in_namespaces_that_last_on_all_ranks_or_some(notebook):
    notebook.execute("%hvd start -n 3")
    notebook.execute("%%hvd\nseen = []")
    notebook.execute("%%hvd 0,2\nseen.append('some')")
    _, printed, _ = notebook.execute("%%hvd\nprint(seen)")
    assert sorted(printed.splitlines()) == ["[0] ['some']", "[1] []", "[2] ['some']"]
    _, printed, _ = notebook.execute("%%hvd 3\n1")
    assert printed.startswith("UsageError: ranks is [3], must be") and "from 0 to 2" in printed


def test_what_all_ranks_print_is_shown_once(notebook):
    notebook.execute("%hvd start")
    _, printed, _ = notebook.execute(
        "%%hvd\nhvd.barrier()\nif hvd.rank() == 0: print('mine')\n"
        "print('first')\nprint('second')\n6 * 7")
    assert printed == "[0] mine\nall ranks:\nfirst\nsecond\n42\n"


def test_output_comes_while_the_cell_runs(notebook, tmp_path):
    notebook.execute("%hvd start")

    def collect(message):
        if message["msg_type"] == "stream":
            (tmp_path / "seen").touch()

    reply = notebook.client.execute_interactive(
        "%%hvd\nimport pathlib, time\nprint('now')\n"
        f"while not pathlib.Path('{tmp_path}/seen').exists(): time.sleep(0.01)", timeout=60,
        output_hook=collect)
    assert reply["content"]["status"] == "ok"


def test_figures_and_rich_results_are_displayed(notebook):
    _, printed, displayed = notebook.execute(
        "%%hvd\nimport matplotlib.pyplot as plt\nplt.plot([1, hvd.rank()])\nplt.show()")
    assert sum("image/png" in data for data in displayed) == 2
    assert "[0]\n" in printed and "[1]\n" in printed
    rich = "class Rich:\n    def _repr_html_(self): return '<b>rich</b>'\nRich()"
    _, printed, displayed = notebook.execute("%%hvd\n" + rich)
    assert [data["text/html"] for data in displayed] == ["<b>rich</b>"]
    assert printed == "all ranks:\n"
    _, _, displayed = notebook.execute(
        "def plot():\n    import matplotlib.pyplot as plt\n    plt.plot([1, 2])\n"
        "cluster = %hvd cluster\ncluster.run(plot, ranks=1)")
    assert "image/png" in displayed[0]


def executed(notebook, *cells):
    """The outputs of the last cell, and the bars among them."""
    document = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(document, km=notebook.manager, timeout=60, allow_errors=True).execute(
        cleanup_kc=False)
    outputs = document.cells[-1].outputs
    return outputs, sorted(filter(None, (bar_in(document, output) for output in outputs)))


@pytest.mark.parametrize("module", ["tqdm.auto", "tqdm.notebook"])
def test_progress_bars_of_ranks_are_widgets_of_the_notebook(notebook, module):
    outputs, bars = executed(notebook, "%load_ext horovod_cpp", "%hvd start", BAR.format(module=module))
    assert bars == [("[0]", "rank 0: 100%", 20.0, "success"),
                            ("[1]", "rank 1: 100%", 20.0, "success")]
    assert [output["data"]["text/plain"][:3] for output in outputs] in (["[0]", "[1]"],
                                                                        ["[1]", "[0]"])


def test_bars_that_do_not_stay_take_the_number_of_their_rank_along(notebook):
    notebook.execute("%hvd start")
    displayed, closed, texts = set(), set(), []

    def collect(message):
        content = message["content"]
        if message["msg_type"] == "display_data":
            displayed.add(content["data"].get(WIDGET, {}).get("model_id"))
        elif message["msg_type"] == "comm_close":
            closed.add(content["comm_id"])
        elif message["msg_type"] == "stream":
            texts.append(content["text"])

    notebook.client.execute_interactive(
        "%%hvd\nimport time\nfrom tqdm.auto import tqdm\nfor i in tqdm(range(3), leave=False): pass\n"
        "for i in tqdm(range(10), leave=False): time.sleep(0.1)", timeout=60, output_hook=collect)
    assert len(displayed) >= 2 and displayed <= closed and texts == []


def test_what_json_cannot_say_is_refused_where_it_is_displayed(notebook):
    reply, _, _ = notebook.execute(
        "%%hvd\nfrom IPython.display import display\ndisplay({'text/html': object()}, raw=True)")
    assert "takes what JSON can say, got object" in reply["evalue"]
    _, printed, _ = notebook.execute("%%hvd\nhvd.barrier()\n1")
    assert printed == "all ranks:\n1\n"


def test_a_bar_says_that_its_rank_failed(notebook):
    _, bars = executed(
        notebook, "%load_ext horovod_cpp", "%hvd start",
        "%%hvd\nfrom tqdm.auto import tqdm\n"
        "for i in tqdm([1, 2], desc='second'):\n"
        "    if (hvd.rank(), i) == (1, 2):\n"
        "        hvd.barrier()\n        raise KeyError('lost')\n"
        "hvd.barrier()")  # rank 1 fails when the other bar has ended
    assert bars == [("[0]", "second: 100%", 2.0, "success"),
                            ("[1]", "second:  50%", 1.0, "danger")]


def test_bars_of_run_stay_when_its_ranks_have_ended(notebook):
    _, bars = executed(notebook, "import horovod_cpp as hvd", "def count():\n"
                     "    from tqdm.auto import trange\n    return sum(trange(5, desc='five'))",
                     "hvd.run(count, np=2)")
    assert bars == [("[0]", "five: 100%", 5.0, "success"),
                            ("[1]", "five: 100%", 5.0, "success")]


def test_progress_bars_of_text_stay_in_one_place(notebook):
    outputs, _ = executed(notebook, "%load_ext horovod_cpp", "%hvd start", BAR.format(module="tqdm"))
    (output,) = outputs
    rows = output["data"]["text/plain"].splitlines()
    assert [row.split(":")[0] for row in rows] == ["[0] rank 0", "[1] rank 1"]
    assert all("20/20" in row for row in rows)


def test_an_error_shows_rank_and_lines_of_the_cell_alone(notebook):
    reply, _, _ = notebook.execute(
        "%%hvd\nkept = 1\nif hvd.rank() == 1:\n    raise KeyError('lost')\nhvd.barrier()")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(reply["traceback"]))
    assert reply["ename"] == "RankError" and "rank 1 raised KeyError: 'lost'" in reply["evalue"]
    assert "raise KeyError('lost')" in shown and "RankError: rank 1 raised KeyError" in shown
    assert "horovod_cpp/" not in shown and "site-packages" not in shown
    _, printed, _ = notebook.execute("%%hvd\nhvd.barrier()\nkept")
    assert printed == "all ranks:\n1\n"


def test_a_worker_that_is_killed_in_a_cell_is_named_and_replaced(notebook):
    notebook.execute("%%hvd\nimport os, signal\nkept = 1")
    reply, _, _ = notebook.execute(
        "%%hvd\nif hvd.rank() == 1:\n    os.kill(os.getpid(), signal.SIGKILL)\nhvd.barrier()")
    assert reply["ename"] == "RankError" and "rank 1 was killed by SIGKILL" in reply["evalue"]
    _, printed, _ = notebook.execute("%%hvd\nhvd.barrier()\n'kept' in globals()")
    assert sorted(printed.splitlines()) == ["[0] True", "[1] False"]


def test_an_interrupt_ends_the_cell_and_the_next_one_works(notebook):
    notebook.execute("%%hvd\nimport time\nkept = 1")
    reply, _, _ = notebook.execute(
        "%%hvd\nprint('ready')\nif hvd.rank() == 0:\n    hvd.barrier()\ntime.sleep(600)",
        interrupt_at=1)  # shown once for both
    assert reply["ename"] == "KeyboardInterrupt" and "rank 1 was at" in reply["evalue"]
    assert "pool.py" not in "".join(reply["traceback"])
    _, printed, _ = notebook.execute("%%hvd\nhvd.barrier()\nkept")
    assert printed == "all ranks:\n1\n"


def test_variables_travel_both_ways(notebook):
    _, printed, _ = notebook.execute("import horovod_cpp\nbase = 5\n%hvd push base")
    assert printed.endswith("pushed base to 2 ranks\n")
    notebook.execute("%%hvd\nresult = base + hvd.rank()")
    _, printed, _ = notebook.execute("%hvd pull result\nprint(result)")
    assert printed == "result: a list of 2, by rank\n[5, 6]\n"
    _, printed, _ = notebook.execute("%hvd pull result -r 1\nprint(result)")
    assert printed == "result: that of rank 1\n6\n"
    _, printed, _ = notebook.execute(
        "cluster = %hvd cluster\nprint(cluster.run(lambda: result + result0 if 0 else base))")
    assert printed == "[5, 5]\n"


def test_status_restart_and_stop(notebook):
    _, printed, _ = notebook.execute("%hvd status")
    assert "no ranks are running" in printed
    notebook.execute("%%hvd\nkept = 1")
    _, printed, _ = notebook.execute("%hvd status")
    assert len(re.findall(r"^ +[01] +\d+ +idle", printed, re.MULTILINE)) == 2
    notebook.execute("%hvd restart")
    _, printed, _ = notebook.execute("%%hvd\n'kept' in globals()")
    assert printed == "all ranks:\nFalse\n"
    assert len(notebook.processes()) == 3 + 3  # the kernel and two ranks; hvdrun and its agent
    notebook.execute("%hvd stop")
    assert len(notebook.processes()) == 1


def test_numbers_of_ranks_are_taken_as_they_are(notebook):
    for start in ("%hvd start -n 0", "%hvd start 0", "%%hvd -n 0\n1"):
        _, printed, _ = notebook.execute(start)
        assert "np is 0, must be at least 1" in printed and "started" not in printed
    _, printed, _ = notebook.execute("%hvd start 3")
    assert printed == "started 3 ranks\n"


def test_a_cluster_that_was_closed_is_followed_by_another(notebook):
    notebook.execute("cluster = %hvd cluster\ncluster.close()")
    _, printed, _ = notebook.execute("%%hvd\nprint('here')")
    assert "started 2 ranks" in printed and printed.endswith("all ranks:\nhere\n")


def test_habits_of_cells_work_on_ranks_or_say_why_not(notebook):
    reply, _, displayed = notebook.execute(
        "%%hvd 0\n%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    assert reply["status"] == "ok", reply
    assert "image/png" in displayed[0]
    for word in ("exit", "quit()"):
        reply, _, _ = notebook.execute(f"%%hvd\n{word}")
        assert "exit and quit do not end a rank: %hvd stop" in reply["evalue"]
    widget = ("%%hvd\nfrom IPython.display import display\ndisplay({'text/plain': '20/20', "
              "'application/vnd.jupyter.widget-view+json': {'model_id': 'x'}}, raw=True)")
    _, printed, displayed = notebook.execute(widget)
    assert printed.endswith("20/20\n") and displayed == []


def test_a_wrong_command_is_answered_with_what_there_is(notebook):
    _, printed, _ = notebook.execute("%hvd statsu")
    assert "no 'statsu'" in printed and "%hvd restart" in printed
    _, printed, _ = notebook.execute("%%hvd one\n1")
    assert "invalid" in printed and "%%hvd 0,2" in printed
    _, printed, _ = notebook.execute("%hvd help -r 0")
    assert printed.startswith("%%hvd  ") and "%hvd restart" in printed


def test_ranks_end_with_a_kernel_that_is_killed(own_notebook):
    _, printed, _ = own_notebook.execute("%%hvd\nimport os, time\nos.getpid()")
    workers = [int(line.split()[1]) for line in printed.splitlines() if line[0] == "["]
    own_notebook.client.execute("%%hvd\nprint('in the cell')\ntime.sleep(600)")
    while own_notebook.client.get_iopub_msg(timeout=60)["msg_type"] != "stream":
        pass
    own_notebook.manager.shutdown_kernel(now=True)
    assert len(workers) == 2
    wait_for(lambda: set(workers) & set(own_notebook.processes()), set())
    assert not [path for path in segments() if any(f"hvd-{pid}-" in path.name for pid in workers)]

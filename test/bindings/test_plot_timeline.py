"""hvd.plot.timeline, on traces of real jobs and on small ones made here."""

import json
import time

import matplotlib
import pytest

matplotlib.use("Agg")
from matplotlib import colors, pyplot

import horovod_cpp as hvd


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def recorded(ranks_in, tmp_path_factory):
    """The trace of two ranks that reduced three tensors in each of five steps, one rank late."""
    folder = tmp_path_factory.mktemp("recorded")
    ranks_in(folder).check("""
import time
hvd.start_timeline("trace.json")
hvd.barrier()
for step in range(5):
    if rank == 1:  # 20 ms after rank 0
        hvd.recv(np.empty(1), 0)
        time.sleep(0.02)
    handles = [hvd.allreduce_async(np.ones(50000, np.float32), hvd.Sum, name=name)
               for name in ("first.weight", "second.weight", "third.weight")]
    if rank == 0:
        hvd.send(np.ones(1), 1)
    for handle in handles:
        hvd.synchronize(handle)
hvd.barrier()
hvd.stop_timeline()
""")
    return folder / "trace.json"


def named(rank, titles):
    yield {"name": "process_name", "ph": "M", "pid": rank, "tid": 0,
           "args": {"name": f"rank {rank}"}}
    for number, title in enumerate(titles, 1):
        yield {"name": "thread_name", "ph": "M", "pid": rank, "tid": number,
               "args": {"name": title}}


def operation(rank, track, begin):
    """1 ms of negotiation, 1 ms in the queue, 4 ms of allreduce with 1 ms each of copies."""
    at = {"pid": rank, "tid": track, "args": {}}
    us = 1000.0 * begin
    yield {"name": "NEGOTIATE_ALLREDUCE", "ph": "B", "ts": us, **at}
    yield {"name": "NEGOTIATE_ALLREDUCE", "ph": "E", "ts": us + 1000, **at}
    for name, start, length in (("QUEUE", 1, 1), ("ALLREDUCE", 2, 4), ("PACK", 2, 1),
                                ("UNPACK", 5, 1)):
        yield {"name": name, "ph": "X", "ts": us + 1000 * start, "dur": 1000 * length, **at}


# Rank 0 has two operations at once and one later; rank 1 has one that never ends.
EVENTS = [*named(0, ["allreduce.net.0.weight", "allreduce.net.1.weight"]), *operation(0, 1, 10),
          *operation(0, 2, 12), *operation(0, 1, 30), *named(1, ["allreduce.net.0.weight"]),
          {"name": "NEGOTIATE_ALLREDUCE", "ph": "B", "pid": 1, "tid": 1, "ts": 20000.0, "args": {}}]


def spans_of(axes):
    """{label in the legend: [(start, end, row)]}, in order."""
    return {part.get_label(): sorted(
        (path.vertices[:, 0].min(), path.vertices[:, 0].max(), int(path.vertices[:, 1].min()))
        for path in part.get_paths()) for part in axes.collections}


def labels_of(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def legend_of(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_every_phase_of_every_operation_has_its_place():
    axes = hvd.plot.timeline(EVENTS, tensors=True, title="made here")
    spans = spans_of(axes)
    assert spans["NEGOTIATE: waits for ranks"] == [(10, 11, 0), (12, 13, 1), (30, 31, 0)]
    assert spans["QUEUE: waits for batches"] == [(11, 12, 0), (13, 14, 1), (31, 32, 0)]
    assert spans["ALLREDUCE"] == [(12, 16, 0), (14, 18, 1), (32, 36, 0)]
    assert spans["PACK: copies"] == [(12, 13, 0), (14, 15, 1), (32, 33, 0)]
    assert spans["UNPACK: copies"] == [(15, 16, 0), (17, 18, 1), (35, 36, 0)]
    # What never ended reaches to the end of the trace, in the band of rank 1.
    (start, end, row), = spans["NEGOTIATE, not ended"]
    assert (start, end) == (20, 36) and row >= 2
    assert axes.yaxis_inverted()  # rank 0 on top
    assert [text.get_text() for text in axes.texts if "rank" in text.get_text()] == [
        "rank 0", "rank 1"]
    assert (axes.get_xlabel(), axes.get_title()) == (
        "time since the recording began (ms)", "made here")


def test_phases_have_colours_and_legend_entries_of_their_own():
    axes = hvd.plot.timeline(EVENTS, tensors=True)
    assert legend_of(axes) == ["NEGOTIATE: waits for ranks", "NEGOTIATE, not ended",
                               "QUEUE: waits for batches", "ALLREDUCE", "PACK: copies",
                               "UNPACK: copies"]
    looks = {(colors.to_hex(part.get_facecolor()[0]), part.get_hatch())
             for part in axes.collections}
    assert len(looks) == len(legend_of(axes))


def test_the_legend_has_only_what_can_be_seen():
    late = [*EVENTS, *operation(0, 1, 9000)]
    axes = hvd.plot.timeline(late, tensors=True, window=(0, 10000))
    assert legend_of(axes) == ["NEGOTIATE, not ended"]  # 9 s; the others last 1 to 4 ms
    assert len(axes.collections) == 6  # they are drawn, as wide as a pixel


def test_a_tensor_has_the_same_lane_on_all_ranks_in_the_order_of_the_first():
    names = [f"allreduce.net.{number}.weight" for number in range(4)]
    events = list(named(0, names))
    for number in range(4):
        events += operation(0, number + 1, 10 * number)
    events += named(1, names[::-1])  # another order of tracks and of time
    for number in range(4):
        events += operation(1, number + 1, 10 * number + 3)
    spans = spans_of(hvd.plot.timeline(events, tensors=True))["ALLREDUCE"]
    assert [row for _, _, row in spans if row < 4] == [0, 1, 2, 3]
    assert [row - 4 for _, _, row in spans if row >= 4] == [3, 2, 1, 0]


def test_lanes_are_called_by_what_their_tensors_do_not_share():
    def labels(*names):
        events = list(named(0, names))
        for number in range(len(names)):
            events += operation(0, number + 1, 10 * number)
        return labels_of(hvd.plot.timeline(events, tensors=True))

    assert labels("allreduce.net.0.weight", "allreduce.net.1.weight") == ["0", "1"]
    assert labels("allreduce.net.0.weight", "allreduce.net.0.bias") == ["weight", "bias"]
    assert labels("allreduce.f.8.weight and 3 more (optimizer 2)",
                  "allreduce.head.bias (optimizer 2)") == ["f.8.weight and 3 more", "head.bias"]
    assert labels("allreduce.x", "broadcast.x") == ["allreduce", "broadcast"]
    assert labels("allreduce.net.0.weight") == ["net.0.weight"]
    assert labels("barrier.noname.0", "allreduce.noname.12", "allreduce.noname.13") == [
        "barrier", "allreduce"]  # calls without a name: one lane for each kind
    long, = labels("allreduce." + "a_very_long_name_of_a_module" * 8 + ".weight")
    assert len(long) <= 30 and long.startswith("a_very") and long.endswith("e.weight")


def test_tensors_that_take_no_time_share_a_lane():
    events = list(named(0, ["allreduce.big", *(f"broadcast.{n}" for n in range(20))]))
    for step in range(200):
        events += operation(0, 1, 10 * step)
    for number in range(20):
        events += operation(0, 2 + number, 2000)
    axes = hvd.plot.timeline(events, tensors=True)
    assert labels_of(axes) == ["big", "20 short ones"]


def test_the_compact_view_has_two_lanes_a_rank_and_says_who_is_late():
    names = ["allreduce.a", "allreduce.b"]
    events = [*named(0, names), *named(1, names)]
    for step in range(3):
        for track in (1, 2):
            at = 100 * step + 10 * track
            for rank, late in ((0, 0), (1, 5 if track == 1 else 3)):
                begin = {"pid": rank, "tid": track, "args": {}}
                us = 1000.0 * (at + late)
                events += [{"name": "NEGOTIATE_ALLREDUCE", "ph": "B", "ts": us, **begin},
                           {"name": "NEGOTIATE_ALLREDUCE", "ph": "E", "ts": 1000.0 * (at + 6), **begin},
                           {"name": "QUEUE", "ph": "X", "ts": 1000.0 * (at + 6), "dur": 0, **begin},
                           {"name": "ALLREDUCE", "ph": "X", "ts": 1000.0 * (at + 6), "dur": 8000,
                            **begin}]
    axes = hvd.plot.timeline(events)
    spans = spans_of(axes)
    assert set(spans) == {"waits for other ranks", "moves data"}
    waits = [(start, end) for start, end, row in spans["waits for other ranks"] if row == 0]
    assert waits == [(10, 16), (20, 26), (110, 116), (120, 126), (210, 216), (220, 226)]
    moves = [(start, end) for start, end, row in spans["moves data"] if row == 1]
    assert moves == [(16, 34 - 10), (26, 34), (116, 124), (126, 134), (216, 224), (226, 234)]
    assert labels_of(axes) == ["rank 0", "rank 1"]
    panel = axes.figure.axes[1]
    assert [bar.get_width() for bar in panel.patches] == pytest.approx([0.0, 4.0])
    steps = [line.get_xdata()[0] for line in axes.get_lines() if line.get_linestyle() == ":"]
    assert steps == [34, 134, 234]
    assert [text.get_text() for text in axes.texts] == ["step 1", "2", "3"]
    last = hvd.plot.timeline(events, window=(100, 300))
    assert [text.get_text() for text in last.texts] == ["step 2", "3"]
    alone = hvd.plot.timeline(events, ax=pyplot.figure().subplots())
    assert alone.figure.axes == [alone]  # no panel on Axes of the caller's


def test_what_lies_beyond_a_long_pause_at_an_end_is_left_out_and_counted():
    events = [*named(0, ["allreduce.x"]), *operation(0, 1, 0)]
    for step in range(20):
        events += operation(0, 1, 5000 + 10 * step)
    events += operation(0, 1, 20000)
    axes = hvd.plot.timeline(events)
    assert axes.get_xlim() == pytest.approx((4998, 5198), abs=1)
    assert "10 spans beyond a long pause are left out; window=(0, 20006)" in axes.get_xlabel()
    whole = hvd.plot.timeline(events, window=(0, 20006))
    assert whole.get_xlim() == (0, 20006) and "left out" not in whole.get_xlabel()
    # Two halves with a pause between them are both there.
    halves = [*named(0, ["allreduce.x"])]
    for step in range(10):
        halves += operation(0, 1, 10 * step + 5000 * (step > 4))
    axes = hvd.plot.timeline(halves)
    assert axes.get_xlim()[1] > 5000 > axes.get_xlim()[0] and "left out" not in axes.get_xlabel()
    # What failed is always there.
    failed = {"name": "FAILED", "ph": "i", "pid": 0, "tid": 1, "ts": 3e7, "s": "t",
              "args": {"error": "why"}}
    assert hvd.plot.timeline([*events, failed]).get_xlim()[1] > 30000


@pytest.mark.parametrize("window", [5, "all", (1, 2, 3), ("a", "b"), (None, 5)])
def test_a_window_that_is_no_pair_of_numbers_is_refused(window):
    with pytest.raises(TypeError, match=r"window must be two numbers, \(from, to\) in ms"):
        hvd.plot.timeline(EVENTS, window=window)
    assert not pyplot.get_fignums()


def test_a_window_and_a_choice_of_ranks_are_all_that_is_drawn():
    axes = hvd.plot.timeline(EVENTS, window=(29, 33), ranks=[0], tensors=True)
    assert axes.get_xlim() == (29, 33)
    assert spans_of(axes) == {
        "NEGOTIATE: waits for ranks": [(30, 31, 0)], "QUEUE: waits for batches": [(31, 32, 0)],
        "ALLREDUCE": [(32, 36, 0)], "PACK: copies": [(32, 33, 0)]}
    compact = hvd.plot.timeline(EVENTS, window=(29, 33), ranks=[0])
    assert spans_of(compact) == {"waits for other ranks": [(30, 31, 0)],
                                 "moves data": [(32, 36, 1)]}
    assert labels_of(compact) == ["rank 0"]


def test_failures_and_what_the_recording_lacks_are_shown():
    failed = [{"name": "FAILED", "ph": "i", "pid": 1, "tid": 1, "ts": 25000.0, "s": "t",
               "args": {"error": "ranks disagree"}},
              {"name": "NEGOTIATE_ALLREDUCE", "ph": "E", "pid": 1, "tid": 1, "ts": 25000.0,
               "args": {"error": "ranks disagree"}},
              {"name": "DROPPED", "ph": "i", "pid": 1, "tid": 0, "ts": 26000.0, "s": "p",
               "args": {"events": 12}},
              {"name": "TIMELINE_FULL", "ph": "i", "pid": 0, "tid": 0, "ts": 27000.0, "s": "g",
               "args": {"limit_bytes": 1}}]
    for tensors in (True, False):
        axes = hvd.plot.timeline(EVENTS + failed, tensors=tensors)
        cross, = (line for line in axes.get_lines() if line.get_label() == "failed")
        assert cross.get_xdata().tolist() == [25]
        assert "rank 1 dropped 12 events" in axes.get_xlabel()
        assert "HVD_TIMELINE_MAX_MB" in axes.get_xlabel()


def test_the_trace_of_a_real_job_shows_who_waited_for_whom(recorded, tmp_path):
    axes = hvd.plot.timeline(recorded, tensors=True)
    spans = spans_of(axes)
    of_the_call = hvd.plot.timeline(json.loads(recorded.read_text()), tensors=True)
    assert spans == spans_of(of_the_call)
    bound = axes.get_ylim()[0] / 2  # between the bands
    waits = [end - start for start, end, row in spans["NEGOTIATE: waits for ranks"] if row < bound]
    assert sum(wait >= 19.9 for wait in waits) >= 15  # ms; three tensors in five steps
    ran = next(spans[label] for label in spans if "ALLREDUCE" in label)
    assert sum(row < bound for _, _, row in ran) >= 15  # rank 1 begins to record a little later
    assert any(row > bound for _, _, row in ran)
    compact = hvd.plot.timeline(recorded)
    first, second = (bar.get_width() for bar in compact.figure.axes[1].patches)
    assert second > 10 > first  # rank 1 slept 20 ms before each of its tensors
    compact.figure.savefig(tmp_path / "compact.png")
    axes.figure.savefig(tmp_path / "trace.png")
    assert (tmp_path / "trace.png").read_bytes().startswith(b"\x89PNG")


def test_a_large_trace_is_thinned_and_says_so():
    events = list(named(0, ["a"])) + list(named(1, ["a"]))
    for step in range(5000):
        events += operation(0, 1, 10 * step)
        events += operation(1, 1, 10 * step + 1)
    begin = time.monotonic()
    axes = hvd.plot.timeline(events, max_spans=1000, tensors=True)
    assert time.monotonic() - begin < 60  # bounded; no benchmark
    assert "1000 of 50000 spans are drawn" in axes.get_xlabel()
    spans = spans_of(axes)
    assert sum(map(len, spans.values())) == 1000
    for rank in (0, 1):  # the longest spans of all parts of the trace, on both ranks
        starts = sorted(start for start, _, row in spans["ALLREDUCE"] if (row > 0) == bool(rank))
        assert len(starts) >= 250 and starts[0] < 500 and starts[-1] > 49500
        assert max(b - a for a, b in zip(starts, starts[1:])) < 1000
    compact = hvd.plot.timeline(events)  # is never thinned
    assert [bar.get_width() for bar in compact.figure.axes[1].patches] == pytest.approx([0, 1])
    assert time.monotonic() - begin < 60
    whole = hvd.plot.timeline(events, max_spans=1000, window=(20000, 20500), tensors=True)
    assert "drawn" not in whole.get_xlabel()


def test_the_file_of_a_job_that_was_killed_at_any_byte_has_the_events_of_its_whole_lines(tmp_path):
    events = [*EVENTS, {"name": "größe \U0001d6fc", "ph": "M", "pid": 0, "tid": 9, "args": {}}]
    lines = [json.dumps(event, ensure_ascii=False).encode() for event in events]
    text = b"[\n" + b",\n".join(lines)  # as the engine writes it; "\n]\n" comes at the end
    cut = tmp_path / "cut.json"
    ends = [2 + len(b",\n".join(lines[:count])) for count in range(1, len(lines) + 1)]
    for length in range(len(text) + 1):
        cut.write_bytes(text[:length])
        whole = sum(end <= length for end in ends)
        assert hvd.plot.load_timeline(cut) == events[:whole], length
    cut.write_bytes(text + b"\n]\n")
    assert hvd.plot.load_timeline(cut) == events == json.loads(cut.read_text())


def test_reading_ends_where_the_file_ended_when_it_began(tmp_path, monkeypatch):
    path = tmp_path / "grows.json"
    line = json.dumps(EVENTS[0])
    path.write_text(f"[\n{line},\n{line}")
    parse = json.loads

    def parse_while_the_job_goes_on(text):
        with open(path, "a", encoding="utf-8") as file:
            file.write(f",\n{line}")
        assert path.stat().st_size < 100 * len(line)
        return parse(text)

    monkeypatch.setattr(json, "loads", parse_while_the_job_goes_on)
    monkeypatch.setattr("horovod_cpp.plot._trace._BATCH", 10)  # bytes: each line by itself
    assert hvd.plot.load_timeline(path) == [EVENTS[0]] * 2


def test_the_picture_of_a_recording_without_an_end_says_so(recorded, tmp_path):
    text = recorded.read_text()
    assert hvd.plot.load_timeline(recorded) == json.loads(text)
    assert "no end" not in hvd.plot.timeline(recorded).get_xlabel()
    cut = tmp_path / "cut.json"
    cut.write_text(text[:-len("\n]\n") - 10])
    whole, part = (spans_of(hvd.plot.timeline(path, tensors=True)) for path in (recorded, cut))
    assert sum(map(len, part.values())) in range(1, 1 + sum(map(len, whole.values())))
    assert "its job still ran, or was killed" in hvd.plot.timeline(cut).get_xlabel()


@pytest.mark.parametrize("content", [
    b"", b"hello\n", b"\x89PNG\r\n\x1a\n\xff\xfe", b'{"traceEvents": []}', b"[\n]\n",
    b"[\n1,\n2\n]\n", b'[\n{"name":"x","ph":"X","pid":1,"tid":1,"ts":1,"dur":1}\n]\n',
    b'[\n{"name":"x","ph":"B","pid":1}\n]\n', b"[\n{broken},\n{}\n]\n", b'[{"a": 1}]',
    b'[\n"\xff\xfe"\n]\n', b'[\n{"name":"process_name","ph":"M","pid":0,"tid":0,"args":"x"}\n]\n',
])
def test_a_file_of_something_else_is_refused(content, tmp_path):
    foreign = tmp_path / "foreign.json"
    foreign.write_bytes(content)
    with pytest.raises(hvd.InvalidArgumentError, match="foreign.json' is not a timeline of horovod_"):
        hvd.plot.timeline(foreign)
    assert not pyplot.get_fignums()
    if content in (b"hello\n", b'{"traceEvents": []}', b"[\n{broken},\n{}\n]\n"):  # no events at all
        with pytest.raises(hvd.InvalidArgumentError, match="foreign.json' is not a timeline"):
            hvd.plot.load_timeline(foreign)


@pytest.mark.parametrize(("options", "words"), [
    ({"window": (40, 50)}, ["from 40 to 50 ms", "10.0 to 36.0 ms"]),
    ({"window": (5, 5)}, ["window", "(5, 5)"]),
    ({"window": (0, float("inf"))}, ["window", "inf"]),
    ({"ranks": [0, 7]}, ["rank 7", "0, 1"]),
    ({"ranks": []}, ["ranks is empty"]),
    ({"max_spans": 0}, ["max_spans", "0"]),
])
def test_what_is_not_in_the_trace_is_refused(options, words):
    with pytest.raises(hvd.InvalidArgumentError) as caught:
        hvd.plot.timeline(EVENTS, **options)
    for word in words:
        assert word in str(caught.value)
    assert not pyplot.get_fignums()


def test_a_trace_without_operations_and_a_missing_file_are_errors(tmp_path):
    with pytest.raises(hvd.InvalidArgumentError, match="without a single operation"):
        hvd.plot.timeline(list(named(0, [])))
    with pytest.raises(FileNotFoundError, match="nowhere.json"):
        hvd.plot.timeline(tmp_path / "nowhere.json")
    with pytest.raises(TypeError, match="int"):
        hvd.plot.timeline(3)

"""How what ranks print is cut into lines, collapsed and shown."""

import io
import sys
import time

import pytest

from horovod_cpp.cluster.output import Printer, StreamView, Text


class Recorder(StreamView):
    """Remembers what it was told to show."""

    def __init__(self):
        super().__init__()
        self.shown = []

    def show(self, rank, item):
        self.shown.append((rank, item.line if isinstance(item, Text) else item.data))

    def live(self, rank, stream, text):
        self.shown.append(("live", rank, text))

    def end_live(self, rank, stream, text):
        self.shown.append(("end", rank, text))


@pytest.fixture
def recorder():
    return Recorder()


def test_lines_of_ranks_are_never_mixed(recorder):
    printer = Printer(recorder, range(2))
    printer.feed(0, "stdout", b"one")
    printer.feed(1, "stdout", b"two\nthree")
    printer.feed(0, "stdout", b" more\n")
    printer.finish()
    assert recorder.shown == [(1, "two"), (0, "one more"), (1, "three")]


def test_characters_that_come_in_pieces_are_whole(recorder):
    printer = Printer(recorder, range(1))
    for byte in "größer €\n".encode():
        printer.feed(0, "stdout", bytes([byte]))
    assert recorder.shown == [(0, "größer €")]


def test_a_carriage_return_starts_the_line_again(recorder):
    printer = Printer(recorder, range(1))
    printer.feed(0, "stderr", b"\r 10%")
    printer.feed(0, "stderr", b"\r 20%")
    printer.feed(0, "stderr", b"\n")
    printer.feed(0, "stdout", b"dos\r\n")
    assert recorder.shown == [("live", 0, " 10%"), ("live", 0, " 20%"), ("end", 0, " 20%"),
                              (0, "dos")]


def test_a_line_without_an_end_is_shown_after_a_moment(recorder):
    printer = Printer(recorder, range(1))
    printer.feed(0, "stdout", b"loading ...")
    assert recorder.shown == []
    time.sleep(max(0.0, printer.due() - time.monotonic()))
    printer.flush_due()
    assert recorder.shown == [("live", 0, "loading ...")] and printer.due() is None


def test_equal_lines_are_shown_once_whoever_is_first(recorder):
    printer = Printer(recorder, range(3), collapse=True)
    for rank, text in ((2, b"a\nb\n"), (0, b"a\n"), (1, b"a\nb\n"), (0, b"b\n")):
        printer.feed(rank, "stdout", text)
    assert recorder.shown == [(None, "a"), (None, "b")] and printer.due() is None


@pytest.mark.parametrize("fed", [[(0, b"mine\nours\n"), (1, b"ours\n")],
                                 [(0, b"mine\n"), (1, b"ours\n"), (0, b"ours\n")]])
def test_lines_of_one_rank_do_not_keep_the_others_from_being_equal(recorder, fed):
    printer = Printer(recorder, range(2), collapse=True)
    for rank, text in fed:
        printer.feed(rank, "stdout", text)
    assert recorder.shown == [(0, "mine"), (None, "ours")]


def test_lines_that_all_differ_are_compared_with_few_others(recorder, monkeypatch):
    compared = []
    monkeypatch.setattr(Text, "__eq__", lambda mine, other: compared.append(mine) or mine is other)
    printer = Printer(recorder, range(2), collapse=True)
    for number in range(500):
        for rank in range(2):
            printer.feed(rank, "stdout", f"{rank} {number}\n".encode())
    assert len(compared) < 1000 * 50
    printer.finish()
    assert len(recorder.shown) == 1000


def test_a_line_waits_a_moment_only(recorder):
    printer = Printer(recorder, range(2), collapse=True)
    printer.feed(0, "stdout", b"alone\n")
    assert recorder.shown == []
    time.sleep(max(0.0, printer.due() - time.monotonic()))
    printer.flush_due()
    assert recorder.shown == [(0, "alone")]


def test_a_result_waits_for_those_of_the_other_ranks(recorder):
    printer = Printer(recorder, range(2), collapse=True)
    printer.take(0, "display", [{"text/plain": "42"}, {}, {}, False, True])
    assert printer.due() is None
    printer.flush_due()
    assert recorder.shown == []
    printer.take(1, "display", [{"text/plain": "42"}, {}, {}, False, True])
    assert recorder.shown == [(None, {"text/plain": "42"})]


def test_displays_are_equal_if_they_look_equal(recorder):
    printer = Printer(recorder, range(2), collapse=True)
    for rank in range(2):
        html = {"text/plain": f"<Rich at 0x{rank}>", "text/html": "<b>rich</b>"}
        printer.take(rank, "display", [html, {}, {}, False])
        printer.take(rank, "display", [{"text/plain": str(rank)}, {}, {}, False])
    printer.finish()
    assert [rank for rank, _ in recorder.shown] == [None, 0, 1]


def test_the_last_lines_of_a_rank_are_kept(recorder):
    printer = Printer(recorder, range(2))
    printer.feed(0, "stderr", "".join(f"{n}\n" for n in range(50)).encode() + b"end")
    assert printer.tail(0).splitlines() == [*map(str, range(30, 50)), "end"]
    assert printer.tail(1) == ""


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_has_one_line_that_changes(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Terminal())
    printer = Printer(StreamView(), range(2))
    printer.feed(0, "stdout", b"\r10%")
    printer.feed(1, "stdout", b"\r20%")
    printer.feed(0, "stdout", b"\r100%\nnext\n")
    printer.finish()
    erase = "\r\x1b[K"
    assert sys.stdout.getvalue() == f"{erase}[0] 10%{erase}[1] 20%{erase}[0] 100%\n[0] next\n[1] 20%\n"


def test_all_ranks_have_one_heading(capsys):
    view = StreamView()
    for rank, line in ((None, "a"), (None, "b"), (1, "c"), (None, "d")):
        view.show(rank, Text("stdout", line))
    assert capsys.readouterr().out == "all ranks:\na\nb\n[1] c\nall ranks:\nd\n"


def test_a_printer_of_no_ranks_has_nothing_to_settle(recorder):
    printer = Printer(recorder, ())
    printer.feed(0, "stdout", b"said by a rank that ends\n")
    printer.flush_due()
    printer.finish()


def test_a_line_without_an_end_is_cut_and_its_end_shown_live(recorder):
    printer = Printer(recorder, range(1))
    printer.feed(0, "stdout", b"\rstart")
    printer.feed(0, "stdout", b"x" * 50_000 + b"y")
    assert recorder.shown[-1] == ("live", 0, "x" * 999 + "y")
    printer.feed(0, "stdout", b"z" * 50_000)
    assert recorder.shown[-1] == ("end", 0, "start" + "x" * 50_000 + "y" + "z" * 50_000)
    printer.feed(0, "stdout", b"next\n")
    assert recorder.shown[-1] == (0, "next")


def test_carriage_returns_may_stand_at_the_end_of_what_comes(recorder):
    printer = Printer(recorder, range(1))
    for text in (b"10%\r", b"20%\r", b"\r", b"30%", b" done\r", b"\n"):
        printer.feed(0, "stdout", text)
    shown = [text for _, _, text in recorder.shown]
    assert shown == ["10%", "20%", "20%", "30%", "30% done", "30% done"]


def test_characters_that_standard_output_does_not_have_are_escaped(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    StreamView().show(0, Text("stdout", "größer"))
    assert written.getvalue() == b"[0] gr\\xf6\\xdfer\n"


def test_what_a_rank_prints_to_a_closed_stream_goes_into_no_socket(ranks):
    """A rank started with `>&-`, say: the system would give the stream's number to what is opened next."""
    source = """
import os
os.close(1)
import horovod_cpp as hvd
hvd.init()
for step in range(20):
    os.write(1, bytes(4096))
    assert hvd.allreduce(hvd.ones(1), hvd.Sum).tolist() == [2.0], step
os.write(2, b"right\\n")
"""
    done = ranks.launch(["-c", source], 2)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("right") == 2, done.stdout

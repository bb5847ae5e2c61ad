"""What the recorder makes of posts, waits and handles, without any backend."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from harness.recorder import Recorder, activate, active
from harness.trace import State
from pipeline.actions import CURRENT, Action, Kind, Origin
from tests.recorder.sink import Events


class Handle:
    """All that the recorder needs of a ``Work``."""

    def _source_rank(self) -> int:
        return 2


GROUP = "all"  # a meeting of all ranks


def recorder() -> tuple[Recorder, Events]:
    sink = Events()
    return Recorder(sink, world=3), sink


def post(rec: Recorder, kind: str = "send", **more: Any) -> int | None:
    # post looks two frames up: past the wrapper that calls it
    def wrapper() -> int | None:
        return rec.post(kind, GROUP, **({"peer": 1} | more))

    return wrapper()


def letters(sink: Events) -> str:
    return "".join(event[0] for event in sink.events if event[0] in "PWDFXMK")


def fail() -> None:
    raise RuntimeError("connection closed")


def test_what_posts_alike_have_in_common_is_written_once() -> None:
    rec, sink = recorder()
    for _ in range(3):
        post(rec)
    assert [event[0] for event in sink.events].count("T") == 1
    post(rec, tag=5)
    assert [event[0] for event in sink.events].count("T") == 2
    assert [op.tag for op in sink.history().ops.values()] == [0, 0, 0, 5]


def test_a_handle_that_is_waited_for_is_done() -> None:
    rec, sink = recorder()
    work = Handle()
    rec.attach(post(rec), work, GROUP)
    assert rec.wait(work, lambda: "result", gives_up=False) == "result"
    del work
    rec.flush()
    assert letters(sink) == "PWD"


def test_a_handle_that_is_lost_is_dropped() -> None:
    rec, sink = recorder()
    rec.attach(post(rec), Handle(), GROUP)
    rec.flush()
    assert letters(sink) == "PX"
    assert sink.history().ops[0].state is State.DROPPED


def test_a_drop_is_written_before_what_comes_after_it() -> None:
    rec, sink = recorder()
    rec.attach(post(rec), Handle(), GROUP)
    post(rec)
    assert letters(sink) == "PXP"
    times = [event[1] for event in sink.events if event[0] in "PX"]
    assert times == sorted(times)


def test_a_handle_whose_wait_raised_may_be_lost() -> None:
    rec, sink = recorder()
    work = Handle()
    rec.attach(post(rec), work, GROUP)
    with pytest.raises(RuntimeError):
        rec.wait(work, fail, gives_up=False)
    del work
    rec.flush()
    assert letters(sink) == "PWF"


def test_a_handle_whose_future_was_taken_may_be_lost() -> None:
    rec, sink = recorder()
    work = Handle()
    rec.attach(post(rec), work, GROUP)
    rec.escape(work)
    del work
    rec.flush()
    assert letters(sink) == "P"


def test_a_handle_that_is_known_to_have_ended_may_be_lost() -> None:
    rec, sink = recorder()
    work = Handle()
    rec.attach(post(rec), work, GROUP)
    rec.completed(work)
    rec.wait(work, lambda: None, gives_up=False)  # waiting once more is nothing new
    del work
    rec.flush()
    assert letters(sink) == "PD"


def test_a_receive_from_any_source_says_who_sent() -> None:
    rec, sink = recorder()
    work = Handle()
    rec.attach(post(rec, "recv", peer=None, any_source=True), work, GROUP, any_source=True)
    rec.completed(work)
    (op,) = sink.history().ops.values()
    assert op.source == 2


def test_the_operations_of_a_batch_share_a_handle() -> None:
    rec, sink = recorder()
    rec.begin_batch()
    for _ in range(2):
        rec.attach(post(rec), None, GROUP)
    work = Handle()
    rec.end_batch(work)
    rec.wait(work, lambda: None, gives_up=False)
    assert letters(sink) == "PPWWDD"
    assert [op.batch for op in sink.history().ops.values()] == [0, 0]


def test_a_batch_that_is_not_coalesced_has_a_handle_for_each() -> None:
    rec, sink = recorder()
    works = [Handle(), Handle()]
    rec.begin_batch(coalesced=False)
    for work in works:
        rec.attach(post(rec), work, GROUP)
    rec.end_batch(None)
    rec.attach(post(rec), None, GROUP)
    for work in works:
        rec.wait(work, lambda: None, gives_up=False)
    assert letters(sink) == "PPPWDWD"
    assert [op.batch for op in sink.history().ops.values()] == [0, 0, None]


def test_a_buffered_send_ends_at_once_and_its_handle_is_kept() -> None:
    sink = Events()
    rec = Recorder(sink, world=3, buffered=True)
    work = Handle()
    rec.attach(post(rec), work, GROUP, is_send=True)
    assert rec.wait(work, fail, gives_up=False) is True
    del work
    rec.flush()
    assert letters(sink) == "PD"


class Meeting:
    """Holds two threads inside the recorder until both are there, or one cannot come."""

    def __init__(self) -> None:
        self.come = {"posting": threading.Event(), "defining": threading.Event()}

    def __call__(self, me: str, other: str) -> None:
        self.come[me].set()
        self.come[other].wait(0.5)


class SlowAction(Action):
    """An action whose label takes as long as another thread needs."""

    meeting: Meeting

    def __str__(self) -> str:
        self.meeting("defining", "posting")
        return super().__str__()


class SlowTensor:
    """All that the recorder asks of a tensor; its size takes as long as another thread needs."""

    shape, dtype = (1,), "torch.float32"

    def __init__(self, meeting: Meeting) -> None:
        self.meeting = meeting

    def numel(self) -> int:
        self.meeting("posting", "defining")
        return 1


def test_a_thread_that_posts_and_one_that_names_something_new_do_not_wait_for_each_other() -> None:
    rec, sink = recorder()
    post(rec, tag=9)  # the line of both posts is known from here on
    SlowAction.meeting = meeting = Meeting()

    def post_under_an_action() -> None:
        CURRENT.set(SlowAction(0, Kind.F, 0, Origin("plan.py", 3, "rows")))
        post(rec)

    threads = [
        threading.Thread(target=post_under_an_action, daemon=True),
        threading.Thread(target=post, args=(rec,), kwargs={"tensor": SlowTensor(meeting)}),
    ]
    threads[1].daemon = True
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    assert letters(sink) == "PPP"


def test_threads_are_told_apart_and_counted() -> None:
    rec, sink = recorder()
    works = [Handle(), Handle()]
    for work in works:
        rec.attach(post(rec), work, GROUP)

    def wait() -> None:
        rec.wait(works[1], lambda: None, gives_up=False)

    rec.wait(works[0], lambda: None, gives_up=False)
    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    first, second = [event for event in sink.events if event[0] == "W"]
    assert first[3] != second[3]
    assert second[5] == first[5] + 1


def in_a_fork(act: Callable[[], int]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads: meant
        pid = os.fork()
    if pid == 0:
        os._exit(act())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_forked_copy_of_a_rank_records_nothing() -> None:
    rec, sink = recorder()
    post(rec)
    activate(rec)
    try:
        before = len(sink.events)

        def act() -> int:
            post(rec)
            rec.flush()
            return (len(sink.events) - before) * 10 + (active() is not None)

        assert in_a_fork(act) == 0
        assert active() is rec
    finally:
        activate(None)

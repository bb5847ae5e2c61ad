"""The ring loses nothing, mixes up nothing, and outlives its writer."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.ring import HEADER, SLOT, Ring, shared_memory

Event = tuple[Any, ...]


@contextmanager
def ring_of(room: int) -> Iterator[tuple[Ring, Ring]]:
    """Both ends, mapped separately as in two processes, with ``room`` slots for events."""
    fd = shared_memory(HEADER + room * SLOT)
    writer, reader = Ring(fd), Ring(fd)
    os.close(fd)
    try:
        yield writer, reader
    finally:
        writer.close()
        reader.close()


def test_events_come_out_as_they_went_in_and_only_once() -> None:
    events = [("P", 1, None, "all_reduce", (2, 3)), ("W", 2.5, True), ("X", -1, "ü")]
    with ring_of(100) as (writer, reader):
        assert reader.read() == []
        for event in events:
            writer.write(event)
        assert reader.read() == events
        assert reader.read() == []


def test_events_that_run_over_the_end_of_the_memory_come_out_whole() -> None:
    with ring_of(7) as (writer, reader):
        for number in range(200):
            event = ("P", number, "x" * (number % 37))
            writer.write(event)
            assert reader.read() == [event]
        assert reader.backlog == 0


def test_a_frequent_event_is_its_letter_and_its_numbers() -> None:
    with ring_of(3) as (writer, reader):
        for number in range(10):
            writer.put(ord("W"), 1 << 62, number, 2**32 - 1, 3, 4, 5)
            assert reader.read() == [("W", 1 << 62, number, 2**32 - 1, 3, 4, 5)]


def test_a_full_ring_makes_its_writer_wait_for_the_reader() -> None:
    events = [("P", number) for number in range(500)]
    with ring_of(8) as (writer, reader):

        def write_all() -> None:
            for event in events:
                writer.write(event)

        thread = threading.Thread(target=write_all)
        thread.start()
        taken: list[Event] = []
        most = 0.0
        while len(taken) < len(events):
            most = max(most, reader.backlog)
            taken += reader.read()
        thread.join(10)
        assert taken == events
        assert most <= 1


@pytest.mark.parametrize("frequent", [True, False])
def test_a_writer_that_waits_goes_on_as_soon_as_there_is_room(frequent: bool) -> None:
    with ring_of(2) as (writer, reader):
        writer.write(("P", 1))  # takes both slots
        done = threading.Event()

        def write_second() -> None:
            if frequent:
                writer.put(ord("D"), 2, 0)
            else:
                writer.write(("P", 2))
            done.set()

        thread = threading.Thread(target=write_second)
        thread.start()
        assert not done.wait(0.05), "the second event was written over the first"
        assert reader.read() == [("P", 1)]
        assert done.wait(10)
        assert reader.read() == [("D", 2, 0, 0, 0, 0, 0) if frequent else ("P", 2)]
        thread.join()


def test_an_event_larger_than_the_ring_is_refused() -> None:
    with ring_of(4) as (writer, _), pytest.raises(ValueError, match="does not fit in the trace"):
        writer.write(("P", "x" * 200))


def test_written_grows_with_every_event() -> None:
    with ring_of(4) as (writer, reader):
        seen = [reader.written]
        for number in range(50):
            writer.write(("P", number))
            seen.append(reader.written)
            reader.read()
        assert seen == sorted(set(seen))


def test_what_was_written_is_there_after_the_writer_was_killed() -> None:
    fd = shared_memory(HEADER + 64 * SLOT)
    with os.fdopen(fd, "rb"):
        reader = Ring(fd)
        pid = os.fork()
        if pid == 0:
            writer = Ring(fd)
            for number in range(20):
                writer.write(("P", number))
            os.kill(os.getpid(), signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
        assert reader.read() == [("P", number) for number in range(20)]
        reader.close()


def test_a_writer_killed_at_any_moment_leaves_only_whole_events() -> None:
    for _ in range(10):
        fd = shared_memory(HEADER + 8 * SLOT)
        with os.fdopen(fd, "rb"):
            reader = Ring(fd)
            pid = os.fork()
            if pid == 0:
                writer = Ring(fd)
                for number in range(1 << 40):
                    writer.write(("P", number, "x" * (number % 50)))
            taken: list[Event] = []
            while len(taken) < 60:
                taken += reader.read()
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            taken += reader.read()
            assert taken == [("P", n, "x" * (n % 50)) for n in range(len(taken))]
            assert reader.backlog == 0
            reader.close()


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)


@given(
    actions=st.lists(
        st.none()  # a read
        | st.integers(0, 2**32 - 1)  # a frequent event
        | st.lists(values, min_size=1, max_size=4).map(tuple),
        max_size=60,
    ),
    room=st.integers(60, 90),
)
def test_any_mix_of_writes_and_reads_keeps_every_event_in_order(
    actions: list[int | Event | None], room: int
) -> None:
    """A write that might have to wait reads first."""
    written: list[Event] = []
    taken: list[Event] = []
    with ring_of(room) as (writer, reader):
        for action in actions:
            if action is None or reader.backlog > 0.3:
                taken += reader.read()
                assert taken == written
            if isinstance(action, int):
                writer.put(ord("W"), action, action)
                written.append(("W", action, action, 0, 0, 0, 0))
            elif action is not None:
                writer.write(action)
                written.append(action)
        taken += reader.read()
    assert taken == written

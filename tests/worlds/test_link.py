"""The command never waits for a rank that has stopped in the middle of what it says."""

from __future__ import annotations

import pickle
import socket
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection

import pytest

from harness.worlds import link
from harness.worlds.link import Link


@pytest.fixture
def ends() -> Iterator[tuple[Link, socket.socket]]:
    ours, theirs = socket.socketpair()
    made = Link(ours)
    yield made, theirs
    made.close()
    theirs.close()


def test_what_has_come_in_part_waits_for_the_rest(ends: tuple[Link, socket.socket]) -> None:
    ours, theirs = ends
    data = pickle.dumps(["x" * 50_000, 7])
    whole = len(data).to_bytes(4, "big") + data
    for part in (whole[:2], whole[2:4], whole[4:30_000]):
        theirs.sendall(part)
        assert ours.receive() == []
    theirs.sendall(whole[30_000:] + whole[:10])
    assert ours.receive() == [["x" * 50_000, 7]]
    theirs.sendall(whole[10:])
    theirs.close()
    assert ours.receive() == [["x" * 50_000, 7]]
    with pytest.raises(EOFError):
        ours.receive()


def test_a_rank_that_takes_nothing_is_given_up(
    ends: tuple[Link, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "SEND_TIMEOUT_S", 0.1)
    with pytest.raises(TimeoutError):
        ends[0].send("x" * 10_000_000)


@pytest.mark.parametrize("size", [1, 20_000, 3_000_000])
def test_a_rank_reads_and_answers_with_its_own_kind_of_connection(
    ends: tuple[Link, socket.socket], size: int
) -> None:
    ours, theirs = ends
    rank = Connection(theirs.detach())

    def answer() -> None:
        rank.send((rank.recv(), "done"))

    thread = threading.Thread(target=answer)
    thread.start()
    ours.send("x" * size)
    found: list[object] = []
    while not found:
        found = ours.receive()
    thread.join()
    assert found == [("x" * size, "done")]
    rank.close()

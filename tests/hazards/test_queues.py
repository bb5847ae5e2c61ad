"""The rules of NCCL's queues, one by one, and what holds for all programs."""

from __future__ import annotations

import subprocess
import sys
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.hazards.check import CONDITIONS, cause_of, find_hangs
from harness.hazards.queues import Communicator, Queues, Semantics
from harness.hazards.replay import Replay
from harness.hazards.scripts import Script
from harness.hazards.tangle import find_tangle
from harness.worlds.simulated.request import Request
from tests.hazards.programs import drawn, scripts


def ask(rank: int, kind: str, peer: int | None = None, **more: int) -> Request:
    return Request(rank, kind, "0", (0, 1, 2), peer, **more)  # type: ignore[arg-type]


def test_a_send_is_done_when_its_receive_runs_whatever_the_tags() -> None:
    met: list[tuple[Request, Request]] = []
    queues = Queues("nccl-eager", 0, deliver=lambda *pair: met.append(pair))
    send, receive = ask(0, "send", 1, tag=1), ask(1, "recv", 0, tag=2)
    queues.post(send)
    assert [send.done, receive.done] == [False, False]
    queues.post(receive)
    assert [send.done, receive.done] == [True, True]
    assert met == [(send, receive)]
    assert send.match is receive


def test_a_send_that_fits_departs_before_its_receive_and_the_next_waits_for_space() -> None:
    departed: list[Request] = []
    queues = Queues("nccl-eager", 10, depart=departed.append)
    first, second = ask(0, "send", 1, size=8), ask(0, "send", 1, size=8)
    queues.post(first)
    queues.post(second)
    assert (first.done, second.done) == (True, False)
    queues.post(ask(1, "recv", 0, size=8))
    assert second.done
    assert departed == [first, second]


def test_what_stands_behind_a_receive_does_not_begin() -> None:
    queues = Queues("nccl-eager", inf)
    early, send = ask(0, "recv", 1), ask(0, "send", 2)
    queues.post(early)
    queues.post(send)
    assert not send.done
    assert [(each.why, each.request) for each in queues.obstacles(send)] == [("behind", early)]
    assert [(each.why, each.rank) for each in queues.obstacles(early)] == [("counterpart", 1)]
    queues.post(ask(1, "send", 0))
    assert send.done


def test_a_batch_begins_when_it_is_complete_and_its_parts_do_not_wait_for_each_other() -> None:
    queues = Queues("nccl-eager", 0)
    parts = [ask(0, "recv", 1, batch=0), ask(0, "send", 2, batch=0)]
    for part in parts:
        queues.post(part)
    receive = ask(2, "recv", 0)
    queues.post(receive)
    assert [one.done for one in (receive, *parts)] == [False, False, False]
    queues.close_batch(0)
    assert [one.done for one in (receive, *parts)] == [True, False, True]


def test_lazy_pairs_have_a_queue_of_their_own_made_when_both_have_come() -> None:
    queues = Queues("nccl-lazy", inf)
    send = ask(0, "send", 1)
    queues.post(send)
    assert [send.admitted, send.done] == [False, False]
    assert queues.communicator(send) == Communicator("0", (0, 1))
    assert queues.communicator(ask(0, "send", 1, batch=3)) == Communicator("0")
    queues.post(ask(1, "send", 0))
    assert [send.admitted, send.done] == [True, True]


def test_the_root_of_a_broadcast_goes_on_where_there_is_space() -> None:
    for capacity, done in ((0, False), (inf, True)):
        met: list[Request] = []
        queues = Queues("nccl-eager", capacity, meet=lambda one, _: met.append(one))  # noqa: B023
        root = ask(0, "broadcast", root=0)
        queues.post(root)
        assert root.done is done
        for rank in (1, 2):
            queues.post(ask(rank, "broadcast", root=0))
        assert root.done
        assert sorted(one.rank for one in met) == [0, 1, 2]


def test_a_receive_from_any_source_is_refused_and_a_dropped_handle_means_nothing() -> None:
    queues = Queues("nccl-eager", 0)
    with pytest.raises(ValueError, match="no receive from any source"):
        queues.post(ask(0, "recv"))
    send = ask(0, "send", 1)
    queues.post(send)
    queues.withdraw(send)
    queues.post(ask(1, "recv", 0))
    assert send.done


@pytest.mark.parametrize(
    ("rows", "cause", "hangs_at"),
    [
        (["S1 R1", "S0 R0"], "needs-capacity", {("nccl-eager", 0), ("nccl-lazy", 0)}),
        (["s1 R1 w0", "S0 R0"], "needs-capacity", {("nccl-eager", 0), ("nccl-lazy", 0)}),
        (["r1 S1 w0", "R0 S0"], "queue-order", set(CONDITIONS)),
        (["c s1 w0 w1", "R0 C"], "queue-order", set(CONDITIONS)),
        (["R1 S1", "S0 R0"], None, set()),
        (["s1+r1 w0 w1", "s0+r0 w0 w1"], None, set()),
    ],
)
def test_small_programs(
    rows: list[str], cause: str | None, hangs_at: set[tuple[Semantics, float]]
) -> None:
    hangs = find_hangs(scripts(rows))
    assert {(hang.semantics, hang.capacity) for hang in hangs} == hangs_at
    assert [cause_of(hang) for hang in hangs[:1]] == ([cause] if cause else [])


semantics = st.sampled_from(["nccl-eager", "nccl-lazy"])


@given(drawn(), semantics, st.integers(0, 40), st.integers(0, 40))
@settings(max_examples=300)
def test_more_capacity_never_makes_a_program_hang(
    what: list[Script], how: Semantics, one: int, two: int
) -> None:
    less, more = sorted((one, two))
    for smaller, larger in ((0, less), (less, more), (more, inf)):
        if Replay(what, how, smaller).finishes:
            assert Replay(what, how, larger).finishes


@given(drawn(), semantics, st.integers(0, 40), st.data())
@settings(max_examples=200)
def test_the_outcome_does_not_depend_on_which_rank_goes_first(
    what: list[Script], how: Semantics, capacity: int, data: st.DataObject
) -> None:
    straight = Replay(what, how, capacity)
    order = data.draw(st.permutations(range(len(what))))
    other = Replay(what, how, capacity, order=order)
    assert [host.at for host in straight.hosts] == [host.at for host in other.hosts]


@given(drawn(collectives_only=True), semantics, st.sampled_from([0, inf]))
def test_collectives_in_one_order_always_finish(
    what: list[Script], how: Semantics, capacity: float
) -> None:
    assert Replay(what, how, capacity).finishes


@given(drawn(), semantics, st.sampled_from([0, 16, inf]))
@settings(max_examples=200)
def test_every_hang_can_be_told(what: list[Script], how: Semantics, capacity: float) -> None:
    replay = Replay(what, how, capacity)
    tangle = find_tangle(replay)
    assert (tangle is None) is replay.finishes
    if tangle is not None:
        for link, following in zip(tangle.links, tangle.links[1:], strict=False):
            assert link.needs == following.node
        last = tangle.links[-1].needs
        if tangle.is_circle:
            assert last == tangle.links[0].node
        else:
            assert isinstance(last, int)
            assert replay.hosts[last].finished


def test_nothing_here_needs_torch() -> None:
    code = "import sys, harness.hazards, harness.hazards.verdicts; print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"

"""Virtual time of a trace: the published figures, and each rule by itself."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.timeline import Costs, compute_timeline
from pipeline.actions import Kind
from pipeline.plan import build_plan, peak_in_flight
from pipeline.timing import simulate
from tests.checkers.builder import Story
from tests.timeline.plans import compute, trace_of

UNIT = Costs(backward=1)

# world, chunks, makespan, idle of each rank, idle of total, 1F1B's peaks (FACTS: tables)
FIGURES = [
    (2, 4, 10, 2, 0.2, (2, 1)),
    (4, 1, 8, 6, 0.75, (1, 1, 1, 1)),
    (4, 2, 10, 6, 0.6, (2, 2, 2, 1)),
    (4, 4, 14, 6, 0.4286, (4, 3, 2, 1)),
    (4, 8, 22, 6, 0.2727, (4, 3, 2, 1)),
    (8, 16, 46, 14, 0.3043, (8, 7, 6, 5, 4, 3, 2, 1)),
    (8, 32, 78, 14, 0.1795, (8, 7, 6, 5, 4, 3, 2, 1)),
]


@pytest.mark.parametrize(("world", "chunks", "makespan", "idle", "of_total", "peaks"), FIGURES)
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_the_published_figures(
    schedule: str,
    world: int,
    chunks: int,
    makespan: int,
    idle: int,
    of_total: float,
    peaks: tuple[int, ...],
) -> None:
    timeline = compute_timeline(trace_of(schedule, world, chunks), UNIT)
    assert timeline.makespan == makespan
    assert [rank.idle for rank in timeline.ranks] == [idle] * world
    assert timeline.bubble.of_total == pytest.approx(of_total, abs=5e-5)
    assert timeline.bubble.of_ideal == pytest.approx((world - 1) / chunks)
    expected = peaks if schedule == "1f1b" else (chunks,) * world
    assert tuple(rank.peak_in_flight for rank in timeline.ranks) == expected
    assert timeline.exact


@given(
    schedule=st.sampled_from(["naive", "gpipe", "1f1b"]),
    world=st.integers(1, 6),
    chunks=st.integers(1, 9),
    forward=st.integers(0, 5),
    backward=st.integers(0, 5),
)
def test_without_message_costs_it_is_the_plans_own_timing(
    schedule: str, world: int, chunks: int, forward: int, backward: int
) -> None:
    plan = build_plan(schedule, world, chunks)
    timing = simulate(plan, {Kind.F: forward, Kind.B: backward})
    trace = trace_of(schedule, world, chunks)
    for buffered in (False, True):
        costs = Costs(forward=forward, backward=backward)
        timeline = compute_timeline(trace, costs, buffered=buffered)
        assert timeline.makespan == timing.makespan
        assert tuple(rank.idle for rank in timeline.ranks) == timing.idle
        starts = tuple(
            tuple(each.start for each in rank.intervals if each.op is None)
            for rank in timeline.ranks
        )
        assert starts == timing.starts
        peaks = tuple(rank.peak_in_flight for rank in timeline.ranks)
        assert peaks == peak_in_flight(plan)


@pytest.mark.parametrize("policy", ["isend", "blocking"])
def test_with_buffered_sends_every_policy_has_the_plans_timing(policy: str) -> None:
    timing = simulate(build_plan("1f1b", 4, 8))
    timeline = compute_timeline(trace_of("1f1b", 4, 8, policy), UNIT, buffered=True)
    assert timeline.makespan == timing.makespan
    assert tuple(rank.idle for rank in timeline.ranks) == timing.idle


def test_sends_that_wait_for_each_other_wait_to_the_end() -> None:
    story = Story(3)
    for rank in (0, 1):
        compute(story, rank, f"{rank}F0")
        story[rank].send(1 - rank, action=f"{rank}SEND_F0")
    compute(story, 2, "2F0", "2F1", "2F2")
    timeline = compute_timeline(story.trace(), UNIT)
    last = [rank.intervals[-1] for rank in timeline.ranks[:2]]
    assert [(str(w), w.start, w.end, w.endless) for w in last] == [
        ("wait 0SEND_F0", 1, 3, True),
        ("wait 1SEND_F0", 1, 3, True),
    ]
    assert timeline.exact
    assert not compute_timeline(trace_of("1f1b", 2, 4, "blocking"), UNIT).exact  # it says it ended


def message() -> Story:
    """Rank 0 computes and sends 4 float32; rank 1, which was to compute for longer, receives."""
    story = Story(2)
    compute(story, 0, "0F0")
    story[0].send(1, action="0SEND_F0")
    compute(story, 1, "1F7", "1F8", "1F9")
    story[1].recv(0, action="1RECV_F0")
    for rank in (0, 1):
        story[rank].back()
        compute(story, rank, f"{rank}B0")
    return story


def shown(rank: int, costs: Costs, *, buffered: bool = False) -> list[tuple[str, float, float]]:
    timeline = compute_timeline(message().trace(), costs, buffered=buffered)
    return [(str(each), each.start, each.end) for each in timeline.ranks[rank].intervals]


def test_a_send_waits_for_its_receive_and_both_for_the_bytes() -> None:
    costs = Costs(backward=1, latency=0.5, bandwidth=8)
    assert shown(0, costs) == [("0F0", 0, 1), ("wait 0SEND_F0", 1, 5.5), ("0B0", 5.5, 6.5)]
    assert shown(1, costs)[3:] == [("wait 1RECV_F0", 3, 5.5), ("1B0", 5.5, 6.5)]


def test_a_buffered_send_goes_on_and_its_message_is_under_way_meanwhile() -> None:
    costs = Costs(backward=1, latency=0.5, bandwidth=8)
    assert shown(0, costs, buffered=True) == [("0F0", 0, 1), ("0B0", 1, 2)]
    assert shown(1, costs, buffered=True)[3:] == [("wait 1RECV_F0", 3, 3.5), ("1B0", 3.5, 4.5)]


def test_the_figures_say_what_is_idle_and_what_is_hidden() -> None:
    costs = Costs(backward=1, latency=0.5, bandwidth=8)
    timeline = compute_timeline(message().trace(), costs, buffered=True)
    assert (timeline.makespan, [r.busy for r in timeline.ranks]) == (4.5, [2, 4])
    assert [rank.idle for rank in timeline.ranks] == [2.5, 0.5]
    assert (timeline.bubble.of_total, timeline.bubble.of_ideal) == (3 / 9, 3 / 6)
    # under way from 1 to 3.5; the sender computes for 1 of it, the receiver for 2
    assert timeline.overlap == 3 / 5
    assert [(r.start, r.end) for r in timeline.ranks] == [(0, 2), (0, 4.5)]
    assert compute_timeline(message().trace()).overlap is None
    figures = json.loads(json.dumps(timeline.to_json(), allow_nan=False))
    assert figures["ranks"][1]["waiting"] == 0.5
    assert figures["costs"] == "F=1,B=1,I=1,W=1,latency=0.5,bandwidth=8"


def test_a_collective_ends_when_its_last_needed_part_is_posted() -> None:
    story = Story(3)
    for rank in range(3):
        compute(story, rank, *(f"{rank}F{m}" for m in range(rank + 1)))
        story[rank].barrier()
        story[rank].back()
    timeline = compute_timeline(story.trace())
    assert [[(w.start, w.end) for w in rank.waiting] for rank in timeline.ranks] == [
        [(1, 3)],
        [(2, 3)],
        [],
    ]


def test_the_root_of_a_broadcast_need_not_be_waited_for_by_nccls_other_ranks() -> None:
    story = Story(2)
    compute(story, 1, "1F0")
    for rank in range(2):
        story[rank].collective("broadcast", root=0)
        story[rank].back()
    assert len(compute_timeline(story.trace()).ranks[0].waiting) == 1
    assert compute_timeline(story.trace(), backend="nccl").ranks[0].waiting == ()


def test_halves_of_a_backward_cost_their_own_and_w_frees_the_activation() -> None:
    story = Story(1)
    compute(story, 0, "0F0", "0F1", "0I0", "0W0", "0I1", "0W1")
    (rank,) = compute_timeline(story.trace(), Costs(input=2, weight=3)).ranks
    assert (rank.end, rank.busy, rank.peak_in_flight) == (12, 12, 2)


def test_a_wait_that_ended_unexplained_takes_no_time_and_is_told() -> None:
    """Another thread of rank 0 sent while the first one waited."""
    story = Story(2)
    receive = story[0].irecv(1)
    story[0].wait(receive)
    story[0].isend(1)
    story[1].recv(0)
    story[1].back()
    story[1].send(0)
    story[1].back()
    story[0].back()
    timeline = compute_timeline(story.trace())
    assert (timeline.exact, timeline.makespan) == (False, 0)


def test_a_trace_whose_beginning_was_forgotten_is_not_exact() -> None:
    trace = trace_of("gpipe", 2, 2)
    del trace.ranks[0].ops[0]
    assert not compute_timeline(trace).exact


def test_the_order_in_which_ranks_are_read_changes_nothing() -> None:
    story = message()
    shuffled = story.trace(shuffled=random.Random(1))
    assert compute_timeline(story.trace()).to_json() == compute_timeline(shuffled).to_json()


def test_a_trace_of_nothing_has_no_fractions() -> None:
    timeline = compute_timeline(Story(2).trace())
    assert timeline.makespan == 0
    assert (timeline.bubble.of_total, timeline.bubble.of_ideal) == (None, None)
    assert json.dumps(timeline.to_json(), allow_nan=False)


def test_many_operations_are_no_depth_and_no_square() -> None:
    story = Story(2)
    for _ in range(2000):
        for rank in (0, 1):
            post = story[0].send if rank == 0 else story[1].recv
            post(1 - rank)
            story[rank].back()
            compute(story, rank, f"{rank}F0")
    assert compute_timeline(story.trace()).makespan == 2000


def test_the_viewers_trace_has_a_row_for_each_rank() -> None:
    timeline = compute_timeline(message().trace(), Costs(latency=1))
    chrome = json.loads(json.dumps(timeline.to_chrome(), allow_nan=False))
    events = chrome["traceEvents"]
    rows = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert rows == {0: "rank 0", 1: "rank 1"}
    spans = [e for e in events if e["ph"] == "X"]
    assert (spans[0]["name"], spans[0]["ts"], spans[0]["dur"], spans[0]["tid"]) == (
        "0F0",
        0,
        1000,
        0,
    )
    waits = [e for e in spans if e["cat"] == "wait"]
    assert {e["tid"] for e in waits} == {0, 1}
    assert all(e["args"]["at"].startswith("program.py:") for e in waits)
    begin, end = (e for e in events if e.get("cat") == "message")
    assert (begin["ph"], end["ph"], begin["id"]) == ("b", "e", end["id"])
    assert begin["name"] == "0SEND_F0 0 → 1"


def test_costs_are_read_and_printed_back() -> None:
    text = "F=1,B=2.5,I=1,W=1.5,latency=0.25,bandwidth=1000"
    costs = Costs.parse(text)
    assert costs == Costs(1, 2.5, 1, 1.5, 0.25, 1000)
    assert str(costs) == text
    assert Costs.parse(" B = 3 ") == Costs(backward=3)
    assert Costs.parse(str(Costs())) == Costs()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "'' is not NAME=NUMBER"),
        ("F", "'F' is not NAME=NUMBER"),
        ("F=x", "'F=x' is not NAME=NUMBER"),
        ("F=nan", "is not NAME=NUMBER"),
        ("G=1", "one of the names F, B, I, W, latency, bandwidth"),
        ("F=1,F=2", "F is given twice"),
        ("F=-1", "F=-1: a finite number from 0 up is allowed"),
        ("latency=inf", "latency=inf: a finite number from 0 up is allowed"),
        ("bandwidth=0", "bandwidth=0: a number above 0, or inf, is allowed"),
    ],
)
def test_costs_that_cannot_be_are_refused_in_one_line(text: str, told: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the message is the point
        Costs.parse(text)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("float64", 8), ("bfloat16", 2), ("int8", 1), ("bool", 1), ("float8_e4m3fn", 1), ("", 0)],
)
def test_a_message_is_as_long_as_its_elements(dtype: str, size: int) -> None:
    story = Story(2)
    op = story[0].isend(1, shape=(3, 5), dtype=dtype)
    assert Costs(bandwidth=1).transfer(story.trace().ranks[0].ops[op]) == 15 * size

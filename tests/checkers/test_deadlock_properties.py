"""On random programs the proof agrees with a reference: no false alarm, nothing overlooked."""

from __future__ import annotations

import random

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from harness.checkers.deadlock import check, find_stuck
from tests.checkers.rendezvous import Programs, Run, Step, Watcher, moves, programs

seeds = st.integers(0, 1000)


@given(programs(), seeds)
@settings(max_examples=200)
def test_exactly_the_ranks_that_never_go_on_are_stuck(what: Programs, seed: int) -> None:
    choices = random.Random(seed)
    run = Run(what, choices)
    watcher = Watcher(run)
    for _ in moves(run, choices):
        watcher.look(choices)
    blocked = {rank for rank, place in enumerate(run.places) if not place.ended}
    assert watcher.look(choices) == blocked
    event("some are stuck" if blocked else "all end")
    final = run.progress()
    assert [claim for claim in watcher.claims if claim[1] != final[claim[0]]] == []


@given(programs(any_source=True), seeds, st.booleans())
@settings(max_examples=200)
def test_no_rank_that_later_goes_on_is_ever_called_stuck(
    what: Programs, seed: int, torn: bool
) -> None:
    """Whatever takes a message from any source, and while ranks go on as they are being read."""
    choices = random.Random(seed)
    run = Run(what, choices)
    watcher = Watcher(run)
    for _ in moves(run, choices):
        watcher.look(choices, torn=torn)
    watcher.look(choices)
    final = run.progress()
    assert [claim for claim in watcher.claims if claim[1] != final[claim[0]]] == []


TAKEN_BY_A_DROPPED_ONE = Programs(
    (
        (
            Step("send", 1, group="pair", name=2),
            Step("barrier"),
            Step("send", 1, group="pair", name=4),
            Step("barrier"),
        ),
        (
            Step("irecv", None, group="pair", name=1),
            Step("drop", name=1),
            Step("irecv", 0, group="pair", name=2),
            Step("barrier"),
            Step("recv", 0, group="pair", name=4),
        ),
    ),
    {"0": (0, 1), "pair": (0, 1)},
)


PASSED_OVER_BY_A_LATER_ONE = Programs(
    (
        (
            Step("isend", 1, name=1),
            Step("wait", name=1),
            Step("send", 1, name=3),
            Step("isend", 1, name=2),
            Step("drop", name=2),
            Step("send", 1, name=4),
            Step("send", 1, name=5),
        ),
        (
            Step("irecv", None, name=2),
            Step("recv", 0, name=1),
            Step("recv", 0, name=3),
            Step("recv", None, name=4),
            Step("wait", name=2),
            Step("recv", 0, name=5),
        ),
    ),
    {"0": (0, 1)},
)


@given(programs(any_source=True), seeds)
@settings(max_examples=300)
@example(TAKEN_BY_A_DROPPED_ONE, 0)
@example(PASSED_OVER_BY_A_LATER_ONE, 0)
def test_what_met_for_certain_did_meet_whatever_takes_from_any_source(
    what: Programs, seed: int
) -> None:
    """Waits come in any order, drops and failures among them."""
    choices = random.Random(seed)
    run = Run(what, choices)
    watcher = Watcher(run)
    for _ in moves(run, choices):
        watcher.look(choices)
    watcher.look(choices)
    really = run.pairs()
    assert [pair for pair in watcher.met if really.get(pair[0]) != pair[1]] == []
    event(
        "wildcards"
        if any(s.do.endswith("recv") and s.peer is None for steps in what.steps for s in steps)
        else "named only"
    )


@given(programs(), seeds)
def test_where_every_source_is_named_all_that_met_is_certain(what: Programs, seed: int) -> None:
    choices = random.Random(seed)
    run = Run(what, choices)
    watcher = Watcher(run)
    for _ in moves(run, choices):
        pass
    watcher.look(choices)
    assert dict(watcher.met) == run.pairs()


@given(programs(), seeds)
@settings(max_examples=60)
def test_the_verdict_does_not_depend_on_the_order_of_reading(what: Programs, seed: int) -> None:
    choices = random.Random(seed)
    run = Run(what, choices)
    for _ in moves(run, choices):
        pass
    straight = find_stuck(run.story.trace())
    mixed = find_stuck(run.story.trace(shuffled=choices))
    assert {rank: [item.missing for item in waits] for rank, waits in straight.items()} == {
        rank: [item.missing for item in waits] for rank, waits in mixed.items()
    }


@given(programs(), seeds)
@settings(max_examples=60)
def test_whatever_is_stuck_behind_no_failed_rank_has_a_finding(what: Programs, seed: int) -> None:
    choices = random.Random(seed)
    run = Run(what, choices)
    for _ in moves(run, choices):
        pass
    trace = run.story.trace()
    stuck, finding = find_stuck(trace), check(trace)
    failed = any(step.do in ("raises", "dies") for steps in what.steps for step in steps)
    if stuck and not failed:
        assert finding is not None
    if not stuck:
        assert finding is None
    if finding is not None:
        assert set(finding.ranks) <= stuck.keys()

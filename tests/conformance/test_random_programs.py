"""Random programs come to the same on simulated ranks as on gloo's."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from harness.api import shared_world
from tests.conformance.interpreter import Action, Script
from tests.conformance.random_programs import compare, scripts
from tests.conformance.view import run, view
from tests.torch_versions import since

FORMER_DISAGREEMENTS = [
    # A monitored barrier uses up numbers of the group's collectives.
    Script(
        (
            (Action("monitored_barrier", 1), Action("all_reduce", 2, waits=False)),
            (Action("all_reduce", 2, waits=False), Action("monitored_barrier", 1)),
        )
    ),
    # It is made of messages, which meet the program's own under the same tag.
    Script(
        (
            (Action("monitored_barrier", 1), Action("recv", 2, peer=1)),
            (Action("send", 2, peer=0), Action("monitored_barrier", 1)),
        )
    ),
    # gloo makes a reduce_scatter of all_reduces.
    Script(
        (
            (Action("reduce_scatter", 1), Action("all_reduce", 2)),
            (Action("all_reduce", 2), Action("reduce_scatter", 1)),
        )
    ),
    # An all_gather of nothing waits for nobody, a broadcast of nothing does.
    Script(((Action("all_gather", 1, count=0),), ())),
    Script(((Action("broadcast", 1, peer=0, count=0),), ())),
    # From any source, gloo refuses an empty receive.
    Script(((Action("from_any", 1, count=0),), (Action("send", 1, peer=0, count=0),))),
    # A dropped receive takes its message along, and all that follows.
    Script(
        (
            (Action("irecv", 1, peer=1), Action("drop", 1), Action("barrier", 2)),
            (Action("barrier", 2), Action("send", 3, peer=0), Action("barrier", 4)),
        )
    ),
    # A rank that gloo aborts may have raised by itself before it is.
    Script(
        (
            (Action("send", 1, peer=1, count=6),),
            (Action("irecv", 1, peer=0, count=3), Action("raise")),
        )
    ),
]


@pytest.mark.gloo
@pytest.mark.parametrize("script", FORMER_DISAGREEMENTS, ids=range(len(FORMER_DISAGREEMENTS)))
def test_where_the_worlds_once_disagreed_they_agree(script: Script) -> None:
    verdict = compare(script)
    assert verdict.holds, str(verdict)


@since("2.9", "has a gloo without all_to_all, and without averages")
@pytest.mark.gloo
@given(scripts())
@settings(
    max_examples=60,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_a_random_program_comes_to_the_same_on_both(script: Script) -> None:
    verdict = compare(script)
    event(verdict.gloo.ending)
    assert verdict.holds, str(verdict)


@given(scripts(right=True), st.integers(0, 1000))
@settings(max_examples=50, derandomize=True, database=None, deadline=None)
def test_a_right_program_finishes_without_an_error_whatever_the_order(
    script: Script, seed: int
) -> None:
    ways = ["", f"random:{seed}", f"choices:{random.Random(seed).randrange(4)}.1.2.0.1.3.2"]
    outcomes = [run(shared_world("sim"), script, len(script.ranks), interleaving=w) for w in ways]
    views = [view(outcome) for outcome in outcomes]
    assert [one.ending for one in views] == ["finished"] * len(ways)
    assert [f for one in views for f in one.findings if f[1] == "error"] == []
    assert [one.ranks for one in views] == [views[0].ranks] * len(ways)

"""What real ranks recorded gives the same figures as the plan: nothing is measured."""

from __future__ import annotations

import pytest

from harness.case import Case
from harness.execute import program_of
from harness.session import shared_world
from harness.targets import parse_target
from harness.timeline import Costs, compute_timeline
from tests.timeline.plans import trace_of

pytestmark = pytest.mark.gloo


@pytest.mark.parametrize("target", ["1f1b", "gpipe", "examples/one_f_one_b_isend.py:step"])
def test_a_recorded_step_has_the_published_figures(target: str) -> None:
    case = Case(target, 4, chunks=4, steps=1, policy="async")
    program = program_of(parse_target(target, for_command="check"), case)
    outcome = shared_world("gloo").run(program, 4, timeout=60)
    assert outcome.ending == "finished"
    timeline = compute_timeline(outcome.trace, Costs(backward=1))
    assert timeline.exact
    assert timeline.makespan == 14
    assert [rank.idle for rank in timeline.ranks] == [6] * 4
    expected = [4, 4, 4, 4] if target == "gpipe" else [4, 3, 2, 1]
    assert [rank.peak_in_flight for rank in timeline.ranks] == expected


def test_the_told_story_of_a_plan_is_what_its_ranks_do() -> None:
    case = Case("1f1b", 3, chunks=5, steps=1, policy="async")
    program = program_of(parse_target("1f1b", for_command="check"), case)
    recorded = shared_world("gloo").run(program, 3, timeout=60).trace
    costs = Costs(latency=0.25)
    real, told = (
        compute_timeline(trace, costs).to_json() for trace in (recorded, trace_of("1f1b", 3, 5))
    )
    assert real == told

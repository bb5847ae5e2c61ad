"""Which rank goes on is decided by the case; time passes only where all wait for it."""

from __future__ import annotations

import pytest

import harness
from harness.case import CaseError
from harness.worlds import Simulated, World
from harness.worlds.simulated import interleavings
from tests.programs import correct, simulated
from tests.worlds.call import Function
from tests.worlds.running import assert_clean, line_of, run, the_finding

PROGRAM = f"{simulated.__file__}:breaks_in_one_order"


@pytest.mark.parametrize(
    "text",
    ["random", "random:", "random:-1", "random:x", "random:1 ", "choices:1,2", "choices:.1",
     "choices:1.", "round", " ", "random:1234567890123456789", "choices:12345"],
)  # fmt: skip
def test_a_text_that_names_no_interleaving_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="random:NUMBER"):
        interleavings.read(text)
    with pytest.raises((CaseError, ValueError)):
        harness.replay(f"{PROGRAM} world=4 interleaving={text or 'x'!r} seed=0")


def test_a_walk_meets_every_sequence_of_choices_once() -> None:
    def widths(choices: list[int]) -> list[int]:
        """A choice of three, and behind the middle one a choice of two."""
        first = choices[0] if choices else 0
        return [3, 2] if first == 1 else [3, 3]

    choices: list[int] | None = []
    seen = []
    while choices is not None:
        padded = (*choices, 0, 0)[:2]
        seen.append(padded)
        choices = interleavings.following(choices, widths(choices))
    assert seen == sorted(set(seen))
    assert len(seen) == 3 + 2 + 3


def test_choices_beyond_what_there_is_take_the_last() -> None:
    chosen = interleavings.read("choices:9.0.1")
    assert [chosen.choose(2), chosen.choose(1), chosen.choose(3), chosen.choose(2)] == [1, 0, 0, 1]
    assert list(chosen.met) == [2, 3, 2]


def test_a_fault_of_one_order_only_is_found_and_its_case_replays_it() -> None:
    assert_clean(run(harness.api.shared_world("sim"), simulated.breaks_in_one_order, 4))
    report = harness.run(PROGRAM, 4, confirm=False)
    (finding,) = [f for f in report.findings if f.severity == "error"]
    assert (finding.code, finding.ranks) == ("rank-error", (0,))
    assert finding.operations[0].line == line_of(simulated.breaks_in_one_order, "raises")
    assert "interleaving=" in str(finding.case)
    again = harness.replay(str(finding.case))
    assert [(f.code, f.message) for f in again.failures] == [(finding.code, finding.message)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "function", [correct.everything, correct.from_anyone, correct.waits_in_another_order]
)
def test_a_right_program_is_right_in_any_interleaving(
    sim: World, function: Function, seed: int
) -> None:
    size = 2 if function is correct.waits_in_another_order else 3
    assert_clean(run(sim, function, size, simulated=Simulated(interleaving=f"random:{seed}")))


@pytest.mark.parametrize("interleaving", ["", "random:1", "choices:"])
def test_time_passes_at_once_where_all_sleep(sim: World, interleaving: str) -> None:
    how = Simulated(interleaving=interleaving)
    outcome = run(sim, simulated.sleeps_a_thousand_seconds, simulated=how)
    assert_clean(outcome)
    assert [rank.result for rank in outcome.ranks] == [True, True]


@pytest.mark.parametrize(
    "function",
    [
        simulated.one_sleeps_while_the_other_waits,
        correct.polls_until_it_is_there,
        correct.waits_with_a_limit,
        correct.takes_the_future,
        correct.lets_a_group_time_out,
    ],
)
def test_a_rank_that_sleeps_or_polls_is_no_deadlock(sim: World, function: Function) -> None:
    for name in ("", "random:1", "random:2"):
        assert_clean(run(sim, function, simulated=Simulated(interleaving=name)))


def test_a_wait_with_a_limit_gives_up_in_virtual_time(sim: World) -> None:
    outcome = run(sim, correct.waits_with_a_limit)
    assert outcome.ranks[0].result == "gave up"


def test_a_sleep_beyond_the_timeout_is_one(sim: World) -> None:
    assert the_finding(run(sim, simulated.sleeps_for_long, timeout=60)).code == "timeout"
    assert_clean(run(sim, simulated.sleeps_for_long, timeout=2000))

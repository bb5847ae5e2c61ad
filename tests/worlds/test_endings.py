"""However a rank ends, the outcome says so, and the world can be used again."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from harness.findings import Finding
from harness.worlds import Outcome, Program, RankContext, World, WorldError
from tests.programs import correct, endings, messages
from tests.torch_versions import since
from tests.worlds.call import Function
from tests.worlds.running import (
    assert_clean,
    assert_gone,
    findings,
    line_of,
    run,
    the_finding,
)

QUIET = since("2.9", "has a gloo that prints a line when it connects")

pytestmark = pytest.mark.gloo


@pytest.fixture(autouse=True)
def usable_afterwards(gloo: World) -> Iterator[None]:
    yield
    assert_clean(run(gloo, correct.everyone_counts))


def statuses(outcome: Outcome) -> list[int | None]:
    return [rank.exit_status for rank in outcome.ranks]


def test_the_exit_status_of_a_killed_rank_is_its_signal(gloo: World) -> None:
    assert statuses(run(gloo, endings.killed, 3))[1] == -9


def test_a_rank_that_left_by_os_exit_has_its_status(gloo: World) -> None:
    assert statuses(run(gloo, endings.leaves_without_a_word))[0] == 3


def test_a_rank_that_exits_with_a_status_has_raised(gloo: World) -> None:
    outcome = run(gloo, endings.exits_with_status_3)
    assert statuses(outcome) == [3, 3]
    finding = the_finding(outcome)
    assert (finding.code, finding.ranks) == ("rank-error", (0, 1))
    assert "exited with status 3" in finding.message


def test_a_rank_that_raised_ends_with_status_1(gloo: World) -> None:
    assert statuses(run(gloo, endings.all_raise)) == [1, 1]


def test_a_rank_killed_by_the_backend_has_its_signal(gloo: World) -> None:
    assert statuses(run(gloo, messages.buffer_too_small))[1] == -6


def raised(outcome: Outcome) -> Finding:
    finding = the_finding(outcome)
    assert finding.code == "rank-error"
    return finding


def test_a_recursion_without_end_is_the_rank_s_own_error(gloo: World) -> None:
    finding = raised(run(gloo, endings.recurses))
    assert "RecursionError" in finding.message
    assert finding.operations[0].line == line_of(endings.recurses, "deeper")
    assert len(finding.details["traceback"].splitlines()) < 50


def test_an_error_whose_text_cannot_be_had_is_still_told(gloo: World) -> None:
    finding = raised(run(gloo, endings.raises_what_cannot_be_printed))
    assert "MuteError" in finding.message


def test_an_error_that_cannot_be_pickled_is_still_told(gloo: World) -> None:
    assert "LocalError: local" in raised(run(gloo, endings.raises_what_cannot_be_pickled)).message


def test_a_result_that_cannot_be_pickled_is_an_error_of_its_rank(gloo: World) -> None:
    finding = raised(run(gloo, endings.returns_what_cannot_be_pickled))
    assert "pickle" in finding.message
    assert finding.ranks == (0, 1)


def test_a_result_that_cannot_be_unpickled_is_an_error_of_its_rank(gloo: World) -> None:
    finding = raised(run(gloo, endings.returns_what_cannot_be_unpickled))
    assert "poisoned" in finding.message


def test_a_program_that_cannot_be_pickled_is_refused_with_the_reason(gloo: World) -> None:
    lock = threading.Lock()

    def program(context: RankContext) -> bool:
        return lock.locked()

    with pytest.raises(WorldError, match=r"cannot be sent to its ranks.*pickle"):
        gloo.run(Program(program), 1, timeout=60)


def test_a_forked_child_that_returns_does_not_speak_for_its_rank(gloo: World) -> None:
    outcome = run(gloo, endings.forks_and_both_return)
    assert outcome.ending == "finished"
    assert all(isinstance(rank.result, int) for rank in outcome.ranks)


def test_what_a_forked_child_calls_is_no_part_of_the_rank_s_history(gloo: World) -> None:
    outcome = run(gloo, endings.forked_child_communicates)
    assert_clean(outcome)
    assert [op.kind for op in outcome.trace.operations()] == ["barrier", "barrier"]


def test_a_child_of_a_rank_ends_with_the_case(gloo: World) -> None:
    outcome = run(gloo, endings.starts_a_child)
    assert_clean(outcome)
    assert_gone([rank.result for rank in outcome.ranks])


@QUIET
def test_a_child_of_a_rank_that_died_ends_with_it(gloo: World) -> None:
    outcome = run(gloo, endings.starts_a_child_and_dies)
    assert {finding.code for finding in findings(outcome)} == {"rank-death"}
    assert_gone([int(rank.output) for rank in outcome.ranks])


def test_a_thread_that_outlives_its_program_does_not_get_into_the_next_case(gloo: World) -> None:
    late = run(gloo, endings.leaves_a_thread_that_communicates)
    assert late.ending == "finished"
    outcome = run(gloo, endings.slow_rank)  # long enough for the thread to go on, if it could
    assert_clean(outcome)
    assert len(outcome.trace.operations()) == 2


@pytest.mark.parametrize("function", [endings.sleeps, messages.loops_for_ever])
def test_ranks_that_hang_are_killed(gloo: World, function: Function) -> None:
    outcome = run(gloo, function, timeout=0.3)
    assert outcome.ending == "timeout"
    assert not any(rank.finished for rank in outcome.ranks)

"""Ranks that fail: one root cause, one finding, and what follows from it folded in."""

from __future__ import annotations

from typing import Any

import pytest

from harness.case import Case
from harness.checkers.dragged import is_refusal_of_arguments
from harness.checkers.errors import check_errors, check_timeout
from harness.findings import Finding
from harness.judge import judge
from harness.trace import Frame, RankError
from harness.worlds import Ending, Outcome, RankOutcome
from tests.checkers.builder import FILE, Story

CLOSED = "[tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:22427"


def error(
    text: str,
    at: int,
    *,
    line: int = 1,
    in_comm: bool = False,
    refused: bool = False,
    kind: str = "RuntimeError",
) -> RankError:
    frames = (Frame(FILE, line, "step"),)
    return RankError(kind, text, frames, at, in_comm=in_comm, refused=refused)


def outcome(
    story: Story,
    errors: dict[int, RankError] | None = None,
    statuses: dict[int, int] | None = None,
    ending: Ending = "failed",
) -> Outcome:
    ranks = [RankOutcome(rank) for rank in range(story.world_size)]
    for rank, what in (errors or {}).items():
        story[rank].raises()
        ranks[rank].error = what
    for rank, status in (statuses or {}).items():
        story[rank].dies()
        ranks[rank].exit_status = status
    return Outcome(story.trace(), ranks, ending, 0.1, timeout_s=3)


def the(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


def judged(case: Outcome) -> Finding:
    return the(judge(case, Case("program", 2)))


def test_a_dragged_along_error_is_folded_into_the_death_that_dragged_it() -> None:
    case = outcome(Story(3), {r: error(CLOSED, 5, in_comm=True) for r in (0, 2)}, {1: -9})
    finding = the(check_errors(case))
    assert (finding.code, finding.ranks) == ("rank-death", (1,))
    assert finding.message == "rank 1 was killed by SIGKILL"
    assert finding.details["dragged_along"] == [0, 2]


def test_a_death_read_late_comes_before_the_requests_that_it_dropped() -> None:
    story = Story(2)
    sent = story[0].isend(1)
    broken = error(CLOSED, story.now + 1, in_comm=True)
    story[0].drops(sent)  # as the error unwinds; only then is the dead rank's status read
    finding = judged(outcome(story, {0: broken}, {1: -9}))
    assert (finding.code, finding.ranks) == ("rank-death", (1,))


def test_a_dragged_along_error_is_folded_into_the_error_that_dragged_it() -> None:
    errors = {0: error(CLOSED, 1, in_comm=True), 1: error("mine", 9, kind="KeyError")}
    finding = the(check_errors(outcome(Story(2), errors)))
    assert (finding.ranks, finding.message) == ((1,), "rank 1 raised KeyError: mine")


def test_errors_that_all_look_dragged_along_are_told_rather_than_none() -> None:
    errors = {0: error(CLOSED, 1, in_comm=True), 1: error(CLOSED, 2, in_comm=True)}
    assert the(check_errors(outcome(Story(2), errors))).ranks == (0, 1)


def test_the_same_words_from_the_program_itself_are_its_own_error() -> None:
    errors = {0: error("database: connection closed", 1), 1: error("mine", 2, line=7)}
    findings = check_errors(outcome(Story(2), errors))
    assert [finding.ranks for finding in findings] == [(0,), (1,)]


def test_ranks_that_raise_at_the_same_line_are_one_finding() -> None:
    errors = {rank: error(f"rank {rank} is unhappy", rank) for rank in range(3)}
    finding = the(check_errors(outcome(Story(3), errors)))
    assert (finding.code, finding.ranks) == ("rank-error", (0, 1, 2))
    assert [op.rank for op in finding.operations] == [0, 1, 2]


def test_calls_refused_for_the_same_reason_are_one_finding_at_several_lines() -> None:
    errors = {
        rank: error("Tag must be nonnegative", rank, line=rank, in_comm=True, refused=True)
        for rank in (0, 1)
    }
    finding = the(check_errors(outcome(Story(2), errors)))
    assert (finding.code, finding.ranks) == ("invalid-argument", (0, 1))
    assert [op.line for op in finding.operations] == [0, 1]


def test_of_two_errors_the_first_by_the_clock_is_the_cause() -> None:
    errors = {0: error("late", 900, line=1), 1: error("early", 100, line=2)}
    finding = judged(outcome(Story(2), errors))
    assert finding.message == "rank 1 raised RuntimeError: early"
    assert finding.details["followed_by"] == ["rank-error: rank 0 raised RuntimeError: late"]


def test_a_receive_buffer_too_small_and_the_abort_that_follows_are_one_finding() -> None:
    story = Story(2)
    story[0].send(1, shape=(8,))
    story[0].back()
    story[1].recv(0, shape=(4,))
    story[0].finishes()
    finding = judged(outcome(story, statuses={1: -6}))
    assert finding.code == "shape-mismatch"
    assert finding.details["followed_by"] == ["rank-death: rank 1 was killed by SIGABRT"]


def test_ranks_that_wait_for_one_that_raised_are_no_findings_of_their_own() -> None:
    story = Story(3)
    story[0].barrier()
    story[1].recv(2)
    case = outcome(story, {2: error("mine", 9)}, ending="stuck")
    assert judged(case).ranks == (2,)


def test_a_warning_about_the_lines_of_the_cause_is_left_out() -> None:
    story = Story(2)
    story[0].drops(story[0].isend(1, line=1))  # never received: an error
    story[1].recv(0, line=2)
    case = outcome(story, ending="stuck")
    assert {finding.code for finding in judge(case, Case("program", 2))} == {"dropped-request"}


@pytest.mark.parametrize(
    ("status", "words"), [(-9, "killed by SIGKILL"), (3, "status 3"), (-64, "signal 64")]
)
def test_a_death_says_how(status: int, words: str) -> None:
    case = outcome(Story(2), statuses={0: status})
    if words == "signal 64":
        words = "killed by"  # some systems have a name for it
    assert words in the(check_errors(case)).message


def test_a_death_shows_the_last_operation_and_the_last_output() -> None:
    story = Story(2)
    story[0].isend(1, line=4)
    story[0].recv(1, line=5)
    case = outcome(story, statuses={0: 1})
    case.ranks[0].output = "".join(f"line {n}\n" for n in range(9))
    finding = the(check_errors(case))
    assert [op.line for op in finding.operations] == [5]
    assert finding.details["output"] == [f"line {n}" for n in range(4, 9)]


def test_an_abort_in_a_collective_with_splits_says_to_compare_them() -> None:
    story = Story(2)
    for rank in (0, 1):
        story[rank].collective("all_to_all_single", splits=True)
    finding = the(check_errors(outcome(story, statuses={1: -6})))
    assert (finding.code, finding.ranks) == ("rank-death", (1,))
    assert "compare the splits of all_to_all_single" in finding.help
    killed = Story(2)
    killed[1].collective("all_to_all_single", splits=True)
    assert "splits" not in the(check_errors(outcome(killed, statuses={1: -9}))).help


def test_a_second_wait_for_a_message_is_named_where_a_first_one_has_ended() -> None:
    story = Story(2)
    send = story[0].isend(1)
    story[1].recv(0)
    story[0].wait(send)
    story[0].back()
    assert "a second wait" in the(check_timeout(outcome(story, ending="timeout"))).help
    assert "a second wait" not in the(check_timeout(outcome(Story(2), ending="timeout"))).help


def test_an_outcome_without_failures_has_none() -> None:
    assert check_errors(outcome(Story(2))) == []


def test_time_that_ran_out_is_told_with_where_the_ranks_were() -> None:
    story = Story(3)
    story[0].barrier(line=3)
    story[2].finishes()
    case = outcome(story, ending="timeout")
    case.ranks[1].stack = (Frame(FILE, 7, "outer"), Frame(FILE, 8, "inner"))
    finding = the(check_timeout(case))
    assert (finding.code, finding.ranks) == ("timeout", (0, 1))
    assert "for 3 s" in finding.message
    assert [(op.op, op.line) for op in finding.operations] == [("barrier", 3), ("running", 8)]
    assert finding.details["stacks"]["1"] == [f"{FILE}:7 in outer", f"{FILE}:8 in inner"]


@pytest.mark.parametrize("ending", ["finished", "stuck", "failed", "interrupted"])
def test_only_a_timeout_is_a_timeout(ending: Ending) -> None:
    assert check_timeout(outcome(Story(2), ending=ending)) == []


def test_every_finding_bears_the_case_that_replays_it() -> None:
    case = Case("program.py:step", 2, seed=7)
    (finding,) = judge(outcome(Story(2), {0: error("mine", 1)}), case)
    assert finding.case == str(case)


def suspected_deadlock(**wait: Any) -> Story:
    story = Story(2)
    story[0].recv(1, line=3)
    story[1].wait(story[1].irecv(0, line=4), **wait)
    return story


@pytest.mark.parametrize(
    ("wait", "reason"),
    [({"others": 1}, "rank 1 has another thread, which may still post"),
     ({"gives_up": True}, "rank 1's wait has a timeout of its own")],
)  # fmt: skip
def test_a_circle_that_is_not_proved_is_a_timeout_that_says_what_it_looks_like(
    wait: dict[str, Any], reason: str
) -> None:
    finding = judged(outcome(suspected_deadlock(**wait), ending="timeout"))
    assert (finding.code, finding.ranks) == ("timeout", (0, 1))
    assert "it looks as if ranks 0 and 1 wait for each other" in finding.message
    assert f"that is no proof, for {reason}" in finding.message
    suspected = finding.details["suspected"]
    assert suspected["code"] == "deadlock"
    assert [op["line"] for op in suspected["operations"]] == [3, 4]
    assert [op.line for op in finding.operations] == [3, 4]


def test_an_orphan_that_is_not_proved_is_a_timeout_too() -> None:
    story = Story(3)
    story[1].finishes()
    story[0].wait(story[0].irecv(1, line=3), others=1)
    finding = judged(outcome(story, ending="timeout"))
    assert finding.code == "timeout"
    assert finding.details["suspected"]["code"] == "orphan-wait"
    assert [op.rank for op in finding.operations] == [0, 2], "every rank that still runs"


def test_a_circle_that_is_proved_stays_a_deadlock_when_time_has_run_out() -> None:
    assert judged(outcome(suspected_deadlock(), ending="timeout")).code == "deadlock"


def test_waits_that_an_exception_has_broken_off_are_the_deadlock_that_they_were() -> None:
    story = Story(2)
    for rank in (0, 1):
        story[rank].wait(story[rank].irecv(1 - rank), gives_up=True)
    for rank in (0, 1):
        story[rank].raises_from_wait()
    late = "Timed out waiting 1000ms for recv operation to complete"
    errors = {rank: error(late, 9, in_comm=True) for rank in (0, 1)}
    assert judged(outcome(story, errors)).code == "deadlock"


class DistError(RuntimeError):
    """Stands for torch's."""

    __module__ = "torch.distributed"


class DistBackendError(DistError):
    pass


@pytest.mark.parametrize(
    ("raised", "waited", "refused"),
    [
        (RuntimeError("Tag must be nonnegative"), False, True),
        (RuntimeError("tensor is not contiguous"), False, True),
        (RuntimeError("writev: Broken pipe"), False, False),
        (RuntimeError("Connection closed by peer"), False, False),
        (RuntimeError("Timed out waiting 1000ms for recv operation"), False, False),
        (RuntimeError("[Rank 0]: Rank 1 failed to pass monitoredBarrier in 1 ms"), False, False),
        (DistBackendError("the store is gone"), False, False),
        (TimeoutError("too late"), False, False),
        (RuntimeError("Tag must be nonnegative"), True, False),
        (ValueError("Invalid destination rank"), True, True),
        (TypeError("Expected timeout argument to be of type datetime.timedelta"), True, True),
    ],
    ids=str,
)
def test_only_what_refuses_an_argument_is_a_refusal(
    raised: Exception, waited: bool, refused: bool
) -> None:
    assert is_refusal_of_arguments(raised, waited=waited) is refused


def test_a_broken_pipe_at_post_is_dragged_along_by_the_rank_that_was_killed() -> None:
    broken = error("writev [127.0.0.1]:22427: Broken pipe", 5, in_comm=True)
    finding = judged(outcome(Story(3), {0: broken, 1: broken}, {2: -9}))
    assert (finding.code, finding.ranks) == ("rank-death", (2,))


def test_a_monitored_barrier_that_came_too_late_names_the_rank_in_torchs_words() -> None:
    words = "[Rank 0]: Rank 1 failed to pass monitoredBarrier in 1000 ms"
    errors = {
        0: error(words, 5, in_comm=True),
        1: error("[Rank 1]: Rank 1 successfully reached monitoredBarrier, but …", 9, in_comm=True),
    }
    finding = judged(outcome(Story(2), errors))
    assert finding.code == "rank-error"
    assert words in finding.message


def test_the_same_consequence_is_named_once() -> None:
    story = Story(2)
    for _ in range(3):
        for rank in (0, 1):
            story[rank].collective("all_reduce", shape=(rank + 1,), line=rank)
            story[rank].back()
    case = outcome(story, {0: error("mine", 10**6)})
    first, second = judged(case).details["followed_by"]
    assert first.startswith("collective-mismatch: ")
    assert second == "rank-error: rank 0 raised RuntimeError: mine"

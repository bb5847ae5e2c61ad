"""Several errors in one run: what may follow from the first is folded, what may not is told."""

from __future__ import annotations

from harness.case import Case
from harness.findings import Finding
from harness.judge import judge
from harness.worlds import Ending
from tests.checkers.builder import Story
from tests.checkers.test_errors import error, outcome


def message(story: Story, source: int, to: int, line: int, **received: object) -> None:
    """One message, received in another form than it is sent in."""
    tag = int(str(received.pop("tag", 0)))
    story[source].send(to, tag=tag, line=line)
    story[to].recv(source, tag=tag, line=line + 1, **received)
    story[source].back()
    story[to].back()


def judged(story: Story, ending: Ending = "finished") -> list[Finding]:
    if ending == "finished":
        for rank in range(story.world_size):
            story[rank].finishes()
    return judge(outcome(story, ending=ending), Case("program", story.world_size))


def test_two_disagreements_of_a_finished_run_are_two_findings() -> None:
    story = Story(2)
    message(story, 0, 1, line=10, dtype="int32")
    message(story, 0, 1, line=20, shape=(8,), tag=7)
    first, second = judged(story)
    assert (first.code, first.operations[0].line) == ("dtype-mismatch", 10)
    assert (second.code, second.operations[0].line) == ("shape-mismatch", 20)


def test_two_kinds_of_disagreement_at_one_line_are_two_findings() -> None:
    story = Story(2)
    message(story, 0, 1, line=10, dtype="int32")
    message(story, 0, 1, line=10, shape=(8,), tag=7)
    assert [finding.code for finding in judged(story)] == ["dtype-mismatch", "shape-mismatch"]


def test_the_same_disagreement_at_the_same_lines_is_one_finding() -> None:
    story = Story(2)
    for tag in range(3):
        message(story, 0, 1, line=10, shape=(8,), tag=tag)
    (finding,) = judged(story)
    assert finding.code == "shape-mismatch"


def test_a_disagreement_on_the_same_channel_follows_from_the_first() -> None:
    story = Story(2)
    message(story, 0, 1, line=10, dtype="int32")
    message(story, 0, 1, line=20, shape=(8,))
    (finding,) = judged(story)
    assert finding.code == "dtype-mismatch"
    assert finding.details["followed_by"][0].startswith("shape-mismatch: ")


def test_collectives_of_one_group_that_disagree_later_follow_from_the_first() -> None:
    story = Story(2)
    for rank, numbers in ((0, (1, 2)), (1, (3, 4))):
        for line, number in enumerate(numbers):
            story[rank].collective("all_reduce", shape=(number,), line=10 * rank + line)
            story[rank].back()
    (finding,) = judged(story)
    assert len(finding.details["followed_by"]) == 1


def test_a_message_never_received_beside_a_disagreement_elsewhere_is_told() -> None:
    story = Story(3)
    message(story, 0, 1, line=10, dtype="int32")
    story[2].isend(0, line=30)
    assert [finding.code for finding in judged(story)] == ["dtype-mismatch", "unreceived-message"]


def test_in_a_run_that_did_not_finish_what_the_first_has_reached_follows_from_it() -> None:
    story = Story(4)
    message(story, 0, 1, line=10, dtype="int32")
    message(story, 1, 2, line=20)
    message(story, 2, 3, line=30, shape=(8,))
    (finding,) = judged(story, "stuck")
    assert finding.operations[0].line == 10


def test_in_a_run_that_did_not_finish_ranks_that_nothing_has_reached_have_their_own() -> None:
    story = Story(4)
    message(story, 0, 2, line=1)  # before anything is wrong
    message(story, 0, 1, line=10, dtype="int32")
    message(story, 2, 3, line=30, shape=(8,))
    lines = [finding.operations[0].line for finding in judged(story, "stuck")]
    assert lines == [10, 30]


def test_a_rank_that_raises_later_is_a_consequence_on_whatever_rank() -> None:
    story = Story(4)
    message(story, 0, 1, line=10, dtype="int32")
    (finding,) = judge(outcome(story, {3: error("mine", 10**9)}), Case("program", 4))
    assert finding.code == "dtype-mismatch"


def test_a_message_to_a_rank_that_has_died_is_lost_with_it() -> None:
    story = Story(3)
    story[2].dies()
    story[0].drops(story[0].isend(2, line=5))
    case = outcome(story)
    case.ranks[2].exit_status = -9
    (finding,) = judge(case, Case("program", 3))
    assert finding.code == "rank-death"
    assert finding.details["followed_by"][0].startswith("dropped-request: ")

"""What is recorded of each call of ``torch.distributed``, on real ranks."""

from __future__ import annotations

import inspect
import re

import pytest
import torch.distributed as dist

from harness.trace import Op, Site, State
from harness.worlds import Outcome, World
from tests.programs import calls
from tests.torch_versions import since
from tests.worlds.running import assert_clean, line_of, run, the_finding

ALL_CALLS = since("2.9", "has a gloo without all_to_all")

pytestmark = pytest.mark.gloo


@pytest.fixture(scope="module")
def every_call(gloo: World) -> Outcome:
    outcome = run(gloo, calls.every_call)
    assert_clean(outcome)
    return outcome


# Lines under a condition on torch's version are not expected where it does not hold.
NEW = hasattr(dist, "all_gather_single")
LINES, FIRST = inspect.getsourcelines(calls.every_call)
EXPECTED = {
    FIRST + at: (match[1].split(), match[2])
    for at, line in enumerate(LINES)
    if (match := re.search(r"# ([\w ]+) by (\w+)$", line.rstrip()))
    and (
        NEW
        or not line.startswith("        dist")
        or FIRST + at < line_of(calls.every_call, "torch 2.13")
    )
}


@ALL_CALLS
@pytest.mark.parametrize("line", EXPECTED, ids=[f"{e[1]}-{at}" for at, e in EXPECTED.items()])
def test_a_call_is_recorded_under_its_name_at_its_line(every_call: Outcome, line: int) -> None:
    kinds, api = EXPECTED[line]
    found = [op for op in every_call.trace.operations() if op.site.line == line]
    for rank in (0, 1):
        own = [op for op in found if op.rank == rank]
        if own:
            assert [(op.kind, op.api) for op in own] == [(kind, api) for kind in kinds]
    assert found
    assert {op.site.function for op in found} == {"every_call"}
    assert {op.site.file for op in found} == {calls.__file__}
    assert {op.state for op in found} == {State.DONE}


@ALL_CALLS
def test_nothing_is_recorded_that_the_program_did_not_call(every_call: Outcome) -> None:
    assert {op.site.line for op in every_call.trace.operations()} == set(EXPECTED)


@ALL_CALLS
def test_every_message_and_every_collective_has_met_its_counterpart(every_call: Outcome) -> None:
    for op in every_call.trace.operations():
        met = op.match is not None or len(every_call.trace.matcher.met(op)) == 2
        assert met, op


def only(outcome: Outcome, rank: int, kind: str) -> Op:
    (op,) = [op for op in outcome.trace.ranks[rank].ops.values() if op.kind == kind]
    return op


def test_the_innermost_frame_of_the_user_is_the_place_of_a_call(gloo: World) -> None:
    outcome = run(gloo, calls.through_helpers)
    assert outcome.ending == "stuck"
    op = only(outcome, 0, "send")
    assert op.site == Site(calls.__file__, line_of(calls.helper, "posted"), "helper")
    assert op.wait_site == Site(calls.__file__, line_of(calls.finish, "waited"), "finish")
    finding = the_finding(outcome)
    assert {(o.op, o.line) for o in finding.operations} == {
        ("isend, wait", line_of(calls.finish, "waited"))
    }


def test_ranks_of_a_group_are_recorded_by_their_global_numbers(gloo: World) -> None:
    outcome = run(gloo, calls.subgroup, 3)
    assert outcome.ending == "finished"
    send, receive = only(outcome, 0, "send"), only(outcome, 2, "recv")
    assert (send.peer, receive.peer) == (2, 0)
    assert send.match is receive
    assert set(outcome.trace.groups[send.group].ranks) == {0, 2}
    assert only(outcome, 0, "broadcast").root == 2


def test_a_request_that_is_never_waited_for_is_a_warning(gloo: World) -> None:
    outcome = run(gloo, calls.never_waits)
    finding = the_finding(outcome)
    assert (finding.code, finding.severity) == ("unawaited-request", "warning")
    assert finding.operations[0].line == line_of(calls.never_waits, "never waited for")


def test_a_group_destroyed_with_a_pending_send_is_found(gloo: World) -> None:
    finding = the_finding(run(gloo, calls.destroys_while_pending))
    assert (finding.code, finding.ranks) == ("early-destroy", (0,))
    assert f":{line_of(calls.destroys_while_pending, 'destroyed')} " in finding.message
    assert finding.operations[0].line == line_of(calls.destroys_while_pending, "pending")


def test_a_group_that_is_made_again_is_another_group(gloo: World) -> None:
    outcome = run(gloo, calls.initialises_again)
    assert_clean(outcome)
    init = only(outcome, 0, "init_process_group")
    assert init.site.line == line_of(calls.initialises_again, "init_process_group")
    barriers = [op for op in outcome.trace.ranks[0].ops.values() if op.kind == "barrier"]
    assert len({op.group for op in barriers}) == 2


def test_a_refused_message_does_not_take_the_place_of_the_next(gloo: World) -> None:
    outcome = run(gloo, calls.refused_and_again)
    assert_clean(outcome)
    states = [op.state for op in outcome.trace.ranks[0].ops.values()]
    assert states == [State.FAILED, State.DONE]

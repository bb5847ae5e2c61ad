import subprocess
import sys
from contextvars import copy_context

import pytest
from hypothesis import given
from torch.distributed.pipelining.schedules import _Action, _ComputationType

from pipeline.actions import CURRENT, Action, Kind, Origin
from tests.pipeline.strategies import actions, simple_actions

TORCH_HAS_PAIRS = hasattr(_ComputationType, "OVERLAP_F_B")


@given(actions)
def test_an_action_parses_back_from_how_it_prints(action: Action) -> None:
    assert Action.parse(str(action)) == action


@given(actions if TORCH_HAS_PAIRS else simple_actions)
def test_torch_reads_the_same_action(action: Action) -> None:
    theirs = _Action.from_str(str(action))
    assert theirs is not None
    assert str(theirs) == str(action)
    parts = getattr(theirs, "sub_actions", None) or [theirs]
    for mine, part in zip(action.parts, parts, strict=True):
        assert (part.stage_index, part.microbatch_index) == (mine.stage, mine.microbatch)


@pytest.mark.skipif(not TORCH_HAS_PAIRS, reason="this torch has no overlapped pairs")
def test_an_overlapped_pair_is_torch_s_to_the_letter() -> None:
    pair = Action.overlap(Action(2, Kind.F, 0), Action(1, Kind.B, 3))
    theirs = _Action(
        -1,
        _ComputationType.OVERLAP_F_B,
        None,
        (
            _Action(2, _ComputationType.FORWARD, 0),
            _Action(1, _ComputationType.FULL_BACKWARD, 3),
        ),
    )
    assert str(pair) == repr(theirs) == "(2F0;1B3)OVERLAP_F_B"
    assert (pair.stage, pair.kind) == (-1, Kind.OVERLAP_F_B)
    assert Action.parse(" (2F0; 1B3)OVERLAP_F_B") == pair
    assert len({pair, Action.parse(str(pair)), Action.parse("(2F0;1B4)OVERLAP_F_B")}) == 2


@pytest.mark.parametrize("pair", ["(1B3;2F0)OVERLAP_F_B", "(2F0;1I3)OVERLAP_F_B"])
def test_a_pair_of_other_kinds_is_refused(pair: str) -> None:
    with pytest.raises(ValueError, match="an overlapped pair is an F and a B: got"):
        Action.parse(pair)


@pytest.mark.parametrize(
    "text",
    [
        *("", "F0", "2F", "2X0", "2f0", "-1F0", "2F0 3F0", "2SEND0", "٢F0"),
        *("(2F0)OVERLAP_F_B", "(2F0;1B3)", "2OVERLAP_F_B0", "(2F0;1B3;0B0)OVERLAP_F_B"),
    ],
)
def test_text_that_is_no_action_is_refused_with_the_allowed_form(text: str) -> None:
    with pytest.raises(ValueError, match="2F0") as error:
        Action.parse(text)
    assert repr(text) in str(error.value)


def test_equality_ignores_where_an_action_came_from() -> None:
    assert Action(2, Kind.F, 0, Origin("a.py", 1, "f")) == Action(2, Kind.F, 0)
    assert len({Action(2, Kind.F, 0, Origin("a.py", 1, "f")), Action(2, Kind.F, 0)}) == 1


@given(actions.filter(lambda action: action.kind.is_comm and action.stage > 0))
def test_the_ends_of_a_message_name_each_other(action: Action) -> None:
    assert action.other_end.other_end == action
    assert action.other_end.kind.is_send is not action.kind.is_send


def test_every_kind_is_compute_or_one_end_of_a_message() -> None:
    for kind in Kind:
        assert [kind.is_compute, kind.is_send, kind.is_receive].count(True) == 1
        assert kind.is_comm is not kind.is_compute


def test_no_action_is_current_outside_an_executor() -> None:
    assert copy_context().run(CURRENT.get) is None


def test_schedules_and_plans_import_no_torch() -> None:
    program = (
        "import sys, pipeline.actions, pipeline.plan, pipeline.schedules, pipeline.lower, "
        "pipeline.timing, pipeline.plan_timing; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

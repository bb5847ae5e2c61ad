import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from torch.distributed.pipelining.schedules import _Action, _ComputationType, _validate_schedule

from pipeline.actions import Action
from pipeline.lower import lower
from pipeline.plan import Plan, PlanError, build_plan, validate
from pipeline.problems import find_problems
from tests.pipeline.strategies import any_valid_plans, plans

NOT_TORCH_S = {"dualpipe", "forward-only"}
if not hasattr(_ComputationType, "OVERLAP_F_B"):  # torch 2.8
    NOT_TORCH_S.add("dualpipev")


def plan_of(*rows: str, placement: tuple[int, ...] = ()) -> Plan:
    """Write a plan as one text per rank."""
    parsed = tuple(tuple(Action.parse(text) for text in row.split()) for row in rows)
    every = [part for row in parsed for action in row for part in action.parts]
    chunks = 1 + max((part.microbatch for part in every), default=0)
    return Plan("drawn", len(rows), chunks, parsed, placement)


def problems(*rows: str, placement: tuple[int, ...] = ()) -> list[str]:
    with pytest.raises(PlanError) as error:
        validate(plan_of(*rows, placement=placement))
    return [str(problem) for problem in error.value.problems]


@given(plans())
def test_a_plan_reads_back_from_its_csv(plan: Plan) -> None:
    for written in (plan, lower(plan)):
        text, forward_only = written.to_csv(), plan.forward_only
        read = Plan.from_csv(text, plan.schedule, forward_only=forward_only)
        assert read == written


@given(plans(max_chunks=8).filter(lambda plan: plan.schedule not in NOT_TORCH_S))
def test_torch_loads_the_csv_and_finds_it_valid(plan: Plan) -> None:
    rows = csv.reader(plan.to_csv().splitlines())
    order = {rank: [_Action.from_str(cell) for cell in row] for rank, row in enumerate(rows)}
    placed = _validate_schedule(order, plan.world, plan.stages, plan.chunks)
    assert placed == dict(enumerate(plan.placement))


def test_torch_s_own_loader_reads_a_lowered_plan(tmp_path: Path) -> None:
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    plan = lower(build_plan("1f1b", 4, 8))
    file = tmp_path / "plan.csv"
    file.write_text(plan.to_csv())
    runtime = _PipelineScheduleRuntime.__new__(_PipelineScheduleRuntime)
    runtime.pp_group_size = runtime._num_stages = 4
    runtime._n_microbatches = 8
    runtime._stages = []
    runtime.stage_index_to_group_rank = dict(enumerate(plan.placement))
    runtime._load_csv(str(file), format="compute_comms")
    loaded = runtime.pipeline_order_with_comms
    assert [list(map(str, loaded[rank])) for rank in range(4)] == [
        list(map(str, row)) for row in plan.rows
    ]


def test_empty_cells_are_idle_steps() -> None:
    assert Plan.from_csv("0F0,,,0B0\n,1F0,1B0,\n") == Plan(
        "csv", 2, 1, plan_of("0F0 0B0", "1F0 1B0").rows
    )


def test_a_cell_that_is_no_action_is_refused_with_its_place() -> None:
    with pytest.raises(ValueError, match=r"line 2, cell 3: not an action: '1X0'"):
        Plan.from_csv("0F0,0B0\n1F0,1B0,1X0\n")


def test_a_plan_from_a_file_knows_its_lines() -> None:
    plan = Plan.from_csv("0F0,0B0\n1F0,1B0\n", file="p.csv")
    assert [row[0].origin and row[0].origin.line for row in plan.rows] == [1, 2]


def test_an_action_knows_the_line_that_yielded_it() -> None:
    def inner(rank: int) -> Iterator[str]:
        yield f"{rank}F0"

    def outer(rank: int, world: int, chunks: int) -> Iterator[str]:
        yield from inner(rank)
        yield f"{rank}B0"

    first = inner.__code__.co_firstlineno
    origins = [action.origin for action in build_plan(outer, 1, 1).rows[0]]
    lines = [origin.line - first for origin in origins if origin]
    assert lines == [1, 5]
    assert origins[0] is not None
    assert origins[0].file == __file__
    assert origins[0].function.endswith("inner")


@pytest.mark.parametrize(("world", "chunks"), [(0, 1), (1, 0), (-3, 1)])
def test_no_ranks_or_no_chunks_are_refused(world: int, chunks: int) -> None:
    with pytest.raises(ValueError, match="must be at least 1: got"):
        build_plan("gpipe", world, chunks)


def test_something_else_than_an_action_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="yielded 7 for rank 0"):
        build_plan(lambda rank, world, chunks: [7], 1, 1)  # type: ignore[list-item]


def test_a_generator_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.generate.MAX_ROW", 100)

    def endless(rank: int, world: int, chunks: int) -> Iterator[str]:
        while True:
            yield "0F0"

    with pytest.raises(ValueError, match="endless yielded over"):
        build_plan(endless, 1, 1)


@given(any_valid_plans())
def test_any_order_that_can_run_is_valid(plan: Plan) -> None:
    validate(plan)


def test_an_action_given_twice_is_named() -> None:
    assert problems("0F0 0F0 0B0", "1F0 1B0") == ["rank 0: 0F0 appears twice"]


def test_a_missing_action_is_named() -> None:
    assert problems("0F0 0B0 0F1 0B1", "1F0 1B0 1F1") == ["rank 1: 1B1 is missing"]


def test_a_stage_without_any_action_is_missing() -> None:
    assert problems("0F0 0B0", "") == ["rank 1: 1F0 is missing", "rank 1: 1B0 is missing"]


def test_half_a_split_backward_is_named() -> None:
    assert problems("0F0 0I0") == ["rank 0: 0W0 is missing: 0I0 is half of a backward"]
    assert problems("0F0 0B0 0W0") == ["rank 0: 0W0 is done already by 0B0"]


def test_an_action_that_is_missing_is_told_at_the_line_of_one_it_belongs_to() -> None:
    def forwards_only(rank: int, world: int, chunks: int) -> Iterator[str]:
        yield "0F0"

    def both_kinds(rank: int, world: int, chunks: int) -> Iterator[str]:
        yield "0F0"
        yield "0B0"
        yield "0W0"

    def half(rank: int, world: int, chunks: int) -> Iterator[str]:
        yield "0F0"
        yield "0I0"

    for plan, lines in ((forwards_only, 1), (both_kinds, 3), (half, 2)):
        (problem,) = find_problems(build_plan(plan, 1, 1))
        assert problem.origin is not None
        assert problem.origin.line == plan.__code__.co_firstlineno + lines


def test_a_stage_index_too_many_is_out_of_range() -> None:
    assert problems("0F0 0B0", "1F0 1B0 2F0") == ["rank 1: 2F0 is out of range: stages are 0..1"]


def test_a_microbatch_too_many_is_out_of_range() -> None:
    row = (Action.parse("0F0"), Action.parse("0B0"), Action.parse("0F1"))
    with pytest.raises(PlanError, match=r"0F1 is out of range: microbatches are 0\.\.0"):
        validate(Plan("drawn", 1, 1, (row,)))


def test_an_action_on_the_wrong_rank_is_named_with_the_right_one() -> None:
    assert problems("0F0 0B0 1B0", "1F0") == [
        "rank 0: 1B0 is on the wrong rank: stage 1 is on rank 1"
    ]


def test_a_backward_before_its_forward_is_named() -> None:
    assert problems("0B0 0F0") == ["rank 0: 0B0 comes before 0F0, which it needs"]
    assert problems("0F0 0W0 0I0") == ["rank 0: 0W0 comes before 0I0, which it needs"]


def test_ranks_that_wait_for_each_other_are_named() -> None:
    found = problems("0F0 0B0 0F1 0B1", "1F1 1B1 1F0 1B0")
    assert found == [
        "rank 0: 0B0 waits for 1B0, and rank 1 cannot get past 1F1",
        "rank 1: 1F1 waits for 0F1, and rank 0 cannot get past 0B0",
    ]


def test_a_send_without_its_receive_is_named() -> None:
    found = problems("0F0 0SEND_F0 0RECV_B0 0B0", "1F0 1B0 1SEND_B0")
    assert "rank 0: 0SEND_F0 has no receive: 1RECV_F0 is missing" in found


def test_a_receive_without_its_send_is_named() -> None:
    found = problems("0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0")
    assert found == ["rank 0: 0RECV_B0 has no send: 1SEND_B0 is missing"]


def test_work_before_the_receive_of_its_data_is_named() -> None:
    found = problems("0F0 0SEND_F0 0RECV_B0 0B0", "1F0 1RECV_F0 1B0 1SEND_B0")
    assert found == ["rank 1: 1F0 comes before 1RECV_F0, which it needs"]


def test_a_send_before_the_work_that_makes_its_data_is_named() -> None:
    found = problems("0SEND_F0 0F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0")
    assert found == ["rank 0: 0SEND_F0 comes before 0F0, which it needs"]


def test_a_send_held_back_until_its_answer_is_named() -> None:
    found = problems("0F0 0RECV_B0 0B0 0SEND_F0", "1RECV_F0 1F0 1B0 1SEND_B0")
    assert found == [
        "rank 0: 0B0 waits for 1SEND_B0, and rank 1 cannot get past 1F0",
        "rank 1: 1F0 waits for 0SEND_F0, and rank 0 cannot get past 0B0",
    ]


def test_the_error_shows_the_grid_with_the_fault_marked() -> None:
    with pytest.raises(PlanError) as error:
        validate(plan_of("0F0 0F0 0B0", "1F0 1B0"))
    assert str(error.value).splitlines() == [
        "drawn world=2 chunks=1 cannot run:",
        "  rank 0: 0F0 appears twice",
        "step    0     1     2",
        "rank 0  !0F0  !0F0  0B0",
        "rank 1  1F0   1B0",
    ]


def test_a_long_grid_is_cut_around_the_fault() -> None:
    plan = build_plan("gpipe", 2, 40)
    drawn = plan.grid({Action.parse("1F30")}, columns=6).splitlines()
    assert drawn[0].split() == ["step", "27", "28", "29", "30", "31", "32", "33"]
    assert "!1F30" in drawn[2]
    assert drawn[2].endswith("…")


def test_an_overlapped_pair_is_checked_as_what_it_does() -> None:
    assert problems("0F0 (0F1;0B0)OVERLAP_F_B 0F1 0B1") == ["rank 0: 0F1 appears twice"]
    assert problems("(0F0;0B0)OVERLAP_F_B") == [
        "rank 0: (0F0;0B0)OVERLAP_F_B comes before 0F0, which it needs"
    ]
    with pytest.raises(PlanError) as error:
        validate(plan_of("0F0 (0F1;0B0)OVERLAP_F_B 0B1 0B1"))
    assert "!0B1" in str(error.value)


def test_a_pair_with_a_fault_is_marked_in_the_grid() -> None:
    with pytest.raises(PlanError) as error:
        validate(plan_of("0F0 0F1 (0F1;0B0)OVERLAP_F_B 0B1"))
    assert "!(0F1;0B0)OVERLAP_F_B" in str(error.value)


def test_two_directions_are_known_from_the_rows_alone() -> None:
    plan = build_plan("dualpipe", 4, 8)
    assert plan.directions == Plan.from_csv(plan.to_csv()).directions == 2
    assert build_plan("dualpipev", 4, 8).directions == 1
    assert [list(plan.microbatches(stage)) for stage in (0, 3, 4, 7)] == [
        [0, 1, 2, 3],
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [4, 5, 6, 7],
    ]


def test_work_for_the_other_direction_is_named() -> None:
    plan = build_plan("dualpipe", 2, 4)
    wrong = (*plan.rows[0], Action.parse("0F3"))
    with pytest.raises(PlanError, match=r"0F3 goes the other way: stage 0 does 0\.\.1"):
        validate(replace(plan, rows=(wrong, plan.rows[1])))


def test_a_backward_in_a_forward_only_plan_is_named() -> None:
    plan = Plan.from_csv("0F0,0B0\n", forward_only=True)
    assert [str(p) for p in find_problems(plan)] == ["rank 0: 0B0 is in a forward-only plan"]


def test_a_user_s_plan_without_backwards_is_no_forward_only_one() -> None:
    assert problems("0F0") == ["rank 0: 0B0 is missing"]


@pytest.mark.parametrize(
    ("name", "world", "chunks", "reason"),
    [
        ("dualpipe", 3, 8, "dualpipe: .* an even world: got world 3"),
        ("dualpipe", 4, 9, "chunks must be even, .* at least 8 for world 4: got 9"),
        ("dualpipe", 4, 6, "at least 8 for world 4: got 6"),
        ("dualpipev", 4, 7, "dualpipev: chunks must be at least the 8 stages, .*: got 7"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(name: str, world: int, chunks: int, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        build_plan(name, world, chunks)

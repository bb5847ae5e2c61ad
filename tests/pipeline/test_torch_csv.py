"""A plan's CSV is torch's: both of its forms, read and written, in both directions."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
import torch.distributed.pipelining.schedules as theirs

from harness import torch_pipelining
from pipeline.actions import Action
from pipeline.lower import lower
from pipeline.plan import Plan, build_plan, validate
from pipeline.schedules import RUNNABLE
from tests.torch_versions import since

BOTH_FORMS = since("2.9", "writes one form only, and no overlapped pairs")

SHAPES = ((1, 2), (2, 4), (4, 8))
FORMS = ("compute_only", "compute_comms")
UPKEEP = ("UNSHARD", "RESHARD", "REDUCE_GRAD")
SEVERAL = [
    name
    for name in torch_pipelining.names()
    if torch_pipelining.holds_several(getattr(theirs, name))
]
OURS = [name for name in RUNNABLE if name != "dualpipe"]  # of two directions; torch has none


def runtime(world: int, stages: int, chunks: int, name: str = "_PipelineScheduleRuntime") -> Any:
    """Make torch's runtime for a shape, its stages as far as it looks at them."""
    held = [torch_pipelining.StandIn(world, stages) for _ in range(stages // world)]
    return getattr(theirs, name)(held, chunks, loss_fn=print)


def cells(text: str) -> list[list[str]]:
    return [[cell for cell in row if cell] for row in csv.reader(io.StringIO(text))]


def without_upkeep(rows: list[list[str]]) -> list[list[str]]:
    return [[cell for cell in row if not cell.endswith(UPKEEP)] for row in rows]


def texts(plan: Plan) -> list[list[str]]:
    return [[str(action) for action in row] for row in plan.rows]


@BOTH_FORMS
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SEVERAL)
def test_what_torch_writes_is_read_and_what_is_read_torch_loads(
    name: str, form: str, tmp_path: Path
) -> None:
    for world, chunks in SHAPES:
        made = runtime(world, 2 * world, chunks, name)
        file = tmp_path / "theirs.csv"
        made._dump_csv(str(file), format=form)
        plan = Plan.from_csv(file.read_text(), name)
        validate(plan)
        assert texts(plan) == without_upkeep(cells(file.read_text()))
        assert plan.is_lowered == (form == "compute_comms" and world > 1)
        assert plan.placement == torch_pipelining.stage_ranks_of(made)

        ours = tmp_path / "ours.csv"
        ours.write_text(plan.to_csv())
        again = runtime(world, 2 * world, chunks)
        again._load_csv(str(ours), format=form)
        dumped = tmp_path / "again.csv"
        again._dump_csv(str(dumped), format=form)
        assert cells(dumped.read_text()) == texts(plan)


@BOTH_FORMS
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", OURS)
def test_torch_loads_every_schedule_and_writes_it_back(
    name: str, form: str, tmp_path: Path
) -> None:
    for world, chunks in SHAPES:
        plan = build_plan(name, world, chunks)
        written = plan if form == "compute_only" else lower(plan)
        file, again = tmp_path / "ours.csv", tmp_path / "theirs.csv"
        reduces = form == "compute_comms" and hasattr(theirs, "REDUCE_GRAD")
        file.write_text(written.to_csv(reduce_gradients=reduces))
        made = runtime(world, plan.stages, chunks)
        made._load_csv(str(file), format=form)
        assert torch_pipelining.stage_ranks_of(made) == plan.placement
        made._dump_csv(str(again), format=form)
        assert cells(again.read_text()) == cells(file.read_text())
        assert texts(Plan.from_csv(again.read_text())) == texts(written)


@BOTH_FORMS
def test_torch_s_own_lowering_of_every_schedule_is_read_and_valid(tmp_path: Path) -> None:
    for name in OURS:
        for world, chunks in SHAPES:
            plan = build_plan(name, world, chunks)
            file = tmp_path / "plan.csv"
            file.write_text(plan.to_csv())
            made = runtime(world, plan.stages, chunks)
            made._load_csv(str(file), format="compute_only")
            made._dump_csv(str(file), format="compute_comms")
            lowered = Plan.from_csv(file.read_text())
            validate(lowered)
            assert lowered.is_lowered == (world > 1)
            computes = [[a for a in row if a.kind.is_compute] for row in lowered.rows]
            assert computes == [list(row) for row in plan.rows]


@pytest.mark.skipif(not hasattr(theirs, "REDUCE_GRAD"), reason="this torch divides elsewhere")
def test_gradients_are_reduced_where_torch_reduces_them() -> None:
    made = runtime(4, 8, 8, "ScheduleDualPipeV")
    theirs_ = [
        [str(a) for a in made.pipeline_order_with_comms[rank] if "SHARD" not in str(a)]
        for rank in range(4)
    ]
    compute = [
        [cell for cell in row if "SEND" not in cell and "RECV" not in cell] for row in theirs_
    ]
    plan = build_plan("dualpipev", 4, 8)
    assert cells(plan.to_csv(reduce_gradients=True)) == compute


def test_what_torch_does_for_parameters_is_no_action() -> None:
    for text in ("0UNSHARD", "12RESHARD", " 3REDUCE_GRAD "):
        assert Action.parse_torchs(text) is None
    assert Action.parse_torchs("2SEND_F1") == Action.parse("2SEND_F1")
    with pytest.raises(ValueError, match="not an action: '0GATHER'"):
        Action.parse_torchs("0GATHER")


def test_a_blank_line_is_no_rank_at_the_end_and_refused_in_between() -> None:
    assert Plan.from_csv("0F0,0B0\n\n").world == 1
    with pytest.raises(ValueError, match="line 2 has no action; each line is one rank's"):
        Plan.from_csv("0F0,0B0\n\n1F0,1B0\n")
    with pytest.raises(ValueError, match="line 1: field larger than field limit"):
        Plan.from_csv("0F0," + "1" * 200_000)

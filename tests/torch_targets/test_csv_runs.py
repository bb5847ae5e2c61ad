"""Plans that go through a CSV file train alike on the other side: torch's here, and ours there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch.distributed.pipelining.schedules as theirs

import harness
from harness import torch_pipelining
from pipeline.lower import lower
from pipeline.plan import build_plan
from tests.torch_versions import since

HAS_PLANS = since("2.9", "writes no plan of its runtime, and has no DualPipeV")

FROM_FILE = """
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

class FromFile(_PipelineScheduleRuntime):
    def __init__(self, stages, n_microbatches, loss_fn=None):
        super().__init__(stages, n_microbatches, loss_fn)
        self._load_csv({file!r}, format={form!r})
"""
SHAPE = {"world_size": 2, "chunks": 4, "cases": 2, "confirm": False}


@HAS_PLANS
@pytest.mark.parametrize("form", ["compute_only", "compute_comms"])
@pytest.mark.parametrize("name", ["ScheduleInterleavedZeroBubble", "ScheduleDualPipeV"])
def test_torch_s_plans_are_clean_from_a_file(name: str, form: str, tmp_path: Path) -> None:
    held = [torch_pipelining.StandIn(2, 4)] * 2
    file = tmp_path / "theirs.csv"
    getattr(theirs, name)(held, 4, loss_fn=print)._dump_csv(str(file), format=form)
    report = harness.check(str(file), cases=2, confirm=False)
    assert (report.findings, report.tried["bitwise"]) == ([], 2)


@pytest.mark.skipif(not hasattr(theirs, "REDUCE_GRAD"), reason="this torch divides elsewhere")
@pytest.mark.parametrize("form", ["compute_only", "compute_comms"])
def test_our_plans_are_clean_in_torch_s_runtime(form: str, tmp_path: Path) -> None:
    plan = build_plan("zbv", 2, 4)
    lowered = form == "compute_comms"
    file, mine = tmp_path / "ours.csv", tmp_path / "mine.py"
    file.write_text(lower(plan).to_csv(reduce_gradients=True) if lowered else plan.to_csv())
    mine.write_text(FROM_FILE.format(file=str(file), form=form))
    report = harness.check(f"{mine}:FromFile", **SHAPE)  # type: ignore[arg-type]
    assert (report.findings, report.tried["compared"]) == ([], 2)


@pytest.mark.skipif(not hasattr(theirs, "REDUCE_GRAD"), reason="this torch divides elsewhere")
def test_without_its_action_torch_divides_no_gradient_and_that_is_found(tmp_path: Path) -> None:
    file, mine = tmp_path / "ours.csv", tmp_path / "mine.py"
    file.write_text(lower(build_plan("zbv", 2, 4)).to_csv())
    mine.write_text(FROM_FILE.format(file=str(file), form="compute_comms"))
    (finding,) = harness.check(f"{mine}:FromFile", **SHAPE).findings  # type: ignore[arg-type]
    assert (finding.code, finding.cause) == ("gradient-mismatch", "scale:4")

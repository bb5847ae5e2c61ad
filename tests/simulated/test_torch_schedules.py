"""torch's own schedules run in the simulated world unmodified, with the monolith's gradients."""

from __future__ import annotations

import pytest
import torch
from torch.distributed import pipelining

from harness.api import shared_world
from tests.programs import torch_schedules as programs
from tests.worlds.call import Function
from tests.worlds.running import findings, run


@pytest.mark.parametrize("schedule", programs.ALL, ids=lambda function: function.__name__)
@pytest.mark.parametrize("size", [2, 4])
def test_the_gradients_are_those_of_one_process(schedule: Function, size: int) -> None:
    if schedule is programs.dualpipe_v and not hasattr(pipelining.schedules, "ScheduleDualPipeV"):
        pytest.skip(f"torch {torch.__version__} has no DualPipeV")
    if schedule is programs.zbv and torch.__version__.startswith("2.8."):
        pytest.skip("torch 2.8's ZBV sends to its own rank, which gloo refuses too")
    outcome = run(shared_world("sim"), schedule, size)
    errors = [f"{f.code}: {f.message}" for f in findings(outcome) if f.severity == "error"]
    assert (outcome.ending, errors) == ("finished", [])
    with torch.random.fork_rng():
        expected, loss = programs.monolith(  # type: ignore[no-untyped-call]
            programs.PER_RANK.get(schedule, 2) * size
        )
    losses = [rank.result[1] for rank in outcome.ranks if rank.result[1] is not None]
    assert losses == pytest.approx([loss], rel=1e-12)
    seen = {stage: grads for rank in outcome.ranks for stage, grads in rank.result[0].items()}
    assert sorted(seen) == list(range(len(expected)))
    for stage, gradients in seen.items():
        for got, wanted in zip(gradients, expected[stage], strict=True):
            mine = torch.tensor(got, dtype=torch.float64)
            its = torch.tensor(wanted, dtype=torch.float64)
            assert torch.allclose(mine, its, rtol=1e-12, atol=1e-15), stage

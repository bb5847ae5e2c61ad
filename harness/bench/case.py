"""The case that is measured, and the check of it that a user of torch's classes would write."""

from __future__ import annotations

from harness.case import Case

FIRST_SEED = 42  # each case has its own, so that no reference is computed once for all

CASE = Case(
    "1f1b",
    2,
    chunks=8,
    batch=16,
    layers=8,
    width=16,
    dtype="float64",
    steps=1,
    optimizer="sgd",
    workload="conditioned",
    policy="batched",
)


def described() -> str:
    """Name the case's sizes in one line, without what differs between figures."""
    words = str(CASE).split()
    return " ".join(w for w in words if w.split("=")[0] not in ("world", "backend", "seed"))


def check_step(rank: int, world: int, seed: int) -> None:
    """Run the step in the default process group; AssertionError unless its numbers are right.

    The loss and the gradients of this rank's stage are compared with the monolith's, computed
    here on the whole batch.
    """
    import torch

    from harness.parity.shape import workload_of
    from pipeline.comms import Comms
    from pipeline.executor import run_step
    from pipeline.lower import lower
    from pipeline.model import Monolith
    from pipeline.plan import build_plan
    from pipeline.stage import build_batch, build_stage

    torch.set_num_threads(1)
    case = CASE.with_(world=world, seed=seed)
    assert case.chunks is not None
    assert case.policy is not None
    workload = workload_of(case)
    stage = build_stage(workload, rank, world)
    batch = build_batch(workload, stage)
    plan = lower(build_plan(case.target, world, case.chunks), case.policy)
    comms = Comms(workload.dtype)
    loss = run_step(plan.rows[rank], case.policy, stage, comms, batch, case.chunks)

    monolith = Monolith(workload)
    expected = monolith.step()
    if stage.is_last:
        torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    right = dict(monolith.named_parameters())
    for name, parameter in stage.named_parameters():
        gradient = right[stage.monolith_name(name)].grad
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-10, atol=1e-12)

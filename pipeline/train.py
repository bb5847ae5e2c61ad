"""Train a workload: on every rank of a process group, or in this one process."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from pipeline.comms import Comms
from pipeline.executor import StepProfile, run_step
from pipeline.lower import DEFAULT_POLICY, Policy, get_policy, lower
from pipeline.model import Workload, build, chunk_sizes, split
from pipeline.placement import placement_of
from pipeline.plan import Plan, build_plan, validate
from pipeline.report import RankProfile, render_profile
from pipeline.schedules import get_schedule
from pipeline.stage import build_batch, build_stage, build_stages

Print = Callable[[str], None]


def print_losses(losses: Iterable[float], steps: int, out: Print) -> None:
    """Print every fifth step's loss, and the last one's."""
    for step, loss in enumerate(losses):
        if step % 5 == 0 or step == steps - 1:
            out(f"step {step:4}  loss {loss:.6f}")


def train_manual(workload: Workload, steps: int) -> Iterator[float]:
    """Train a model cut in two by hand, on two GPUs or both on the CPU; yield every loss.

    Autograd follows the activation from one device to the other, so one backward does both.
    """
    devices = ("cuda:0", "cuda:1") if torch.cuda.device_count() >= 2 else ("cpu", "cpu")
    first, second = (build_stage(workload, index, 2, devices[index]) for index in range(2))
    built = build(workload)
    inputs, targets = built.inputs.to(devices[0]), built.targets.to(devices[1])
    optimizer = workload.optimizer_for([*first.parameters(), *second.parameters()])
    for _ in range(steps):
        optimizer.zero_grad()
        loss = second(first(inputs).to(devices[1]), targets)
        loss.backward()
        optimizer.step()
        yield loss.item()


@dataclass(frozen=True)
class PipelineRun:
    """A pipelined run as one rank starts it; made by `prepare`, which refuses what cannot run."""

    workload: Workload
    plan: Plan
    """Compute-only."""
    policy: Policy
    steps: int
    backend: str
    device: torch.device
    timeout: float
    """Seconds that one communication may take."""
    profile: bool


def prepare(
    workload: Workload,
    schedule: str,
    chunks: int,
    *,
    steps: int,
    policy: str = DEFAULT_POLICY,
    backend: str | None = None,
    device: str | None = None,
    timeout: float = 300.0,
    profile: bool = False,
) -> PipelineRun:
    """Check everything that can be checked before ranks meet, under torchrun's environment.

    ValueError says what cannot be.
    """
    if not get_schedule(schedule).runs:
        raise ValueError(f"{schedule} has no backwards, so that it trains nothing")
    plan = build_plan(schedule, int(os.environ["WORLD_SIZE"]), chunks)
    validate(plan)
    chunk_sizes(workload.batch, chunks)
    split(workload.layers, placement_of(plan).depth)
    gpus, needed = torch.cuda.device_count(), int(os.environ["LOCAL_WORLD_SIZE"])
    if backend is None:
        backend = "nccl" if gpus >= needed and device != "cpu" else "gloo"
    if device is None:
        device = "cuda" if backend == "nccl" else "cpu"
    if backend == "nccl" and device == "cpu":
        raise ValueError("nccl moves tensors between GPUs: use --device cuda, or --backend gloo")
    if device == "cuda" and gpus < needed:
        raise ValueError(f"{needed} ranks need a GPU each, and {gpus} are here: use --device cpu")
    place = torch.device("cpu" if device == "cpu" else f"cuda:{os.environ['LOCAL_RANK']}")
    rules = get_policy(policy)
    return PipelineRun(workload, plan, rules, steps, backend, place, timeout, profile)


def train_pipeline(run: PipelineRun, out: Print) -> None:
    """Train this rank's stages. Only the last stage's rank prints: the loss is computed there."""
    if run.device.type == "cuda":
        torch.cuda.set_device(run.device)
    dist.init_process_group(run.backend, timeout=timedelta(seconds=run.timeout))
    try:
        placement = placement_of(run.plan)
        is_last = dist.get_rank() == placement.ranks[placement.depth - 1]
        ranks: list[RankProfile] = []
        print_losses(_losses(run, ranks), run.steps, out if is_last else lambda text: None)
        if run.profile:
            everyone: list[RankProfile] = [ranks[0]] * run.plan.world
            dist.all_gather_object(everyone, ranks[0])
            if is_last:
                out(render_profile(run.plan, everyone))
    finally:
        dist.destroy_process_group()


def _losses(run: PipelineRun, profiles: list[RankProfile]) -> Iterator[float]:
    """Yield every step's loss, 0 where it is not known; leave this rank's profile behind."""
    stages = build_stages(run.workload, placement_of(run.plan), dist.get_rank(), run.device)
    batch = build_batch(run.workload, stages)
    optimizer = run.workload.optimizer_for([p for stage in stages for p in stage.parameters()])
    row = lower(run.plan, run.policy).rows[dist.get_rank()]
    comms = _connected_comms(run)
    profile, wall = StepProfile(), 0.0
    for step in range(run.steps):
        optimizer.zero_grad()
        if step == 1:  # the first step pays for what is done once
            profile, wall = StepProfile(), 0.0
        start = time.perf_counter()
        measured = profile if run.profile else None
        loss = run_step(row, run.policy, stages, comms, batch, run.plan.chunks, measured)
        wall += time.perf_counter() - start
        optimizer.step()
        yield 0.0 if loss is None else loss.item()
    profiles.append(RankProfile(profile, wall))


def _connected_comms(run: PipelineRun) -> Comms:
    dtype, device, placement = run.workload.dtype, run.device, placement_of(run.plan)
    if run.backend != "nccl" or run.policy.batched:
        return Comms(dtype, device, placement=placement)
    # NCCL matches a pair's messages in one queue, where a receive posted ahead in one direction
    # would hold up the send in the other. A group for each direction keeps them apart.
    comms = Comms(dtype, device, backward_group=dist.new_group(), placement=placement)
    comms.connect()
    return comms

"""torch's own pipeline schedules, unmodified, on a small model in float64."""

# mypy: ignore-errors

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining as torch_pipelining

WIDTH, BATCH, CHUNKS = 8, 16, 8

SINGLE = ("ScheduleGPipe", "Schedule1F1B")
LOOPED = ("ScheduleInterleaved1F1B", "ScheduleLoopedBFS", "ScheduleInterleavedZeroBubble")
V_SHAPED = ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")


def blocks(count):
    torch.manual_seed(7)
    return [
        nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()).to(torch.float64) for _ in range(count)
    ]


def batch():
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(BATCH, WIDTH, generator=generator, dtype=torch.float64)
    return x, torch.randn(BATCH, WIDTH, generator=generator, dtype=torch.float64)


def monolith(count):
    """Return the gradients of one process, and its loss."""
    model = nn.Sequential(*blocks(count))
    x, target = batch()
    loss = nn.functional.mse_loss(model(x), target)
    loss.backward()
    return [[p.grad.tolist() for p in block.parameters()] for block in model], loss.item()


def run(schedule, rank, world_size):
    """Run one step; return which stages this rank holds, their gradients, and the mean loss."""
    per_rank = 1 if schedule in SINGLE else 2
    count = per_rank * world_size
    if schedule in V_SHAPED:
        mine = [rank, count - 1 - rank]
    else:
        mine = [rank + world_size * v for v in range(per_rank)]
    model = blocks(count)
    stages = [
        torch_pipelining.PipelineStage(model[index], index, count, torch.device("cpu"))
        for index in mine
    ]
    kind = getattr(torch_pipelining, schedule, None) or getattr(
        torch_pipelining.schedules, schedule
    )
    held = stages[0] if schedule in SINGLE else stages
    step = kind(held, CHUNKS, loss_fn=nn.functional.mse_loss)
    x, target = batch()
    losses = []
    last = count - 1 in mine
    args = (x,) if 0 in mine else ()
    kwargs = {"target": target, "losses": losses} if last else {}
    step.step(*args, **kwargs)
    dist.barrier()
    gradients = {index: [p.grad.tolist() for p in model[index].parameters()] for index in mine}
    return gradients, torch.stack(losses).mean().item() if losses else None


def gpipe(rank, world_size):
    return run("ScheduleGPipe", rank, world_size)


def one_f_one_b(rank, world_size):
    return run("Schedule1F1B", rank, world_size)


def interleaved(rank, world_size):
    return run("ScheduleInterleaved1F1B", rank, world_size)


def looped_bfs(rank, world_size):
    return run("ScheduleLoopedBFS", rank, world_size)


def zero_bubble(rank, world_size):
    return run("ScheduleInterleavedZeroBubble", rank, world_size)


def zbv(rank, world_size):
    return run("ScheduleZBVZeroBubble", rank, world_size)


def dualpipe_v(rank, world_size):
    return run("ScheduleDualPipeV", rank, world_size)


ALL = (gpipe, one_f_one_b, interleaved, looped_bfs, zero_bubble, zbv, dualpipe_v)
PER_RANK = {gpipe: 1, one_f_one_b: 1}

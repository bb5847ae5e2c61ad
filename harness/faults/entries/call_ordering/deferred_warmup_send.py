"""The warmup's last send is put off to a steady state that does not come.

Does: Stage 0 keeps its last warmup activation, to send it together with the first receive of the
steady state. What is left over is sent at the end.

Wrong: With one microbatch there is no steady state. The cooldown waits for the gradient of an
activation that has not been sent.

Shows: Both ranks hang on every backend whenever there are no more microbatches than warmup
forwards; with more of them all is well.

Instead: Send what is left over before the cooldown begins.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "torchtitan#775",
    "world": 2,
    "code": "deadlock",
    "cause": "order",
    "ranks": [0, 1],
}

CHUNKS = 1


def _first_stage(flush_early):
    warmup, gradient = 1, torch.zeros(4)
    kept = torch.ones(4)
    for _ in range(CHUNKS - warmup):
        fused = [dist.P2POp(dist.isend, kept, 1), dist.P2POp(dist.irecv, gradient, 1)]
        for work in dist.batch_isend_irecv(fused):
            work.wait()
    if flush_early:
        dist.send(kept, 1)
    dist.recv(gradient, 1)  # fault
    if not flush_early:
        dist.send(kept, 1)


def _last_stage():
    activation = torch.zeros(4)
    dist.recv(activation, 0)  # fault
    dist.send(torch.ones(4), 0)


def faulty(rank, world_size):
    _first_stage(flush_early=False) if rank == 0 else _last_stage()


def correct(rank, world_size):
    _first_stage(flush_early=True) if rank == 0 else _last_stage()

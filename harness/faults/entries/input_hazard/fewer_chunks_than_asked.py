"""torch.chunk gives fewer microbatches than asked for.

Does: Rank 0 cuts a batch of 6 into 4 microbatches with torch.chunk and sends each; rank 1 receives
4.

Wrong: torch.chunk makes parts of ceil(6 / 4) = 2 rows: there are only three.

Shows: Rank 1 hangs in its fourth receive. With a batch that the number divides, all is right.

Instead: torch.tensor_split gives as many parts as asked for; or refuse such a batch.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "input-hazard",
    "scope": "program",
    "source": "pytorch#126600, PiPPy#192: batch not divisible by chunks",
    "world": 2,
    "code": "orphan-wait",
    "cause": "missing-send",
    "ranks": [1],
}


def faulty(rank, world_size):
    batch, chunks = 6, 4
    if rank == 0:
        for microbatch in torch.ones(batch, 2).chunk(chunks):
            dist.send(microbatch, 1)
    else:
        for _ in range(chunks):
            dist.recv(torch.empty(-(-batch // chunks), 2), 0)  # fault


def correct(rank, world_size):
    batch, chunks = 6, 4
    if rank == 0:
        for microbatch in torch.ones(batch, 2).tensor_split(chunks):
            dist.send(microbatch, 1)
    else:
        for like in torch.empty(batch, 2).tensor_split(chunks):
            dist.recv(torch.empty_like(like), 0)

"""An isend whose wait comes right behind it is a send.

Does: Both ranks isend, wait for it, and then receive.

Wrong: The wait ends only when the other rank has posted its receive. An isend becomes such a send
also where launches block (CUDA_LAUNCH_BLOCKING=1).

Shows: Both ranks hang in the wait, on gloo at any size.

Instead: Wait for the send after the receive; for NCCL post both as one batch_isend_irecv.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "buffering",
    "scope": "program",
    "source": "TensorRT-LLM#10665",
    "world": 2,
    "code": "deadlock",
    "cause": "needs-buffering",
    "ranks": [0, 1],
    "semantics": {"buffered": None},
}


def faulty(rank, world_size):
    sent, received = torch.full((4,), float(rank)), torch.zeros(4)
    work = dist.isend(sent, 1 - rank)
    work.wait()  # fault
    dist.recv(received, 1 - rank)


def correct(rank, world_size):
    sent, received = torch.full((4,), float(rank)), torch.zeros(4)
    both = [dist.P2POp(dist.isend, sent, 1 - rank), dist.P2POp(dist.irecv, received, 1 - rank)]
    for work in dist.batch_isend_irecv(both):
        work.wait()

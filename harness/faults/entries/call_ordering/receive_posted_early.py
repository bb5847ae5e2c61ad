"""A receive that is posted early holds up the question that it is the answer to.

Does: Rank 0 posts the receive for the answer, then sends the question; rank 1 answers.

Wrong: On NCCL the send stands behind the receive in one queue, and the receive ends only when the
question has been answered.

Shows: Finishes on gloo; hangs on NCCL under either kind of group. With other messages in between it
is a delay.

Instead: Post the receive after the send.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "call-ordering",
    "scope": "program",
    "source": "pytorch#165664, pytorch#188833",
    "world": 2,
    "code": "nccl-hazard",
    "cause": "queue-order",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    question, answer = torch.ones(4), torch.zeros(4)
    if rank == 0:
        early = dist.irecv(answer, 1)  # fault
        dist.send(question, 1)  # fault
        early.wait()
    else:
        dist.recv(question, 0)  # fault
        dist.send(question + 1, 0)


def correct(rank, world_size):
    question, answer = torch.ones(4), torch.zeros(4)
    if rank == 0:
        dist.send(question, 1)
        late = dist.irecv(answer, 1)
        late.wait()
    else:
        dist.recv(question, 0)
        dist.send(question + 1, 0)

"""The ranks take turns by parity, but one receive is moved behind the sends.

Does: Two tensors go each way. Rank 0 posts both its sends and then receives; rank 1 receives one,
posts both its sends, and then receives the other.

Wrong: Receiving first on the odd rank helps with the first message only. The second send of each
rank stands before the receive that the other's second send needs.

Shows: Finishes on gloo. On NCCL both ranks hang as soon as the tensors do not fit the buffers.

Instead: Each send in a batch with the receive that goes the other way.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "buffering",
    "scope": "program",
    "source": "pytorch#172668",
    "world": 2,
    "code": "nccl-hazard",
    "cause": "needs-capacity",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    sent = [torch.ones(1024), torch.ones(1024)]
    received = [torch.zeros(1024), torch.zeros(1024)]
    if rank == 0:
        works = [dist.isend(tensor, 1) for tensor in sent]  # fault
        for tensor in received:
            dist.recv(tensor, 1)  # fault
    else:
        dist.recv(received[0], 0)
        works = [dist.isend(tensor, 0) for tensor in sent]  # fault
        dist.recv(received[1], 0)  # fault
    for work in works:
        work.wait()


def correct(rank, world_size):
    for number in range(2):
        sent, received = torch.full((1024,), float(number)), torch.zeros(1024)
        both = [dist.P2POp(dist.isend, sent, 1 - rank), dist.P2POp(dist.irecv, received, 1 - rank)]
        for work in dist.batch_isend_irecv(both):
            work.wait()

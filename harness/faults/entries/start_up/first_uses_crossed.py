"""Two ranks come to their first messages in another order than their peers.

Does: Rank 0 posts receives from ranks 1 and 2; rank 1 first receives from rank 2, and rank 2 first
sends to rank 0.

Wrong: On NCCL without device_id each post is held until the other rank of the pair comes: 0 waits
for 1, 1 for 2, and 2 for 0.

Shows: Finishes on gloo. Without device_id the three hang at start-up, and never again once the
pairs have met; with it they hang where the buffers are full.

Instead: Let the pairs meet in one order on all ranks: rank 1 sends to rank 0 first.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "start-up",
    "scope": "program",
    "source": "Megatron#5240",
    "world": 3,
    "code": "nccl-hazard",
    "cause": "lazy-communicator",
    "ranks": [0, 1, 2],
}


def _post(rank, answer_first):
    tensor, other = torch.ones(4), torch.ones(4)
    if rank == 0:
        works = [dist.irecv(tensor, 1), dist.irecv(other, 2)]  # fault
    elif rank == 1 and answer_first:
        works = [dist.isend(other, 0), dist.irecv(tensor, 2)]
    elif rank == 1:
        works = [dist.irecv(tensor, 2), dist.isend(other, 0)]  # fault
    else:
        works = [dist.isend(tensor, 0), dist.isend(other, 1)]  # fault
    for work in works:
        work.wait()


def faulty(rank, world_size):
    _post(rank, answer_first=False)


def correct(rank, world_size):
    _post(rank, answer_first=True)

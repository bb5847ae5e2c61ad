"""numpy writes into a tensor that is being sent.

Does: Rank 0 has its samples in a numpy array, sends the tensor that shares its memory, and loads
the next sample into the array before it waits.

Wrong: torch.from_numpy copies nothing: array and tensor are one memory.

Shows: The receiver may get the next sample. torch does not notice what numpy writes, so that real
ranks cannot show it; the simulator compares the bytes.

Instead: Wait first, or load into another array.
"""

import numpy
import torch
import torch.distributed as dist

LABEL = {
    "class": "local-concurrency",
    "scope": "program",
    "source": "MPI Bugs Initiative (local concurrency)",
    "world": 2,
    "code": "buffer-overwrite",
    "ranks": [0],
    "semantics": {"buffered": None, "nccl-eager": None, "nccl-lazy": None},
    "backends": {"gloo": None},
}


def faulty(rank, world_size):
    samples = numpy.ones(4, dtype=numpy.float32)
    if rank == 0:
        work = dist.isend(torch.from_numpy(samples), 1)  # fault
        samples[:] = 2
        work.wait()
    else:
        dist.recv(torch.from_numpy(samples), 0)


def correct(rank, world_size):
    samples = numpy.ones(4, dtype=numpy.float32)
    if rank == 0:
        work = dist.isend(torch.from_numpy(samples), 1)
        work.wait()
        samples[:] = 2
    else:
        dist.recv(torch.from_numpy(samples), 0)

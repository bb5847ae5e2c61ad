"""Half of the processes make a world of their own; the others leave."""

import os
import time

import torch
import torch.distributed as dist

rank, half = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]) // 2
if rank < half:
    time.sleep(0.3 * rank)
    dist.init_process_group("gloo", rank=rank, world_size=half)
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()

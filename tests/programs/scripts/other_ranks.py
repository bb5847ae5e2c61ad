"""Each process takes another rank than torchrun's: peers are ranks, not processes."""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo", rank=1 - int(os.environ["RANK"]), world_size=2)
if dist.get_rank() == 0:
    dist.send(torch.ones(1), 1)
else:
    time.sleep(0.3)
    dist.recv(torch.ones(1), 0)
dist.destroy_process_group()

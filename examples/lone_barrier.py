"""A barrier behind a condition: rank 1 waits in it for ever.

`harness run examples/lone_barrier.py -n 3` runs it as torchrun would and says which ranks it is
waiting for, and where their counts part.
"""

import torch.distributed as dist

if __name__ == "__main__":
    dist.init_process_group("gloo")
    dist.barrier()
    if dist.get_rank() == 1:
        dist.barrier()
    print(f"rank {dist.get_rank()} has passed")
    dist.destroy_process_group()

"""A rank waits for a key of the store that no rank sets.

Does: Rank 0 puts the run's name into the store; the others read it, under another key.

Wrong: The key that is read is never set. A store says nothing about keys that are misspelt.

Shows: The readers wait until the store's own timeout, 5 minutes or more. No message is missing, so
that nothing can be proved.

Instead: One constant for the key, on both sides.
"""

import datetime

import torch.distributed as dist

LABEL = {
    "class": "start-up",
    "scope": "program",
    "source": "course: a store as a rendezvous",
    "world": 2,
    "code": "timeout",
    "ranks": [1],
    "options": {"timeout": 2},
}


def _exchange(rank, key):
    store = dist.distributed_c10d._get_default_store()
    store.set_timeout(datetime.timedelta(minutes=30))
    if rank == 0:
        store.set("run_name", "first")
    else:
        store.get(key)  # fault


def faulty(rank, world_size):
    _exchange(rank, "run-name")


def correct(rank, world_size):
    _exchange(rank, "run_name")

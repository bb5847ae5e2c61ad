"""1F1B's steady state sends the activation and receives the gradient in two calls.

Does: Two stages run three microbatches in 1F1B. In the steady state stage 0 sends an activation
while stage 1 sends a gradient.

Wrong: Activation and gradient cross between the same two ranks. Both are blocking sends, and the
receives come behind them.

Shows: Both ranks hang with more than one microbatch on gloo; on NCCL only with large activations.

Instead: Send forward and receive backward in one batch_isend_irecv, on both ranks.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "buffering",
    "scope": "program",
    "source": "pytorch#126419",
    "world": 2,
    "code": "deadlock",
    "cause": "needs-buffering",
    "ranks": [0, 1],
    "semantics": {"buffered": None},
}

CHUNKS = 3


def _exchange(sent, received, peer):
    both = [dist.P2POp(dist.isend, sent, peer), dist.P2POp(dist.irecv, received, peer)]
    for work in dist.batch_isend_irecv(both):
        work.wait()


def faulty(rank, world_size):
    activation, gradient = torch.ones(4), torch.ones(4)
    if rank == 0:
        dist.send(activation, 1)
        for _ in range(CHUNKS - 1):
            dist.send(activation, 1)  # fault
            dist.recv(gradient, 1)
        dist.recv(gradient, 1)
    else:
        dist.recv(activation, 0)
        for _ in range(CHUNKS - 1):
            dist.send(gradient, 0)  # fault
            dist.recv(activation, 0)
        dist.send(gradient, 0)


def correct(rank, world_size):
    activation, gradient = torch.ones(4), torch.ones(4)
    if rank == 0:
        dist.send(activation, 1)
        for _ in range(CHUNKS - 1):
            _exchange(activation, gradient, 1)
        dist.recv(gradient, 1)
    else:
        dist.recv(activation, 0)
        for _ in range(CHUNKS - 1):
            _exchange(gradient, activation, 0)
        dist.send(gradient, 0)

"""A hook sends a gradient while the step still has a message to send.

Does: Rank 1 has a hook that sends the activation's gradient back as soon as it is there, and sends
the loss after the backward. Rank 0 receives the loss first.

Wrong: The hook runs inside backward(), before the line that sends the loss, whatever the page looks
like.

Shows: The receive for the loss takes the gradient. Sizes differ here, so that gloo aborts rank 0;
with equal sizes the two would be exchanged in silence.

Instead: Receive in the order in which the hook makes the peer send, or send after the backward.
"""

import torch
import torch.distributed as dist

LABEL = {
    "class": "local-concurrency",
    "scope": "program",
    "source": "MPI Bugs Initiative (local concurrency)",
    "world": 2,
    "code": "shape-mismatch",
    "ranks": [0, 1],
}


def faulty(rank, world_size):
    if rank == 0:
        loss, gradient = torch.empty(1), torch.empty(4)
        dist.recv(loss, 1)  # fault
        dist.recv(gradient, 1)
    else:
        activation = torch.ones(4, requires_grad=True)
        activation.register_hook(lambda gradient: dist.send(gradient, 0))  # fault
        loss = (activation * activation).sum()
        loss.backward()
        dist.send(loss.detach().reshape(1), 0)


def correct(rank, world_size):
    if rank == 0:
        loss, gradient = torch.empty(1), torch.empty(4)
        dist.recv(gradient, 1)
        dist.recv(loss, 1)
    else:
        activation = torch.ones(4, requires_grad=True)
        activation.register_hook(lambda gradient: dist.send(gradient, 0))
        loss = (activation * activation).sum()
        loss.backward()
        dist.send(loss.detach().reshape(1), 0)

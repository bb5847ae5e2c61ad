"""Messages taken by receives that were meant for others, and twins of them that are right."""

# mypy: ignore-errors

import torch
import torch.distributed as dist

from pipeline.actions import CURRENT, Action, Origin


def plan(rank, world_size, chunks):
    """The first rank sends its activations last to first; the next receives them first to last."""
    yield from _gpipe(rank, world_size, range(chunks), reversed(range(chunks)))


def right_plan(rank, world_size, chunks):
    """Every rank goes from the last microbatch to the first: another order, but the same."""
    yield from _gpipe(rank, world_size, range(chunks - 1, -1, -1), range(chunks - 1, -1, -1))


def _gpipe(rank, world_size, order, sends):
    order = list(order)
    for m in order:
        if rank > 0:
            yield f"{rank}RECV_F{m}"  # taken
        yield f"{rank}F{m}"
        if 0 < rank < world_size - 1:
            yield f"{rank}SEND_F{m}"
    if rank == 0 < world_size - 1:
        for m in sends:
            yield f"0SEND_F{m}"  # sent
    for m in order:
        if rank < world_size - 1:
            yield f"{rank}RECV_B{m}"
        yield f"{rank}B{m}"
        if rank > 0:
            yield f"{rank}SEND_B{m}"


def step(stage, comms, batch, chunks):
    """Right: from the last microbatch to the first, though calls are counted from 0."""
    sizes = [batch.size // chunks + (k < batch.size % chunks) for k in range(chunks)]
    inputs = None if batch.inputs is None else batch.inputs.split(sizes)
    targets = None if batch.targets is None else batch.targets.split(sizes)
    saved, works, loss = [], [], None
    for m in reversed(range(chunks)):
        if stage.is_first:
            x = inputs[m]
        else:
            x = comms.receive_forward(stage.input_shape(sizes[m])).requires_grad_()
        y = stage(x, targets[m]) if stage.is_last else stage(x)
        if not stage.is_last:
            works.append(comms.isend_forward(y))
        saved.append((m, x, y))
    for m, x, y in saved:
        share = sizes[m] / batch.size
        if stage.is_last:
            y.backward(torch.tensor(share, dtype=y.dtype))
            loss = y.detach() * share + (0 if loss is None else loss)
        else:
            y.backward(comms.receive_backward(stage.output_shape(sizes[m])))
        if not stage.is_first:
            works.append(comms.isend_backward(x.grad))
    for work in works:
        work.wait()
    return loss


def gradient_as_activation(rank, world_size):
    """Run actions of another file's plan by hand."""
    tensor, peer = torch.ones(4), 1 - rank
    text = "1SEND_B0" if rank == 1 else "0RECV_F0"
    token = CURRENT.set(Action.parse(text, Origin("schedule.py", 7, "plan")))
    if rank == 1:
        dist.send(tensor, peer)  # the gradient
    else:
        dist.recv(tensor, peer)  # the activation
    CURRENT.reset(token)

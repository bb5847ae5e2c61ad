"""Parts of the entries beside this file that build their stages themselves."""

from _parts import cut, forwards
from torch import nn


def blocks(count, width):
    """Draw some hidden layers, as the model has them."""
    return [nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(count)]


def gpipe(stage, comms, batch, chunks):
    """Run a correct step: all forwards, then all backwards."""
    sizes, inputs, targets = cut(stage, batch, chunks)
    saved = forwards(stage, comms, sizes, inputs, targets)
    total = 0.0
    for size, (x, y) in zip(sizes, saved, strict=True):
        if stage.is_last:
            loss = y * (size / batch.size)
            total += loss.item()
            loss.backward()
        else:
            y.backward(comms.receive_backward(y.shape))
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None

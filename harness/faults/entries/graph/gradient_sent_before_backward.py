"""The input's gradient is sent before the backward that makes it.

Does: The last stage sends x.grad back and then calls backward, in the order in which 1F1B's figure
seems to draw them.

Wrong: x.grad does not exist before the backward.

Shows: The send is refused: there is no gradient. With zeros in place of None, or x.grad kept from
the microbatch before, it would pass with wrong numbers.

Instead: First backward, then send.
"""

from _parts import cut

LABEL = {
    "class": "graph",
    "scope": "step",
    "source": "TrainVerify (backward reads the wrong input)",
    "world": 2,
    "chunks": 1,
    "code": "invalid-argument",
    "ranks": [1],
    "options": {"cases": 2},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total = 0.0
    for size, x, target in zip(sizes, inputs, targets, strict=True):
        if not stage.is_first:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        if stage.is_last:
            y, gradient = stage(x, target) * (size / batch.size), None
            total += y.item()
        else:
            y = stage(x)
            comms.send_forward(y)
            gradient = comms.receive_backward(y.shape)
        if not stage.is_first:
            comms.send_backward(x.grad)  # fault
        y.backward(gradient)
    return total if stage.is_last else None


def correct(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    total = 0.0
    for size, x, target in zip(sizes, inputs, targets, strict=True):
        if not stage.is_first:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        if stage.is_last:
            y, gradient = stage(x, target) * (size / batch.size), None
            total += y.item()
        else:
            y = stage(x)
            comms.send_forward(y)
            gradient = comms.receive_backward(y.shape)
        y.backward(gradient)
        if not stage.is_first:
            comms.send_backward(x.grad)
    return total if stage.is_last else None

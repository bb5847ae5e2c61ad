"""All ranks have the first rank's warmup.

Does: A 1F1B step lets every rank run world_size - 1 forwards before its first backward.

Wrong: Only the first rank needs that many: its gradient has the longest way. Each rank after it
needs one fewer, the last none.

Shows: Numbers and order of messages are right. The last rank holds as many activations as the
first, and has the head's memory as well.

Instead: warmup = min(chunks, world_size - rank - 1).
"""

from _parts import cut

LABEL = {
    "class": "memory",
    "scope": "step",
    "source": "micropp ebdee75 (warmup counted wrong)",
    "world": 2,
    "chunks": 2,
    "code": "memory-bound",
    "ranks": [1],
    "details": {"rank 1": {"peak": 2, "bound": 1}},
    "options": {"cases": 2, "semantics": "gloo"},
}


def faulty(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    saved, requests, total = {}, [], 0.0
    warmup = min(chunks, comms.world_size - 1)  # fault
    for turn in range(chunks + warmup):
        if turn < chunks:
            x = inputs[turn]
            if not stage.is_first:
                x = comms.receive_forward(stage.input_shape(sizes[turn])).requires_grad_()
            y = stage(x, targets[turn]) if stage.is_last else stage(x)  # fault: goes too far
            saved[turn] = x, y
            if not stage.is_last:
                requests.append(comms.isend_forward(y))
        if turn >= warmup:
            x, y = saved.pop(turn - warmup)
            if stage.is_last:
                loss = y * (sizes[turn - warmup] / batch.size)
                total += loss.item()
                loss.backward()
            else:
                y.backward(comms.receive_backward(y.shape))
            if not stage.is_first:
                requests.append(comms.isend_backward(x.grad))
    for request in requests:
        request.wait()
    return total if stage.is_last else None


faulty.promises = "1f1b"


def correct(stage, comms, batch, chunks):
    sizes, inputs, targets = cut(stage, batch, chunks)
    saved, requests, total = {}, [], 0.0
    warmup = min(chunks, comms.world_size - comms.rank - 1)
    for turn in range(chunks + warmup):
        if turn < chunks:
            x = inputs[turn]
            if not stage.is_first:
                x = comms.receive_forward(stage.input_shape(sizes[turn])).requires_grad_()
            y = stage(x, targets[turn]) if stage.is_last else stage(x)
            saved[turn] = x, y
            if not stage.is_last:
                requests.append(comms.isend_forward(y))
        if turn >= warmup:
            x, y = saved.pop(turn - warmup)
            if stage.is_last:
                loss = y * (sizes[turn - warmup] / batch.size)
                total += loss.item()
                loss.backward()
            else:
                y.backward(comms.receive_backward(y.shape))
            if not stage.is_first:
                requests.append(comms.isend_backward(x.grad))
    for request in requests:
        request.wait()
    return total if stage.is_last else None


correct.promises = "1f1b"

"""Parts of a correct step that the entries beside this file have in common."""


def cut(stage, batch, chunks):
    """Return each microbatch's size, inputs and targets; None for what this rank does not hold."""
    if chunks > batch.size:
        raise ValueError(f"{batch.size} samples cannot fill {chunks} microbatches")
    base, extra = divmod(batch.size, chunks)
    sizes = [base + (index < extra) for index in range(chunks)]
    inputs = batch.inputs.split(sizes) if stage.is_first else [None] * chunks
    targets = batch.targets.split(sizes) if stage.is_last else [None] * chunks
    return sizes, inputs, targets


def forwards(stage, comms, sizes, inputs, targets):
    """Run the forwards of all microbatches; return each one's input and output."""
    saved = []
    for size, x, target in zip(sizes, inputs, targets, strict=True):
        if not stage.is_first:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        y = stage(x, target) if stage.is_last else stage(x)
        if not stage.is_last:
            comms.send_forward(y)
        saved.append((x, y))
    return saved

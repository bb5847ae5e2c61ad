"""Steps whose ranks hold several stages: right ones, and the same with one fault each."""

from typing import Any

import torch

from pipeline.model import chunk_sizes


def loop(
    stages: Any,
    comms: Any,
    batch: Any,
    chunks: Any,
    *,
    detach: bool = True,
    divide: bool = True,
    swap: bool = False,
    requires: bool = True,
    climbs: Any = (),
) -> Any:
    """All forwards, then all backwards; each microbatch goes through every stage in turn.

    Stages that lie on one rank hand their tensors over. Nothing overlaps, so that blocking calls
    do not hang. Ranks in ``climbs`` go through their stages from the first on in the backwards.
    """
    sizes = chunk_sizes(batch.size, chunks)
    depth = stages[0].count
    mine = {stage.index: stage for stage in stages}
    inputs: Any = None if batch.inputs is None else batch.inputs.split(sizes)
    targets: Any = None
    if batch.targets is not None:
        targets = (batch.targets.flip(0) if swap else batch.targets).split(sizes)
    kept: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
    total = None
    for k, size in enumerate(sizes):
        handed: Any = None
        for index in range(depth):
            if index not in mine:
                continue
            stage = mine[index]
            if index == 0:
                x = inputs[k]
            elif index - 1 in mine:
                x = handed.detach() if detach else handed
            else:
                x = comms.receive_forward(stage.input_shape(size), stage=index)
            if index and requires and x.is_leaf:
                x.requires_grad_()
            if stage.is_last:
                loss = stage(x, targets[k])
                y = loss * (size / batch.size) if divide else loss
                total = loss.detach() * (size / batch.size) + (0 if total is None else total)
            else:
                y = handed = stage(x)
                if index + 1 not in mine:
                    comms.send_forward(y, stage=index)
            kept[index, k] = x, y
    for k, size in enumerate(sizes):
        back = None
        for index in sorted(range(depth), reverse=comms.rank not in climbs):
            if index not in mine:
                continue
            x, y = kept[index, k]
            if index == depth - 1:
                y.backward()
            else:
                if index + 1 not in mine:
                    back = comms.receive_backward(stages[0].output_shape(size), stage=index)
                y.backward(back)
            back = x.grad
            if index and index - 1 not in mine:
                comms.send_backward(back, stage=index)
    return total


def looped(stages, comms, batch, chunks):  # type: ignore[no-untyped-def]
    return loop(stages, comms, batch, chunks)


def in_a_v(stages, comms, batch, chunks):  # type: ignore[no-untyped-def]
    return loop(stages, comms, batch, chunks)


def three_each(stages, comms, batch, chunks):  # type: ignore[no-untyped-def]
    return loop(stages, comms, batch, chunks)


def not_divided(stages, comms, batch, chunks):  # type: ignore[no-untyped-def]
    return loop(stages, comms, batch, chunks, divide=False)


def other_targets(stages, comms, batch, chunks):  # type: ignore[no-untyped-def]
    return loop(stages, comms, batch, chunks, swap=True)


def one_rank_climbs(stages, comms, batch, chunks):  # type: ignore[no-untyped-def]
    return loop(stages, comms, batch, chunks, climbs=(1,))


def no_gradient_wanted_in_a_v(stages, comms, batch, chunks):  # type: ignore[no-untyped-def]
    return loop(stages, comms, batch, chunks, requires=False)


def no_gradient_wanted(stages, comms, batch, chunks):  # type: ignore[no-untyped-def]
    return loop(stages, comms, batch, chunks, requires=False)


def stage_not_said(stages, comms, batch, chunks):  # type: ignore[no-untyped-def]
    comms.receive_forward((1, 1))


in_a_v.placement = "v"  # type: ignore[attr-defined]
no_gradient_wanted_in_a_v.placement = "v"  # type: ignore[attr-defined]
three_each.placement = lambda world: tuple(range(world)) * 3  # type: ignore[attr-defined]

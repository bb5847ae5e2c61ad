"""Whether the stages of a user's own model are that model, and start with its values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from harness.checkers.phrases import do, join
from harness.findings import Finding, Operation
from harness.parity.reference import initial, one_thread
from harness.parity.results import StageResult, unpack
from pipeline.own_model import OwnModel, OwnWorkload

SHOWN = 3  # parameters that a message names


def cut(workload: OwnWorkload, chain: Sequence[StageResult]) -> Finding | None:
    """Compare what ``split`` gave with the model: its parameters, and what they compute."""
    model = initial(workload).model
    assert isinstance(model, OwnModel)
    own = {id(p) for p in model.model.parameters()}
    held = {id(p) for p in model.parameters()}
    lost = [name for name, p in model.model.named_parameters() if id(p) not in held]
    strange = [
        f"{name} of stage {index}"
        for index, part in enumerate(model.slices)
        for name, p in part.named_parameters()
        if id(p) not in own
    ]
    details = {"stages": len(chain), "lost": lost, "strange": strange}
    if strange:
        return _mismatch(
            f"the stages have parameters that are not the model's own: {_some(strange)}",
            "let split hand out the model's own modules, which share its parameters: no copies, "
            "nothing made anew",
            chain,
            details,
        )
    if lost:
        return _mismatch(
            f"no stage has the model's {_some(lost)}",
            "let split put every part of the model on a stage",
            chain,
            details,
        )
    if (apart := _apart(model)) is not None:
        return _mismatch(
            f"the stages, one after the other, do not compute what the model does: {apart}",
            "let the modules that split gives be the model's forward, cut in pieces: nothing of "
            "it left out, done twice or in another order",
            chain,
            {"stages": len(chain)},
        )
    return None


def _apart(model: OwnModel) -> str | None:
    """Say how far the model's output is from that of its stages; None where only rounding is."""
    everything = slice(0, len(model.targets))
    stages = model.in_stages()
    with one_thread(), torch.no_grad():
        whole, cut_up = (one.output_of(everything) for one in (model, stages))
        if not isinstance(whole, Tensor) or not isinstance(cut_up, Tensor):
            whole, cut_up = (one.loss_of(everything) for one in (model, stages))
    if whole.shape != cut_up.shape:
        return f"an output of shape {tuple(cut_up.shape)} instead of {tuple(whole.shape)}"
    apart = float((whole.double() - cut_up.double()).abs().max())
    size = float(whole.double().abs().max())
    if not math.isfinite(size) or apart <= math.sqrt(torch.finfo(whole.dtype).eps) * size:
        return None
    return f"the outputs are up to {apart:.3g} apart, at values of up to {size:.3g}"


def drawn_alike(workload: OwnWorkload, chain: Sequence[StageResult]) -> Finding | None:
    """Compare the values that the parameters start with; another call of ``model`` gave them."""
    reference = initial(workload)
    expected = [tuple(p.shape) for p in reference.parameters]
    if expected != [shape for stage in chain for _, shape in stage.layout]:
        return _mismatch(
            "the model has other parameters at another call of model()",
            "let model() build the same at every call",
            chain,
            {"stages": len(chain)},
        )
    right, start = reference.values(), 0
    differing: list[tuple[StageResult, str]] = []
    for stage in chain:
        mine = unpack(stage.initial, workload.dtype)
        for name, shape in stage.layout:
            size = math.prod(shape)
            if not torch.equal(mine[:size], right[start : start + size]):
                differing.append((stage, name.removeprefix("units.0.")))
            mine, start = mine[size:], start + size
    if not differing:
        return None
    ranks = tuple(sorted({stage.rank for stage, _ in differing}))
    first, name = differing[0]
    return Finding(
        "init-mismatch",
        f"{do(ranks)} not start with the model's parameters: {name} of stage {first.number} has "
        "other values than at another call of model()",
        "let model() take all random numbers from torch, which is seeded before each call, and "
        "keep nothing from call to call",
        ranks=ranks,
        operations=_at(first),
        details={"stage": first.number, "parameter": name},
    )


def _mismatch(
    message: str, advice: str, chain: Sequence[StageResult], details: dict[str, object]
) -> Finding:
    ranks = tuple(sorted({stage.rank for stage in chain}))
    return Finding(
        "layer-mismatch", message, advice, ranks=ranks, operations=_at(chain[0]), details=details
    )


def _at(stage: StageResult) -> tuple[Operation, ...]:
    at = stage.built_at
    if at is None:
        return ()
    return (Operation(stage.rank, at.function, at.file, at.line, at.function, "made the stages"),)


def _some(names: Sequence[str]) -> str:
    """Name the first few, and say how many there are besides."""
    more = len(names) - SHOWN
    return join([*names[:SHOWN], f"{more} more"] if more > 0 else names)

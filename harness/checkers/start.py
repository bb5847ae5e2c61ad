"""Whether the stages start as the monolith: all of its layers, with its values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from harness.checkers import sites
from harness.checkers.phrases import do
from harness.findings import Finding, Operation
from harness.parity.draws import SLICE, Origin, origin_of
from harness.parity.reference import initial
from harness.parity.results import StageResult, unpack
from pipeline.model import Workload


def layers(workload: Workload, results: Sequence[StageResult]) -> Finding | None:
    """Compare how many parameters the stages hold, of which shapes, with the monolith's."""
    expected = [tuple(p.shape) for p in initial(workload).parameters]
    got = [shape for result in results for _, shape in result.layout]
    if got == expected:
        return None
    whole, held = _count(expected), [_count([s for _, s in r.layout]) for r in results]
    shown = zip((sites.owner(stage, results) for stage in results), held, strict=True)
    ranks = ", ".join(f"{owner}: {count}" for owner, count in shown)
    if sum(held) == whole:
        message = f"the stages hold {whole} layers, but not in the monolith's shapes or order"
    else:
        message = f"the stages hold {sum(held)} of the model's {whole} layers ({ranks})"
    return Finding(
        "layer-mismatch",
        message,
        f"spread all {workload.layers} layers over the stages, the remainder too, and put the "
        "head on the last: no layer left out, none on two stages",
        ranks=tuple(sorted({stage.rank for stage in results})),
        operations=_built(results),
        details={"layers": whole, "held": held},
    )


def initial_values(workload: Workload, results: Sequence[StageResult]) -> Finding | None:
    """Compare the values that the parameters start with."""
    right, start = initial(workload).values(), 0
    differing: list[tuple[StageResult, str, float]] = []
    drawn: list[Origin | None] = []
    for result in results:
        mine = unpack(result.initial, workload.dtype)
        place = 0
        for name, shape in result.layout:
            size = math.prod(shape)
            got, want = mine[place : place + size], right[start : start + size]
            if not torch.equal(got, want):
                apart = float((got.double() - want.double()).abs().max())
                differing.append((result, name.removeprefix("units.0."), apart))
                if len(shape) == 2 and not drawn:
                    drawn.append(origin_of(got.view(shape), workload, start, len(results)))
            place, start = place + size, start + size
    if not differing:
        return None
    ranks = sorted({stage.rank for stage, _, _ in differing})
    first, name, _ = differing[0]
    details: dict[str, Any] = {
        "stage": first.number,
        "parameter": name,
        "max_difference": max(apart for _, _, apart in differing),
    }
    where = f"first {name} of stage {first.number}"
    told = f"{do(ranks)} not start with the monolith's parameters: {where}"
    advice = SLICE
    if origin := next(iter(drawn), None):
        told, advice = f"{told}, {origin.told}", origin.help
        details |= origin.details
    return Finding(
        "init-mismatch",
        told,
        advice,
        ranks=tuple(ranks),
        operations=_built({stage.number: stage for stage, _, _ in differing}.values()),
        details=details,
    )


def _built(stages: Iterable[StageResult]) -> tuple[Operation, ...]:
    return tuple(
        Operation(s.rank, "build_stage", at.file, at.line, at.function, "built this stage")
        for s in stages
        if (at := s.built_at) is not None
    )


def _count(shapes: Sequence[tuple[int, ...]]) -> int:
    """Count layers: each has one weight matrix."""
    return sum(len(shape) > 1 for shape in shapes)

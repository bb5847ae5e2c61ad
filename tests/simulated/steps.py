"""A right step of a schedule, with something more at its end."""

from __future__ import annotations

from pathlib import Path

import harness

STEP = """
import random

import torch
import torch.distributed as dist

{setup}

def step(stage, comms, batch, chunks):
    size = batch.size // chunks
    inputs = batch.inputs.chunk(chunks) if stage.is_first else [None] * chunks
    targets = batch.targets.chunk(chunks) if stage.is_last else [None] * chunks
    total = None
    for x, y in zip(inputs, targets):
        if not stage.is_first:
            x = comms.receive_forward(stage.input_shape(size)).requires_grad_()
        out = stage(x, y) if stage.is_last else stage(x)
        if stage.is_last:
            loss = out / chunks
            loss.backward()
            total = loss.detach() if total is None else total + loss.detach()
        else:
            comms.send_forward(out.detach())
            out.backward(comms.receive_backward(stage.output_shape(size)))
        if not stage.is_first:
            comms.send_backward(x.grad)
    {use}
    return total
"""


def found_in(
    folder: Path, setup: str, use: str, semantics: str | None = "gloo"
) -> set[tuple[str, str]]:
    """Check such a step on two ranks; return the codes and severities of what is found."""
    file = folder / "mine.py"
    file.write_text(STEP.format(setup=setup, use=use))
    report = harness.check(
        f"{file}:step", world_size=2, chunks=2, cases=1, semantics=semantics, confirm=False
    )
    return {(finding.code, finding.severity) for finding in report.findings}

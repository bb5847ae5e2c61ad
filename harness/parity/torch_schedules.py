"""A schedule class of ``torch.distributed.pipelining`` as a step: made once, run once a step.

It is made with ``loss_fn`` a mean and everything else as torch's default, so that it divides the
gradients by the number of microbatches: they are the batch's only where all microbatches are as
large. The loss of a step is the mean of its samples', from the losses that torch gives back.

Before the stages are built the class is made once to see where it has them, and whether its order
is one that can run: torch's own validation passes much that cannot.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage

from harness import torch_pipelining as theirs
from harness.case import Case
from harness.parity.refusal import RefusedShapeError, is_raised
from harness.parity.torch_stage import Submodule, WatchedStage
from harness.targets.torch_classes import held_by_ranks, line_of
from pipeline.actions import Action
from pipeline.comms import Comms
from pipeline.model import Batch
from pipeline.placement import Placement
from pipeline.plan import Plan, validate
from pipeline.stage import Stage

_is_running: ContextVar[bool] = ContextVar("_is_running", default=False)


class TorchStep:
    """Called as a step; ``schedule`` is the class."""

    def __init__(self, schedule: type) -> None:
        self._class = schedule
        self._made_at = line_of(schedule)
        self._schedule: Any = None
        self._last: Submodule | None = None  # of the last stage, where that is here

    def __call__(
        self, stages: list[Stage], comms: Comms, batch: Batch, chunks: int
    ) -> Tensor | None:
        """Run one step; return the batch's mean loss on the last stage's rank."""
        losses: list[Tensor] = []
        inputs = () if batch.inputs is None else (batch.inputs,)
        wanted = {} if batch.targets is None else {"target": batch.targets, "losses": losses}
        with _quietly():
            if self._schedule is None:
                self._schedule = self._make(stages, chunks)
            if self._last is not None:
                self._last.sizes.clear()
            try:
                self._schedule.step(*inputs, **wanted)
            except KeyError as error:
                self._require_order(error, chunks)
                raise
        return _mean(losses, [] if self._last is None else self._last.sizes)

    def _make(self, stages: list[Stage], chunks: int) -> Any:
        watched = [WatchedStage(stage, self._made_at) for stage in stages]
        last = next((one for one in watched if one.is_last), None)
        self._last = None if last is None else last.module
        loss = _elsewhere if self._last is None else self._last.loss
        held = watched if theirs.holds_several(self._class) else watched[0]
        return self._class(held, chunks, loss_fn=loss)

    def placement(self, world: int, chunks: int) -> Placement:
        """Say where its stages are; make it for this shape to see that it can be.

        RefusedShapeError where it refuses the shape, PlanError where its order cannot run.
        """
        several = theirs.holds_several(self._class)
        ranks = tuple(held_by_ranks(self._class, world) if several else range(world))
        mine = [stage for stage, rank in enumerate(ranks) if rank == dist.get_rank()]
        stages = [PipelineStage(nn.Identity(), s, len(ranks), torch.device("cpu")) for s in mine]
        made: Any = object.__new__(self._class)
        try:
            with _quietly():
                made.__init__(stages if several else stages[0], chunks, loss_fn=_elsewhere)
        except (ValueError, AssertionError, RuntimeError) as error:
            self._judge(made, ranks, chunks, error)
            raise
        ranks = theirs.stage_ranks_of(made) or ranks
        if idle := sorted(set(range(world)) - set(ranks)):
            raise RefusedShapeError(f"the schedule's order gives rank {idle[0]} no stage")
        if (plan := self._plan(made, ranks, chunks)) is not None:
            validate(plan)
        return Placement(ranks)

    def _judge(self, made: Any, ranks: tuple[int, ...], chunks: int, error: Exception) -> None:
        """Raise instead of an error from the class's own constructor what it means."""
        refuses = isinstance(error, ValueError) and is_raised(error)
        if refuses or theirs.is_torchs(self._class):
            raise RefusedShapeError(" ".join(str(error).split())) from error
        if (plan := self._plan(made, ranks, chunks)) is not None:
            validate(plan)

    def _plan(self, made: Any, ranks: tuple[int, ...], chunks: int) -> Plan | None:
        """Return the order that a schedule was made with; None where we cannot read it."""
        order = theirs.order_of(made)
        world = dist.get_world_size()
        if order is None or sorted(order) != list(range(world)):
            return None
        return self._plan_of(order, ranks, chunks)

    def _require_order(self, error: KeyError, chunks: int) -> None:
        """Raise PlanError instead where torch did not find a rank in the schedule's own order."""
        order = theirs.order_of(self._schedule) or {}
        ranks = theirs.stage_ranks_of(self._schedule)
        world = dist.get_world_size()
        left_out = error.args[:1] and error.args[0] not in order and error.args[0] in range(world)
        if not (theirs.holds_several(self._class) and left_out and ranks):
            return
        if (plan := self._plan_of(order, ranks, chunks)) is not None:
            validate(plan)

    def _plan_of(
        self, order: Mapping[int, Any], ranks: tuple[int, ...], chunks: int
    ) -> Plan | None:
        world = dist.get_world_size()
        try:
            rows = tuple(tuple(self._actions(order, rank)) for rank in range(world))
            return Plan(self._class.__qualname__, world, chunks, rows, ranks, 1)
        except ValueError:
            return None  # it has actions of its own kinds

    def _actions(self, order: Mapping[int, Any], rank: int) -> Iterator[Action]:
        for action in order.get(rank, ()):
            if action is None:
                continue
            parsed = Action.parse_torchs(str(action), self._made_at)
            if parsed is not None:
                yield parsed


def _mean(losses: list[Tensor], sizes: list[int]) -> Tensor | None:
    """Return the mean over all samples; of losses whose samples are not known, their own mean."""
    if not losses:
        return None
    each = torch.stack(losses).detach()
    if len(sizes) != len(losses) or len(set(sizes)) == 1:
        return each.mean()
    return (each * torch.tensor(sizes, dtype=each.dtype, device=each.device)).sum() / sum(sizes)


def _elsewhere(*_: Any) -> Tensor:
    raise AssertionError("the loss is computed on the last stage's rank")


class _WhileRunning(logging.Filter):
    """Drops what a schedule under test logs: its errors come as findings."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _is_running.get()


@contextmanager
def _quietly() -> Iterator[None]:
    logger = theirs.api().logger
    if not any(isinstance(known, _WhileRunning) for known in logger.filters):
        logger.addFilter(_WhileRunning())
    token = _is_running.set(True)
    try:
        yield
    finally:
        _is_running.reset(token)


def torch_step(schedule: Callable[..., Any], case: Case) -> tuple[TorchStep, Placement]:
    """Make a step of a schedule class, and say where its stages are."""
    theirs.api()
    assert case.chunks is not None
    assert isinstance(schedule, type)
    if case.batch is not None and case.batch < case.chunks:
        raise RefusedShapeError(f"{case.batch} samples cannot be cut in {case.chunks} microbatches")
    step = TorchStep(schedule)
    return step, step.placement(case.world, case.chunks)


__all__ = ["TorchStep", "torch_step"]

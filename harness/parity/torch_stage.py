"""One of our stages as torch's schedules want it, watched: which microbatch does what, and when."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage

from harness.frames import Frames
from pipeline.actions import Action, Kind, Origin, carry, doing
from pipeline.stage import Stage

_frames = Frames()


class Submodule(nn.Module):
    """A stage's module as torch calls it: on the last stage without the targets."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        stage.loss_apart = True
        self.stage = stage
        self.is_trying = False
        """Whether torch only finds out the shapes: that is no forward of the step."""
        self.sizes: list[int] = []
        """How many samples each loss is of, in the order in which they were computed."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation, or the logits."""
        y: Tensor = self.stage.units(x) if self.is_trying else self.stage(x)
        return y

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return a microbatch's mean loss: the schedule's ``loss_fn`` on the last stage."""
        if self.is_trying:
            return nn.functional.cross_entropy(logits, targets)
        self.sizes.append(len(targets))
        return self.stage.loss(logits, targets)


class WatchedStage(PipelineStage):
    """A ``PipelineStage`` that says which action each of its computes and messages is.

    ``made_at`` is the line that they are told at where the user's own code is not on the stack.
    """

    def __init__(self, stage: Stage, made_at: Origin) -> None:
        self.module = Submodule(stage)
        super().__init__(self.module, stage.index, stage.count, stage.device)
        self._made_at = made_at

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        """Run F."""
        with doing(self._action(Kind.F, fwd_chunk_id)):
            return super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)

    def backward_one_chunk(
        self,
        bwd_chunk_id: int,
        loss: Any = None,
        full_backward: bool = True,
        last_backward: Any = False,
    ) -> Any:
        """Run B, or I."""
        with doing(self._action(Kind.B if full_backward else Kind.I, bwd_chunk_id)):
            return super().backward_one_chunk(bwd_chunk_id, loss, full_backward, last_backward)

    def backward_weight_one_chunk(self, bwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        """Run W."""
        stage = self.module.stage
        with doing(self._action(Kind.W, bwd_chunk_id)), stage.around_weights(bwd_chunk_id):
            return super().backward_weight_one_chunk(bwd_chunk_id, *args, **kwargs)

    def get_fwd_recv_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        """Return what receives an activation, labelled."""
        return self._labelled(Kind.RECV_F, fwd_chunk_id, super().get_fwd_recv_ops(fwd_chunk_id))

    def get_fwd_send_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        """Return what sends an activation, labelled."""
        return self._labelled(Kind.SEND_F, fwd_chunk_id, super().get_fwd_send_ops(fwd_chunk_id))

    def get_bwd_recv_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        """Return what receives a gradient, labelled."""
        return self._labelled(Kind.RECV_B, bwd_chunk_id, super().get_bwd_recv_ops(bwd_chunk_id))

    def get_bwd_send_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        """Return what sends a gradient, labelled."""
        return self._labelled(Kind.SEND_B, bwd_chunk_id, super().get_bwd_send_ops(bwd_chunk_id))

    def _prepare_forward_infra(self, *args: Any, **kwargs: Any) -> Any:
        with self._trying():
            return super()._prepare_forward_infra(*args, **kwargs)

    def _prepare_backward_infra(self, *args: Any, **kwargs: Any) -> Any:
        with self._trying():
            return super()._prepare_backward_infra(*args, **kwargs)

    @contextmanager
    def _trying(self) -> Iterator[None]:
        self.module.is_trying = True
        try:
            yield
        finally:
            self.module.is_trying = False

    def _action(self, kind: Kind, microbatch: int) -> Action:
        """Name an action, at the user's line that asks for it."""
        _, frame = _frames.caller(sys._getframe(2))
        if frame is None:
            origin = self._made_at
        else:
            code = frame.f_code
            origin = Origin(code.co_filename, frame.f_lineno, code.co_name)
        return Action(self.stage_index, kind, microbatch, origin)

    def _labelled(
        self, kind: Kind, microbatch: int, operations: list[dist.P2POp]
    ) -> list[dist.P2POp]:
        if operations:
            action = self._action(kind, microbatch)
            for operation in operations:
                carry(operation.tensor, action)
        return operations

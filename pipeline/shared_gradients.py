"""Two directions: the ranks that have the same slices of the model sum their gradients."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pipeline.comms import Comms
from pipeline.stage import Stage


class SharedGradients:
    """The gradients of one step on a rank that has another with copies of all of its stages.

    To be made before the step: it sets aside what the parameters have from before, which is
    theirs already. Where there are no copies it does nothing.
    """

    def __init__(self, stages: Sequence[Stage], comms: Comms) -> None:
        self._comms = comms
        self._before: dict[nn.Parameter, Tensor | None] = {}
        if comms.mirror is None:
            return
        # Both ranks have the same slices, each in an order of its own.
        for stage in sorted(stages, key=lambda stage: stage.index):
            for parameter in stage.parameters():
                if parameter.requires_grad:
                    self._before[parameter] = parameter.grad
        for parameter in self._before:
            parameter.grad = None

    def sum(self, loss: Tensor | None) -> Tensor | None:
        """Add what the other rank has to the gradients, and its loss to this one's.

        A parameter that has a gradient on neither rank is left without. Returns the loss of both
        directions where a last stage is here, else None.
        """
        if self._comms.mirror is None:
            return loss
        like = next(iter(self._before), loss)
        if like is None:  # nothing is trained here, nor there
            return None
        parameters = list(self._before)
        there_is = torch.tensor([float(p.grad is not None) for p in parameters]).to(like)
        gradients = (torch.zeros_like(p) if p.grad is None else p.grad for p in parameters)
        parts = [there_is, *(gradient.detach().reshape(-1) for gradient in gradients)]
        if loss is not None:
            parts.append(loss.reshape(1))
        both = self._comms.sum_with(self._comms.mirror, torch.cat(parts))
        have, *summed = both.split([part.numel() for part in parts])
        for parameter, gradient, has in zip(parameters, summed, have.tolist(), strict=False):
            if has:
                parameter.grad = gradient.view_as(parameter).clone()
        self.restore()
        return None if loss is None else summed[-1].reshape(())

    def restore(self) -> None:
        """Give the parameters back what they had from before, beside what they have now."""
        for parameter, before in self._before.items():
            if before is not None:
                parameter.grad = before if parameter.grad is None else before.add_(parameter.grad)
        self._before = {}

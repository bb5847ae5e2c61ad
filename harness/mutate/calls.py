"""Mutants of what a step does as it runs: one call, or one forward, of one rank is damaged.

A layer lies over ``torch.distributed`` while such a mutant runs, above the recorder: to it, the
damaged call is what the program does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from harness.case import UsageError
from harness.injection import Injection
from harness.layer import Call, Ended, Later, over
from pipeline.stage import Stage

OPERATORS = {
    "drop-call": "a send or receive is left out",
    "repeat-call": "a send or receive is made twice",
    "swap-calls": "a send or receive comes after the next one",
    "wrong-peer": "it goes to, or comes from, another rank",
    "wrong-tag": "its tag is one higher",
    "wrong-size": "its tensor is one element short",
    "wrong-dtype": "its tensor has another dtype",
    "wrong-group": "it is on another group of the same ranks",
    "drop-wait": "its request is never waited for",
    "reuse-buffer": "its tensor is written, or read, before it has ended",
    "double-message": "what it sends is twice as large",
    "zero-message": "what it sends is zero",
    "lone-barrier": "this rank alone comes to a barrier before it",
    "double-forward": "a forward's result is twice as large",
    "skip-scale": "a forward's result is as many times larger as there are microbatches",
}
"""What is done to a call, and what that means."""
_FORWARDS = ("double-forward", "skip-scale")
_SENDS = ("double-message", "zero-message")
_OTHER = {
    torch.float64: torch.float32,
    torch.float32: torch.bfloat16,
    torch.bfloat16: torch.float32,
}


class NoSuchMutantError(UsageError):
    """A rank has ended without coming to what was to be damaged."""


@dataclass(frozen=True, slots=True)
class Made:
    """A call that a clean run has made."""

    is_send: bool
    numel: int
    text: str  # for people: what and where


@dataclass(slots=True)
class Damage:
    """What is done to the rank that runs here."""

    name: Injection
    world: int
    chunks: int
    calls: int = -1
    forwards: int = -1
    twin: Any = None  # a second group of the same ranks
    put_off: Callable[[], Any] | None = None
    kept: list[Any] = field(default_factory=list)

    def call(self, kind: str, original: Call, group: Any, args: tuple[Any, ...]) -> Any:
        """Count a send or receive, and damage the one that is named."""
        if kind not in ("send", "recv"):
            return original(group, *args)
        put_off, self.put_off = self.put_off, None
        self.calls += 1
        if self.name.operator in _FORWARDS or self.calls != self.name.place:
            work = original(group, *args)
        else:
            work = self._damaged(kind == "send", original, group, *args)
        if put_off is not None:
            put_off()
        return work

    def blocks(self) -> None:
        """Leave waits as they are."""

    def waited(self, work: Any) -> None:
        """Leave waits as they are."""

    def forward(self, module: Any, output: Any) -> Any:
        """Count a stage's forward, and damage the one that is named."""
        if not isinstance(module, Stage):
            return None
        self.forwards += 1
        if self.name.operator not in _FORWARDS or self.forwards != self.name.place:
            return None
        return output * (2 if self.name.operator == "double-forward" else self.chunks)

    def _damaged(
        self, is_send: bool, original: Call, group: Any, tensors: Any, peer: int, tag: int = 0
    ) -> Any:
        """Make the damaged call instead of the one that was asked for."""
        match self.name.operator:
            case "drop-call":
                return Ended()
            case "repeat-call":
                self.kept.append(original(group, tensors, peer, tag))
            case "swap-calls":
                work = Later(lambda: original(group, tensors, peer, tag))
                self.put_off = work.start
                return work
            case "wrong-peer":
                ranks = [r for r in range(self.world) if r not in (peer, dist.get_rank(group))]
                peer = ranks[peer % len(ranks)]
            case "wrong-tag":
                tag += 1
            case "wrong-size":
                tensors = [tensors[0].reshape(-1)[:-1]]
            case "wrong-dtype":
                other = tensors[0].to(_OTHER.get(tensors[0].dtype, torch.float32))
                self.kept.append(other)
                tensors = [other]
            case "wrong-group":
                group = self.twin
            case "double-message":
                tensors = [tensors[0] * 2]
            case "zero-message":
                tensors = [torch.zeros_like(tensors[0])]
            case "lone-barrier":
                dist.barrier()
        work = original(group, tensors, peer, tag)
        if self.name.operator == "drop-wait":
            self.kept.append(work)
            return Ended()
        if self.name.operator == "reuse-buffer":
            tensors[0].zero_() if is_send else tensors[0].sum()
        return work


@contextlib.contextmanager
def damaged(name: Injection, rank: int, world: int, chunks: int) -> Iterator[None]:
    """Damage what ``rank`` does in this block, when it is the one that is named."""
    twin = dist.new_group() if name.operator == "wrong-group" else None
    damage = Damage(name, world, chunks, twin=twin) if rank == name.rank else None
    with over(damage):
        yield
        if damage is None:
            return
        if damage.put_off is not None:
            damage.put_off()
        if name.place > (damage.forwards if name.operator in _FORWARDS else damage.calls):
            raise NoSuchMutantError(
                f"mutant={name}: rank {rank} does not do that many in this shape"
            )


def call_mutants(
    calls: list[list[Made]], forwards: list[list[bool]], chunks: int
) -> Iterator[tuple[Injection, str]]:
    """Yield the mutants of a step that makes these calls and forwards on each rank.

    Of a forward it is said whether it is the last stage's, and so a loss.
    """
    for rank, made in enumerate(calls):
        for place, call in enumerate(made):
            for operator in OPERATORS:
                if _applies(operator, call, len(calls), place + 1 < len(made)):
                    yield Injection(operator, rank, place), call.text
        for place, is_loss in enumerate(forwards[rank]):
            yield Injection("double-forward", rank, place), f"forward {place}"
            if chunks > 1 and is_loss:
                yield Injection("skip-scale", rank, place), f"forward {place}"


def _applies(operator: str, call: Made, world: int, has_next: bool) -> bool:
    if operator in _FORWARDS or (operator in _SENDS and not call.is_send):
        return False
    if operator == "wrong-peer":
        return world > 2
    if operator == "wrong-size":
        return call.numel > 1
    return has_next or operator != "swap-calls"

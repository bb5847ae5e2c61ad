"""A schedule class of ``torch.distributed.pipelining``, or one made of it: what it says of itself.

A class of the user's own may have three attributes: ``placement`` and ``stages_per_rank`` say where
its stages are (:func:`held_by_ranks`), ``promises`` names the schedule whose in-flight bound it
keeps to (:mod:`harness.checkers.memory`).
"""

from __future__ import annotations

import difflib
import functools
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.targets.signature import Command, TargetError
from harness.targets.stages import (
    MOST,
    ONE_EACH,
    Depth,
    depth_of_placements,
    placement_of_step,
)
from pipeline.actions import Origin
from pipeline.placement import looped
from pipeline.schedules import SCHEDULES

MODULES = ("torch.distributed.pipelining", "torch.distributed.pipelining.schedules")

PROMISES = {
    "ScheduleGPipe": "gpipe",
    "Schedule1F1B": "1f1b",
    "ScheduleInterleaved1F1B": "interleaved",
    "ScheduleZBVZeroBubble": "zbv",
    "ScheduleDualPipeV": "dualpipev",
}
"""torch's own schedules that keep to the in-flight bound of one of ours."""

_STAGES = 2  # on each rank, of a schedule that is given several


@dataclass(frozen=True, slots=True)
class TorchClass:
    """What a schedule class says of itself, before it is made for a shape."""

    several: bool  # it is given a list of stages
    depth: Depth  # slices of the model
    promises: str | None  # the schedule whose in-flight bound it keeps to


def describe_class(schedule: type, text: str) -> TorchClass:
    """Read what a class says of itself; TargetError where it is no schedule that can be made."""
    from harness import torch_pipelining as theirs

    name = schedule.__name__
    if theirs.is_torchs(schedule) and name in theirs.BASES:
        known = ", ".join(theirs.names())
        raise TargetError(
            f"{text} is a base of schedules and has no order of its own; torch has {known}"
        )
    if lacking := sorted(getattr(schedule, "__abstractmethods__", ())):
        raise TargetError(f"{text} is abstract: it lacks {', '.join(lacking)}")
    if name == "_ScheduleForwardOnly" and theirs.is_torchs(schedule):
        raise TargetError(f"{text} has no backwards, so that it trains nothing")
    several = theirs.holds_several(schedule)
    _require_arguments(schedule, text, "stages" if several else "stage")
    promises = getattr(schedule, "promises", None)
    if promises is None and theirs.is_torchs(schedule):
        promises = PROMISES.get(name)
    if promises is not None and promises not in SCHEDULES:
        raise TargetError(f"{text} promises {promises!r}: one of {', '.join(SCHEDULES)} is needed")
    depth = ONE_EACH
    if several:
        depth = depth_of_placements(lambda world: held_by_ranks(schedule, world))
    return TorchClass(several, depth, promises)


def refuse_to_run(text: str, command: Command) -> None:
    """Raise TargetError where a schedule class is named to a command that runs programs."""
    if command == "run":
        raise TargetError(f"{text} is a schedule, which is checked: use 'harness check {text}'")


def _require_arguments(schedule: type, text: str, first: str) -> None:
    """Refuse a class that cannot be made as torch's are."""
    try:
        inspect.signature(schedule).bind(object(), 4, loss_fn=object())
    except TypeError as error:
        raise TargetError(
            f"{text} cannot be made as {schedule.__name__}({first}, n_microbatches, "
            f"loss_fn=…): {error}; give its other parameters a default"
        ) from None
    except ValueError:
        return  # it has no readable parameters: what it says is told when it is made


def held_by_ranks(schedule: type, world: int) -> Sequence[int]:
    """Return the rank of each stage of a class of several, as far as it says so itself.

    Its ``placement`` is as a step's; without one the stages are looped, ``stages_per_rank`` on
    each, 2 of which is usual.
    """
    if hasattr(schedule, "placement"):
        return placement_of_step(schedule, world, "schedule").ranks
    count = getattr(schedule, "stages_per_rank", _STAGES)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST:
        raise TargetError(f"the schedule's stages_per_rank is {count!r}; give one of 1..{MOST}")
    return looped(world, count)


def find_class(text: str, module: str, name: str, load: Callable[[], Any]) -> Any:
    """Take a class out of torch's module, or of the one of its schedules; TargetError if not."""
    from harness import torch_pipelining as theirs

    for owner in (load(), theirs.api()):
        if (found := getattr(owner, name, None)) is not None:
            return found
    close = difflib.get_close_matches(name, theirs.names(), n=1, cutoff=0.4)
    hint = f"did you mean {close[0]}? " if close else ""
    raise TargetError(
        f"{module} has no schedule {name!r}: {hint}torch has {', '.join(theirs.names())}"
    )


def line_of(schedule: type) -> Origin:
    """Return where a class is defined: of a user's own, the nearest to it that is in a file."""
    for owner in schedule.__mro__:
        file = _file_of(owner)
        if file is not None:
            line = _line_in(file, Path(file).stat().st_mtime_ns, owner.__name__)
            return Origin(file, line, owner.__qualname__)
    return Origin("<unknown>", 0, schedule.__qualname__)


def _file_of(owner: type) -> str | None:
    """Return a class's file; of one that travelled by value, by its functions."""
    codes = [getattr(value, "__code__", None) for value in vars(owner).values()]
    files = [code.co_filename for code in codes if code is not None]
    module = sys.modules.get(owner.__module__)
    files += [getattr(module, "__file__", None) or ""]
    return next((file for file in files if Path(file).is_file()), None)


@functools.lru_cache(maxsize=64)
def _line_in(file: str, changed_ns: int, name: str) -> int:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return 0
    found = re.search(rf"^[ \t]*class[ \t]+{re.escape(name)}\b", text, re.MULTILINE)
    return 0 if found is None else 1 + text.count("\n", 0, found.end())

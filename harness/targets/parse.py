"""From what the user wrote to a target."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.targets.signature import (
    CALLED_WITH,
    Command,
    Kind,
    Signature,
    TargetError,
    kind_for,
    parse_source,
    read_file,
)
from harness.targets.stages import ONE_EACH, Depth, depth_of_plan, depth_of_schedule, depth_of_step
from harness.targets.target import Target, from_callable, in_order, is_schedule_class, read_plan
from harness.targets.torch_classes import TorchClass, describe_class, refuse_to_run

TargetLike = str | Callable[..., Any] | Target
FORMS = (
    "a target is a schedule's name, file.py:function, package.module:function, file.csv or a "
    "schedule class of torch, as in torch.distributed.pipelining:Schedule1F1B"
)


@dataclass(frozen=True, slots=True)
class Description:
    """What a rank says of a target: its signature, or why it does not load."""

    signature: Signature | None = None
    depth: Depth = ONE_EACH  # slices of the model, of a step or a plan
    without: tuple[str, ...] = ()  # see Target
    torch: TorchClass | None = None  # where it is a schedule class
    error: str | None = None
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Describe:
    """The entry of a program that loads a target on one rank and describes it."""

    target: Target

    def __call__(self, context: Any) -> Description:
        """Return the description; never raises for what the user's code does."""
        # Before the user's code is there: it may have a package of the name of ours.
        from harness.targets.own_model import try_own_model

        try:
            function = self.target.load_function()
            self.target.load_build_stage()
            if isinstance(function, type) and is_schedule_class(function):
                return Description(torch=describe_class(function, self.target.text))
        except TargetError as error:
            return Description(error=str(error), traceback=error.traceback)
        try:
            signature = Signature.of(function)
        except (TypeError, ValueError) as error:
            return Description(error=f"{self.target.text} has no readable parameters: {error}")
        try:
            depth = _depth(signature, function)
        except TargetError as error:
            return Description(error=f"{self.target.text}: {error}")
        try:
            without: tuple[str, ...] = ()
            if signature.has_several_stages or signature.takes(CALLED_WITH["step"]):
                without = try_own_model(replace(self.target, kind="step"))
            return Description(signature, depth, without=without)
        except TargetError as error:
            return Description(error=str(error), traceback=error.traceback)


def _depth(signature: Signature, function: Callable[..., Any]) -> Depth:
    """Say how many slices of the model a function has, where it is checked."""
    if signature.has_several_stages:
        return depth_of_step(function)
    if signature.takes(CALLED_WITH["plan"]):
        return depth_of_plan(in_order(function, CALLED_WITH["plan"]))
    return Depth()


def describe_on_a_rank(target: Target) -> Description:
    """Describe a target in a world of its own."""
    from harness.worlds import open_world

    world = open_world("gloo")
    try:
        return describe_in(world, target)
    finally:
        world.close()


def describe_in(world: Any, target: Target, timeout: float = 60.0) -> Description:
    """Load a target on one rank of ``world``, and say what it is or why it does not load."""
    from harness.worlds import Program

    program = Program(entry=Describe(target), init_group=False, warm=target.takes_compiler)
    outcome = world.run(program, 1, timeout=timeout)
    rank = outcome.ranks[0]
    if isinstance(rank.result, Description):
        return rank.result
    if rank.error is not None:
        error = f"{rank.error.type}: {rank.error.message}"
    elif outcome.ending == "timeout":
        error = f"it did not load within {timeout:g} s"
    else:
        error = f"its process ended (exit status {rank.exit_status}) while loading it"
    return Description(error=f"{target.text} fails to load: {error}")


def parse_target(
    target: TargetLike,
    *,
    for_command: Command,
    describe: Callable[[Target], Description] = describe_on_a_rank,
) -> Target:
    """Read what the user named; ``describe`` is asked only where reading the file cannot tell.

    TargetError, one line, when it is nothing that the command can use.
    """
    if isinstance(target, Target):
        return target
    if not isinstance(target, str):
        return from_callable(target, for_command)
    if not target.strip():
        raise TargetError(f"the target is empty: {FORMS}")
    if ".py:" in target or target.endswith(".py"):
        found, is_settled = _from_file(target, for_command)
    elif target.endswith(".csv"):
        return _from_csv(target, for_command)
    elif ":" in target:
        found, is_settled = _from_module(target)
    else:
        return _from_name(target, for_command)
    return found if is_settled else confirm(found, for_command, describe)


def confirm(target: Target, command: Command, describe: Callable[[Target], Description]) -> Target:
    """Load a function target once, away from this process, and settle its kind.

    TargetError, with the user's traceback, when it does not load or the command cannot use it.
    """
    if target.kind in ("schedule", "csv", "script"):
        return target
    if target.kind == "torch" and target.payload is not None:
        return target  # it was described when it was given
    description = describe(target)
    if description.error is not None:
        raise TargetError(description.error, description.traceback)
    if (about := description.torch) is not None:
        refuse_to_run(target.text, command)
        return replace(
            target,
            kind="torch",
            multi_stage=about.several,
            depth=about.depth,
            promises=about.promises,
        )
    assert description.signature is not None
    kind = kind_for(description.signature, target.text, command)
    several = kind == "step" and description.signature.has_several_stages
    return replace(
        target,
        kind=kind,
        multi_stage=several,
        depth=description.depth,
        without=description.without,
    )


def _from_file(text: str, command: Command) -> tuple[Target, bool]:
    shown, colon, function = text.rpartition(":")
    if text.endswith(".py"):
        shown, colon, function = text, "", ""
    path = Path(shown).absolute()
    if not path.is_file():
        raise TargetError(_no_file(shown, path))
    if not function:
        if command == "run" and not colon:
            parse_source(path, shown)
            return Target(text, "script", path=str(path)), True
        raise TargetError(f"{text} names no function: write {shown}:FUNCTION")
    signature = read_file(path, function, shown)
    kind: Kind = "program" if signature is None else kind_for(signature, text, command)
    several = kind == "step" and signature is not None and signature.has_several_stages
    found = Target(text, kind, several, path=str(path), function=function)
    return found, signature is not None


def _from_csv(text: str, command: Command) -> Target:
    path = Path(text).absolute()
    if not path.is_file():
        raise TargetError(_no_file(text, path))
    if command == "run":
        raise TargetError(f"{text} is a plan, which is checked: use 'harness check {text}'")
    plan = read_plan(str(path), text)
    depth = Depth(1, ((plan.world, plan.stages // plan.directions),))
    return Target(text, "csv", depth=depth, shape=(plan.world, plan.chunks), path=str(path))


def _no_file(shown: str, path: Path) -> str:
    if path.is_dir():
        return f"{shown} is a folder, not a file"
    if not path.parent.is_dir():
        return f"there is no folder {Path(shown).parent}, so no file {shown}"
    names = [entry.name for entry in path.parent.glob(f"*{path.suffix}")]
    close = difflib.get_close_matches(path.name, names, n=1)
    hint = f": did you mean {Path(shown).with_name(close[0])}?" if close else f"; {FORMS}"
    return f"there is no file {shown}{hint}"


def _from_module(text: str) -> tuple[Target, bool]:
    module, _, function = text.partition(":")
    names = [*module.split("."), *function.split(".")]
    if not all(name.isidentifier() for name in names):
        raise TargetError(f"{text!r} is no target: {FORMS}")
    search = (str(Path.cwd()),)
    return Target(text, "program", module=module, function=function, search=search), False


def _from_name(text: str, command: Command) -> Target:
    from pipeline.schedules import SCHEDULES

    if text in SCHEDULES:
        if command == "run":
            raise TargetError(f"{text} is a schedule, which is checked: use 'harness check {text}'")
        if command == "check" and not SCHEDULES[text].runs:
            raise TargetError(
                f"{text} has no backwards, so that it trains nothing; its plan can be validated "
                f"and plotted: use 'harness plot {text}'"
            )
        return Target(text, "schedule", depth=depth_of_schedule(text))
    if Path(text).exists():
        raise TargetError(f"{text} is a file or folder that is no target: {FORMS}")
    close = difflib.get_close_matches(text.lower(), SCHEDULES, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    known = f"known schedules are {', '.join(SCHEDULES)}; {FORMS}"
    raise TargetError(f"there is no schedule {text!r}: {hint}{known}")

"""From what the user wrote to a target."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.targets.signature import (
    Command,
    Kind,
    Signature,
    TargetError,
    kind_for,
    parse_source,
    read_file,
)
from harness.targets.target import Target, from_callable

TargetLike = str | Callable[..., Any] | Target
FORMS = "a target is a schedule's name, file.py:function or package.module:function"


@dataclass(frozen=True, slots=True)
class Description:
    """What a rank says of a target: its signature, or why it does not load."""

    signature: Signature | None = None
    error: str | None = None
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Describe:
    """The entry of a program that loads a target on one rank and describes it."""

    target: Target

    def __call__(self, context: Any) -> Description:
        """Return the description; never raises for what the user's code does."""
        try:
            function = self.target.load_function()
            self.target.load_build_stage()
        except TargetError as error:
            return Description(error=str(error), traceback=error.traceback)
        try:
            return Description(Signature.of(function))
        except (TypeError, ValueError) as error:
            return Description(error=f"{self.target.text} has no readable parameters: {error}")


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

    program = Program(entry=Describe(target), init_group=False)
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
        raise TargetError(f"{target}: a plan in a CSV file is not supported yet; {FORMS}")
    elif ":" in target:
        found, is_settled = _from_module(target)
    else:
        return _from_name(target, for_command)
    return found if is_settled else confirm(found, for_command, describe)


def confirm(target: Target, command: Command, describe: Callable[[Target], Description]) -> Target:
    """Load a function target once, away from this process, and settle its kind.

    TargetError, with the user's traceback, when it does not load or the command cannot use it.
    """
    if target.kind in ("schedule", "script"):
        return target
    description = describe(target)
    if description.error is not None:
        raise TargetError(description.error, description.traceback)
    assert description.signature is not None
    return replace(target, kind=kind_for(description.signature, target.text, command))


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
    return Target(text, kind, path=str(path), function=function), signature is not None


def _no_file(shown: str, path: Path) -> str:
    if path.is_dir():
        return f"{shown} is a folder, not a file"
    if not path.parent.is_dir():
        return f"there is no folder {Path(shown).parent}, so no file {shown}"
    names = [entry.name for entry in path.parent.glob("*.py")]
    close = difflib.get_close_matches(path.name, names, n=1)
    hint = f": did you mean {Path(shown).with_name(close[0])}?" if close else f"; {FORMS}"
    return f"there is no file {shown}{hint}"


def _from_module(text: str) -> tuple[Target, bool]:
    module, _, function = text.partition(":")
    if module == "torch.distributed.pipelining":
        raise TargetError(f"{text}: a schedule class of torch is not supported yet; {FORMS}")
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
                f"running {text} is not supported yet; its plan can be validated and plotted: "
                f"use 'harness plot {text}'"
            )
        return Target(text, "schedule")
    if Path(text).exists():
        raise TargetError(f"{text} is a file or folder that is no target: {FORMS}")
    close = difflib.get_close_matches(text.lower(), SCHEDULES, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    known = f"known schedules are {', '.join(SCHEDULES)}; {FORMS}"
    raise TargetError(f"there is no schedule {text!r}: {hint}{known}")

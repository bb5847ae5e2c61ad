"""From what the user named to a plan: a schedule's, one of their own, or a CSV file's."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import options as asked
from harness.case import UsageError
from harness.plot.limits import MAX_CHUNKS, MAX_WORK, MAX_WORLD
from harness.targets import Target, TargetError, read_plan
from pipeline.plan import Plan, build_plan

if TYPE_CHECKING:
    from harness.worlds import RankContext


@dataclass(frozen=True, slots=True)
class Shape:
    """How many ranks and microbatches are asked for; None where that was left out."""

    world: int | None
    chunks: int | None

    @classmethod
    def read(cls, world: str | None, chunks: str | None) -> Shape:
        """Read one number each; UsageError for anything else."""
        shape = cls(_one(world, "--world-size", MAX_WORLD), _one(chunks, "--chunks", MAX_CHUNKS))
        if (work := (shape.world or 1) * (shape.chunks or 1)) > MAX_WORK:
            raise UsageError(
                f"-n {world} -c {chunks}: {work} times ranks and microbatches are too many to "
                f"hold, {MAX_WORK} at most"
            )
        return shape


def _one(given: str | None, option: str, most: int) -> int | None:
    if given is None:
        return None
    found = asked.numbers(given, option, most)
    if len(found) != 1:
        raise UsageError(f"{option} {given}: a plot is of one, give one number")
    return found[0]


def load_plans(targets: tuple[str, ...], shape: Shape) -> list[Plan]:
    """Return the plan of each target; UsageError, one line, for the first that cannot be had.

    What is left out of the shape is that of the CSV file, where there is one.
    """
    read = {text: _from_csv(text, shape) for text in targets if is_csv(text)}
    for plan in read.values():
        shape = Shape(shape.world or plan.world, shape.chunks or plan.chunks)
    return [read[text] if text in read else _generated(text, shape) for text in targets]


def is_csv(text: str) -> bool:
    """Whether a target names a CSV file."""
    return text.lower().endswith(".csv")


def _from_csv(text: str, shape: Shape) -> Plan:
    plan = read_plan(text, text)
    for option, wanted, has, what in (
        ("--world-size", shape.world, plan.world, "ranks"),
        ("--chunks", shape.chunks, plan.chunks, "microbatches"),
    ):
        if wanted not in (None, has):
            raise UsageError(f"{option} {wanted}: {text} has {has} {what}, leave the option out")
    return plan


def _generated(text: str, shape: Shape) -> Plan:
    from pipeline.schedules import SCHEDULES

    if text in SCHEDULES:  # those too that only have a plan, and cannot be run yet
        try:
            return build_plan(text, *_required(text, shape))
        except ValueError as error:
            raise UsageError(str(error)) from None
    from harness import session

    options = asked.check_options(isolated=True)
    target = session.read_target(text, "check", options)
    if target.kind != "plan":
        what = "schedule class" if target.kind == "torch" else target.kind
        raise TargetError(
            f"{text} is a {what}, whose order is known only by running it: a plot is of a "
            "schedule's name, a plan(rank, world_size, chunks) or a file.csv"
        )
    return _listed(target, *_required(text, shape))


def _required(text: str, shape: Shape) -> tuple[int, int]:
    if shape.world is None or shape.chunks is None:
        missing = "-n RANKS" if shape.world is None else "-c MICROBATCHES"
        raise UsageError(f"{text} needs {missing}: as in 'harness plot {text} -n 4 -c 8'")
    return shape.world, shape.chunks


@dataclass(frozen=True, slots=True)
class _Refused:
    """Why a plan cannot be listed, with the user's own traceback."""

    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class _List:
    """Lists a plan, on a rank: it is the user's own code."""

    target: Target
    world: int
    chunks: int

    def __call__(self, context: RankContext) -> Plan | _Refused:
        try:
            return build_plan(self.target.load(), self.world, self.chunks)
        except TargetError as error:
            return _Refused(str(error), error.traceback)
        except Exception as error:
            name = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            told = f"the plan of {self.target.text} cannot be listed: {name}{error}"
            return _Refused(told, _from_their_frame(error))


def _from_their_frame(error: Exception) -> str:
    """Format an error from the user's own frame on; none for a shape that they refuse."""
    from harness.frames import Frames
    from harness.parity.refusal import is_refusal

    if isinstance(error, ValueError) and is_refusal(error):
        return ""
    known, at = Frames(), error.__traceback__
    while at is not None and known.kind(at.tb_frame.f_code) is not None:
        at = at.tb_next
    return "" if at is None else "".join(traceback.format_exception(error.with_traceback(at)))


def _listed(target: Target, world: int, chunks: int) -> Plan:
    from harness import session
    from harness.worlds import Program

    program = Program(_List(target, world, chunks), init_group=False, warm=target.takes_compiler)
    shared = session.shared_world("sim", isolated=True)
    outcome = shared.run(program, 1, timeout=asked.DEFAULT_TIMEOUT)
    if outcome.ending == "interrupted":
        raise KeyboardInterrupt
    (rank,) = outcome.ranks
    if isinstance(rank.result, Plan):
        return rank.result
    if isinstance(rank.result, _Refused):
        raise TargetError(rank.result.message, rank.result.traceback)
    if rank.error is not None:
        why = rank.error.message
    elif outcome.ending == "timeout":
        why = f"it did not end within {asked.DEFAULT_TIMEOUT:g} s"
    else:
        why = f"its process ended (exit status {rank.exit_status})"
    raise TargetError(f"the plan of {target.text} cannot be listed: {why}")

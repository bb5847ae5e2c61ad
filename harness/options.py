"""What a user may ask of a check or a run, and the refusal of what cannot be, in one line each.

The command and the Python functions share this: an option means the same in both.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.case import UsageError

if TYPE_CHECKING:
    from harness.timeline import Costs

MAX_WORLD = 64
MAX_CHUNKS = 1024
MAX_SECONDS = 1e9
DEFAULT_WORLDS = tuple(range(1, 7))
DEFAULT_CHUNKS = tuple(range(1, 13))
DEFAULT_CASES = 40
DEFAULT_TIMEOUT = 60.0

SEMANTICS = {
    "sim": ("gloo", "buffered", "nccl-eager", "nccl-lazy"),
    "gloo": ("gloo",),
    "nccl": ("nccl",),
}
"""Backend → the send semantics that can be chosen on it: real ranks have their backend's own."""

DEFAULT_COSTS = "F=1,B=2"

Numbers = int | str | Iterable[int]


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """A campaign's limits, as asked; None where the default applies."""

    backend: str = "sim"
    semantics: str | None = None
    capacity: str | None = None
    isolated: bool = False
    confirm: bool = True
    worlds: tuple[int, ...] | None = None
    chunks: tuple[int, ...] | None = None
    cases: int | None = None
    seconds: float | None = None
    seed: int = 0
    timeout: float = DEFAULT_TIMEOUT
    policy: str | None = None
    nemesis: tuple[str, ...] = ()
    strict: bool = False


@dataclass(frozen=True, slots=True)
class RunOptions:
    """One run's options."""

    backend: str = "sim"
    semantics: str | None = None
    capacity: str | None = None
    isolated: bool = False
    confirm: bool = True
    args: tuple[str, ...] = ()
    nemesis: tuple[str, ...] = ()
    seed: int = 0
    timeout: float = DEFAULT_TIMEOUT
    strict: bool = False


def check_options(
    *,
    backend: str = "sim",
    semantics: str | None = None,
    capacity: object = None,
    isolated: bool = False,
    confirm: bool = True,
    world_size: Numbers | None = None,
    chunks: Numbers | None = None,
    cases: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    timeout: float = DEFAULT_TIMEOUT,
    policy: str | None = None,
    nemesis: str | None = None,
    strict: bool = False,
) -> CheckOptions:
    """Validate what a check was asked for; UsageError for the first thing that cannot be."""
    return CheckOptions(
        backend=(known := backend_name(backend)),
        semantics=(chosen := semantics_of(semantics, known)),
        capacity=capacity_of(capacity, chosen),
        isolated=isolated,
        confirm=confirm,
        worlds=None if world_size is None else numbers(world_size, "--world-size", MAX_WORLD),
        chunks=None if chunks is None else numbers(chunks, "--chunks", MAX_CHUNKS),
        cases=None if cases is None else whole(cases, "--cases", 1),
        seconds=None if seconds is None else duration(seconds, "--seconds"),
        seed=whole(seed, "--seed", 0),
        timeout=duration(timeout, "--timeout"),
        policy=policy_name(policy),
        nemesis=nemesis_kinds(nemesis),
        strict=strict,
    )


def run_options(
    *,
    backend: str = "sim",
    semantics: str | None = None,
    capacity: object = None,
    isolated: bool = False,
    confirm: bool = True,
    args: Iterable[str] = (),
    nemesis: str | None = None,
    seed: int = 0,
    timeout: float = DEFAULT_TIMEOUT,
    strict: bool = False,
) -> RunOptions:
    """Validate what a run was asked for; UsageError for the first thing that cannot be."""
    if isinstance(args, str) or not isinstance(args, Iterable):
        raise UsageError(f"args={args!r}: a list of words is needed, as in args=['--lr', '0.1']")
    return RunOptions(
        backend=(known := backend_name(backend)),
        semantics=(chosen := semantics_of(semantics, known)),
        capacity=capacity_of(capacity, chosen),
        isolated=isolated,
        confirm=confirm,
        args=tuple(str(word) for word in args),
        nemesis=nemesis_kinds(nemesis),
        seed=whole(seed, "--seed", 0),
        timeout=duration(timeout, "--timeout"),
        strict=strict,
    )


def numbers(given: Numbers, option: str, most: int) -> tuple[int, ...]:
    """Read ``4``, ``2,4``, ``2..6``, their combination, or numbers; sorted, each once.

    UsageError unless all lie in 1..``most``.
    """
    if isinstance(given, bool):
        raise UsageError(f"{option} {given}: {_NUMBER_FORMS}")
    if isinstance(given, str):
        pieces = given.split(",")
        found = [number for piece in pieces for number in _range(piece, given, option, most)]
    else:
        try:
            found = [given] if isinstance(given, int) else list(given)
        except TypeError:
            raise UsageError(f"{option} {given!r}: {_NUMBER_FORMS}") from None
        if not found or not all(isinstance(number, int) for number in found):
            raise UsageError(f"{option} {found!r}: {_NUMBER_FORMS}")
    for number in found:
        if not 1 <= number <= most:
            raise UsageError(f"{option} {number} is out of range: allowed are 1 to {most}")
    return tuple(sorted(set(found)))


_NUMBER_FORMS = "give a number, a list like 2,4 or a range like 2..6"


def _range(piece: str, given: str, option: str, most: int) -> Iterable[int]:
    match = re.fullmatch(r"\s*(-?\d{1,9})(?:\s*\.\.\s*(-?\d{1,9}))?\s*", piece, re.ASCII)
    if match is None:
        raise UsageError(f"{option} {given!r} is no number: {_NUMBER_FORMS}")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise UsageError(f"{option} {given}: the range runs backwards, write {last}..{first}")
    if first < 1 or last > most:
        raise UsageError(f"{option} {given} is out of range: allowed are 1 to {most}")
    return range(first, last + 1)


def one_number(given: Numbers, option: str, most: int) -> int:
    """Read exactly one number; UsageError otherwise."""
    found = numbers(given, option, most)
    if len(found) != 1:
        raise UsageError(f"{option} {given}: a run has one world size, give one number")
    return found[0]


def whole(given: object, option: str, least: int) -> int:
    """Read a whole number; UsageError when it is none, or below ``least``."""
    text = str(given).strip()
    if isinstance(given, bool) or not re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
        raise UsageError(f"{option} {given!r} is no whole number: give one from {least} up")
    if int(text) < least:
        raise UsageError(f"{option} {text} is too small: give a whole number from {least} up")
    return int(text)


def duration(given: object, option: str) -> float:
    """Read seconds; UsageError unless they are finite and above 0."""
    try:
        seconds = float(str(given))
    except ValueError:
        seconds = math.nan
    if not (0 < seconds <= MAX_SECONDS):
        raise UsageError(
            f"{option} {given}: give a number of seconds above 0, at most {MAX_SECONDS:.0e}, "
            f"as in {option} 30"
        )
    return seconds


def backend_name(given: str) -> str:
    """Check that a world of this name can be opened; UsageError lists those that can."""
    from harness.worlds.backends import BACKENDS

    known = ("sim", *BACKENDS)
    if given in known:
        return given
    use = f"use --backend {', '.join(known[:-1])} or {known[-1]}"
    close = difflib.get_close_matches(given, known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise UsageError(f"there is no backend {given!r}: {hint}{use}")


def semantics_of(given: str | None, backend: str) -> str | None:
    """Check that the backend's sends can behave so; UsageError says how they do."""
    allowed = SEMANTICS.get(backend, (backend,))
    if given is None or given in allowed:
        return given
    if backend == "sim":
        close = difflib.get_close_matches(given, allowed, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UsageError(f"there is no semantics {given!r}: {hint}give one of {', '.join(allowed)}")
    raise UsageError(
        f"--semantics {given} cannot be had on backend {backend}, whose ranks are real: "
        f"leave it out, or give {' or '.join(allowed)}"
    )


def semantics_tried(backend: str, chosen: str | None) -> tuple[str, ...]:
    """Return the semantics that a report covers: the chosen one, else all that there are."""
    return (chosen,) if chosen is not None else SEMANTICS.get(backend, (backend,))


def capacity_of(given: object, semantics: str | None) -> str | None:
    """Read how many bytes NCCL takes before a receive; UsageError where that means nothing."""
    if given is None:
        return None
    text = str(given).strip()
    if not re.fullmatch(r"inf|\d{1,15}", text, re.ASCII):
        raise UsageError(f"--capacity {text}: give 0, inf or a number of bytes")
    if semantics is None or not semantics.startswith("nccl-"):
        raise UsageError(
            f"--capacity {text} goes with --semantics nccl-eager or nccl-lazy; "
            "without --semantics both 0 and inf are tried"
        )
    return text if text == "inf" else str(int(text))


def costs_of(given: str) -> Costs:
    """Read virtual time's costs, ``F=1,B=2``; UsageError says what is allowed."""
    from harness.timeline import Costs

    try:
        return Costs.parse(given)
    except ValueError as error:
        raise UsageError(f"--cost: {error}") from None


def policy_name(given: str | None) -> str | None:
    """Check a comm policy's name; UsageError lists the known ones."""
    from pipeline.lower import POLICIES

    if given is None or given in POLICIES:
        return given
    raise UsageError(f"there is no comm policy {given!r}: give one of {', '.join(POLICIES)}")


def nemesis_kinds(given: str | None) -> tuple[str, ...]:
    """Read which faults from outside are wanted; UsageError lists the known ones."""
    from harness.nemesis import read_kinds

    return () if given is None else read_kinds(given)

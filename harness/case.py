"""A case: all that decides a run, as one line that replays it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, fields, replace
from typing import Any

DTYPES = ("float64", "float32", "bfloat16", "float16")
OPTIMIZERS = ("sgd", "adam")
WORKLOADS = ("conditioned", "seed")


class UsageError(ValueError):
    """What a user asked for cannot be; the message is one line: what was given, what is allowed."""


class CaseError(UsageError):
    """A case line, or a value in it, that cannot be."""


@dataclass(frozen=True, slots=True)
class Case:
    """``1f1b world=4 chunks=8 batch=16 layers=8 width=16 dtype=float64 backend=gloo seed=7``.

    ``delay`` is the largest sleep in milliseconds that a rank takes before a communication
    (drawn per rank and operation from ``seed``); ``args`` are a program's arguments. ``semantics``,
    ``capacity`` and ``interleaving`` are the simulated world's (:class:`harness.worlds.Simulated`).
    ``mutant`` names a damage done to the target (:mod:`harness.mutate`), ``nemesis`` faults from
    outside (:mod:`harness.nemesis`).
    """

    target: str
    world: int
    chunks: int | None = None
    batch: int | None = None
    layers: int | None = None
    width: int | None = None
    dtype: str | None = None
    steps: int | None = None
    optimizer: str | None = None
    workload: str | None = None
    policy: str | None = None
    mutant: str | None = None
    nemesis: str | None = None
    backend: str = "sim"
    semantics: str | None = None
    capacity: str | None = None
    interleaving: str | None = None
    delay: int = 0
    seed: int = 0
    args: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = [shlex.quote(_one_line(self.target))]
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name in ("target", "args") or value is None or (f.name == "delay" and not value):
                continue
            words.append(f"{f.name}={value}")
        if self.args:
            words.append("args=" + shlex.quote(_one_line(shlex.join(self.args))))
        return " ".join(words)

    def with_(self, **changes: Any) -> Case:
        """Return a copy with those fields changed."""
        return replace(self, **changes)

    @classmethod
    def parse(cls, line: str) -> Case:
        """Read a case line back; CaseError says what is wrong and what is allowed."""
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise CaseError(f"case {line!r} cannot be read: {error}") from None
        if not words or words[0].partition("=")[0] in _READERS:
            raise CaseError(
                f"case {line!r} does not begin with a target; "
                "a case reads like '1f1b world=4 chunks=8 seed=7'"
            )
        values: dict[str, Any] = {"target": _as_written(words[0])}
        for word in words[1:]:
            name, equals, text = word.partition("=")
            if not equals or name not in _READERS:
                allowed = ", ".join(_READERS)
                raise CaseError(f"case has {word!r}; each word is one of {allowed} with =VALUE")
            if name in values:
                raise CaseError(f"case gives {name}= twice")
            values[name] = _READERS[name](name, text)
        if "world" not in values:
            raise CaseError(f"case {line!r} lacks world=N, the number of ranks")
        return cls(**values)


def _one_line(text: str) -> str:
    """Escape what would break a case into lines."""
    return text.replace("\\", r"\\").replace("\n", r"\n").replace("\r", r"\r")


def _as_written(text: str) -> str:
    """Undo :func:`_one_line`."""
    return re.sub(r"\\([\\nr])", lambda m: {"n": "\n", "r": "\r"}.get(m[1], m[1]), text)


def _number(least: int) -> Any:
    def read(name: str, text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < least:
            raise CaseError(f"{name}={text} in the case: a whole number from {least} is needed")
        return int(text)

    return read


def _choice(allowed: tuple[str, ...]) -> Any:
    def read(name: str, text: str) -> str:
        if text not in allowed:
            raise CaseError(f"{name}={text} in the case: allowed are {', '.join(allowed)}")
        return text

    return read


def _word(name: str, text: str) -> str:
    if not text:
        raise CaseError(f"{name}= in the case is empty")
    return text


def _capacity(name: str, text: str) -> str:
    if not re.fullmatch(r"inf|[0-9]{1,15}", text):
        raise CaseError(f"{name}={text} in the case: 0, inf or a number of bytes is needed")
    return text


def _interleaving(name: str, text: str) -> str:
    if not re.fullmatch(r"random:[0-9]{1,18}|choices:([0-9]{1,4}(\.[0-9]{1,4})*)?", text):
        raise CaseError(f"{name}={text} in the case: random:NUMBER or choices:0.1.0 is needed")
    return text


INJECTION = "([a-z][a-z-]*)@([0-9]{1,4})[.]([0-9]{1,6})"
"""The form of a :class:`harness.injection.Injection`."""


def _mutant(name: str, text: str) -> str:
    if not re.fullmatch(INJECTION, text):
        raise CaseError(f"{name}={text} in the case: OPERATOR@RANK.PLACE is needed, as in swap@1.4")
    return text


def _nemesis(name: str, text: str) -> str:
    if not re.fullmatch(rf"{INJECTION}([+]{INJECTION})*", text):
        raise CaseError(f"{name}={text} in the case: injections such as kill@1.3 are needed")
    return text


def _arguments(name: str, text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(_as_written(text)))
    except ValueError as error:
        raise CaseError(f"{name}={text!r} in the case cannot be read: {error}") from None


_READERS: dict[str, Any] = {
    "world": _number(1),
    "chunks": _number(1),
    "batch": _number(1),
    "layers": _number(1),
    "width": _number(1),
    "dtype": _choice(DTYPES),
    "steps": _number(1),
    "optimizer": _choice(OPTIMIZERS),
    "workload": _choice(WORKLOADS),
    "policy": _word,
    "mutant": _mutant,
    "nemesis": _nemesis,
    "backend": _word,
    "semantics": _word,
    "capacity": _capacity,
    "interleaving": _interleaving,
    "delay": _number(0),
    "seed": _number(0),
    "args": _arguments,
}

"""What an entry of the corpus says of itself: where it comes from, and what is to be found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from harness.case import UsageError
from harness.codes import CODES
from harness.options import MAX_WORLD, SEMANTICS, check_options, run_options

CLASSES = {
    "call-ordering": "calls in an order in which they cannot all end",
    "request-lifecycle": "a request is dropped, not waited for, or waited for too late",
    "parameter-matching": "two sides of one operation disagree: size, dtype, tag, root, operator",
    "message-race": "which message a receive takes is left to chance, or to another's",
    "buffering": "ends only where sends are buffered, or up to a certain size",
    "resource-leak": "a message, group or buffer is never taken or given back",
    "invalid-parameter": "an argument that no backend takes",
    "local-concurrency": "a rank uses a tensor that is being sent or received, or two threads",
    "input-hazard": "wrong only for certain sizes, world sizes or numbers of chunks",
    "groups": "the wrong group, or ranks of one group taken for those of another",
    "start-up": "groups and state made differently on different ranks",
    "teardown": "ranks that leave others behind at the end",
    "splitting": "the model or the batch is split wrong",
    "random-state": "parameters or data drawn otherwise than in one process",
    "graph": "autograd's graph is cut, kept or walked wrong",
    "accumulation": "gradients scaled, lost, doubled or kept wrong over microbatches and steps",
    "data": "microbatches, targets or buffers exchanged",
    "sharing": "tied or replicated parameters that are not reduced, or reduced wrong",
    "plan": "a plan whose actions are wrong before anything runs",
    "memory": "more is kept than the schedule promises",
}
"""The classes of the built-in corpus; a user's own may have others."""

Scope = Literal["program", "script", "step", "plan"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
REAL = ("gloo", "nccl")
_OPTIONS: dict[str, tuple[str, ...]] = {
    "program": ("timeout", "semantics", "seed", "args"),
    "script": ("timeout", "semantics", "seed", "args"),
    "step": ("timeout", "semantics", "seed", "cases"),
    "plan": ("timeout", "semantics", "seed", "cases", "policy"),
}
_KNOWN = (
    *("class", "scope", "source", "world", "chunks", "code", "cause", "ranks", "details"),
    *("deterministic", "semantics", "backends", "options"),
)


class LabelError(UsageError):
    """A label that cannot be; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Label:
    """An entry's label.

    ``world`` and ``chunks`` are the smallest that show the fault. ``code`` is found when the
    harness is left to itself (all semantics, simulated); ``cause`` and ``details``, where given,
    are the finding's, and ``ranks`` the culprits. ``semantics`` and ``backends`` say where the
    verdict is another one: a code, or None where nothing is wrong or nothing can be seen.
    """

    kind: str
    scope: Scope
    source: str
    world: int
    code: str
    chunks: int | None = None
    cause: str | None = None
    ranks: tuple[int, ...] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    deterministic: bool = True
    semantics: Mapping[str, str | None] = field(default_factory=dict)
    backends: Mapping[str, str | None] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_checked(self) -> bool:
        """Whether it is a schedule, for ``harness check``; else a program, for ``harness run``."""
        return self.scope in ("step", "plan")

    def expected(self, backend: str = "sim", semantics: str | None = None) -> str | None:
        """Return the code that this backend shows, under those semantics or under all."""
        if backend != "sim":
            if backend in self.backends:
                return self.backends[backend]
            semantics = "gloo" if backend == "gloo" else "nccl-eager"
        if semantics is None:
            return self.code
        if semantics in self.semantics:
            return self.semantics[semantics]
        only_nccl = self.code == "nccl-hazard" and not semantics.startswith("nccl")
        return None if only_nccl else self.code


def read_label(given: object) -> Label:
    """Read a label's dictionary; LabelError for the first thing that is wrong with it."""
    if not isinstance(given, dict):
        raise LabelError(f"LABEL is a {type(given).__name__}: a dictionary is needed")
    for name in given:
        if name not in _KNOWN:
            raise LabelError(f"LABEL has {name!r}: allowed are {', '.join(_KNOWN)}")
    scope = _one_of(given, "scope", SCOPES)
    checked = scope in ("step", "plan")
    if checked == ("chunks" not in given):
        raise LabelError(f"LABEL of a {scope} {'needs' if checked else 'has no'} 'chunks'")
    ranks = given.get("ranks")
    if ranks is not None and not (
        isinstance(ranks, (list, tuple)) and all(type(rank) is int for rank in ranks)
    ):
        raise LabelError(f"LABEL's 'ranks' is {ranks!r}: a list of numbers is needed")
    world = _number(given, "world")
    if ranks is not None and not all(0 <= rank < world for rank in ranks):
        raise LabelError(f"LABEL's 'ranks' is {ranks!r}, and the world has {world}")
    return Label(
        kind=_kind(given),
        scope=cast("Scope", scope),
        source=_text(given, "source"),
        world=world,
        chunks=_number(given, "chunks") if checked else None,
        code=_code(given.get("code"), "code"),
        cause=_text(given, "cause") if given.get("cause") is not None else None,
        ranks=None if ranks is None else tuple(sorted(ranks)),
        details=_mapping(given, "details"),
        deterministic=_flag(given, "deterministic"),
        semantics=_verdicts(given, "semantics", SEMANTICS["sim"]),
        backends=_verdicts(given, "backends", REAL),
        options=_options(given, scope),
    )


def _flag(given: dict[str, Any], name: str) -> bool:
    value = given.get(name, True)
    if not isinstance(value, bool):
        raise LabelError(f"LABEL's {name!r} is {value!r}: True or False is needed")
    return value


def _kind(given: dict[str, Any]) -> str:
    kind = _text(given, "class")
    if not re.fullmatch(r"[a-z][a-z0-9-]*", kind):
        raise LabelError(f"LABEL's 'class' is {kind!r}: lower-case words with hyphens are needed")
    return kind


def _text(given: dict[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value.strip():
        raise LabelError(f"LABEL's {name!r} is {value!r}: text is needed")
    return value


def _number(given: dict[str, Any], name: str) -> int:
    value = given.get(name)
    if type(value) is not int or value < 1:
        raise LabelError(f"LABEL's {name!r} is {value!r}: a number from 1 up is needed")
    if name == "world" and value > MAX_WORLD:
        raise LabelError(f"LABEL's 'world' is {value}: at most {MAX_WORLD}")
    return value


def _one_of(given: dict[str, Any], name: str, allowed: tuple[str, ...]) -> str:
    value = given.get(name)
    if value not in allowed:
        raise LabelError(f"LABEL's {name!r} is {value!r}: one of {', '.join(allowed)} is needed")
    return str(value)


def _code(value: object, name: str) -> str:
    if not isinstance(value, str) or value not in CODES:
        raise LabelError(f"LABEL's {name!r} is {value!r}: no such code (see 'harness explain')")
    return str(value)


def _mapping(given: dict[str, Any], name: str) -> dict[str, Any]:
    value = given.get(name, {})
    if not isinstance(value, dict):
        raise LabelError(f"LABEL's {name!r} is {value!r}: a dictionary is needed")
    return value


def _verdicts(given: dict[str, Any], name: str, allowed: tuple[str, ...]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for where, code in _mapping(given, name).items():
        if where not in allowed:
            raise LabelError(f"LABEL's {name!r} has {where!r}: allowed are {', '.join(allowed)}")
        found[where] = None if code is None else _code(code, f"{name}.{where}")
    return found


def _options(given: dict[str, Any], scope: str) -> dict[str, Any]:
    options = _mapping(given, "options")
    allowed = _OPTIONS[scope]
    for name in options:
        if name not in allowed:
            raise LabelError(
                f"LABEL's 'options' has {name!r}: allowed for a {scope} are {', '.join(allowed)}"
            )
    try:
        if scope in ("step", "plan"):
            check_options(**options)
        else:
            run_options(**options)
    except UsageError as error:
        raise LabelError(f"LABEL's 'options': {error}") from None
    return options

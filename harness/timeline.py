"""When each thing of a finished trace would happen, had computing and messages known costs.

Virtual time, in the unit of the costs. Each rank does what it did in the same order: it posts, it
waits, it computes. A compute takes what its kind costs; everything else follows from what each
wait needs (:mod:`harness.matching`). How long anything really took plays no part.

A rank counts as one sequence: what several of its threads did stands in the order of the clock.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Self

from harness.trace import Op, Trace
from harness.virtual_time import Replay

_NAMES = {"F": "forward", "B": "backward", "I": "input", "W": "weight"} | {
    name: name for name in ("latency", "bandwidth")
}
_BITS = re.compile(r"\d+")
CHROME_UNIT_US = 1000  # of a viewer's microseconds in one unit of virtual time


@dataclass(frozen=True, slots=True)
class Costs:
    """What computing and messages cost, in one unit of time: ``bandwidth`` in bytes per unit.

    By default a full backward is its two halves, and messages take no time. ValueError for a
    cost below 0 or infinite, and for a bandwidth that is not above 0.
    """

    forward: float = 1.0
    backward: float = 2.0
    input: float = 1.0
    weight: float = 1.0
    latency: float = 0.0
    bandwidth: float = math.inf

    def __post_init__(self) -> None:
        for name, attribute in _NAMES.items():
            value = getattr(self, attribute)
            if name == "bandwidth":
                if not value > 0:
                    raise ValueError(f"bandwidth={value:g}: a number above 0, or inf, is allowed")
            elif not 0 <= value < math.inf:
                raise ValueError(f"{name}={value:g}: a finite number from 0 up is allowed")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``F=1,B=2,I=1,W=1,latency=0,bandwidth=inf``; what is left out has its default.

        ValueError, in one line, for anything else.
        """
        values: dict[str, float] = {}
        for word in text.split(","):
            name, _, number = (part.strip() for part in word.partition("="))
            try:
                value = float(number)
            except ValueError:
                value = math.nan
            if name not in _NAMES or math.isnan(value):
                raise ValueError(
                    f"costs {text!r}: {word.strip()!r} is not NAME=NUMBER with one of the names "
                    + ", ".join(_NAMES)
                )
            if _NAMES[name] in values:
                raise ValueError(f"costs {text!r}: {name} is given twice")
            values[_NAMES[name]] = value
        return cls(**values)

    def __str__(self) -> str:
        return ",".join(f"{name}={getattr(self, field):g}" for name, field in _NAMES.items())

    def of(self, kind: str) -> float:
        """Return what a compute of this kind (F, B, I or W) takes."""
        return float(getattr(self, _NAMES[kind]))

    def transfer(self, op: Op) -> float:
        """Return what it takes to move what this operation sends."""
        return self.latency + op.numel * _itemsize(op.dtype) / self.bandwidth


def _itemsize(dtype: str) -> float:
    """Return the bytes of one element: the first number in a dtype's name is its bits."""
    bits = _BITS.search(dtype)
    return int(bits[0]) / 8 if bits else float(bool(dtype))


@dataclass(frozen=True, slots=True)
class Interval:
    """What a rank did for a while: a compute (F, B, I, W of stage and microbatch), or a wait."""

    start: float
    end: float
    kind: str  # F, B, I, W or wait
    stage: int | None = None
    microbatch: int | None = None
    op: Op | None = None  # waited for
    endless: bool = False  # the wait never returns; it is drawn to the makespan

    @property
    def length(self) -> float:
        """How long it took."""
        return self.end - self.start

    def __str__(self) -> str:
        if self.op is None:
            return f"{self.stage}{self.kind}{self.microbatch}"
        return f"wait {self.op.action or self.op.kind}"


@dataclass(frozen=True, slots=True)
class Transfer:
    """A message under way, from the moment it can move to its arrival."""

    send: Op
    receive: Op
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class RankTimeline:
    """One rank in virtual time; intervals follow each other, and gaps are none of them."""

    rank: int
    intervals: tuple[Interval, ...]
    start: float
    end: float
    busy: float
    """Time spent computing."""
    idle: float
    """The makespan less ``busy``: waits, and the time before the first and after the last."""
    peak_in_flight: int
    """The most (stage, microbatch) pairs whose forward is done and whose backward is not."""

    @property
    def computing(self) -> tuple[Interval, ...]:
        """The computes, in order."""
        return tuple(each for each in self.intervals if each.op is None)

    @property
    def waiting(self) -> tuple[Interval, ...]:
        """The waits that took time, in order."""
        return tuple(each for each in self.intervals if each.op is not None)


@dataclass(frozen=True, slots=True)
class Bubble:
    """The ranks' idle time as a fraction; None where the denominator is 0."""

    of_total: float | None
    """Of world × makespan, as GPipe's paper counts."""
    of_ideal: float | None
    """Of the time that all ranks compute, as Megatron's papers count."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """A trace in virtual time, in the unit of its costs."""

    costs: Costs
    ranks: tuple[RankTimeline, ...]
    makespan: float
    """From 0 to the last end of a compute or wait."""
    transfers: tuple[Transfer, ...]
    exact: bool
    """False where a wait had ended though nothing in the trace explains how: several threads
    of a rank, operations that were forgotten. Such a wait takes no time here."""

    @property
    def bubble(self) -> Bubble:
        """How much of the ranks' time is idle."""
        idle, busy = (math.fsum(getattr(r, name) for r in self.ranks) for name in ("idle", "busy"))
        total = len(self.ranks) * self.makespan
        return Bubble(idle / total if total else None, idle / busy if busy else None)

    @property
    def overlap(self) -> float | None:
        """Return how much of the transfers' time their two ranks computed meanwhile: 0 to 1.

        Both ends count alike. None where no transfer takes time.
        """
        computing = [Computing(rank.computing) for rank in self.ranks]
        total = math.fsum(2 * (each.end - each.start) for each in self.transfers)
        covered = math.fsum(
            computing[op.rank].within(each.start, each.end)
            for each in self.transfers
            for op in (each.send, each.receive)
        )
        return covered / total if total else None

    def to_json(self) -> dict[str, Any]:
        """Return the figures as plain data, without the intervals."""
        each = ("rank", "start", "end", "busy", "idle", "peak_in_flight")
        bubble = {f.name: getattr(self.bubble, f.name) for f in fields(Bubble)}
        return {
            "costs": str(self.costs),
            "makespan": self.makespan,
            "bubble": bubble,
            "overlap": self.overlap,
            "exact": self.exact,
            "ranks": [
                {name: getattr(rank, name) for name in each}
                | {"waiting": math.fsum(wait.length for wait in rank.waiting)}
                for rank in self.ranks
            ],
        }

    def to_chrome(self) -> dict[str, Any]:
        """Return a trace for Perfetto and chrome://tracing: a row for each rank.

        One unit of virtual time is shown as a millisecond. Messages that take time stand beside
        the ranks, as a process of their own.
        """
        return {"displayTimeUnit": "ms", "traceEvents": list(self._chrome_events())}

    def _chrome_events(self) -> Iterator[dict[str, Any]]:
        for process, name in enumerate(("ranks", "messages")):
            yield _named("process_name", name, process)
        for rank in self.ranks:
            yield _named("thread_name", f"rank {rank.rank}", 0, rank.rank)
            for each in rank.intervals:
                yield {
                    "name": str(each),
                    "cat": "compute" if each.op is None else "wait",
                    "ph": "X",
                    "ts": each.start * CHROME_UNIT_US,
                    "dur": each.length * CHROME_UNIT_US,
                    "pid": 0,
                    "tid": rank.rank,
                    "args": _arguments(each),
                }
        for number, transfer in enumerate(self.transfers):
            ends = (("b", transfer.start), ("e", transfer.end))
            for phase, at in ends if transfer.end > transfer.start else ():
                yield {
                    "name": _message_name(transfer),
                    "cat": "message",
                    "ph": phase,
                    "id": number,
                    "ts": at * CHROME_UNIT_US,
                    "pid": 1,
                    "tid": 0,
                }


def _named(what: str, name: str, process: int, thread: int = 0) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


def _arguments(interval: Interval) -> dict[str, Any]:
    if interval.op is None:
        return {"stage": interval.stage, "microbatch": interval.microbatch}
    op = interval.op
    peer = {} if op.peer is None else {"peer": op.peer}
    return peer | {"at": f"{op.at.file}:{op.at.line}", "endless": interval.endless}


def _message_name(transfer: Transfer) -> str:
    send, receive = transfer.send, transfer.receive
    return f"{send.action or send.api} {send.rank} → {receive.rank}"


class Computing:
    """A rank's computes, asked how much of a span they cover."""

    def __init__(self, intervals: tuple[Interval, ...]) -> None:
        self._starts = [each.start for each in intervals]
        self._lengths = [each.length for each in intervals]
        self._before = [0.0]
        for length in self._lengths:
            self._before.append(self._before[-1] + length)

    def within(self, start: float, end: float) -> float:
        """Return how long the rank computed between the two."""
        return self._until(end) - self._until(start)

    def _until(self, at: float) -> float:
        place = bisect_right(self._starts, at) - 1
        if place < 0:
            return 0.0
        return self._before[place] + min(self._lengths[place], at - self._starts[place])


def compute_timeline(
    trace: Trace, costs: Costs | None = None, *, backend: str = "gloo", buffered: bool = False
) -> Timeline:
    """Place what the ranks of a finished trace did in virtual time.

    A message moves from the moment both its ends are posted, with ``buffered`` sends from the
    moment it is sent, and arrives ``latency`` and its bytes over ``bandwidth`` later; a wait for
    it returns then, that for a buffered send at once. A collective ends when the last part that
    ``backend`` needs is posted. Takes time linear in the trace, but for putting it in order.
    """
    costs = costs if costs is not None else Costs()
    replay = Replay(trace, costs.of, costs.transfer, backend=backend, buffered=buffered)
    replay.run()
    makespan = max((rank.clock for rank in replay.ranks), default=0.0)
    ranks = []
    for rank in replay.ranks:
        intervals = [_interval(start, end, what) for start, end, what in rank.intervals]
        if rank.endless is not None:
            intervals.append(Interval(rank.clock, makespan, "wait", op=rank.endless, endless=True))
        busy = math.fsum(each.length for each in intervals if each.op is None)
        ranks.append(
            RankTimeline(
                rank.number,
                tuple(intervals),
                intervals[0].start if intervals else 0.0,
                intervals[-1].end if intervals else 0.0,
                busy,
                makespan - busy,
                _peak([each.kind for each in intervals]),
            )
        )
    transfers = tuple(Transfer(*each) for each in replay.transfers())
    return Timeline(costs, tuple(ranks), makespan, transfers, replay.exact)


def _interval(start: float, end: float, what: Any) -> Interval:
    if isinstance(what, Op):
        return Interval(start, end, "wait", op=what)
    return Interval(start, end, what.kind, what.stage, what.microbatch)


def _peak(kinds: list[str]) -> int:
    """Count the most in flight; with a split backward, W frees the activation."""
    now = peak = 0
    for kind in kinds:
        now += (kind == "F") - (kind in ("B", "W"))
        peak = max(peak, now)
    return peak

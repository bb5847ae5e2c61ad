"""Faults from outside: ranks that are slow, stopped or killed, messages that are lost or changed.

An injection is named by what is done, the rank, and the place there: ``kill@1.3`` kills rank 1
before its call 3 (counted from 0, messages and collectives alike), ``drop@0.2`` loses the third
message that rank 0 sends. Which ones a case has is drawn from its seed, and stands in its line.
"""

from __future__ import annotations

import difflib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from harness.active import active
from harness.case import Case, UsageError
from harness.findings import Finding
from harness.injection import Injection
from harness.ledger import Ledger, Noted
from harness.worlds import Entry, Outcome, RankContext

HARMLESS = {
    "delay": "a rank sleeps for 0.2 s before a call",
    "pause": "a rank's process is stopped for 0.3 s, before a call",
    "slow-link": "from a message on, each that a rank sends takes 20 ms longer",
    "reorder": "a message is sent after the next one, to another rank or with another tag",
}
"""What a correct program goes through without harm."""
HARMFUL = {
    "kill": "a rank is killed before a call",
    "drop": "a message is lost; its sender sees it sent",
    "duplicate": "a message is sent twice",
    "corrupt": "the first element of a message is changed on its way",
}
"""What a program can at best notice."""
KINDS = HARMLESS | HARMFUL
FULL_DISK = "full-disk"
"""Concerns the files that the command writes, not the ranks; from Python there are none."""
_OF_MESSAGES = ("slow-link", "reorder", "drop", "duplicate", "corrupt")
_DELAY_S, _PAUSE_S, _SLOWER_S = 0.2, 0.3, 0.02
MOST = 3  # injections of a case
REACH = 6  # places of a program, whose calls are not known before


def read_kinds(given: str) -> tuple[str, ...]:
    """Read ``delay,kill``, ``harmless``, ``all`` or injections; UsageError says what there is."""
    kinds: list[str] = []
    for word in (piece.strip() for piece in given.split(",")):
        if word == "all":
            kinds += KINDS
        elif word == "harmless":
            kinds += HARMLESS
        elif word in KINDS or word == FULL_DISK:
            kinds.append(word)
        elif "@" in word:
            kinds.append(str(_known(Injection.parse(word, "--nemesis "))))
        else:
            close = difflib.get_close_matches(word, [*KINDS, FULL_DISK], n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise UsageError(
                f"--nemesis {word!r}: {hint}give some of {', '.join(KINDS)}, {FULL_DISK}; "
                "harmless, all; or injections such as kill@1.3"
            )
    return tuple(dict.fromkeys(kinds))


def _known(injection: Injection) -> Injection:
    if injection.operator not in KINDS:
        raise UsageError(f"nemesis={injection}: the operators are {', '.join(KINDS)}")
    return injection


def parse(text: str) -> tuple[Injection, ...]:
    """Read a case's ``nemesis=``, none of them for an empty one; UsageError for what is none."""
    return tuple(_known(Injection.parse(word, "nemesis")) for word in text.split("+") if word)


def draw(kinds: Iterable[str], seed: int, world: int, reach: int) -> str | None:
    """Draw a case's injections among ``kinds``, at places below ``reach``; None for none.

    Those that are injections already stay as they are. Of the harmful ones there is at most one,
    so that what follows has one cause.
    """
    exact = [kind for kind in kinds if "@" in kind]
    drawn = [kind for kind in kinds if "@" not in kind and kind != FULL_DISK]
    found = [Injection.parse(text) for text in exact]
    if not drawn:
        return "+".join(exact) or None
    source = random.Random(f"nemesis {seed}")
    for _ in range(source.randint(1, MOST)):
        injection = Injection(
            source.choice(drawn), source.randrange(world), source.randrange(max(1, reach))
        )
        if injection.operator not in HARMFUL or not any(i.operator in HARMFUL for i in found):
            found.append(injection)
    return "+".join(map(str, found))


def describe(text: str, done: Collection[str] | None = None) -> str:
    """Say what a case's injections do, for people; ``done`` are those that were come to."""
    return "; ".join(
        f"{_described(injection)} ({injection}"
        + ("" if done is None or str(injection) in done else ", which it never came to")
        + ")"
        for injection in parse(text)
    )


def _described(injection: Injection) -> str:
    what = "message" if injection.operator in _OF_MESSAGES else "call"
    place = f"{what} {injection.place} of rank {injection.rank}"
    return {
        "delay": f"a delay before {place}",
        "pause": f"a stop before {place}",
        "slow-link": f"a slow link from {place} on",
        "reorder": f"{place} sent after the next",
        "kill": f"a kill before {place}",
        "drop": f"{place} lost",
        "duplicate": f"{place} sent twice",
        "corrupt": f"{place} changed",
    }[injection.operator]


def with_injected(findings: Iterable[Finding], case: Case, outcome: Outcome) -> tuple[Finding, ...]:
    """Return the findings on a case, each with what was done to it.

    Of an error that can come of a message that was lost, doubled or changed, that is the cause.
    """
    if case.nemesis is None:
        return tuple(findings)
    done = {note for history in outcome.trace.ranks for note in history.notes}
    told = describe(case.nemesis, done)
    harmful = (i for i in parse(case.nemesis) if i.operator in _CAUSES and str(i) in done)
    harm = next(harmful, None)
    return tuple(_with_cause(f, told, harm) for f in findings)


_CAUSES = {
    "drop": ("lost-message", "lost"),
    "duplicate": ("doubled-message", "sent twice"),
    "corrupt": ("changed-message", "changed on its way"),
}
_COME_OF_MESSAGES = (
    *("deadlock", "orphan-wait", "timeout", "unreceived-message", "message-swap"),
    *("shape-mismatch", "dtype-mismatch", "buffer-overwrite", "rank-error", "rank-death"),
    *("loss-mismatch", "gradient-mismatch", "parameter-mismatch", "collective-mismatch"),
)


def _with_cause(finding: Finding, told: str, harm: Injection | None) -> Finding:
    details = finding.details | {"injected": told}
    if harm is None or finding.severity != "error" or finding.code not in _COME_OF_MESSAGES:
        return finding.with_(details=details)
    cause, what = _CAUSES[harm.operator]
    return finding.with_(
        cause=cause,
        details=details | {"why": f"{_described(harm)}, from outside"},
        help=f"a message was {what}: that the program comes to this is no fault of its own, unless "
        "it does so without the nemesis too; a job that is to survive it needs checksums or "
        "timeouts, and a restart",
    )


def require(case: Case) -> None:
    """Refuse a case whose injections are for ranks that it does not have; UsageError."""
    for injection in parse(case.nemesis or ""):
        if injection.rank >= case.world:
            raise UsageError(
                f"nemesis={injection}: there is no rank {injection.rank} among {case.world}"
            )
    if case.mutant is not None and case.nemesis is not None:
        raise UsageError("a case has mutant= or nemesis=, not both")


def restricted(case: Case) -> Case:
    """Return the case as it can be run with its injections.

    A message may overtake another to somebody else on gloo. On NCCL both stand in one queue: there
    nothing is reordered, and a simulated case that is has gloo's semantics.
    """
    if case.nemesis is None or "reorder@" not in case.nemesis:
        return case
    if case.backend == "nccl" or (case.semantics or "").startswith("nccl"):
        rest = [word for word in case.nemesis.split("+") if not word.startswith("reorder@")]
        return case.with_(nemesis="+".join(rest) or None)
    if case.backend == "sim" and case.semantics is None:
        return case.with_(semantics="gloo")
    return case


def simpler(case: Case) -> Iterator[Case]:
    """Yield the case with one injection less."""
    words = (case.nemesis or "").split("+")
    for place in range(len(words)):
        rest = [*words[:place], *words[place + 1 :]]
        yield case.with_(nemesis="+".join(rest) or None)


def harmed(entry: Entry, text: str | None) -> Entry:
    """Return an entry that has the injections done to it."""
    return entry if text is None else Harmed(entry, parse(text))


@dataclass(frozen=True, slots=True)
class Harmed:
    """What a rank runs, with injections done to it; its result is a :class:`Noted`."""

    entry: Entry
    injections: tuple[Injection, ...]

    def __call__(self, context: RankContext) -> Noted:
        """Run the entry, and note what was sent and received."""
        from harness.layer import over

        mine = [injection for injection in self.injections if injection.rank == context.rank]
        nemesis = Nemesis(mine, context.rank, simulated=context.backend == "sim")
        with over(nemesis):
            result = self.entry(context)
            nemesis.blocks()
        return Noted(result, nemesis.ledger.told())


class Nemesis:
    """Does one rank's injections; an :class:`harness.layer.Interceptor`."""

    def __init__(self, injections: Iterable[Injection], rank: int, *, simulated: bool) -> None:
        self.ledger = Ledger(rank)
        self._rank = rank
        self._simulated = simulated
        self._calls = self._messages = -1
        self._slower = False
        self._held: Any = None  # a message that is put off, with its peer and tag
        self._kept: list[Any] = []
        self._of_calls: dict[int, list[str]] = {}
        self._of_messages: dict[int, list[str]] = {}
        for injection in injections:
            of_messages = injection.operator in _OF_MESSAGES
            table = self._of_messages if of_messages else self._of_calls
            table.setdefault(injection.place, []).append(injection.operator)

    def call(self, kind: str, original: Any, group: Any, args: tuple[Any, ...]) -> Any:
        """Make a call as the rank's injections have it."""
        self._calls += 1
        for operator in self._of_calls.get(self._calls, ()):
            self._before(operator)
        if kind == "send":
            self.ledger.sends(group, *args)
            return self._send(original, group, *args)
        self.blocks()
        work = original(group, *args)
        if kind == "recv":
            self.ledger.receives(work, group, *args)
        elif kind == "recv_anysource":
            self.ledger.receives_any(group, *args)
        return work

    def blocks(self) -> None:
        """Send what was held back: another rank may be needed for what this one waits for."""
        held, self._held = self._held, None
        if held is not None:
            held[0].start()

    def waited(self, work: Any) -> None:
        """Look at what a receive has brought."""
        self.ledger.came(work)

    def forward(self, module: Any, output: Any) -> None:
        """Leave what is computed as it is."""

    def _before(self, operator: str) -> None:
        self._note(operator, self._calls)
        if operator == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif operator == "pause" and not self._simulated:
            pause(os.getpid(), _PAUSE_S)
        else:
            time.sleep(_DELAY_S if operator == "delay" else _PAUSE_S)

    def _note(self, operator: str, place: int) -> None:
        """Write into the trace what is done now: it may be the last thing that the rank does."""
        if (recorder := active()) is not None:
            recorder.note(str(Injection(operator, self._rank, place)))

    def _send(self, original: Any, group: Any, tensors: Any, peer: int, tag: int = 0) -> Any:
        from harness.layer import Ended, Later

        self._messages += 1
        operators = self._of_messages.get(self._messages, ())
        for operator in operators:
            self._note(operator, self._messages)
        self._slower |= "slow-link" in operators
        if self._slower:
            time.sleep(_SLOWER_S)
        if self._held is not None and self._held[1:] == (group, peer, tag):
            self.blocks()  # the two may not overtake each other
        if "corrupt" in operators:
            tensors = [changed(tensors[0])]
        if "drop" in operators:
            return Ended()
        if "reorder" in operators and not _is_in_batch():
            later = Later(lambda: original(group, tensors, peer, tag))
            self._held = (later, group, peer, tag)
            return later
        work = original(group, tensors, peer, tag)
        if "duplicate" in operators:
            self._kept.append(work)
            work = original(group, [tensors[0].clone()], peer, tag)
        self.blocks()
        return work


def _is_in_batch() -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "batch_isend_irecv":
        frame = frame.f_back
    return frame is not None


def changed(tensor: Any) -> Any:
    """Return a copy of a tensor whose first element is another."""
    import torch

    copy = tensor.clone()
    if copy.numel():
        flat = copy.view(-1)
        flat[0] = -flat[0] - 1 if copy.dtype != torch.bool else ~flat[0]
    return copy


def pause(process: int, seconds: float) -> None:
    """Stop a process, and let it go on after so many seconds, whatever becomes of the caller."""
    wake = f"sleep {seconds}; kill -CONT {process}"
    waker = subprocess.Popen(["/bin/sh", "-c", wake], start_new_session=True)
    os.kill(process, signal.SIGSTOP)
    waker.wait()

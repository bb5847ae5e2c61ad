"""What two worlds must say alike of one program."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.case import Case
from harness.checkers.deadlock import find_stuck
from harness.checkers.dragged import sounds_dragged
from harness.findings import Finding
from harness.judge import judge
from harness.trace import Status
from harness.worlds import Outcome, Program, RankOutcome, Simulated, World
from tests.worlds.call import Call, Function

RankView = tuple[Any, ...]

# Codes whose message quotes the backend or the program: the text is not compared.
GOING_ON: RankView = ("going on",)
QUOTING = frozenset({"rank-error", "invalid-argument"})


@dataclass(frozen=True)
class View:
    """How a case ended, what each rank came to, and what is found.

    What depends on the moment at which real ranks are looked at is left out. Once a rank has
    failed, another that waits for it has been told so by its connection, or has not been yet:
    either way it is ``held`` at its line, and the case is ``failed``. A case is over as soon as
    some ranks are known to be stuck: the others are ``going on``. And of errors that are
    independent of each other the first by the clock takes in the others: all that were seen are
    ``told``.
    """

    ending: str
    ranks: tuple[RankView, ...]
    findings: tuple[Any, ...]
    told: tuple[str, ...] = ()
    aborting: frozenset[int] = field(default=frozenset(), compare=False)
    """The ranks that gloo aborts: at once, or only when they have come to something else."""

    @property
    def died(self) -> set[int]:
        """Return the ranks that ended as a process does, not a program."""
        return {rank for rank, how in enumerate(self.ranks) if how[0] == "died"}

    @property
    def cut_short(self) -> bool:
        """Whether the case was over, known to be wrong, while a rank had yet to do something.

        Or no rank had come to the program's first line, on a machine that is very busy.
        """
        doing = {how[0] for how in self.ranks} & {"going on", "running"}
        return bool(doing) and (self.ending in ("stuck", "failed") or ("running", 0) in self.ranks)

    @property
    def codes(self) -> set[str]:
        """Return the codes that were told, a deadlock and an orphaned wait as one.

        Which of them is seen depends on which ranks came first to where they are stuck.
        """
        codes = {text.partition(":")[0] for text in self.told}
        return {"stuck" if code in ("deadlock", "orphan-wait") else code for code in codes}

    def agrees(self, other: View, *, loose: bool = False) -> bool:
        """Whether two worlds say the same.

        ``loose``: any of several errors may have come first.
        """
        if self == other:
            return True
        going_on = False
        for ours, theirs in zip(self.ranks, other.ranks, strict=True):
            if GOING_ON in (ours, theirs):
                going_on = True
            elif ours != theirs:
                return False
        if going_on:  # what they would have come to was not seen
            codes, theirs_codes = self.codes, other.codes
            is_part = codes <= theirs_codes or theirs_codes <= codes
            return self.ending == other.ending and is_part
        return loose and (self.ending, self.told) == (other.ending, other.told)


def view(outcome: Outcome) -> View:
    """Return what is compared of an outcome."""
    failed = any(rank.error is not None or _died(outcome, rank) for rank in outcome.ranks)
    stuck = find_stuck(outcome.trace) if outcome.ending == "stuck" else {}
    found = judge(outcome, Case("program", len(outcome.ranks)))
    return View(
        "failed" if failed and outcome.ending in ("stuck", "failed") else outcome.ending,
        tuple(
            _rank_view(outcome, rank)
            if not stuck or rank.rank in stuck or _ended(rank)
            else GOING_ON
            for rank in outcome.ranks
        ),
        tuple(sorted((_finding_view(f, with_state=not failed) for f in found), key=repr)),
        tuple(sorted({_told(t) for f in found for t in _texts(f)})),
        frozenset(
            operation.rank
            for finding in found
            if finding.message.endswith("aborted by the backend")
            for operation in finding.operations
            if "recv" in operation.op
        ),
    )


def _ended(rank: RankOutcome) -> bool:
    return rank.finished or rank.error is not None or rank.exit_status is not None


def _died(outcome: Outcome, rank: RankOutcome) -> bool:
    return outcome.trace.ranks[rank.rank].status is Status.DIED


def _rank_view(outcome: Outcome, rank: RankOutcome) -> RankView:
    if rank.finished:
        return "finished", plain(rank.result)
    if _died(outcome, rank):
        return "died", rank.exit_status
    if (error := rank.error) is not None:
        line = error.frames[-1].line if error.frames else 0
        if error.in_comm and not error.refused and sounds_dragged(error.message):
            return "held", line
        return "raised", error.type, line
    waits = outcome.trace.ranks[rank.rank].blocked
    if waits:
        return "held", waits[0].op.at.line
    return "running", rank.stack[-1].line if rank.stack else 0


def _finding_view(finding: Finding, *, with_state: bool) -> tuple[Any, ...]:
    # Of what happens at one place on several ranks the first by the clock is shown.
    same = "times" in finding.details
    operations = sorted(
        (
            *((None, None) if same else (op.rank, op.peer)),
            *(op.op, op.tag, op.line, op.function),
            op.state if with_state else "",
        )
        for op in finding.operations
    )
    message = "" if same or finding.code in QUOTING else finding.message
    head = (finding.code, finding.severity, _cause(finding), finding.ranks, message)
    return (*head, tuple(map(str, operations)))


def _cause(finding: Finding) -> str | None:
    """Return the cause, as far as it does not depend on how far other ranks had come.

    Real ranks are stopped as soon as some of them can never go on; that a third one waits for a
    message, or has left a group, is known only if it had come to that by then.
    """
    if finding.cause in ("wrong-peer", "missing-send", "missing-receive"):
        return "left out or misdirected"
    apart = finding.cause in ("wrong-group", "order", "missing-collective")
    if apart and any(op.peer is None for op in finding.operations):
        return "collectives apart"
    return finding.cause


def _texts(finding: Finding) -> list[str]:
    return [f"{finding.code}: {finding.message}", *finding.details.get("followed_by", ())]


def _told(text: str) -> str:
    code = text.partition(":")[0]
    return code if code in QUOTING else re.sub(r"\d+", "#", text)


def plain(value: Any) -> Any:
    """Return a result in a form that compares bit by bit."""
    if isinstance(value, torch.Tensor):
        flat = value.detach().contiguous().reshape(-1)
        return str(value.dtype), tuple(value.shape), flat.view(torch.uint8).numpy().tobytes()
    if isinstance(value, dict):
        return tuple((plain(key), plain(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(plain(item) for item in value)
    return repr(value)


def run(
    world: World, function: Function, size: int, *, interleaving: str = "", timeout: float = 60
) -> Outcome:
    """Run a program; a run that nobody decides ends by ``timeout`` seconds without progress."""
    how = Simulated(interleaving=interleaving)
    return world.run(Program(Call(function), simulated=how), size, timeout=timeout)

"""Whether a deadlock is one only because sends wait for their receives: shown by running it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from harness.checkers.causes import ORDER
from harness.checkers.phrases import place
from harness.findings import Finding
from harness.trace import Op
from harness.worlds import Outcome, Program, WorldError

CAUSE = "needs-buffering"
LIMIT_S = 5.0
"""For the run that shows it, in all: with sends that complete at once a program may never end."""

CROSSED = ("tag-mismatch", "wrong-group")
"""What a deadlock looks like as well whose messages meet, once the first of them gets through."""


def explain_buffering(
    finding: Finding, program: Program, rerun: Callable[[Program], Outcome]
) -> Finding:
    """Run ``program`` again with sends that complete at once; name the cause if it then finishes.

    Where that leaves a message that nobody receives, its receive is what is missing.

    Only a deadlock in which a rank waits for a send is run again; ``rerun`` is to keep to
    ``LIMIT_S``. KeyboardInterrupt passes through.
    """
    sends = any("send" in operation.op for operation in finding.operations)
    if finding.code != "deadlock" or finding.cause not in (None, ORDER, *CROSSED) or not sends:
        return finding
    try:
        outcome = rerun(replace(program, buffered_sends=True))
    except WorldError:
        return finding
    if outcome.ending == "interrupted":
        raise KeyboardInterrupt
    if outcome.ending != "finished":
        return finding
    if (left := _left_behind(outcome, finding)) is not None:
        return _without_receive(finding, left)
    details = finding.details | {"with_buffered_sends": "finishes"}
    if finding.cause in (None, ORDER):
        return finding.with_(cause=CAUSE, details=details)
    details["why"] = (
        "a send completes only when its receive is posted, and the receiver waits for another "
        "message first"
    )
    help_ = "post the receives in the order of the sends, or make the sends isend"
    return finding.with_(cause=CAUSE, details=details, help=help_)


def _left_behind(outcome: Outcome, finding: Finding) -> Op | None:
    """Return the first message sent at a line of the finding's that nobody has received."""
    lines = {(told.rank, told.file, told.line) for told in finding.operations}
    sends = (
        op
        for op in outcome.trace.operations()
        if op.kind == "send" and op.match is None and (op.rank, op.site.file, op.site.line) in lines
    )
    return min(sends, key=lambda op: op.posted_ns, default=None)


def _without_receive(finding: Finding, send: Op) -> Finding:
    """Say what no buffer would mend: of some message there is no receive."""
    towards = f"rank {send.peer}"
    details = finding.details | {
        "why": f"{towards} never receives what rank {send.rank} sends at {place(send.site)}"
    }
    help_ = f"post a receive for it on {towards}, or leave this send out"
    return finding.with_(cause="missing-receive", details=details, help=help_)

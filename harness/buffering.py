"""Whether a deadlock is one only because sends wait for their receives: shown by running it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from harness.findings import Finding
from harness.worlds import Outcome, Program

CAUSE = "needs-buffering"


def explain_buffering(
    finding: Finding, program: Program, rerun: Callable[[Program], Outcome]
) -> Finding:
    """Run ``program`` again with sends that complete at once; name the cause if it then finishes.

    Only a deadlock in which a rank waits for a send, and whose cause is not known, is run again.
    """
    sends = any("send" in operation.op for operation in finding.operations)
    if finding.code != "deadlock" or finding.cause is not None or not sends:
        return finding
    outcome = rerun(replace(program, buffered_sends=True))
    if outcome.ending != "finished":
        return finding
    details = finding.details | {"with_buffered_sends": "finishes"}
    return finding.with_(cause=CAUSE, details=details)

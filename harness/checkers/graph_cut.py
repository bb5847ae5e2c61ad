"""A rank that has no gradient to send back, because its received activation takes none."""

from __future__ import annotations

from harness.checkers import sites
from harness.checkers.errors import began_with_none
from harness.findings import Finding, Operation
from harness.parity import advice
from harness.parity.causes import Claim
from harness.trace import Compute, RankError
from harness.worlds import Outcome, RankOutcome


def explain_none_gradient(outcome: Outcome) -> Finding | None:
    """Explain ranks that raised because they had None for a gradient; None where none did.

    ``x.grad`` is None when ``x`` did not require grad before ``stage(x)``: the recorded forward
    says so, and its line is where to mend it. The cause names the stage from which down there is
    no gradient: the one before.
    """

    def forwards(rank: int) -> list[Compute]:
        """Return a rank's forwards without a gradient, the one nearest to the loss first."""
        computes = outcome.trace.ranks[rank].computes
        return sorted((c for c in computes if not c.requires_grad), key=lambda c: -c.stage)

    def nearness(at: RankOutcome) -> tuple[int, int]:
        return max((c.stage for c in forwards(at.rank)), default=-1), at.rank

    for at in sorted(outcome.ranks, key=nearness, reverse=True):
        if at.error is None or not (_sent_none(at.error) or began_with_none(at.error)):
            continue
        cut = forwards(at.rank)
        if not cut:
            if (
                not began_with_none(at.error)
                and (early := _sent_early(outcome, at.rank, at.error)) is not None
            ):
                return early
            continue
        claim = Claim(f"graph-cut:stage {cut[0].stage - 1}")
        lacks = "go on with" if began_with_none(at.error) else "send back"
        return Finding(
            "gradient-mismatch",
            f"rank {at.rank} has no gradient to {lacks}: the activation that stage "
            f"{cut[0].stage} received does not require grad, so that there is none from stage "
            f"{cut[0].stage - 1} down",
            advice.help_for(claim, 0),
            ranks=(at.rank,),
            operations=(sites.operation(cut[0], "input does not require grad"),),
            cause=claim.cause,
            details={"raised": f"{at.error.type}: {at.error.message}"},
            time_ns=at.error.time_ns,
        )
    return None


def _sent_early(outcome: Outcome, rank: int, error: RankError) -> Finding | None:
    """Explain a gradient that is sent before the backward that makes it."""
    computes = outcome.trace.ranks[rank].computes
    forwards, backwards = (sum(c.kind == kind for c in computes) for kind in "FB")
    if not error.frames or backwards >= forwards or any(not c.requires_grad for c in computes):
        return None
    sent = [
        op for op in outcome.trace.ranks[rank].ops.values() if op.action and "SEND_B" in op.action
    ]
    if backwards > len(sent):
        return None
    at = error.frames[-1]
    return Finding(
        "invalid-argument",
        f"rank {rank} sends a gradient before the backward that makes it: {forwards} forwards and "
        f"{backwards} backwards have run there, and {len(sent)} gradients were sent",
        "call backward first; then the received activation's .grad is there to be sent",
        ranks=(rank,),
        operations=(Operation(rank, "send_backward", at.file, at.line, at.function, "got None"),),
        details={"raised": f"{error.type}: {error.message}"},
        time_ns=error.time_ns,
    )


def _sent_none(error: RankError) -> bool:
    in_comm = error.in_comm or error.type == "CommsArgumentError"
    return in_comm and ("got None" in error.message or "NoneType" in error.message)

"""What each action needs before it can run, and how far the rows of a plan get.

Everything that asks "in which order" is answered here: validation, timing and plots share it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from pipeline.actions import Action, Kind

Result = tuple[int, Kind, int]
"""What an action leaves behind: (stage, kind, microbatch)."""


def result(action: Action) -> Result:
    """Name what `action` makes. I and B both make the input's gradient, so they share a name."""
    kind = Kind.B if action.kind is Kind.I else action.kind
    return action.stage, kind, action.microbatch


def needs(action: Action, placement: Sequence[int], lowered: bool) -> list[Result]:
    """List the results that `action` waits for.

    In a lowered plan, what crosses ranks is needed as sent, not just as computed. Posting a
    receive waits for nothing: whether a blocking one can hang depends on the comm policy and the
    backend, and is not a property of the plan.
    """
    stage, microbatch = action.stage, action.microbatch

    def from_stage(other: int, kind: Kind, send: Kind) -> list[Result]:
        if not 0 <= other < len(placement):
            return []
        crosses = placement[other] != placement[stage]
        return [(other, send if lowered and crosses else kind, microbatch)]

    match action.kind:
        case Kind.F:
            return from_stage(stage - 1, Kind.F, Kind.SEND_F)
        case Kind.B | Kind.I:
            return [(stage, Kind.F, microbatch), *from_stage(stage + 1, Kind.B, Kind.SEND_B)]
        case Kind.W | Kind.SEND_B:
            return [(stage, Kind.B, microbatch)]
        case Kind.SEND_F:
            return [(stage, Kind.F, microbatch)]
        case _:
            return []


def receive_for(action: Action, placement: Sequence[int]) -> Action | None:
    """Name the receive that brings a compute action its data from another rank, if any does."""
    return _crossing(
        action, {Kind.F: Kind.RECV_F, Kind.B: Kind.RECV_B, Kind.I: Kind.RECV_B}, placement
    )


def send_of(action: Action, placement: Sequence[int]) -> Action | None:
    """Name the send that takes a compute action's result to another rank, if any does."""
    return _crossing(
        action, {Kind.F: Kind.SEND_F, Kind.B: Kind.SEND_B, Kind.I: Kind.SEND_B}, placement
    )


def _crossing(action: Action, ends: Mapping[Kind, Kind], placement: Sequence[int]) -> Action | None:
    if action.kind not in ends:
        return None
    end = Action(action.stage, ends[action.kind], action.microbatch, action.origin)
    other = end.other_end.stage
    if not 0 <= other < len(placement) or placement[other] == placement[action.stage]:
        return None
    return end


def run_order(
    rows: Sequence[Sequence[Action]], needs_of: Callable[[Action], Iterable[Result]]
) -> tuple[list[tuple[int, Action]], dict[int, tuple[Action, Result]]]:
    """Run all rows as far as they go, each in its order, in time linear in their length.

    Returns the (rank, action) pairs in an order that honours every need, and for each rank that
    got stuck the action it stopped at with a result that never came.
    """
    order: list[tuple[int, Action]] = []
    done: set[Result] = set()
    position = [0] * len(rows)
    waiting: dict[Result, list[int]] = {}
    stuck: dict[int, tuple[Action, Result]] = {}
    ready = list(reversed(range(len(rows))))
    while ready:
        rank = ready.pop()
        stuck.pop(rank, None)
        while position[rank] < len(rows[rank]):
            action = rows[rank][position[rank]]
            missing = next((need for need in needs_of(action) if need not in done), None)
            if missing is not None:
                waiting.setdefault(missing, []).append(rank)
                stuck[rank] = action, missing
                break
            done.add(result(action))
            order.append((rank, action))
            position[rank] += 1
            ready.extend(waiting.pop(result(action), ()))
    return order, stuck

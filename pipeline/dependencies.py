"""What each action needs before it can run, and what it makes.

The rules are here, action by action; :mod:`pipeline.flow` has them as numbers, for whole plans.
"""

from collections.abc import Mapping, Sequence

from pipeline.actions import Action, Kind

Result = tuple[int, Kind, int]
"""What an action leaves behind: (stage, kind, microbatch)."""


def result(action: Action) -> Result:
    """Name what `action` makes. I and B both make the input's gradient, so they share a name."""
    kind = Kind.B if action.kind is Kind.I else action.kind
    return action.stage, kind, action.microbatch


def results(action: Action) -> list[Result]:
    """Name all that `action` makes: an overlapped pair makes what its parts do, at its end."""
    return [result(part) for part in action.parts]


def needs(
    action: Action, placement: Sequence[int], lowered: bool, directions: int = 1
) -> list[Result]:
    """List the results that `action` waits for; an overlapped pair starts when both parts can.

    In a lowered plan, what crosses ranks is needed as sent, not just as computed. Posting a
    receive waits for nothing: whether a blocking one can hang depends on the comm policy and the
    backend, and is not a property of the plan.
    """
    if action.overlapped:
        return [
            need for part in action.parts for need in needs(part, placement, lowered, directions)
        ]
    stage, microbatch = action.stage, action.microbatch

    def from_stage(other: int, kind: Kind, send: Kind) -> list[Result]:
        if not is_next(stage, other, placement, directions):
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


def is_next(stage: int, other: int, placement: Sequence[int], directions: int = 1) -> bool:
    """Whether data goes between two adjacent stage numbers: each direction is a pipeline."""
    depth = len(placement) // directions
    return 0 <= other < len(placement) and stage // depth == other // depth


def receives_for(action: Action, placement: Sequence[int], directions: int = 1) -> list[Action]:
    """Name the receives that bring a compute action its data from other ranks."""
    return _crossing(action, _RECEIVES, placement, directions)


def sends_of(action: Action, placement: Sequence[int], directions: int = 1) -> list[Action]:
    """Name the sends that take a compute action's results to other ranks."""
    return _crossing(action, _SENDS, placement, directions)


_RECEIVES = {Kind.F: Kind.RECV_F, Kind.B: Kind.RECV_B, Kind.I: Kind.RECV_B}
_SENDS = {Kind.F: Kind.SEND_F, Kind.B: Kind.SEND_B, Kind.I: Kind.SEND_B}


def _crossing(
    action: Action, ends: Mapping[Kind, Kind], placement: Sequence[int], directions: int
) -> list[Action]:
    found = []
    for part in action.parts:
        if part.kind not in ends:
            continue
        end = Action(part.stage, ends[part.kind], part.microbatch, part.origin)
        other = end.other_end.stage
        if not is_next(part.stage, other, placement, directions):
            continue
        if placement[other] != placement[part.stage]:
            found.append(end)
    return found

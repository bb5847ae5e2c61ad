"""How a hang under NCCL is told: who stands behind what, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from harness.checkers.phrases import join, place
from harness.findings import Operation
from harness.hazards.replay import Replay
from harness.hazards.tangle import Link, Node, Tangle
from harness.trace import Op, Site
from harness.worlds.simulated.request import Request
from pipeline.actions import Action


def site_of(request: Request) -> Site | None:
    """Return where in the user's source a request was posted, of a recorded one."""
    return request.payload.site if isinstance(request.payload, Op) else None


def name(request: Request) -> str:
    """``isend to rank 1``, ``batched send of 0SEND_F1 to rank 1``, ``all_reduce``."""
    what = request.payload
    if isinstance(what, Op):
        api, label = what.api, what.action
    else:
        api, label = request.kind, None if what is None else str(what)
    if request.is_collective:
        return api
    if request.batch is not None:
        api = f"batched {request.kind}"
    of = f" of {label}" if label is not None else ""
    return f"{api}{of} {'to' if request.kind == 'send' else 'from'} rank {request.peer}"


def _named(node: Node) -> str:
    if isinstance(node, int):
        return f"rank {node}"
    site = site_of(node)
    return f"rank {node.rank}'s {name(node)}{'' if site is None else f' ({place(site)})'}"


def clauses(tangle: Tangle, replay: Replay) -> list[str]:
    """Tell the links of a tangle one after the other, each a sentence of its own."""
    told = [f"{_named(link.node)} {_predicate(link, replay)}" for link in tangle.links]
    last = tangle.links[-1].needs
    if not tangle.is_circle and isinstance(last, int):
        told.append(f"rank {last} finishes without it")
    return told


def sentence(tangle: Tangle, replay: Replay) -> str:
    """Tell a tangle in one sentence."""
    text = ""
    for link in tangle.links:
        subject = _named(link.node)
        if not text:
            text = f"{subject} {_predicate(link, replay)}"
        elif isinstance(link.node, Request) and text.endswith(subject):
            text += f", which {_predicate(link, replay)}"
        else:
            text += f"; {subject} {_predicate(link, replay)}"
    last = tangle.links[-1].needs
    if not tangle.is_circle and isinstance(last, int):
        text += f", and rank {last} finishes without it"
    return text


def _predicate(link: Link, replay: Replay) -> str:
    node, needs = link.node, link.needs
    if isinstance(node, int):
        if link.why == "call":
            return f"is held inside {_named(needs)}"
        if link.why == "wait":
            return f"waits for {_named(needs)}"
        waited = _named(replay.awaited(node))
        return f"waits for {waited}, and so for all of its batch: for {_named(needs)}"
    if link.why == "behind":
        return f"stands in {_queue(node, replay)} behind {_named(needs)}"
    if link.why == "creation":
        pair = replay.queues.communicator(node).pair
        whose = f"of ranks {pair[0]} and {pair[1]}" if pair else f"of group {node.group}"
        return f"is held until {_rank(needs)} comes to the communicator {whose}"
    if isinstance(needs, Request):
        return f"needs {_named(needs)}"
    return f"needs {_counterpart(node)} {_rank(needs)} has not posted{_where(node, replay)}"


def _rank(node: Node) -> str:
    return f"rank {node if isinstance(node, int) else node.rank}"


def _counterpart(request: Request) -> str:
    if request.is_collective:
        return f"the {name(request)} that"
    return f"a {'receive' if request.kind == 'send' else 'send'} that"


def _where(request: Request, replay: Replay) -> str:
    """Name the communicator where that is not the only one of the two ranks."""
    if request.is_collective or replay.queues.semantics == "nccl-eager":
        return ""
    pair = replay.queues.communicator(request).pair
    return " on the pair's communicator" if pair else " in a batch"


def _queue(request: Request, replay: Replay) -> str:
    pair = replay.queues.communicator(request).pair
    if pair is not None:
        return f"the queue of the pair of ranks {pair[0]} and {pair[1]}"
    return f"the queue of group {request.group}"


def operation_of(what: Request | Op, state: str, *, in_wait: bool = False) -> Operation:
    """Return an operation as reports show it, at its call or at the wait for it."""
    op = what if isinstance(what, Op) else what.payload
    if not isinstance(op, Op):
        assert isinstance(what, Request)
        origin = op.origin if isinstance(op, Action) else None
        at = Site(origin.file, origin.line, origin.function) if origin else Site("<plan>", 0, "")
        return Operation(what.rank, what.kind, *at, state, what.peer, action=str(op))
    site = op.at if in_wait else op.site
    waits = in_wait and not op.blocking and op.wait_site is not None
    return Operation(
        rank=op.rank,
        op=f"{op.api}, wait" if waits else op.api,
        peer=op.peer,
        tag=op.tag if not op.is_collective and op.tag else None,
        action=op.action,
        file=site.file,
        line=site.line,
        function=site.function,
        state=state,
    )


def under(conditions: Sequence[str]) -> str:
    """Name the conditions of a hang in few words."""
    modes = sorted({text.split()[0] for text in conditions})
    whole = [mode for mode in modes if f"{mode} capacity=inf" in conditions]
    part = [mode for mode in modes if mode not in whole]
    named = [join(whole)] if whole else []
    if part:
        named.append(f"{join(part)} without buffer space")
    return ", and on ".join(named)


def help_for(cause: str, tangle: Tangle, replay: Replay) -> str:
    """Say what to change."""
    kinds = {request.kind for request in tangle.requests if request.is_collective}
    if cause == "lazy-communicator" and any(
        link.why == "creation" and _is_whole(link, replay) for link in tangle.links
    ):
        return (
            "let all ranks begin with a collective of the group, such as a barrier, so that its "
            "communicator is there; or make it at the start, by init_process_group(device_id=...)"
        )
    if cause == "lazy-communicator":
        return (
            "let the ranks come to their first messages with each other in one order, for example "
            "lowest pair first before the schedule begins; or make the group's communicator at "
            "the start, by init_process_group(device_id=...)"
        )
    if cause == "batch-shape":
        return (
            "post both ends of a message in the same way, in a batch_isend_irecv or out of one, "
            "and let a batch hold only what may be waited for together"
        )
    if kinds:
        return (
            f"come to {join(sorted(kinds))} and the messages in the same order on all ranks, or "
            "give one of the two a group of its own"
        )
    if cause == "needs-capacity":
        return (
            "post the sends and receives that cross as one batch_isend_irecv on both ranks, or "
            "let one of the two receive first"
        )
    return (
        "post what crosses as one batch_isend_irecv, or post sends and receives in the order in "
        "which the other rank posts their counterparts, or give each direction its own group"
    )


def _is_whole(link: Link, replay: Replay) -> bool:
    """Whether what has to be made is a group's communicator, and not a pair's."""
    return isinstance(link.node, Request) and replay.queues.communicator(link.node).pair is None

"""What each backend waits for: the facts that a proof of deadlock rests on."""

from __future__ import annotations

from typing import Protocol

NCCL = ("nccl-eager", "nccl-lazy")
"""The send semantics of NCCL, which the simulator decides from a trace of gloo's."""


class Part(Protocol):
    """One rank's part in a collective: recorded, or about to be simulated."""

    @property
    def kind(self) -> str:
        """The collective's name."""

    @property
    def rank(self) -> int:
        """Whose part it is."""

    @property
    def root(self) -> int | None:
        """The rank that gives or takes, where there is one."""


# Collectives in which every rank needs every other one before it can return, on any backend.
_ALL_NEED_ALL = frozenset(
    {
        "all_reduce",
        "all_reduce_coalesced",
        "all_gather",
        "all_gather_into_tensor",
        "all_gather_coalesced",
        "all_gather_into_tensor_coalesced",
        "reduce_scatter",
        "reduce_scatter_tensor",
        "reduce_scatter_tensor_coalesced",
        "all_to_all",
        "all_to_all_single",
        "barrier",
        "new_group",
        "init_process_group",
    }
)


# Of no elements at all, gloo returns from these at once, whoever has come (tests/conformance).
_EMPTY_NEED_NOBODY = frozenset(
    {
        "all_reduce",
        "all_reduce_coalesced",
        "all_gather",
        "all_gather_into_tensor",
        "all_gather_coalesced",
        "all_gather_into_tensor_coalesced",
        "reduce",
        "reduce_scatter",
        "reduce_scatter_tensor",
        "reduce_scatter_tensor_coalesced",
    }
)


def needs_nobody(kind: str, numel: int, backend: str) -> bool:
    """Whether a collective of so many elements ends by itself on the rank that posts it."""
    return backend == "gloo" and numel == 0 and kind in _EMPTY_NEED_NOBODY


def needed_ranks(op: Part, ranks: tuple[int, ...], backend: str) -> set[int]:
    """Return the ranks without which ``op``, a collective, cannot end on the rank that posted it.

    Too few are returned rather than too many where a backend's algorithm is not known: then
    nothing is concluded, and the wait ends by timeout if it never ends otherwise. Gloo's rooted
    collectives were measured (``tests/worlds/test_gloo_facts.py``): a send in them ends only when
    its receive is posted, a broadcast goes down a binomial tree, a reduce along the ranks.
    """
    others = set(ranks) - {op.rank}
    if op.kind in _ALL_NEED_ALL:
        return others
    if op.root is None or op.rank not in ranks or op.root not in ranks:
        return set()
    if backend == "gloo":
        if op.kind == "broadcast":
            return _broadcast_tree(op.rank, op.root, ranks)
        if op.kind == "reduce" and op.rank != op.root:
            me = ranks.index(op.rank)
            return {ranks[at] for at in range(len(ranks)) if at > me or at == me - 1}
    is_root = op.rank == op.root
    if op.kind in ("gather", "reduce"):
        return others if is_root else ({op.root} if backend == "gloo" else set())
    if op.kind in ("scatter", "broadcast"):
        return (others if backend == "gloo" else set()) if is_root else {op.root}
    return set()


def _broadcast_tree(rank: int, root: int, ranks: tuple[int, ...]) -> set[int]:
    """Return this rank's ancestors, whose data it gets, and its children, who must take it."""
    size, offset = len(ranks), ranks.index(root)
    me = (ranks.index(rank) - offset) % size
    near, node = set(), me
    while node:
        node ^= 1 << (node.bit_length() - 1)  # the parent: without the highest set bit
        near.add(node)
    near |= {me | (1 << bit) for bit in range(me.bit_length(), size.bit_length())}
    return {ranks[(node + offset) % size] for node in near if node < size}

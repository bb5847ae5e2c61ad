"""Gloo's collectives, message by message (gloo's ``allreduce.cc``, ``reduce.cc`` and so on).

Everything is bytes here: a rank knows only its own type, size and operation. The order in which
numbers are added is gloo's own, so that sums agree with it bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from harness.worlds.simulated.exchange import Steps, Transfer, Wire

SEGMENT = 1 << 20  # bytes that are sent at once at most

Fold = Callable[[Tensor, Tensor], None]  # this rank's bytes, in place, and those that came


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


class Segments:
    """How a ring cuts a buffer: a chunk for each rank, each of several segments."""

    def __init__(self, total: int, size: int, element: int) -> None:
        self.total = total
        number = _up(max(-(-total // SEGMENT), 2 * size), size)
        self.per_rank = number // size
        self.each = _up(-(-total // number), element)
        self.whole = number * self.each
        self.steps = number - self.per_rank

    def place(self, chunk: int, number: int) -> slice:
        """Return where a segment lies, counted from the start of a chunk."""
        start = (chunk * self.per_rank + number) * self.each % self.whole
        return slice(start, min(start + self.each, max(self.total, start)))

    def chunk(self, rank: int) -> slice:
        """Return where a rank's chunk lies."""
        start = min(rank * self.per_rank * self.each, self.total)
        return slice(start, min(start + self.per_rank * self.each, self.total))


def _length(place: slice) -> int:
    return int(place.stop - place.start)


def _reduce_to_chunks(wire: Wire, out: Tensor, fold: Fold, cut: Segments) -> Steps:
    """Reduce around the ring: in the end each rank has its own chunk of the result."""
    me = wire.rank
    posted: list[tuple[slice, Tensor | None, Transfer | None, Transfer | None]] = []
    for number in range(cut.steps + 2):
        if number >= 2:
            place, buffer, received, sent = posted[number - 2]
            if received is not None and buffer is not None:
                yield received
                fold(out[place], buffer)
            if sent is not None:
                yield sent
        if number < cut.steps:
            taken, given = cut.place(me + 2, number), cut.place(me + 1, number)
            buffer = received = sent = None
            if _length(taken):
                buffer = out.new_empty(_length(taken))
                received = wire.receive(me + 1, buffer)
            if _length(given):
                sent = wire.send(me - 1, out[given])
            posted.append((taken, buffer, received, sent))


def all_reduce(wire: Wire, out: Tensor, fold: Fold, element: int) -> Steps:
    """Reduce around a ring, and pass the result around it."""
    if wire.size == 1 or not out.numel():
        return
    me, cut = wire.rank, Segments(out.numel(), wire.size, element)
    yield from _reduce_to_chunks(wire, out, fold, cut)
    posted: list[list[Transfer]] = []
    for number in range(cut.steps + 2):
        if number >= 2:
            yield from posted[number - 2]
        if number < cut.steps:
            taken, given = cut.place(me + 1, number), cut.place(me, number)
            both = []
            if _length(taken):
                both.append(wire.receive(me + 1, out[taken]))
            if _length(given):
                both.append(wire.send(me - 1, out[given]))
            posted.append(both)


def reduce(wire: Wire, out: Tensor, fold: Fold, element: int, root: int) -> Steps:
    """Reduce around a ring, and let the root gather the chunks; the others keep what they had."""
    if wire.size == 1 or not out.numel():
        return
    me, cut = wire.rank, Segments(out.numel(), wire.size, element)
    yield from _reduce_to_chunks(wire, out, fold, cut)
    if me == root:
        others = [rank for rank in range(wire.size) if rank != me]
        yield from [
            wire.receive(rank, out[cut.chunk(rank)]) for rank in others if _length(cut.chunk(rank))
        ]
    elif _length(cut.chunk(me)):
        yield wire.send(root, out[cut.chunk(me)])


def broadcast(wire: Wire, out: Tensor, root: int) -> Steps:
    """Pass the root's bytes down a binomial tree."""
    size = wire.size
    me = (wire.rank - root) % size
    mask = (1 << (size - 1).bit_length()) - 1
    sends = []
    for bit in range((size - 1).bit_length()):
        mask ^= 1 << bit
        peer = me ^ (1 << bit)
        if me & mask or peer >= size:
            continue
        if me & (1 << bit):
            yield wire.receive(peer + root, out)
        else:
            sends.append(wire.send(peer + root, out))
    yield from sends


def all_gather(wire: Wire, out: Tensor, given: Tensor) -> Steps:
    """Pass everybody's bytes around a ring, in two halves each; ``out`` holds all of them."""
    me, size, count = wire.rank, wire.size, given.numel()
    out[me * count : (me + 1) * count].copy_(given)
    if size == 1 or not count:
        return
    halves = (slice(0, count // 2), slice(count // 2, count))
    posted: list[tuple[Transfer, Transfer]] = []
    for number in range((size - 1) * 2):
        if number >= 2:
            yield from posted[number - 2]
        half = halves[number & 1]

        def place(rank: int, half: slice = half) -> Tensor:
            start = rank % size * count
            return out[start + half.start : start + half.stop]

        sent = wire.send(me + 1, place(me - number // 2))
        posted.append((sent, wire.receive(me - 1, place(me - 1 - number // 2))))
    for both in posted[-2:]:
        yield from both


def gather(wire: Wire, out: Tensor | None, given: Tensor, root: int) -> Steps:
    """Send everybody's bytes to the root; ``out``, there, holds all of them."""
    if wire.rank != root or out is None:
        yield wire.send(root, given)
        return
    count = given.numel()
    out[root * count : (root + 1) * count].copy_(given)
    yield from [
        wire.receive(rank, out[rank * count : (rank + 1) * count])
        for rank in range(wire.size)
        if rank != root
    ]


def scatter(wire: Wire, out: Tensor, given: Sequence[Tensor], root: int) -> Steps:
    """Send each rank its bytes of the root's list."""
    if wire.rank != root:
        yield wire.receive(root, out)
        return
    sends = [wire.send(rank, given[rank]) for rank in range(wire.size) if rank != root]
    out.copy_(given[root])
    yield from sends


def all_to_all(wire: Wire, out: Sequence[Tensor], given: Sequence[Tensor]) -> Steps:
    """Send each rank its bytes of this one's list, and take those of theirs."""
    me, size = wire.rank, wire.size
    count = min(out[me].numel(), given[me].numel())
    out[me][:count].copy_(given[me][:count])
    posted = []
    for step in range(1, size):
        target, source = (me + step) % size, (me - step) % size
        posted.append(wire.send(target, given[target]))
        posted.append(wire.receive(source, out[source]))
    yield from posted


def barrier(wire: Wire, empty: Tensor) -> Steps:
    """Tell the ranks at distance 1, 2, 4 and so on, and be told."""
    distance = 1
    while distance < wire.size:
        received = wire.receive(wire.rank - distance, empty)
        yield wire.send(wire.rank + distance, empty)
        yield received
        distance <<= 1

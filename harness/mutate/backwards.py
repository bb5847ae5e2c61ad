"""Changes to how a row goes backward: the halves of a split backward, and overlapped pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from harness.mutate.rows import Row
from pipeline.actions import Action, Kind


def exchange_halves(row: Row) -> Iterator[tuple[str, Row]]:
    """Let the halves of a backward change places."""
    for first, second in _halves(row):
        changed = list(row)
        changed[first], changed[second] = row[second], row[first]
        yield f"{row[second]} and {row[first]} exchanged", tuple(changed)


def weight_first(row: Row) -> Iterator[tuple[str, Row]]:
    """Compute the weights' gradient just before the input's."""
    for first, second in _halves(row):
        rest = (*row[first:second], *row[second + 1 :])
        yield f"{row[second]} just before {row[first]}", (*row[:first], row[second], *rest)


def weight_last(row: Row) -> Iterator[tuple[str, Row]]:
    """Put a weights' gradient off until all else is done."""
    for _, second in _halves(row):
        yield f"{row[second]} at the very end", (*row[:second], *row[second + 1 :], row[second])


def merge_halves(row: Row) -> Iterator[tuple[str, Row]]:
    """Do a split backward whole, where its first half stood."""
    for first, second in _halves(row):
        full = replace(row[first], kind=Kind.B)
        rest = (*row[first + 1 : second], *row[second + 1 :])
        yield f"{full} for {row[first]} and {row[second]}", (*row[:first], full, *rest)


def whole_and_half(row: Row) -> Iterator[tuple[str, Row]]:
    """Do a backward whole, and one half of it as well."""
    for first, second in _halves(row):
        for place in (first, second):
            full = replace(row[place], kind=Kind.B)
            yield f"{full} for {row[place]}", (*row[:place], full, *row[place + 1 :])
    for place, full in _wholes(row):
        for kind in (Kind.I, Kind.W):
            half = replace(full, kind=kind)
            yield f"{half} besides {full}", (*row[: place + 1], half, *row[place + 1 :])


def split(row: Row) -> Iterator[tuple[str, Row]]:
    """Do a whole backward in two halves, one after the other."""
    for place, full in _wholes(row):
        halves = replace(full, kind=Kind.I), replace(full, kind=Kind.W)
        yield f"{halves[0]} and {halves[1]} for {full}", (*row[:place], *halves, *row[place + 1 :])


def half_backward(row: Row) -> Iterator[tuple[str, Row]]:
    """Do one half of a whole backward only."""
    for place, full in _wholes(row):
        for kind in (Kind.I, Kind.W):
            half = replace(full, kind=kind)
            yield f"{half} alone for {full}", (*row[:place], half, *row[place + 1 :])


def _halves(row: Row) -> Iterator[tuple[int, int]]:
    """Give the places of each backward's I and W."""
    weights = {
        (action.stage, action.microbatch): place
        for place, action in enumerate(row)
        if action.kind is Kind.W
    }
    for place, action in enumerate(row):
        second = weights.get((action.stage, action.microbatch))
        if action.kind is Kind.I and second is not None and place < second:
            yield place, second


def _wholes(row: Row) -> Iterator[tuple[int, Action]]:
    for place, action in enumerate(row):
        if action.kind is Kind.B:
            yield place, action


def half_pair(row: Row) -> Iterator[tuple[str, Row]]:
    """Do one part of a pair only."""
    for place, pair in _pairs(row):
        for part in pair.overlapped:
            yield f"{part} alone for {pair}", (*row[:place], part, *row[place + 1 :])


def part_pair(row: Row) -> Iterator[tuple[str, Row]]:
    """Do the parts of a pair one after the other, in either order."""
    for place, pair in _pairs(row):
        for parts in (pair.overlapped, pair.overlapped[::-1]):
            text = f"{parts[0]} and then {parts[1]} for {pair}"
            yield text, (*row[:place], *parts, *row[place + 1 :])


def exchange_pairs(row: Row) -> Iterator[tuple[str, Row]]:
    """Let a pair and the next one exchange their backwards."""
    for (place, one), (next_place, other) in pairwise(_pairs(row)):
        changed = list(row)
        changed[place] = Action.overlap(one.overlapped[0], other.overlapped[1], one.origin)
        changed[next_place] = Action.overlap(other.overlapped[0], one.overlapped[1], other.origin)
        yield f"{changed[place]} for {one}, and likewise", tuple(changed)


def join(row: Row) -> Iterator[tuple[str, Row]]:
    """Make a pair of a forward and the backward beside it."""
    for place, two in enumerate(pairwise(row)):
        forward, backward = sorted(two, key=lambda action: action.kind is not Kind.F)
        if (forward.kind, backward.kind) == (Kind.F, Kind.B):
            pair = Action.overlap(forward, backward, forward.origin)
            text = f"{pair} for {two[0]} and then {two[1]}"
            yield text, (*row[:place], pair, *row[place + 2 :])


def _pairs(row: Row) -> Iterator[tuple[int, Action]]:
    for place, action in enumerate(row):
        if action.overlapped:
            yield place, action

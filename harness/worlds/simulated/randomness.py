"""Python's and numpy's random state, swapped at every change of ranks: it has to be cheap."""

from __future__ import annotations

import ctypes
import functools
import random
import struct
import sys
from typing import Any

_INSTANCE: Any = random._inst
_AT = id(_INSTANCE) + object.__basicsize__
_SIZE = 4 * 625  # an index, and 624 words


def _has_the_usual_layout() -> bool:
    """Whether the generator's memory is what CPython has always made it."""
    version, words, _ = random.getstate()
    if version != 3 or len(words) != 625:
        return False
    if type(_INSTANCE).__basicsize__ < object.__basicsize__ + _SIZE:
        return False
    index, *state = struct.unpack("625I", ctypes.string_at(_AT, _SIZE))
    return bool((*state, index) == words)


_is_usual = _has_the_usual_layout()


def save() -> Any:
    """Return the state of ``random``'s own generator."""
    if not _is_usual:
        return random.getstate()
    return ctypes.string_at(_AT, _SIZE), _INSTANCE.gauss_next


def restore(state: Any) -> None:
    """Put back a state from :func:`save`."""
    if not _is_usual:
        random.setstate(state)
        return
    ctypes.memmove(_AT, state[0], _SIZE)
    _INSTANCE.gauss_next = state[1]


class Numpy:
    """One rank's share of numpy's own generator: a bit generator, and a number kept back.

    The legacy functions draw normal numbers in pairs; the second waits in the object around the bit
    generator, which forgets it when it is given another.
    """

    __slots__ = ("_bits", "_kept")

    def __init__(self, numpy: Any, seed: int | None = None) -> None:
        self._kept: bytes | None = None
        if seed is None:
            self._bits = numpy.random.get_bit_generator()
            self.take()
        else:
            self._bits = numpy.random.MT19937()
            numpy.random.set_bit_generator(self._bits)
            numpy.random.seed(seed % 2**32)

    def take(self) -> None:
        """Remember the number that is kept back, if there is one."""
        flag = _flag()
        is_kept = flag is not None and flag.value
        self._kept = ctypes.string_at(_kept_at() or 0, _KEPT_SIZE) if is_kept else None

    def put(self) -> None:
        """Make it the generator that numpy's functions draw from."""
        sys.modules["numpy"].random.set_bit_generator(self._bits)
        if self._kept is not None and (at := _kept_at()) is not None:
            ctypes.memmove(at, self._kept, _KEPT_SIZE)


_KEPT_SIZE = 16  # a flag, padding, and the number


@functools.cache
def _flag() -> Any:
    """Return numpy's own flag that it keeps a number back; None where that cannot be told."""
    at = _kept_at()
    return None if at is None else ctypes.c_int.from_address(at)


@functools.cache
def _kept_at() -> int | None:
    """Return where numpy keeps the number back; None where that cannot be told."""
    generator: Any = sys.modules["numpy"].random.mtrand._rand
    state = generator.get_state(legacy=False)
    marks = (0.123456789, 0.987654321)
    places = []
    for mark in marks:
        generator.set_state(state | {"has_gauss": 1, "gauss": mark})
        memory = ctypes.string_at(id(generator), type(generator).__basicsize__)
        places.append(memory.find(struct.pack("iid", 1, 0, mark)))
    generator.set_state(state)
    return id(generator) + places[0] if places[0] > 0 and len(set(places)) == 1 else None

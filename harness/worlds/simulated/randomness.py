"""Python's, torch's and numpy's random state, swapped at every change of ranks.

It has to be cheap: Python's and torch's are copied where they lie, once it has been seen that what
lies there is the state, and all of it.
"""

from __future__ import annotations

import ctypes
import functools
import random
import struct
import sys
from typing import Any

import torch

from harness.worlds.simulated import torch_private

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


_words: Any = (ctypes.c_char * _SIZE).from_address(_AT) if _has_the_usual_layout() else None


def save() -> Any:
    """Return the state of ``random``'s own generator."""
    if _words is None:
        return random.getstate()
    return _words.raw, _INSTANCE.gauss_next


def restore(state: Any) -> None:
    """Put back a state from :func:`save`."""
    if _words is None:
        random.setstate(state)
    else:
        _words.raw, _INSTANCE.gauss_next = state


_BEFORE = 8 + 4 + 4 + 4  # a seed, how many words are left, whether seeded, the next of them
_BEHIND = 4 + 8 + 16  # padding, and the second of two normal numbers, in float and in double
_STATE = 5056  # bytes of what get_state() returns: from 24 on the words, in eight bytes each,
_FLOAT = 5048  # and here the second normal number in float, with whether there is one


def _torchs_memory() -> Any:
    """Return the memory that torch's generator has its state in; None where it is another one.

    There is one for the CPU, for good. What is found is tried, with both of the numbers kept back.
    """
    generator = torch.default_generator
    before = generator.get_state()
    try:
        generator.manual_seed(20)
        torch.empty(1, dtype=torch.float64, device="cpu").normal_()
        state = generator.get_state()
        if len(state) != _STATE:
            return None
        state[_FLOAT : _FLOAT + 5] = torch.tensor([1, 2, 3, 4, 1], dtype=torch.uint8, device="cpu")
        generator.set_state(state)
        words = bytes(state[24:88].view(-1, 8)[:, :4].flatten().tolist())
        address = torch_private.address_of(generator)
        at = -1 if address is None else ctypes.string_at(address, 256).find(words)
        if address is None or at < _BEFORE:
            return None
        size = _BEFORE + 4 * 624 + _BEHIND
        memory = (ctypes.c_char * size).from_address(address + at - _BEFORE)
        saved = memory.raw
        generator.manual_seed(30)
        other, others = generator.get_state(), memory.raw
        memory.raw = saved
        is_all = torch.equal(generator.get_state(), state)
        memory.raw = others
        return memory if is_all and torch.equal(generator.get_state(), other) else None
    finally:
        generator.set_state(before)


_torchs = _torchs_memory()


def save_torchs() -> Any:
    """Return the state of torch's generator for the CPU."""
    return torch.default_generator.get_state() if _torchs is None else _torchs.raw


def restore_torchs(state: Any) -> None:
    """Put back a state from :func:`save_torchs`."""
    if _torchs is None:
        torch.default_generator.set_state(state)
    else:
        _torchs.raw = state


class Numpy:
    """One rank's share of numpy's own generator: a bit generator, and a number kept back.

    The legacy functions draw normal numbers in pairs; the second waits in the object around the bit
    generator, which forgets it when it is given another.
    """

    __slots__ = ("_flag", "_kept", "_use", "bits")

    def __init__(self, numpy: Any, seed: int | None = None, bits: Any = None) -> None:
        self._kept: bytes | None = None
        self._use, self._flag = numpy.random.set_bit_generator, _flag()
        if seed is None:
            self.bits = numpy.random.get_bit_generator()
            self.take()
        else:
            self.bits = bits or numpy.random.MT19937()  # a new one takes a third of a millisecond
            self._use(self.bits)
            numpy.random.seed(seed % 2**32)

    def take(self) -> None:
        """Remember the number that is kept back, if there is one."""
        is_kept = self._flag is not None and self._flag.value
        self._kept = ctypes.string_at(_kept_at() or 0, _KEPT_SIZE) if is_kept else None

    def put(self) -> None:
        """Make it the generator that numpy's functions draw from."""
        self._use(self.bits)
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

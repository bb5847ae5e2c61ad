"""Pickles functions so that their source lines are still known where they arrive."""

from __future__ import annotations

import io
import pickle
from collections import ChainMap
from types import CodeType
from typing import Any, ClassVar, NamedTuple

import cloudpickle

LARGE = 1 << 14  # bytes, from which on a copy costs more than a call

_REDUCE_CODE = cloudpickle.Pickler.dispatch_table[CodeType]


def _restore_code(make: Any, arguments: tuple[Any, ...], file: str) -> CodeType:
    code: CodeType = make(*arguments)
    return code.replace(co_filename=file)


def _reduce_code(code: CodeType) -> tuple[Any, ...]:
    """Keep the file's name: cloudpickle drops it, and findings point into it."""
    make, arguments = _REDUCE_CODE(code)[:2]
    return _restore_code, (make, arguments, code.co_filename)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table: ClassVar[Any] = ChainMap(
        {CodeType: _reduce_code}, cloudpickle.Pickler.dispatch_table
    )


def dumps(value: Any) -> bytes:
    """Return ``value`` pickled, functions that cannot be imported by value."""
    file = io.BytesIO()
    _Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


class Pickled(NamedTuple):
    """A pickled value whose large bytes are the value's own: nobody can change them."""

    data: bytes
    apart: tuple[bytes, ...]

    def loads(self) -> Any:
        """Return the value; raises whatever unpickling does."""
        unpickler = pickle.Unpickler(io.BytesIO(self.data))
        unpickler.persistent_load = self.apart.__getitem__  # type: ignore[method-assign]
        return unpickler.load()


class _PicklerApart(_Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.apart: list[bytes] = []

    def persistent_id(self, value: Any) -> int | None:
        if type(value) is not bytes or len(value) < LARGE:
            return None
        self.apart.append(value)
        return len(self.apart) - 1


def dumps_apart(value: Any) -> Pickled:
    """Do as :func:`dumps` for a reader in this process, without a copy of large bytes."""
    file = io.BytesIO()
    pickler = _PicklerApart(file)
    pickler.dump(value)
    return Pickled(file.getvalue(), tuple(pickler.apart))

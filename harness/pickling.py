"""Pickles functions so that their source lines are still known where they arrive."""

from __future__ import annotations

import io
import pickle
from collections import ChainMap
from types import CodeType
from typing import Any, ClassVar

import cloudpickle

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

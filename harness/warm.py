"""Imports what torch imports lazily, once, without leaving anything behind."""

from __future__ import annotations

import importlib
import os
import tempfile

_CACHE = "TORCHINDUCTOR_CACHE_DIR"
_warm = False


def warm_torch() -> None:
    """Import what the first optimizer step of this process would, for a second or more.

    It imports and computes nothing: an optimizer looks at the accelerator, and a process that has
    initialised CUDA can make no ranks any more. Those imports make a cache folder in the temporary
    folder, though nothing is compiled; naming one that exists meanwhile keeps torch from it.
    """
    global _warm
    if _warm:
        return
    _warm = True
    before = os.environ.get(_CACHE)
    if before is None:
        os.environ[_CACHE] = tempfile.gettempdir()
    try:
        importlib.import_module("torch._dynamo")
    finally:
        if before is None:
            del os.environ[_CACHE]

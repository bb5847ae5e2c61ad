"""Imports what torch imports lazily, once, without leaving anything behind."""

from __future__ import annotations

import contextlib
import importlib
import os
import tempfile
from collections.abc import Iterator

_CACHE = "TORCHINDUCTOR_CACHE_DIR"
_warm = False


def warm_torch() -> None:
    """Import what the first optimizer step of this process would, for a second or more.

    It imports and computes nothing: an optimizer looks at the accelerator, and a process that has
    initialised CUDA can make no ranks any more.
    """
    global _warm
    if _warm:
        return
    _warm = True
    with without_cache_folder():
        importlib.import_module("torch._dynamo")


@contextlib.contextmanager
def without_cache_folder() -> Iterator[None]:
    """Keep an import of torch's compiler from making a folder in the temporary folder.

    It is for what is compiled, and made before anything is; naming one that exists prevents it.
    """
    if _CACHE in os.environ:
        yield
        return
    os.environ[_CACHE] = ours = tempfile.gettempdir()
    try:
        yield
    finally:
        if os.environ.get(_CACHE) == ours:  # and not what has been imported has set it
            del os.environ[_CACHE]

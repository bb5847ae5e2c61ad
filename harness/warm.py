"""Imports what torch imports lazily, once, without leaving anything behind."""

from __future__ import annotations

import os
import tempfile

_CACHE = "TORCHINDUCTOR_CACHE_DIR"
_warm = False


def warm_torch() -> None:
    """Make the first optimizer steps of this process, which import for a second or more.

    Those imports make a cache folder in the temporary folder, though nothing is compiled; naming
    one that exists for the time of the imports keeps torch from it.
    """
    global _warm
    if _warm:
        return
    _warm = True
    before = os.environ.get(_CACHE)
    if before is None:
        os.environ[_CACHE] = tempfile.gettempdir()
    try:
        import torch

        weight = torch.nn.Parameter(torch.zeros(1))
        weight.grad = torch.zeros(1)
        for make in (torch.optim.Adam, torch.optim.SGD):
            make([weight], lr=0.1).step()
    finally:
        if before is None:
            del os.environ[_CACHE]

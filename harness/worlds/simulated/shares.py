"""Attributes of Python's own modules that every rank has its own value of, as processes do."""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
import warnings
from multiprocessing import context
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d


class Shares:
    """One rank's values of them; the lists among them are copies of what was there.

    Spelled out, because it is done at every change of ranks.
    """

    __slots__ = ("_values",)
    _values: tuple[Any, ...]

    def __init__(self, *, copies: bool = True) -> None:
        self.take()
        if copies:
            self._values = tuple(list(v) if isinstance(v, list) else v for v in self._values)

    def take(self) -> None:
        """Remember what is there now."""
        self._values = (
            sys.stdout, sys.stderr, sys.excepthook,
            _warnings.filters, _warnings.showwarning, _warnings._showwarnmsg_impl,
            _root.handlers, _root.level, _processes._actual_context,
        )  # fmt: skip

    def put(self) -> None:
        """Put in place what was remembered."""
        level = _root.level
        (
            sys.stdout, sys.stderr, sys.excepthook,
            _warnings.filters, _warnings.showwarning, _warnings._showwarnmsg_impl,
            _root.handlers, _root.level, _processes._actual_context,
        ) = self._values  # fmt: skip
        if _root.level != level:
            logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]


_warnings: Any = warnings
_root = logging.root
_processes: Any = context._default_context  # how multiprocessing starts them


class Settings:
    """What no rank has its own of, and a run leaves as it was all the same."""

    def __init__(self) -> None:
        self._recursion = sys.getrecursionlimit()
        self._interval = sys.getswitchinterval()
        self._thresholds = gc.get_threshold()
        self._umask = os.umask(0)
        os.umask(self._umask)
        self._hook = threading.excepthook
        self._distributed = [(module, dict(vars(module))) for module in (dist, c10d)]

    def restore(self) -> None:
        """Undo what the program has changed: the program's patches of torch.distributed, too."""
        sys.setrecursionlimit(self._recursion)
        if sys.getswitchinterval() != self._interval:
            sys.setswitchinterval(self._interval)
        gc.set_threshold(*self._thresholds)
        os.umask(self._umask)
        threading.excepthook = self._hook
        for module, known in self._distributed:
            now = vars(module)
            for name in [name for name, value in known.items() if now.get(name) is not value]:
                setattr(module, name, known[name])

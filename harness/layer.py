"""A layer over ``torch.distributed``, above the recorder, which sees what the layer does instead.

Each rank that runs in the block has its own interceptor, or none. Ranks may be threads of one
process: the layer lies there as long as any of them is in the block.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Protocol

import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, Store
from torch.futures import Future
from torch.nn.modules.module import register_module_forward_hook

from harness.instrument import everywhere
from harness.wrappers import COLLECTIVE_METHODS

Call = Callable[..., Any]
MESSAGES = ("send", "recv", "recv_anysource")


class Interceptor(Protocol):
    """Stands between one rank's program and its calls."""

    def call(self, kind: str, original: Call, group: Any, args: tuple[Any, ...]) -> Any:
        """Make a call of ``kind``, a method of ``ProcessGroup``, or something else instead."""
        ...

    def blocks(self) -> None:
        """Note that the rank is about to wait for something else than a call of its group."""
        ...

    def waited(self, work: Any) -> None:
        """Note that a wait for a request has returned."""
        ...

    def forward(self, module: Any, output: Any) -> Any:
        """Return what a module's forward is to give instead of ``output``; None for the same."""
        ...


class Ended(dist.Work):
    """A request of nothing: it has ended."""

    def __init__(self) -> None:
        super().__init__()

    def wait(self, timeout: Any = None) -> bool:
        """Return at once."""
        return True

    def is_completed(self) -> bool:
        """Return that it has."""
        return True

    def get_future(self) -> Any:
        """Return one that is done."""
        future: Any = Future()
        future.set_result(None)
        return future


class Later(dist.Work):
    """A request that is posted when it is started, or waited for."""

    def __init__(self, post: Callable[[], Any]) -> None:
        super().__init__()
        self._post = post
        self._work: Any = None

    def start(self) -> None:
        """Post it, unless that has been done."""
        if self._work is None:
            self._work = self._post()

    def wait(self, timeout: Any = None) -> bool:
        """Wait for it as for any."""
        self.start()
        return bool(self._work.wait())

    def is_completed(self) -> bool:
        """Whether it has ended; who asks wants it posted."""
        self.start()
        return bool(self._work.is_completed())

    def get_future(self) -> Any:
        """Return the future of what is posted now."""
        self.start()
        return self._work.get_future()


_current: ContextVar[Interceptor | None] = ContextVar("_current", default=None)
_lock = threading.Lock()
_users = 0
_undo: list[Callable[[], Any]] = []


@contextlib.contextmanager
def over(interceptor: Interceptor | None) -> Iterator[None]:
    """Let ``interceptor`` stand between what this thread does in the block and its calls."""
    token = _current.set(interceptor)
    _install()
    try:
        yield
    finally:
        _uninstall()
        _current.reset(token)


def _install() -> None:
    global _users
    with _lock:
        _users += 1
        if _users > 1:
            return
        for owner in _owners():
            for kind in (*MESSAGES, *COLLECTIVE_METHODS):
                if kind in vars(owner):
                    bound = vars(owner)[kind]
                    setattr(owner, kind, _layer(kind, getattr(owner, kind)))
                    _undo.append(functools.partial(setattr, owner, kind, bound))
        for owner, method in _waits():
            _undo.append(functools.partial(setattr, owner, method, vars(owner)[method]))
            setattr(owner, method, _waiting(method, getattr(owner, method)))
        wrapper = _blocking(dist.new_group)
        _undo.append(functools.partial(everywhere, "new_group", wrapper, dist.new_group))
        everywhere("new_group", dist.new_group, wrapper)
        _undo.append(register_module_forward_hook(_after_forward).remove)


def _owners() -> list[Any]:
    """Return the classes whose methods calls end in: torch's, and the simulated groups'."""
    simulated: Any = sys.modules.get("harness.worlds.simulated.group")
    if simulated is None:
        return [ProcessGroup]
    return [ProcessGroup, *simulated.SimProcessGroup.__mro__[:2]]


def _waits() -> Iterator[tuple[Any, str]]:
    """Yield the classes and their methods in which a rank waits, torch's and the simulated ones."""
    work: Any = sys.modules.get("harness.worlds.simulated.work")
    store: Any = sys.modules.get("harness.worlds.simulated.store")
    for owner in [dist.Work, *([work.SimWork] if work else [])]:
        yield from ((owner, name) for name in ("wait", "is_completed") if name in vars(owner))
    for owner in [Store, *([store.SimStore] if store else [])]:
        yield from ((owner, name) for name in ("wait", "get") if name in vars(owner))


def _uninstall() -> None:
    global _users
    with _lock:
        _users -= 1
        while _users == 0 and _undo:
            _undo.pop()()


def _layer(kind: str, original: Call) -> Call:
    @functools.wraps(original)
    def call(group: Any, *args: Any, **kwargs: Any) -> Any:
        interceptor = _current.get()
        if interceptor is None:
            return original(group, *args, **kwargs)
        do = functools.partial(original, **kwargs) if kwargs else original
        return interceptor.call(kind, do, group, args)

    return call


def _waiting(method: str, original: Call) -> Call:
    @functools.wraps(original)
    def wait(owner: Any, *args: Any, **kwargs: Any) -> Any:
        interceptor = _current.get()
        if interceptor is None:
            return original(owner, *args, **kwargs)
        interceptor.blocks()
        result = original(owner, *args, **kwargs)
        if method == "wait" and isinstance(owner, dist.Work):
            interceptor.waited(owner)
        return result

    return wait


def _blocking(original: Call) -> Call:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if (interceptor := _current.get()) is not None:
            interceptor.blocks()
        return original(*args, **kwargs)

    return call


def _after_forward(module: Any, args: Any, output: Any) -> Any:
    interceptor = _current.get()
    return None if interceptor is None else interceptor.forward(module, output)

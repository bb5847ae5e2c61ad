"""All that the simulated world needs of torch's private interface, in one place.

Checked at import: where a version of torch lacks something, :class:`~harness.worlds.WorldError`
says what, before anything runs.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d
from torch.distributed import distributed_c10d as c10d

from harness.instrument import everywhere
from harness.worlds import WorldError

NAME = "sim"
_TORCH = os.path.join(os.path.dirname(torch.__file__), "")  # noqa: PTH118, PTH120
native: Any = _distributed_c10d
Future: Any = torch._C.Future  # what every future of torch's waits by
_KNOWN = frozenset({"gloo", "nccl", "xccl", "undefined", NAME})  # in whose place it stands
_NEEDED: tuple[tuple[Any, str], ...] = (
    (native, "_set_thread_isolation_mode"),
    (c10d, "_world"),
    (c10d, "_new_process_group_helper"),
    (c10d, "init_process_group"),
    (type(c10d.group), "WORLD"),
    (torch._C.Future, "wait"),
    (c10d.Backend, "_plugins"),
    (c10d.Backend, "backend_type_map"),
    (c10d.Backend, "backend_capability"),
    (c10d.Backend, "default_device_backend_map"),
    (torch.autograd, "set_multithreading_enabled"),
    (torch._C, "_get_privateuse1_backend_name"),
)
_TABLES = ("_plugins", "backend_type_map", "backend_capability", "default_device_backend_map")


def require() -> None:
    """Raise WorldError where this version of torch lacks what the simulated world needs."""
    missing = [f"{getattr(owner, '__name__', owner)}.{name}" for owner, name in _NEEDED
               if not hasattr(owner, name)]  # fmt: skip
    if missing:
        raise WorldError(
            f"backend sim: torch {torch.__version__} lacks {', '.join(missing)}, which the "
            "simulated world is built on; use a torch from 2.8 to 2.14, or --backend gloo"
        )


class World:
    """One rank's table of process groups, in the place of torch's own ``_world``."""

    def __init__(self) -> None:
        self.default_pg: Any = None
        self.pg_map: dict[Any, Any] = {}
        self.pg_names: dict[Any, str] = {}
        self.pg_group_ranks: dict[Any, dict[int, int]] = {}
        self.pg_backend_config: dict[Any, str] = {}
        self.group_count = 0
        self.tags_to_pg: dict[str, list[Any]] = {}
        self.pg_to_tag: dict[Any, str] = {}
        self.pg_coalesce_state: dict[Any, list[Any]] = {}
        self.comms: list[Any] = []

    @property
    def pg_config_info(self) -> list[dict[str, Any]]:
        """Describe every group, as torch's own does."""
        return [
            {
                "pg_name": self.pg_names[pg],
                "pg_desc": getattr(pg, "group_desc", "undefined"),
                "backend_config": self.pg_backend_config[pg],
                "pg_size": len(ranks),
                "group_count": self.group_count,
                "ranks": list(ranks),
            }
            for pg, ranks in self.pg_group_ranks.items()
            if pg in self.pg_names
        ]


def new_world() -> World:
    """Return an empty table of process groups."""
    return World()


def use_world(world: Any) -> None:
    """Make ``world`` the table that ``torch.distributed`` works with."""
    c10d._world = world


Creator = Callable[[Any, Any], Any]  # torch's options for a new group, the user's → the group


class Installed:
    """What of torch is other than usual while ranks are simulated; :meth:`remove` undoes it."""

    def __init__(self, create: Creator) -> None:
        require()
        self._world = c10d._world
        self._tables = {name: dict(getattr(c10d.Backend, name)) for name in _TABLES}
        self._backends = list(c10d.Backend.backend_list)
        self._replaced: list[tuple[str, Any, Any]] = []
        self._stack = ExitStack()
        dist.Backend.register_backend(NAME, create, extended_api=True, devices=["cpu"])
        native._set_thread_isolation_mode(True)
        self.replace("_new_process_group_helper", _simulated)
        self._groups: Any = type(c10d.group)
        self._whole = vars(self._groups)["WORLD"]
        setattr(self._groups, "WORLD", _not_for_a_module(self._whole))  # noqa: B010

    def replace(self, name: str, wrap: Callable[[Any], Any]) -> None:
        """Wrap a function of ``torch.distributed`` wherever torch holds it."""
        original = getattr(c10d, name, None) or getattr(dist, name)
        wrapper = wrap(original)
        self._replaced.append((name, original, wrapper))
        everywhere(name, original, wrapper)

    def remove(self) -> None:
        """Make torch as it was."""
        for name, original, wrapper in reversed(self._replaced):
            everywhere(name, wrapper, original)
        native._set_thread_isolation_mode(False)
        setattr(self._groups, "WORLD", self._whole)  # noqa: B010
        for name, table in self._tables.items():
            current = getattr(c10d.Backend, name)
            current.clear()
            current.update(table)
        c10d.Backend.backend_list[:] = self._backends
        if NAME.upper() in vars(c10d.Backend):
            delattr(c10d.Backend, NAME.upper())
        c10d._world = self._world


def _not_for_a_module(original: property) -> property:
    """Keep one rank's group out of a module of torch's that all of them share.

    One that a rank imports late takes ``group.WORLD`` for a default of its functions; before there
    is a group that is None, which means the same to them.
    """

    def world(owner: Any) -> Any:
        code = sys._getframe(1).f_code
        if code.co_name == "<module>" and code.co_filename.startswith(_TORCH):
            return None
        return original.__get__(owner, type(owner))

    return property(world, original.fset)


def _simulated(original: Any) -> Any:
    """Make every group a simulated one, which bears the name of the backend that was asked for."""

    @functools.wraps(original)
    def helper(
        size: int, rank: int, ranks: Any, backend: Any, store: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if any(name not in _KNOWN for name in re.findall(r"[^:,]+(?=,|$)", str(backend))):
            return original(size, rank, ranks, backend, store, *args, **kwargs)  # which refuses
        kwargs.pop("backend_options", None)
        kwargs.pop("pg_options", None)
        kwargs["device_id"] = None
        group, prefix_store = original(
            size, rank, ranks, c10d.Backend(NAME), store, *args[:1], **kwargs
        )
        if prefix_store is not None:
            c10d._world.pg_map[group] = (reported(backend), prefix_store)
        return group, prefix_store

    return helper


def address_of(generator: torch.Generator) -> int | None:
    """Return where torch's C++ has a generator; None where that cannot be told."""
    address = getattr(generator, "_cdata", None)
    return address if isinstance(address, int) else None


def reported(backend: Any) -> str:
    """Return the name under which a program finds the backend that it asked for."""
    asked = str(backend)
    return asked if asked == "nccl" else "gloo"


def on_this_thread() -> ExitStack:
    """Make the calling thread fit to be a rank: its backwards stay on it, one thread a rank."""
    stack = ExitStack()
    stack.enter_context(torch.autograd.set_multithreading_enabled(False))
    torch.set_num_threads(1)
    return stack

"""What each rank has to itself in one process, though Python and torch have one of it.

Swapped with the baton: random state, environment, arguments, the default dtype, torch's table of
process groups, the recorder, and the user's own modules, which every rank imports for itself, as
processes do: a global of a user's module must not be shared.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import os
import random
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
from torch.utils import _python_dispatch

from harness import recorder as recording
from harness.recorder import Recorder
from harness.targets import loading
from harness.worlds.simulated import randomness, torch_private
from harness.worlds.simulated.shares import Settings, Shares


@dataclass(slots=True)
class Modules:
    """A rank's own copies of the user's modules; kept from case to case, as in a process."""

    own: dict[str, ModuleType] = field(default_factory=dict)
    cache: loading.Cache = field(default_factory=loading.Cache)
    bits: Any = None  # what numpy draws from; seeded anew in every case


@dataclass(slots=True)
class RankState:
    """One rank's share of the interpreter; only :meth:`enter` and :meth:`leave` exchange it."""

    modules: Modules
    environ: dict[Any, Any]
    world: Any = field(default_factory=torch_private.new_world)
    recorder: Recorder | None = None
    argv: list[str] = field(default_factory=lambda: [""])
    path: list[str] = field(default_factory=lambda: list(sys.path))
    shares: Shares = field(default_factory=Shares)
    folder: str | None = None  # it works in, once a rank has changed its own
    dtype: torch.dtype = torch.float32
    torch_random: Any = None
    python_random: Any = None
    numpy_random: randomness.Numpy | None = None
    known: int = 0  # how many modules there were when this rank began to run

    def seed(self, seed: int) -> None:
        """Seed this rank's generators; for its own thread, at the start."""
        random.seed(seed)
        torch.default_generator.manual_seed(seed)  # there is no other device here
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            self.numpy_random = randomness.Numpy(numpy, seed, self.modules.bits)
            self.modules.bits = self.numpy_random.bits

    def enter(self) -> None:
        """Put this rank's share in place."""
        sys.modules.update(self.modules.own)
        self.known = len(sys.modules)
        loading.use(self.modules.cache)
        os.environ._data = self.environ  # type: ignore[attr-defined]
        sys.argv, sys.path = self.argv, self.path
        if self.folder is not None:
            _enter_folder(self.folder)
        self.shares.put()
        torch_private.use_world(self.world)
        recording.activate(self.recorder)
        if torch.get_default_dtype() is not self.dtype:
            torch.set_default_dtype(self.dtype)
        if self.torch_random is not None:
            randomness.restore_torchs(self.torch_random)
            randomness.restore(self.python_random)
        if self.numpy_random is not None:
            self.numpy_random.put()

    def leave(self) -> None:
        """Take this rank's share away."""
        self.torch_random = randomness.save_torchs()
        self.python_random = randomness.save()
        if self.numpy_random is not None:
            self.numpy_random.take()
        self.argv, self.path = sys.argv, sys.path
        self.shares.take()
        self.dtype = torch.get_default_dtype()
        if len(sys.modules) != self.known:
            self._take_new_modules()
        for name in self.modules.own:
            sys.modules.pop(name, None)
        recording.activate(None)

    def _take_new_modules(self) -> None:
        self.modules.own.update(users_modules())


_chdir = os.chdir  # which is replaced while ranks run


def _enter_folder(folder: str) -> None:
    try:
        _chdir(folder)
    except OSError:  # it is gone: no rank may be left in another's
        _chdir("/")


_installed: dict[str, Any] = {}  # modules that are known to be nobody's own
_without: int | None = None  # how many modules there were when none was the user's
_usual: tuple[int, dict[str, ModuleType]] = 0, {}  # how many between two runs, and the user's


def users_modules() -> dict[str, ModuleType]:
    """Return the user's own modules among those that are loaded now."""
    global _without
    if len(sys.modules) == _without:
        return {}
    found = _look_for_users_modules()
    _without = len(sys.modules) - len(found)
    return found


def _between_runs() -> dict[str, ModuleType]:
    """Do the same before a run begins: there is always one, ``__main__``, and seldom another."""
    global _usual
    count, found = _usual
    if len(sys.modules) != count or any(sys.modules.get(name) is not found[name] for name in found):
        found = users_modules()
        _usual = len(sys.modules), found
    return found


def _look_for_users_modules() -> dict[str, ModuleType]:
    found = {}
    names = list(sys.modules)
    known = map(operator.is_, map(_installed.get, names), map(sys.modules.get, names))
    for name in itertools.compress(names, map(operator.not_, known)):
        module = sys.modules[name]
        if is_users(name, module):
            found[name] = module
        else:
            _installed[name] = module
    return found


def is_users(name: str, module: Any) -> bool:
    """Whether a module is the user's own, of which every rank has its copy."""
    if name == "__main__":
        return True
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and loading.is_users(file)


class Surroundings:
    """The interpreter as it was before the ranks, put back by :meth:`restore`."""

    def __init__(self) -> None:
        self._environ: dict[Any, Any] = os.environ._data  # type: ignore[attr-defined]
        self._modules = _between_runs()
        self._cache = loading.use(loading.Cache())
        self._argv, self._path = sys.argv, sys.path
        self._shares, self._settings = Shares(copies=False), Settings()
        self._dtype = torch.get_default_dtype()
        self._threads = torch.get_num_threads()
        self._random = torch.default_generator.get_state(), random.getstate()
        numpy = sys.modules.get("numpy")
        self._numpy = None if numpy is None else randomness.Numpy(numpy)
        self._grad = torch.is_grad_enabled()
        self._deterministic = torch.are_deterministic_algorithms_enabled()
        self._recorder = recording.active()
        self._modes = _mode_flags()
        self._folder = os.getcwd()  # noqa: PTH109
        for name in self._modules:
            del sys.modules[name]

    def restore(self, environments: Iterable[dict[Any, Any]] = ()) -> None:
        """Put everything back; ``environments`` are what the ranks have made of theirs."""
        for name in users_modules():
            del sys.modules[name]
        sys.modules.update(self._modules)
        loading.use(self._cache)
        self._restore_environment(environments)
        sys.argv, sys.path = self._argv, self._path
        self._shares.put()
        self._settings.restore()
        torch.set_default_dtype(self._dtype)
        torch.set_grad_enabled(self._grad)
        if torch.are_deterministic_algorithms_enabled() != self._deterministic:
            torch.use_deterministic_algorithms(self._deterministic)  # imports torch's compiler
        if torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)
        torch.default_generator.set_state(self._random[0])
        random.setstate(self._random[1])
        if self._numpy is not None:
            self._numpy.put()
        recording.activate(self._recorder)
        vars(_python_dispatch).update(self._modes)
        with contextlib.suppress(OSError):
            os.chdir(self._folder)

    def _restore_environment(self, environments: Iterable[dict[Any, Any]]) -> None:
        """Also below Python: what a rank set was put into the process's own environment."""
        os.environ._data = self._environ  # type: ignore[attr-defined]
        for name in {name for one in environments for name in one} - self._environ.keys():
            os.unsetenv(name)
        for name, value in self._environ.items():
            os.putenv(name, value)


def _mode_flags() -> dict[str, bool]:
    """Return what torch notes about modes in use: of the process, though each thread has its own.

    A guarded rank's mode begins and ends between those of others.
    """
    return {
        name: value
        for name, value in vars(_python_dispatch).items()
        if name.startswith("_is_in_") and isinstance(value, bool)
    }


def copy_of_environment(more: dict[str, str]) -> dict[Any, Any]:
    """Return the contents of an ``os.environ`` that has ``more`` beside what is there now."""
    encode = os.environ.encodekey
    return {**os.environ._data, **{encode(k): encode(v) for k, v in more.items()}}  # type: ignore[attr-defined]

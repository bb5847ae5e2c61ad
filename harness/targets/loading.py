"""Importing what a target names, on a rank: its file's folder first on ``sys.path``."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import linecache
import os
import pickle
import sys
import sysconfig
import traceback
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from harness.own import HARNESS, is_own, is_program
from harness.targets.aside import step_aside
from harness.targets.signature import TargetError, no_such_function
from harness.warm import without_cache_folder

_STANDARD = sysconfig.get_path("stdlib") + os.sep
_PACKAGES = sysconfig.get_path("purelib") + os.sep
_INSTALLED = tuple(
    path + os.sep for path in {sysconfig.get_path(name) for name in ("stdlib", "purelib")}
)


def user_traceback(error: BaseException) -> str:
    """Format an error from the user's own frame on; empty when no frame is the user's."""
    whole = traceback.TracebackException.from_exception(error)
    part: traceback.TracebackException | None = whole
    while part is not None:
        kept = [frame for frame in part.stack if not _is_between(frame.filename)]
        while kept and is_own(kept[0].filename):
            del kept[0]
        part.stack = traceback.StackSummary.from_list(kept)
        part = part.__cause__ or (None if part.__suppress_context__ else part.__context__)
    is_told = whole.stack or isinstance(error, SyntaxError) or whole.__cause__ is not None
    return "".join(whole.format()) if is_told else ""


def mentions(path: str, words: Iterable[str]) -> bool:
    """Whether any of the words is in a file; True of one that cannot be read."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return any(word in text for word in words)


def _is_between(file: str) -> bool:
    """Whether a frame is of what calls a user's code, wherever it stands: ours, or an import's."""
    if is_program(file):
        return False
    return file.startswith((HARNESS, "<frozen")) or "/importlib/" in file


def load_function(shown: str, function: str, load: Callable[[], Any]) -> Callable[..., Any]:
    """Import a module by ``load`` and take a function from it.

    TargetError, with the user's traceback, when the import fails or the function is not there.
    """
    try:
        module = load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        what = traceback.format_exception_only(error)[-1].strip().replace("\n", " ")
        if isinstance(error, SystemExit):
            what = f"the file itself calls sys.exit({error.code!r})"
        raise TargetError(f"{shown} fails to load: {what}", user_traceback(error)) from error
    found: Any = module
    for name in function.split("."):
        if not hasattr(found, name):
            known = [n for n, v in vars(module).items() if isinstance(v, types.FunctionType)]
            raise TargetError(no_such_function(shown, function, known))
        found = getattr(found, name)
    if not callable(found):
        raise TargetError(f"{function} in {shown} is {type(found).__name__}, not a function")
    return cast("Callable[..., Any]", found)


class Cache:
    """The one user's module that a rank holds, and the user's modules it imported.

    Another target, or a change to any file of this one, forgets all of them: two folders may
    each have a ``utils.py``, and ranks outlive an edit.
    """

    def __init__(self) -> None:
        self._key: tuple[str, tuple[str, ...]] | None = None
        self._module: types.ModuleType | None = None
        self._files: dict[str, tuple[str, int]] = {}  # module → its file, and when that changed
        self._unpickled: dict[bytes, Any] = {}

    def get(
        self, key: str, search: tuple[str, ...], load: Callable[[], types.ModuleType]
    ) -> types.ModuleType:
        """Return the module of that key, loading it when it is new or has changed."""
        if self._key != (key, search) or not self._is_fresh():
            self._forget()
        # Even for a module that is here already: its functions may import more.
        sys.path[:0] = [path for path in search if path not in sys.path[: len(search)]]
        step_aside()
        if self._module is not None:
            return self._module
        before = set(sys.modules)
        importlib.invalidate_caches()
        try:
            self._module = load()
            self._key = (key, search)
        finally:
            self._files = dict(_users_files(set(sys.modules) - before))
        return self._module

    def unpickle(self, payload: bytes) -> Any:
        """Return what was pickled, the same object for the same bytes."""
        if payload not in self._unpickled:
            while len(self._unpickled) >= _UNPICKLED:
                del self._unpickled[next(iter(self._unpickled))]
            self._unpickled[payload] = pickle.loads(payload)
        return self._unpickled[payload]

    def _is_fresh(self) -> bool:
        return all(_changed_ns(file) == when for file, when in self._files.values())

    def _forget(self) -> None:
        for name in self._files:
            sys.modules.pop(name, None)
        for folder in self._key[1] if self._key else ():
            if folder in sys.path:
                sys.path.remove(folder)
        linecache.checkcache()
        self._key, self._module, self._files = None, None, {}


_UNPICKLED = 8
_cache = Cache()


def use(cache: Cache) -> Cache:
    """Make ``cache`` the one of whoever runs now; return the one before."""
    global _cache
    before, _cache = _cache, cache
    return before


def unpickle(payload: bytes) -> Any:
    """Return what was pickled, the same object for the same bytes."""
    return _cache.unpickle(payload)


def _changed_ns(file: str) -> int:
    try:
        return Path(file).stat().st_mtime_ns
    except OSError:
        return 0


def _users_files(names: Iterable[str]) -> Iterable[tuple[str, tuple[str, int]]]:
    for name in names:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file and is_users(file):
            yield name, (file, _changed_ns(file))


def is_users(file: str) -> bool:
    """Whether a module's file is the user's: neither ours, nor Python's, nor installed."""
    return is_program(file) or not (is_own(file) or file.startswith((*_INSTALLED, "<")))


def is_standard(file: str) -> bool:
    """Whether a module's file is Python's own."""
    if file.startswith("<"):
        return True
    return file.startswith(_STANDARD) and not file.startswith(_PACKAGES)


def import_file(path: str) -> types.ModuleType:
    """Import a file as a module, its folder first on ``sys.path``; cached until it changes."""
    folder = str(Path(path).parent)
    return _cache.get(path, (folder,), functools.partial(_execute, path))


def import_module(name: str, search: tuple[str, ...]) -> types.ModuleType:
    """Import a module by its dotted name, with ``search`` first on ``sys.path``."""

    def load() -> types.ModuleType:
        with without_cache_folder():
            return importlib.import_module(name)

    return _cache.get(name, search, load)


def _execute(path: str) -> types.ModuleType:
    name = _module_name(path)
    if "." in name:  # in a package: relative imports need it
        sys.path.insert(1, str(Path(path).parents[name.count(".")]))
        step_aside()
        importlib.import_module(name.rpartition(".")[0])
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look it up there
    try:
        with without_cache_folder():
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _module_name(path: str) -> str:
    """Name a file as an import would, or uniquely where that name is taken."""
    file = Path(path)
    names = [file.stem]
    folder = file.parent
    while (folder / "__init__.py").exists() and folder.name.isidentifier():
        names.insert(0, folder.name)
        folder = folder.parent
    name = ".".join(names)
    if name in sys.modules or not name.replace(".", "").isidentifier():
        return f"{file.stem}_{hashlib.sha256(path.encode()).hexdigest()[:8]}"
    return name


def run_script(path: str) -> None:
    """Run a file as ``__main__``, as ``python file.py`` would; returns when it ends well."""
    sys.path.insert(0, str(Path(path).parent))
    step_aside()
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=__builtins__)
    sys.modules["__main__"] = main
    code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    exec(code, main.__dict__)

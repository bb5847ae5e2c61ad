"""Whose code a stack frame is: the user's, or ours, torch's and the standard library's."""

from __future__ import annotations

import functools
import importlib.util
import sys
import sysconfig
from pathlib import Path
from types import CodeType, FrameType

from harness.own import HARNESS, PIPELINE, is_program
from harness.trace import TORCHS


@functools.cache
def _internal_folders() -> tuple[str, ...]:
    folders = [HARNESS[:-1], PIPELINE[:-1], sysconfig.get_path("stdlib")]
    # The command has not imported torch, and reads the ranks' stacks all the same.
    torch = sys.modules.get("torch") or importlib.util.find_spec("torch")
    file = getattr(torch, "__file__", None) or getattr(torch, "origin", None)
    if file:
        folders.append(str(Path(file).parent))
    return tuple(folder + "/" for folder in folders)


@functools.cache
def _torchs_folder() -> str:
    return (*_internal_folders()[3:], "\0")[0]


@functools.cache
def _packages() -> str:
    return sysconfig.get_path("purelib") + "/"


@functools.lru_cache(maxsize=4096)
def _classify(file: str) -> str | None:
    if file.endswith("/torch/distributed/distributed_c10d.py"):
        return "c10d"
    if is_program(file):
        return None
    if file.startswith("<"):  # frozen modules, and -c
        return "internal"
    if file.endswith("/typing_extensions.py"):  # its @deprecated is around some of torch's own
        return "internal"
    if file.startswith(_internal_folders()):
        return "internal" if not _is_installed_user_code(file) else None
    return None


def _is_installed_user_code(file: str) -> bool:
    """Packages may lie inside the standard library's folder; only torch and we are not it."""
    own = (*_internal_folders()[:2], _torchs_folder())
    return file.startswith(_packages()) and not file.startswith(own)


class Frames:
    """Tells frames apart, remembering each file it has seen: a name's hash costs nothing."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def is_user(self, file: str) -> bool:
        """Whether a source file is the user's."""
        return _classify(file) is None

    def kind(self, code: CodeType) -> str | None:
        """``c10d`` for torch.distributed's own functions, ``internal``, or None: the user's."""
        file = code.co_filename
        try:
            return self._known[file]
        except KeyError:
            kind = self._known[file] = _classify(file)
            return kind

    def asker(self, frame: FrameType | None) -> str:
        """Return ``torch's `` for a call that torch makes by itself: from C++, or in DDP.

        Not for its pipeline schedules, which are what a user may have under test.
        """
        while frame is not None:
            code = frame.f_code
            if self.kind(code) != "c10d" and not code.co_filename.endswith("c10d_logger.py"):
                file = code.co_filename
                by_torch = (
                    file.startswith(_torchs_folder()) and "/distributed/pipelining/" not in file
                )
                return TORCHS if by_torch else ""
            frame = frame.f_back
        return ""

    def caller(
        self, frame: FrameType | None, *, up_to_user: bool = True
    ) -> tuple[str, FrameType | None]:
        """Return the ``torch.distributed`` function that was called, and the user's frame.

        Without ``up_to_user`` only the function is looked for.
        """
        api, inside = "", True
        known = self._known
        while frame is not None:
            code = frame.f_code
            file = code.co_filename
            kind = known[file] if file in known else self.kind(code)
            if kind is None:
                return api, frame
            if kind == "c10d":
                if inside:
                    api = code.co_name
            elif inside and api and not file.endswith("c10d_logger.py"):
                inside = False  # left by another door than a public function's decorator
                if not up_to_user:
                    return api, None
            frame = frame.f_back
        return api, None

"""Whose code a stack frame is: the user's, or ours, torch's and the standard library's."""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from pathlib import Path
from types import CodeType, FrameType


def _internal_folders() -> tuple[str, ...]:
    ours = Path(__file__).resolve().parent
    folders = [str(ours), str(ours.parent / "pipeline"), sysconfig.get_path("stdlib")]
    # The command has not imported torch, and reads the ranks' stacks all the same.
    torch = sys.modules.get("torch") or importlib.util.find_spec("torch")
    file = getattr(torch, "__file__", None) or getattr(torch, "origin", None)
    if file:
        folders.append(str(Path(file).parent))
    return tuple(folder + "/" for folder in folders)


class Frames:
    """Tells frames apart, remembering each code object it has seen."""

    def __init__(self) -> None:
        self._folders = _internal_folders()
        self._packages = sysconfig.get_path("purelib") + "/"
        self._known: dict[CodeType, str | None] = {}

    def is_user(self, file: str) -> bool:
        """Whether a source file is the user's."""
        return self._classify(file) is None

    def kind(self, code: CodeType) -> str | None:
        """``c10d`` for torch.distributed's own functions, ``internal``, or None: the user's."""
        try:
            return self._known[code]
        except KeyError:
            kind = self._known[code] = self._classify(code.co_filename)
            return kind

    def _classify(self, file: str) -> str | None:
        if file.endswith("/torch/distributed/distributed_c10d.py"):
            return "c10d"
        if file.startswith("<"):  # frozen modules, and -c
            return "internal"
        if file.endswith("/typing_extensions.py"):  # its @deprecated is around some of torch's own
            return "internal"
        if file.startswith(self._folders):
            return "internal" if not self._is_installed_user_code(file) else None
        return None

    def _is_installed_user_code(self, file: str) -> bool:
        """Packages may lie inside the standard library's folder; only torch and we are not it."""
        torch, *_ = [*self._folders[3:], ""]
        own = self._folders[:2] + ((torch,) if torch else ())
        return file.startswith(self._packages) and not file.startswith(own)

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
            kind = known[code] if code in known else self.kind(code)
            if kind is None:
                return api, frame
            if kind == "c10d":
                if inside:
                    api = code.co_name
            elif inside and api and not code.co_filename.endswith("c10d_logger.py"):
                inside = False  # left by another door than a public function's decorator
                if not up_to_user:
                    return api, None
            frame = frame.f_back
        return api, None

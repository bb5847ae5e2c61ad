"""What a rank does to run a program: load it here, then call it as DESIGN says."""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
from dataclasses import dataclass
from typing import Any

from harness.targets.parse import Description
from harness.targets.signature import TargetError
from harness.targets.target import Target
from harness.worlds import RankContext


@dataclass(frozen=True, slots=True)
class ProgramEntry:
    """The entry that runs a program target with its arguments.

    Its result is a :class:`Description` with the error when the target does not load, else of a
    simulated rank what tells its return value from another, as far as it can be pickled.
    """

    target: Target
    args: tuple[str, ...] = ()

    def __call__(self, context: RankContext) -> Description | str | None:
        """Run the program on this rank; what it raises passes through."""
        try:
            program = self.target.load()
        except TargetError as error:
            return Description(error=str(error), traceback=error.traceback)
        before = sys.argv
        sys.argv = [self.target.path or self.target.text, *self.args]
        try:
            if self.target.kind == "script":
                program()
            else:
                returned = program(context.rank, context.world_size)
                if context.backend == "sim":
                    return _digest(returned)
        except SystemExit as ending:
            if ending.code not in (None, 0):
                raise
        finally:
            sys.argv = before
        return None


class _Digester(pickle.Pickler):
    """Pickles a tensor as its values: torch's own way has an address in it."""

    def reducer_override(self, value: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(value, torch.Tensor):
            return NotImplemented
        flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        return bytes, (f"{value.dtype} {tuple(value.shape)} ".encode() + flat.numpy().tobytes(),)


def _digest(value: Any) -> str | None:
    """Return a hash of a value; None where it cannot be pickled."""
    if value is None:
        return None
    try:
        file = io.BytesIO()
        _Digester(file).dump(value)
        return hashlib.sha256(file.getvalue()).hexdigest()
    except Exception:
        return None

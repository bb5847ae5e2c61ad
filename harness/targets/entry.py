"""What a rank does to run a program: load it here, then call it as DESIGN says."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from harness.targets.parse import Description
from harness.targets.signature import TargetError
from harness.targets.target import Target
from harness.worlds import RankContext


@dataclass(frozen=True, slots=True)
class ProgramEntry:
    """The entry that runs a program target with its arguments.

    Its result is None, or a :class:`Description` with the error when the target does not load.
    """

    target: Target
    args: tuple[str, ...] = ()

    def __call__(self, context: RankContext) -> Description | None:
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
                program(context.rank, context.world_size)
        except SystemExit as ending:
            if ending.code not in (None, 0):
                raise
        finally:
            sys.argv = before
        return None

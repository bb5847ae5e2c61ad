"""A command that runs a program which never ends: ``python -m tests.worlds.command``.

It prints the id of its server at once, then (rank, line) of what the ranks print.
"""

from __future__ import annotations

from typing import Any

from harness.worlds import open_world
from tests.programs import endings
from tests.worlds.running import run


def main() -> None:
    world: Any = open_world("gloo")
    print("server", world.start().process.pid, flush=True)
    run(world, endings.steps_for_ever, echo=lambda rank, line: print(rank, line, flush=True))


if __name__ == "__main__":
    main()

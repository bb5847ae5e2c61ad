"""Runs the case in a world of ours, in a process of its own: ``BACKEND WORLD CASES``."""

from __future__ import annotations

import sys

from harness import session
from harness.bench.case import CASE, FIRST_SEED
from harness.bench.progress import case_ended, fail
from harness.targets import parse_target
from harness.worlds import WorldError

TIMEOUT_S = 60.0  # without any progress


def main(backend: str, size: int, cases: int) -> None:
    """Run the cases, saying of each that it has ended well; SystemExit at one that did not."""
    try:
        world = session.shared_world(backend)  # starts up while the rest is imported
        from harness.execute import execute

        target = parse_target(CASE.target, for_command="check")
        for number in range(cases):
            case = CASE.with_(world=size, backend=backend, seed=FIRST_SEED + number)
            result = execute(target, case, world, TIMEOUT_S)
            if result.findings:
                fail(f"a finding on a correct schedule: {result.findings[0].message}")
            if not result.compared:
                fail(f"nothing was compared in {case}")
            case_ended()
    except WorldError as error:
        fail(str(error))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

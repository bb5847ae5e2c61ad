"""Runs the case in one of torch's own test classes: ``CLASS WORLD CASES`` in the environment.

Only ever a process of its own. Its ranks, started by ``spawn``, import this module again: hence
the environment, which they inherit, and the class at the module's top.
"""

from __future__ import annotations

import os
import sys
import unittest
from collections.abc import Callable
from typing import Any

from harness.bench.case import FIRST_SEED, check_step
from harness.bench.progress import case_ended, fail

CLASS, WORLD, CASES = (f"HARNESS_BENCH_{name}" for name in ("CLASS", "WORLD", "CASES"))
_world = int(os.environ.get(WORLD, "2"))


def base(name: str) -> Any:
    """Return torch's class of that name; SystemExit, saying what is missing, without it."""
    try:
        from torch.testing._internal import common_distributed
    except ImportError as error:
        fail(f"torch's test classes cannot be imported here: {error}")
    if not hasattr(common_distributed, name):
        fail(f"this version of torch has no {name}")
    return getattr(common_distributed, name)


def _case(seed: int) -> Callable[[Any], None]:
    def test(self: Any) -> None:
        import torch.distributed as dist

        if not dist.is_initialized():
            dist.init_process_group(
                "gloo", init_method=f"file://{self.file_name}", rank=self.rank, world_size=_world
            )
        check_step(self.rank, _world, seed)

    return test


def _start_ranks(self: Any) -> None:
    super(Cases, self).setUp()
    self._spawn_processes()


def _how_ranks_start(name: str) -> dict[str, Any]:
    """Return what each class wants to be told: a group for all tests, or ranks for each one."""
    if name == "MultiProcContinuousTest":
        return {
            "world_size": _world,
            "backend_str": classmethod(lambda cls: "gloo"),
            "device_type": classmethod(lambda cls: "cpu"),
        }
    return {"world_size": property(lambda self: _world), "setUp": _start_ranks}


def _tests(name: str) -> Any:
    """Return torch's class of that name with one test for each case."""
    tests = {
        f"test_case_{number:06d}": _case(FIRST_SEED + number)
        for number in range(int(os.environ.get(CASES, "0")))
    }
    return type("Cases", (base(name),), {"__module__": __name__, **_how_ranks_start(name), **tests})


# None where this is imported only to be looked at.
Cases: Any = _tests(os.environ[CLASS]) if CLASS in os.environ else None


class _Told(unittest.TextTestResult):
    """Says of each test that it has passed."""

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        super().addSuccess(test)
        case_ended()


def main() -> None:
    """Run the tests; SystemExit with what the first failure said."""
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Cases)
    told: Any = _Told
    result = unittest.TextTestRunner(stream=sys.stderr, resultclass=told, failfast=True).run(suite)
    for _, traceback in [*result.errors, *result.failures]:
        fail(traceback.strip().splitlines()[-1])
    for _, reason in result.skipped:
        fail(f"skipped: {reason}")


if __name__ == "__main__":
    main()

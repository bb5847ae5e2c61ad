"""What is measured: worlds of ours, and torch's test classes; how each is started."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.bench import peer
from harness.bench.options import BenchOptions
from harness.case import UsageError
from harness.options import backend_name

PEERS = ("MultiProcessTestCase", "MultiProcContinuousTest")
_NEEDED = "expecttest"  # torch's test classes import it, and torch does not require it


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to run the case; ``missing`` says why it cannot be run here."""

    name: str
    kind: str  # world, or peer
    missing: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def command(self, world: int, cases: int) -> list[str]:
        """Return what runs so many cases on so many ranks, in a process of its own."""
        if self.kind == "peer":
            return [sys.executable, "-m", "harness.bench.peer"]
        return [sys.executable, "-m", "harness.bench.own", self.name, str(world), str(cases)]

    def variables(self, world: int, cases: int) -> dict[str, str]:
        """Return the environment variables that the process needs."""
        if self.kind != "peer":
            return {}
        asked = {peer.CLASS: self.name, peer.WORLD: str(world), peer.CASES: str(cases)}
        return {**gloo_environment(), **asked}


def gloo_environment() -> dict[str, str]:
    """Return what our own gloo ranks run under: peers get the same."""
    from harness.worlds.backends import BACKENDS

    return BACKENDS["gloo"].environment(0)


def contenders(options: BenchOptions) -> list[Contender]:
    """List the worlds that were asked for, then torch's classes."""
    worlds = [Contender(name, "world", _missing_world(name)) for name in options.backends]
    return worlds + [Contender(name, "peer", _missing_peer()) for name in PEERS]


def _missing_world(name: str) -> str | None:
    try:
        backend_name(name)
    except UsageError as error:
        return str(error).partition(":")[0]
    return None


def _missing_peer() -> str | None:
    if importlib.util.find_spec(_NEEDED) is None:
        return f"torch's test classes need the package {_NEEDED}: pip install {_NEEDED}"
    return None

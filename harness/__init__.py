"""Fault-finding test harness for distributed comms and pipeline-parallel schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.api import check, replay, run
    from harness.findings import Finding, Report

__all__ = ["Finding", "Report", "check", "replay", "run"]
__version__ = "0.1.0"

_HOME = {
    "check": "harness.api",
    "replay": "harness.api",
    "run": "harness.api",
    "Finding": "harness.findings",
    "Report": "harness.findings",
}


def __getattr__(name: str) -> Any:
    """Import on first use: ``import harness`` itself stays free of torch."""
    if name in _HOME:
        from importlib import import_module

        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'harness' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Name what is imported on first use too."""
    return sorted({*globals(), *__all__})

"""Takes the figures: one process after the other, each with a time limit, nothing left behind."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import harness
from harness.bench.case import described
from harness.bench.contenders import Contender, contenders
from harness.bench.options import BenchOptions
from harness.bench.progress import ends_in, failure_in

SCHEMA = 1
_GRACE_S = 1.0
_KILLED_S = 10.0  # for the output of a killed process to end


@dataclass(frozen=True, slots=True)
class Figure:
    """How one contender did on one world size."""

    contender: str
    kind: str
    world: int
    cases: int = 0
    """That ended, within the limit."""
    elapsed_s: float = 0.0
    """From the start of the process to the end of the last of them."""
    first_case_s: float | None = None
    """From the start of the process to the end of the first case."""
    cut_short: bool = False
    """The time limit came before all cases had ended."""
    error: str | None = None
    """Why there is no figure."""
    available: bool = True
    """False where the contender cannot be run here at all; ``error`` says why."""

    @property
    def cases_per_s(self) -> float | None:
        """Cases per second, start-up counted; None where no case ended."""
        return self.cases / self.elapsed_s if self.cases and self.elapsed_s else None

    @property
    def further_case_s(self) -> float | None:
        """Seconds of each case after the first; None where there is no second."""
        if self.cases < 2 or self.first_case_s is None:
            return None
        return (self.elapsed_s - self.first_case_s) / (self.cases - 1)

    def to_json(self) -> dict[str, Any]:
        """Return the figure as plain data."""
        return {
            "contender": self.contender,
            "kind": self.kind,
            "world": self.world,
            "available": self.available,
            "cases": self.cases,
            "elapsed_s": round(self.elapsed_s, 3),
            "cases_per_s": _rounded(self.cases_per_s),
            "first_case_s": _rounded(self.first_case_s),
            "further_case_s": _rounded(self.further_case_s),
            "cut_short": self.cut_short,
            "error": self.error,
        }


@dataclass(slots=True)
class Bench:
    """All figures of one run, in the order in which they were taken."""

    options: BenchOptions
    figures: list[Figure] = field(default_factory=list)
    interrupted: bool = False

    @property
    def failed(self) -> list[Figure]:
        """Figures of our own worlds that should be there and are not."""
        return [f for f in self.figures if f.kind == "world" and f.available and f.error]

    def ratio(self, figure: Figure, peer: str) -> float | None:
        """Return how many times the peer's cases per second a world's are, on as many ranks."""
        mine, wanted = figure.cases_per_s, (peer, figure.world)
        rates = [f.cases_per_s for f in self.figures if (f.contender, f.world) == wanted]
        return mine / rates[0] if mine is not None and rates and rates[0] else None

    def peers(self) -> list[str]:
        """Name the peers, in the order of the figures."""
        return list(dict.fromkeys(f.contender for f in self.figures if f.kind == "peer"))

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data (``schema: 1``)."""
        return {
            "schema": SCHEMA,
            "case": described(),
            "cases": self.options.cases,
            "limit_s": self.options.seconds,
            "machine": machine(),
            "figures": [figure.to_json() for figure in self.figures],
            "ratios": list(self._ratios()),
            "interrupted": self.interrupted,
        }

    def _ratios(self) -> Iterator[dict[str, Any]]:
        for figure in self.figures:
            for peer in self.peers() if figure.kind == "world" else ():
                ratio = _rounded(self.ratio(figure, peer))
                yield {
                    "contender": figure.contender,
                    "peer": peer,
                    "world": figure.world,
                    "ratio": ratio,
                }


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = "none"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cores": cores,
        "platform": platform.machine(),
        "python": platform.python_version(),
        "torch": torch,
    }


def measure(options: BenchOptions, progress: Callable[[str], None] | None = None) -> Bench:
    """Take every figure; ``progress`` is told of each before it begins.

    A contender that cannot be run, or fails, is a figure with the reason as its ``error``. An
    interrupt ends it with the figures that there are.
    """
    bench = Bench(options)
    try:
        for world in options.worlds:
            for contender in contenders(options):
                bench.figures.append(_figure(contender, world, options, progress))
    except KeyboardInterrupt:
        bench.interrupted = True
    return bench


def _figure(
    contender: Contender,
    world: int,
    options: BenchOptions,
    progress: Callable[[str], None] | None,
) -> Figure:
    if (missing := contender.missing) is not None:
        return Figure(contender.name, contender.kind, world, error=missing, available=False)
    if progress is not None:
        progress(f"{contender.name}, {world} ranks: up to {options.seconds:g} s")
    return take(contender, world, options.cases, options.seconds)


def take(contender: Contender, world: int, cases: int, limit_s: float) -> Figure:
    """Take one figure: start the process, read when its cases ended, kill what is left of it."""
    started = time.monotonic()
    output, status = _run(contender, world, cases, limit_s)
    ends = ends_in(output.stdout)
    return Figure(
        contender.name,
        contender.kind,
        world,
        cases=len(ends),
        elapsed_s=ends[-1] - started if ends else 0.0,
        first_case_s=ends[0] - started if ends else None,
        cut_short=status is None and len(ends) < cases,
        error=_error(output, status, len(ends), limit_s),
    )


@dataclass(frozen=True, slots=True)
class _Output:
    stdout: str
    stderr: str


def _error(output: _Output, status: int | None, ended: int, limit_s: float) -> str | None:
    if (told := failure_in(output.stdout)) is not None:
        return told
    if status is None:
        return None if ended else f"no case had ended after {limit_s:g} s"
    if status != 0:
        last = output.stderr.strip().splitlines()[-1:] or ["no message"]
        return f"the process ended with status {status}: {last[0].strip()}"
    return None


def _run(
    contender: Contender, world: int, cases: int, limit_s: float
) -> tuple[_Output, int | None]:
    """Run a contender's process; its output, and its exit status or None at the limit."""
    with tempfile.TemporaryDirectory(prefix="harness-bench-", ignore_cleanup_errors=True) as folder:
        # torch's classes leave their rendezvous files: they go with the folder
        environment = {**os.environ, "TMPDIR": folder, **contender.variables(world, cases)}
        ours = str(Path(harness.__file__).resolve().parents[1])
        path = [ours, *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(path)
        process = subprocess.Popen(
            contender.command(world, cases),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,
        )
        try:
            # Returns when all that hold its output have ended, its ranks too.
            return _Output(*process.communicate(timeout=limit_s)), process.returncode
        except subprocess.TimeoutExpired:
            _kill_group(process)
            return _Output(*process.communicate(timeout=_KILLED_S)), None
        except BaseException:
            _kill_group(process)
            raise


def _kill_group(process: subprocess.Popen[str]) -> None:
    """Kill the process and what it started; its group has its id, which it holds till we wait.

    Asked to end first: Python's resource tracker stays, sees that the others have gone, and takes
    away their semaphores, which outlive every process.
    """
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)
            time.sleep(_GRACE_S)
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

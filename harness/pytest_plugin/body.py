"""A test's body on its way to the ranks, and what happens with it there."""

from __future__ import annotations

import contextlib
import inspect
import os
import pickle
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from harness.targets.target import pickle_by_value
from harness.worlds import RankContext

# Fixtures that act on the process they are made in, which is not where the body runs.
_LOCAL = {
    *("cache", "caplog", "monkeypatch", "pytester", "recwarn", "request", "subtests", "testdir"),
    *("capfd", "capfdbinary", "capsys", "capsysbinary", "capteesys"),
    *("record_property", "record_testsuite_property", "record_xml_attribute"),
}


class _PerRank:
    """Stands for the rank until the rank is known."""

    def __reduce__(self) -> str:
        return "RANK"


RANK = _PerRank()


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the body ended on a rank that did not fail."""

    kind: Literal["pass", "skip", "xfail"]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Body:
    """The entry that runs a pickled test function with its arguments."""

    payload: bytes
    verbosity: int

    def __call__(self, context: RankContext) -> Verdict:
        """Run it on this rank; a failed assertion passes through."""
        function, arguments = pickle.loads(self.payload)
        given = {
            name: context.rank if value is RANK else value for name, value in arguments.items()
        }
        try:
            with _comparisons_explained(self.verbosity):
                function(**given)
        except pytest.skip.Exception as skipped:
            return Verdict("skip", str(skipped.msg))
        except pytest.xfail.Exception as xfailed:
            return Verdict("xfail", str(xfailed.msg))
        return Verdict("pass")


def unsuitable(item: pytest.Function) -> str | None:
    """Say why a test cannot run in a world; None when it can."""
    if inspect.iscoroutinefunction(item.obj):
        return "an async test cannot run in a world: make it a plain def, with asyncio.run inside"
    info = item._fixtureinfo
    if local := sorted(_LOCAL.intersection(info.argnames)):
        return (
            f"fixture {local[0]!r} acts on pytest's own process, and a world test's body runs in "
            "others: do without it"
        )
    for name, definitions in info.name2fixturedefs.items():
        if "rank" in definitions[-1].argnames and _is_ours(info.name2fixturedefs.get("rank")):
            return (
                f"fixture {name!r} asks for 'rank', and fixtures are made once for all ranks: "
                "take rank in the test itself"
            )
    return None


def _is_ours(definitions: Any) -> bool:
    module = getattr(definitions[-1].func, "__module__", "") if definitions else ""
    return module == "harness.pytest_plugin"


def pack(item: pytest.Function) -> Body:
    """Pickle a test's function and the values of its fixtures; fails the test when it cannot."""
    names = item._fixtureinfo.argnames
    arguments = {name: item.funcargs[name] for name in names}
    plugins = item.config.pluginmanager.get_plugins()
    modules = [item.module, *filter(_is_conftest, plugins)]
    for name, value in arguments.items():
        _pickle(value, modules, f"the value of fixture {name!r} ({type(value).__name__})")
    payload = _pickle((item.obj, arguments), modules, "the test")
    return Body(payload, item.config.get_verbosity())


def _pickle(value: Any, modules: list[Any], what: str) -> bytes:
    try:
        return pickle_by_value(value, modules)
    except Exception as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return pytest.fail(
        f"{what} cannot be sent to the ranks: it cannot be pickled ({why}). "
        "Make it inside the test's body instead.",
        pytrace=False,
    )


def _is_conftest(plugin: object) -> bool:
    file = getattr(plugin, "__file__", None)
    return isinstance(plugin, types.ModuleType) and Path(file or "").name == "conftest.py"


@contextlib.contextmanager
def _comparisons_explained(verbosity: int) -> Iterator[None]:
    """Have pytest explain failed comparisons here as it does in its own process."""
    from _pytest.assertion import util

    explain = _Explainer(verbosity)
    before = util._reprcompare
    util._reprcompare = explain
    try:
        yield
    finally:
        util._reprcompare = before


class _Explainer:
    """Asks a pytest of this process's own, started only when a comparison has failed."""

    LINES = 40

    def __init__(self, verbosity: int) -> None:
        self._verbosity = verbosity

    def __call__(self, op: str, left: object, right: object) -> str | None:
        try:
            lines = self._explain(op, left, right)
        except Exception:  # the plain "assert left == right" is still there
            return None
        if not lines:
            return None
        if len(lines) > self.LINES:
            lines = [*lines[: self.LINES], f"… {len(lines) - self.LINES} more lines"]
        return "\n~".join(line.replace("\n", "\\n") for line in lines).replace("%", "%%")

    def _explain(self, op: str, left: object, right: object) -> list[str]:
        from _pytest.config import _prepareconfig

        args = ["-c", os.devnull, "-p", "no:cacheprovider", "--color=no"]
        args += ["-" + "v" * self._verbosity] if self._verbosity > 0 else []
        before = os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        try:
            config = _prepareconfig(args)
        finally:
            if before is None:
                del os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"]
            else:
                os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = before
        found = config.hook.pytest_assertrepr_compare(config=config, op=op, left=left, right=right)
        return [str(line) for line in next(filter(None, found), ())]

"""The pytest plugin: ``@pytest.mark.world(size=4)`` runs a test's body on every rank of a world.

>>> @pytest.mark.world(size=[2, 4])
... def test_all_reduce_adds_the_ranks(rank, world_size):
...     total = torch.tensor(rank)
...     dist.all_reduce(total)
...     assert total == sum(range(world_size))

The process group is ready. Other fixtures are made once, where pytest runs, and sent to the ranks;
so they have to be picklable. A rank's failed assertion and every finding of the harness (a
deadlock, a dropped request) fail the test; findings that are only warnings become warnings.

pytest loads this in every project that has the harness installed: nothing here imports torch.
"""

from __future__ import annotations

import unittest
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from harness.case import Case, UsageError
from harness.pytest_plugin.marks import WorldSpec, specs_of

if TYPE_CHECKING:
    from harness.findings import Finding
    from harness.worlds import Outcome

_PARAMETER = "_harness_world"
_OPENED = pytest.StashKey[bool]()


class HarnessWarning(UserWarning):
    """A finding that is a true statement, and may be meant."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the three options."""
    group = parser.getgroup("harness", "worlds of ranks (pytest.mark.world)")
    group.addoption(
        "--harness-backend",
        metavar="NAME",
        help="run every world test on this backend, whatever its mark says",
    )
    group.addoption("--harness-seed", default="0", metavar="N", help="each rank's random seed")
    group.addoption(
        "--harness-timeout",
        default="60",
        metavar="S",
        help="seconds without any progress after which a world test is given up",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark, and refuse options that cannot be."""
    config.addinivalue_line(
        "markers",
        "world(size, backend='sim'): run the test's body on every rank of a world; "
        "a list of sizes or backends parametrizes it",
    )
    from harness import options

    try:
        options.whole(config.getoption("--harness-seed"), "--harness-seed", 0)
        options.duration(config.getoption("--harness-timeout"), "--harness-timeout")
        if (backend := config.getoption("--harness-backend")) is not None:
            options.backend_name(backend)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close the worlds that this session's tests have opened."""
    if config.stash.get(_OPENED, False):
        from harness import session

        session.close_worlds()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test over the sizes and backends of its mark, where there are several."""
    if (mark := metafunc.definition.get_closest_marker("world")) is None:
        return
    specs = _specs(mark, metafunc.config)
    if len(specs) > 1:
        metafunc.fixturenames.append(_PARAMETER)
        metafunc.parametrize(_PARAMETER, specs, indirect=True, ids=lambda spec: spec.id)


def _specs(mark: pytest.Mark, config: pytest.Config) -> list[WorldSpec]:
    try:
        return specs_of(mark, config.getoption("--harness-backend"))
    except UsageError as error:
        return pytest.fail(f"@pytest.mark.world: {error}", pytrace=False)


def _spec_of(item: pytest.Function) -> WorldSpec | None:
    if (mark := item.get_closest_marker("world")) is None:
        return None
    params = item.callspec.params if hasattr(item, "callspec") else {}
    spec = params.get(_PARAMETER)
    return spec if isinstance(spec, WorldSpec) else _specs(mark, item.config)[0]


@pytest.fixture(name=_PARAMETER)
def _harness_world(request: pytest.FixtureRequest) -> WorldSpec:
    spec: WorldSpec = request.param
    return spec


@pytest.fixture
def rank(request: pytest.FixtureRequest) -> Any:
    """Give a world test its rank, on each rank."""
    from harness.pytest_plugin.body import RANK

    _require_mark(request, "rank")
    return RANK


@pytest.fixture
def world_size(request: pytest.FixtureRequest) -> int:
    """Give a world test the number of its ranks."""
    return _require_mark(request, "world_size").size


def _require_mark(request: pytest.FixtureRequest, name: str) -> WorldSpec:
    spec = _spec_of(request.node) if isinstance(request.node, pytest.Function) else None
    if spec is None:
        pytest.fail(
            f"fixture {name!r} is given to tests marked @pytest.mark.world(size=…)", pytrace=False
        )
    return spec


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse what cannot run in a world, before any fixture is made."""
    if item.get_closest_marker("world") is None or not isinstance(item, pytest.Function):
        return
    from harness.pytest_plugin.body import unsuitable

    if item.cls is not None and issubclass(item.cls, unittest.TestCase):
        why: str | None = "a unittest method cannot run in a world: make its class a plain one"
    else:
        why = unsuitable(item)
    if why is not None:
        pytest.fail(why, pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object:
    """Run a world test's body on the ranks instead of here."""
    if (spec := _spec_of(pyfuncitem)) is None:
        return None
    outcome, findings = _run(pyfuncitem, spec)
    _conclude(pyfuncitem, spec, outcome, findings)
    return True


def _run(item: pytest.Function, spec: WorldSpec) -> tuple[Outcome, list[Finding]]:
    from harness import session
    from harness.judge import judge
    from harness.pytest_plugin.body import pack
    from harness.worlds import Program, WorldError

    seed = int(item.config.getoption("--harness-seed"))
    timeout = float(item.config.getoption("--harness-timeout"))
    program = Program(entry=pack(item), seed=seed)
    item.config.stash[_OPENED] = True
    try:
        world = session.shared_world(spec.backend)
        outcome = world.run(program, spec.size, timeout=timeout, echo=_echo)
    except WorldError as error:
        raise pytest.skip.Exception(str(error), _use_item_location=True) from None
    case = Case(item.nodeid, spec.size, backend=spec.backend, seed=seed)
    # The test is what runs it again: no case line of the harness does.
    return outcome, [finding.with_(case="") for finding in judge(outcome, case)]


def _echo(rank: int, line: str) -> None:
    print(f"rank {rank} | {line.rstrip()}")  # pytest captures it, and shows it with a failure


def _conclude(
    item: pytest.Function, spec: WorldSpec, outcome: Outcome, findings: list[Finding]
) -> None:
    from harness.pytest_plugin.body import Verdict
    from harness.pytest_plugin.failure import WorldTestError, describe

    if text := describe(item.nodeid, spec, outcome, findings):
        raise WorldTestError(text)
    path, line, _ = item.location
    for finding in findings:
        warning = HarnessWarning(f"[{finding.code}] {finding.message}")
        warnings.warn_explicit(warning, None, filename=path, lineno=(line or 0) + 1)
    verdicts = [(r.rank, r.result) for r in outcome.ranks if isinstance(r.result, Verdict)]
    for number, verdict in verdicts:
        if verdict.kind == "xfail":
            pytest.xfail(f"{verdict.reason} (rank {number})")
    for number, verdict in verdicts:
        if verdict.kind == "skip":
            reason = f"{verdict.reason} (rank {number})"
            raise pytest.skip.Exception(reason, _use_item_location=True)

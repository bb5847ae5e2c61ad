"""Each program of ``programs`` comes to the same on simulated ranks as on gloo's."""

from __future__ import annotations

from typing import Any

import pytest

from harness.api import shared_world
from tests.conformance.programs import (
    above,
    collectives,
    failures,
    groups,
    hangs,
    messages,
    processes,
    refused,
)
from tests.conformance.rows import rows
from tests.conformance.view import View, run, view

pytestmark = [pytest.mark.gloo, pytest.mark.filterwarnings("ignore::FutureWarning")]
ROWS = rows(messages, collectives, groups, hangs, refused, failures, above, processes)
PATIENCE_S = 60.0  # for a machine that is busy: what hangs for certain is decided at once


def view_on(backend: str, function: Any) -> View:
    options: dict[str, Any] = function.row
    timeout = options.get("timeout", PATIENCE_S)
    return view(run(shared_world(backend), function, options["size"], timeout=timeout))


@pytest.mark.parametrize("function", ROWS, ids=[f"{f.__module__[26:]}.{f.__name__}" for f in ROWS])
def test_the_simulator_and_gloo_come_to_the_same(function: Any) -> None:
    simulated, real = view_on("sim", function), view_on("gloo", function)
    if function.row.get("loose"):  # how far the ranks had come when one of them was aborted
        assert (simulated.died, simulated.codes) == (real.died, real.codes)
    elif not real.agrees(simulated, loose=True):
        assert real == simulated


def test_each_program_has_a_name_of_its_own() -> None:
    names = [(f.__module__, f.__name__) for f in ROWS]
    assert len(set(names)) == len(names) > 180

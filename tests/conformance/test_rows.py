"""Each program of ``programs`` comes to the same on simulated ranks as on gloo's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

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
from tests.torch_versions import before

pytestmark = [pytest.mark.gloo, pytest.mark.filterwarnings("ignore::FutureWarning")]
ROWS = rows(messages, collectives, groups, hangs, refused, failures, above, processes)
PATIENCE_S = 60.0  # for a machine that is busy: what hangs for certain is decided at once


OF_OLD = {
    "averages_that_end_before_the_wait": "refuses to average these",
    "scatters": "does not divide what reduce_scatter averages",
    "all_to_alls": "has a gloo without all_to_all",
    "shapes_of_the_flat_forms": "aborts where shapes do not fit",
    "handles_and_futures": "cannot give back what every handle has",
    "of_every_type": "averages other types",
    "a_reduce_scatter_of_another_size": "aborts where sizes do not fit",
    "a_group_with_one_rank_twice": "waits for the second",
    "fully_sharded": "does not divide what reduce_scatter averages",
}
"""What gloo of torch before 2.9 does otherwise: the simulator does as the pinned one's."""
OF_NEW = {
    "rows_that_do_not_divide": "refuses rows that do not divide before it communicates",
    "a_size_that_does_not_divide": "refuses rows that do not divide before it communicates",
    "splits_that_do_not_add_up": "refuses such splits before it communicates",
    "data_parallel": "asks its backend from C++ in DDP, which the simulator refuses by name",
    "data_parallel_without_synchronisation": "asks its backend from C++ in DDP",
    "a_hook_of_ddp": "asks its backend from C++ in DDP",
}
"""And of torch 2.14."""


def view_on(backend: str, function: Any) -> View:
    options: dict[str, Any] = function.row
    timeout = options.get("timeout", PATIENCE_S)
    return view(run(shared_world(backend), function, options["size"], timeout=timeout))


@pytest.mark.parametrize("function", ROWS, ids=[f"{f.__module__[26:]}.{f.__name__}" for f in ROWS])
def test_the_simulator_and_gloo_come_to_the_same(function: Any) -> None:
    others = OF_OLD if before("2.9") else {} if before("2.14") else OF_NEW
    if (why := others.get(function.__name__)) is not None:
        pytest.skip(f"torch {torch.__version__} {why}")
    simulated, real = view_on("sim", function), view_on("gloo", function)
    if function.row.get("loose"):  # how far the ranks had come when one of them was aborted
        assert (simulated.died, simulated.codes) == (real.died, real.codes)
    elif not real.agrees(simulated, loose=True):
        assert real == simulated


def test_each_program_has_a_name_of_its_own() -> None:
    names = [(f.__module__, f.__name__) for f in ROWS]
    assert len(set(names)) == len(names) > 180

"""``harness bench``: the figures, into a table or JSON."""

from __future__ import annotations

import json
from typing import Any

from harness.bench.options import bench_options
from harness.cli.output import Output
from harness.cli.stream import note, tell


def bench_job(output: Output, given: dict[str, Any]) -> int:
    """Measure and show; 2 when a world of ours that is there could not be measured."""
    options = bench_options(**given)
    output.require()
    from harness.bench.measure import measure
    from harness.bench.table import render

    bench = measure(options, None if output.quiet else note)
    as_json = output.format == "json"
    text = json.dumps(bench.to_json(), indent=2) + "\n" if as_json else render(bench)
    status = output.write(text)
    if bench.interrupted:
        tell(f"interrupted after {len(bench.figures)} figures")
    for figure in bench.failed:
        tell(f"{figure.contender} on {figure.world} ranks could not be measured: {figure.error}")
    return 2 if bench.failed or bench.interrupted else status

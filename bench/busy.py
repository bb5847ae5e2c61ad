"""Correct runs on a machine whose cores are all kept busy by others: how many have a finding."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time

from harness.fuzz import Limits, campaign
from harness.targets import parse_target
from harness.worlds import open_world


def burn() -> None:
    """Keep one core busy until killed."""
    while True:
        pass


def main() -> None:
    """Run, count and print; exit status 1 if a correct run had a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--burners", type=int, default=os.cpu_count() or 2)
    options = parser.parse_args()
    burners = [
        multiprocessing.get_context("spawn").Process(target=burn, daemon=True)
        for _ in range(options.burners)
    ]
    for burner in burners:
        burner.start()
    started, runs, findings = time.monotonic(), 0, []
    try:
        with open_world("gloo") as world:
            for number, name in enumerate(("naive", "gpipe", "1f1b")):
                limits = Limits(cases=-(-(options.runs - runs) // (3 - number)))
                report = campaign(parse_target(name, for_command="check"), limits, world)
                runs += report.cases.run
                findings += report.findings
    finally:
        for burner in burners:
            burner.kill()
    seconds = time.monotonic() - started
    print(f"{runs} runs beside {options.burners} busy processes, {seconds:.0f} s")
    print(f"findings: {len(findings)}")
    for finding in findings:
        print(f"  {finding.code}: {finding.message}")
    raise SystemExit(1 if findings else 0)


if __name__ == "__main__":
    main()

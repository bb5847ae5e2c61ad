"""Train from the command line: `torchrun --nproc-per-node 4 -m pipeline --schedule 1f1b`."""

import os
import signal
import sys
import time
from typing import NoReturn

import click
import torch
import torch.distributed as dist

from pipeline.lower import DEFAULT_POLICY, POLICIES
from pipeline.model import Workload, train_monolith
from pipeline.optimizers import OPTIMIZERS
from pipeline.schedules import RUNNABLE
from pipeline.train import prepare, print_losses, train_manual, train_pipeline

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}
IN_ONE_PROCESS = ("monolith", "manual")
AT_LEAST_ONE = click.IntRange(min=1)


@click.command(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.option("--schedule", type=click.Choice([*IN_ONE_PROCESS, *RUNNABLE]), default="1f1b")
@click.option("-c", "--chunks", type=AT_LEAST_ONE, help="Microbatches.  [default: naive 1, else 8]")
@click.option("--steps", type=AT_LEAST_ONE, default=50)
@click.option(
    "--policy", type=click.Choice(list(POLICIES)), default=DEFAULT_POLICY, help="Of comms."
)
@click.option("--backend", type=click.Choice(["gloo", "nccl"]), help="[default: nccl with GPUs]")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="[default: the backend's]")
@click.option("--seed", type=click.IntRange(min=0), default=Workload.seed)
@click.option("--layers", type=AT_LEAST_ONE, default=Workload.layers)
@click.option("--width", type=AT_LEAST_ONE, default=Workload.width)
@click.option("--batch", type=AT_LEAST_ONE, default=Workload.batch)
@click.option("--dtype", type=click.Choice(list(DTYPES)), default="float32")
@click.option("--optimizer", type=click.Choice(list(OPTIMIZERS)), default=Workload.optimizer)
@click.option("--lr", type=click.FloatRange(min=0, min_open=True), default=Workload.lr)
@click.option("--timeout", type=click.FloatRange(min=1), default=300.0, help="Of one message, s.")
@click.option("--profile", is_flag=True, help="Print where each rank's time went.")
def command(
    schedule: str,
    chunks: int | None,
    steps: int,
    policy: str,
    backend: str | None,
    device: str | None,
    seed: int,
    layers: int,
    width: int,
    batch: int,
    dtype: str,
    optimizer: str,
    lr: float,
    timeout: float,
    profile: bool,
) -> None:
    """Train the seeded workload.

    `monolith` and `manual` (a model cut in two by hand) run in this process; the schedules run
    on the ranks that torchrun starts.
    """
    workload = Workload(
        layers=layers,
        width=width,
        batch=batch,
        dtype=DTYPES[dtype],
        seed=seed,
        lr=lr,
        optimizer=optimizer,
    )
    if schedule in IN_ONE_PROCESS:
        if profile:
            raise click.UsageError(f"--profile is of a pipeline's ranks, and {schedule} has none")
        if schedule == "manual":
            losses = train_manual(workload, steps)
        else:
            losses = train_monolith(workload, steps, device or "cpu")
        print_losses(losses, steps, click.echo)
        return
    if "RANK" not in os.environ:
        raise click.UsageError(
            f"{schedule} runs on several ranks; start them with: "
            f"torchrun --nproc-per-node 4 -m pipeline --schedule {schedule}"
        )
    try:
        run = prepare(
            workload,
            schedule,
            chunks or (1 if schedule == "naive" else 8),
            steps=steps,
            policy=policy,
            backend=backend,
            device=device,
            timeout=timeout,
            profile=profile,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    train_pipeline(run, click.echo)


def refuse(message: str) -> NoReturn:
    """Print one line and exit 2, on rank 0 only where there are ranks."""
    if os.environ.get("RANK", "0") != "0":
        # torchrun ends all ranks when the first one fails: that one has to be rank 0.
        time.sleep(30)
    else:
        click.echo(f"error: {message}", err=True)
    sys.exit(2)


def is_failed_message(error: RuntimeError) -> bool:
    """Whether the backend gave up on a message; gloo has no exception type of its own."""
    return isinstance(error, dist.DistError) or "gloo" in str(error)


def main() -> None:
    """Run the command; 0 trained, 1 a message failed, 2 could not start, 130 interrupted."""
    if "RANK" in os.environ:
        # A rank blocked in a message sees no KeyboardInterrupt; the system's own handling ends it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        command.main(prog_name="python -m pipeline", standalone_mode=False)
    except click.ClickException as error:
        refuse(" ".join(error.format_message().split()))
    except RuntimeError as error:
        if not is_failed_message(error):
            raise
        # gloo's text begins with a line of its source, and goes on with what it guesses.
        reason = str(error).splitlines()[0].partition("] ")[2].split(". ")[0]
        place = " ".join([f"rank {os.environ.get('RANK')}", *getattr(error, "__notes__", [])])
        click.echo(f"error: {place}: {reason}", err=True)
        sys.exit(1)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)


def _run_and_leave() -> NoReturn:
    """Run the command and end the process at once.

    Left to itself the interpreter ends torch's threads, which aborts one process in twenty after
    everything is done ("terminate called without an active exception", torch 2.13 on gloo).
    """
    status = 0
    try:
        main()
    except SystemExit as ending:
        code = ending.code
        status = code if isinstance(code, int) else int(code is not None)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    _run_and_leave()

"""What a rank is told of one case."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass, field

from harness.pickling import dumps
from harness.worlds import Program, WorldError


@dataclass(frozen=True, slots=True)
class Job:
    """One rank's part of one case, with the command's own surroundings."""

    program: bytes  # a pickled Program
    rank: int
    world_size: int
    backend: str
    port: int  # of the store, on the loopback interface
    prefix: str  # of this case's keys in the store
    environment: dict[str, str]
    path: list[str] = field(default_factory=lambda: list(sys.path))
    folder: str = field(default_factory=os.getcwd)


def torchrun_environment(
    rank: int, world_size: int, port: int, *, agent_store: bool = True
) -> dict[str, str]:
    """Return the variables that torchrun sets for a worker, on one machine.

    With ``agent_store`` the store at ``port`` is the launcher's; without it rank 0 makes one
    there when the program initialises by them, so that it meets no keys of an earlier group.
    """
    values: dict[str, object] = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "ROLE_RANK": rank,
        "GROUP_RANK": 0,
        "WORLD_SIZE": world_size,
        "LOCAL_WORLD_SIZE": world_size,
        "ROLE_WORLD_SIZE": world_size,
        "GROUP_WORLD_SIZE": 1,
        "ROLE_NAME": "default",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "TORCHELASTIC_RESTART_COUNT": 0,
        "TORCHELASTIC_MAX_RESTARTS": 0,
        "TORCHELASTIC_RUN_ID": "harness",
        "TORCHELASTIC_USE_AGENT_STORE": agent_store,
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": 1,
    }
    return {name: str(value) for name, value in values.items()}


def free_port() -> int:
    """Return a loopback port that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def pickled_program(program: Program) -> bytes:
    """Pickle what the ranks run; WorldError says why that cannot be."""
    try:
        return dumps(program)
    except Exception as error:
        raise WorldError(
            f"the program cannot be sent to its ranks: {error}; "
            "leave out of it what cannot be pickled, or give it as file.py:function"
        ) from None

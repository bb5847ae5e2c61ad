"""The ``torch.distributed`` backends that real ranks can use; a new one is one small class."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from harness.worlds import WorldError


@dataclass(frozen=True, slots=True)
class Backend:
    """What a world must know of a backend."""

    name: str
    host_blocking: bool = False  # its waits only order streams: the recorder makes them wait
    settle_s: float = 0.0  # how long a stuck state must last before it counts

    def require(self, world_size: int) -> None:
        """Raise WorldError, saying what is missing, unless ``world_size`` ranks can run here."""

    def device(self, rank: int) -> str:
        """Return the device of a rank."""
        return "cpu"

    def environment(self, rank: int) -> dict[str, str]:
        """Return variables that the rank needs unless the user has set them."""
        return {}

    def init_options(self, rank: int) -> dict[str, Any]:
        """Return further arguments of ``init_process_group``."""
        return {}

    def prepare(self, rank: int) -> None:
        """Make the rank ready, before its group is made."""

    def finish(self) -> None:
        """Wait for what the rank has started, after the program's end."""


class Gloo(Backend):
    """Ranks on the CPU, over the loopback interface."""

    def environment(self, rank: int) -> dict[str, str]:
        """Keep the traffic on this machine, and one compute thread a rank, as torchrun does."""
        interface = "lo" if sys.platform.startswith("linux") else "lo0"
        return {"GLOO_SOCKET_IFNAME": interface, "OMP_NUM_THREADS": "1"}


class Nccl(Backend):
    """A GPU for each rank."""

    def require(self, world_size: int) -> None:
        """NCCL needs a build of torch that has it, and as many GPUs as ranks."""
        import torch

        if not torch.distributed.is_nccl_available():
            raise WorldError(
                "backend nccl: this build of torch has no NCCL; "
                "install a CUDA build of torch, or use --backend gloo"
            )
        found = torch.cuda.device_count()
        if found < world_size:
            raise WorldError(
                f"backend nccl: {world_size} ranks need {world_size} GPUs and {found} "
                f"{'is' if found == 1 else 'are'} visible; use a smaller --world-size, "
                "or --backend gloo"
            )

    def device(self, rank: int) -> str:
        """Return the rank's own GPU."""
        return f"cuda:{rank}"

    def environment(self, rank: int) -> dict[str, str]:
        """One compute thread a rank, as torchrun does."""
        return {"OMP_NUM_THREADS": "1"}

    def init_options(self, rank: int) -> dict[str, Any]:
        """Bind the group to the GPU at once: one communicator, made eagerly."""
        import torch

        return {"device_id": torch.device(self.device(rank))}

    def prepare(self, rank: int) -> None:
        """Make the rank's GPU the current one."""
        import torch

        torch.cuda.set_device(rank)

    def finish(self) -> None:
        """Wait for the GPU: an operation nobody waited for must end too."""
        import torch

        torch.cuda.synchronize()


BACKENDS: dict[str, Backend] = {
    "gloo": Gloo("gloo"),
    "nccl": Nccl("nccl", host_blocking=True, settle_s=2.0),
}


def require_backend(name: str, world_size: int) -> None:
    """Refuse a backend that cannot run so many ranks here, real or simulated; WorldError."""
    if name in BACKENDS:
        BACKENDS[name].require(world_size)

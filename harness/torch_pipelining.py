"""All that the harness needs of ``torch.distributed.pipelining``'s own interface, in one place.

Much of it is private. Where a version of torch lacks something, :func:`api` says what, before
anything runs. Imported on ranks, and where shapes of torch's own classes
are drawn: it takes torch with it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import torch

from harness.targets.signature import TargetError
from harness.warm import without_cache_folder

MODULE = "torch.distributed.pipelining"
BASES = (
    "_PipelineSchedule",
    "PipelineScheduleSingle",
    "PipelineScheduleMulti",
    "_PipelineScheduleRuntime",
)
"""Classes that have no order of their own."""

_NEEDED = {
    "": ("PipelineStage",),
    "schedules": (*BASES, "logger"),
    "PipelineStage": (
        "forward_one_chunk",
        "backward_one_chunk",
        "backward_weight_one_chunk",
        "get_fwd_recv_ops",
        "get_fwd_send_ops",
        "get_bwd_recv_ops",
        "get_bwd_send_ops",
        "_prepare_forward_infra",
        "_prepare_backward_infra",
    ),
}


@functools.cache
def api() -> ModuleType:
    """Return the module of the schedules; TargetError names what this torch lacks."""
    with without_cache_folder():
        import torch.distributed.pipelining as pipelining

    owners: dict[str, Any] = {"": pipelining}
    missing = []
    for owner, names in _NEEDED.items():
        if owner not in owners:
            owners[owner] = getattr(pipelining, owner, None)
        shown = ".".join(filter(None, (MODULE, owner)))
        missing += [f"{shown}.{name}" for name in names if not hasattr(owners[owner], name)]
    if missing:
        raise TargetError(
            f"torch {torch.__version__} lacks {', '.join(missing)}, by which its schedules are "
            "watched; use a torch from 2.8 to 2.14"
        )
    module: ModuleType = pipelining.schedules
    return module


def is_schedule(found: object) -> bool:
    """Whether something is a schedule class: torch's, or one that is made of torch's."""
    return isinstance(found, type) and issubclass(found, api()._PipelineSchedule)


def is_torchs(schedule: type) -> bool:
    """Whether a class is torch's own."""
    return f"{schedule.__module__}.".startswith(f"{MODULE}.")


def holds_several(schedule: type) -> bool:
    """Whether it is given a list of stages, and not one."""
    return not issubclass(schedule, api().PipelineScheduleSingle)


def names() -> list[str]:
    """Name torch's own schedules."""
    known = {name: getattr(api(), name) for name in dir(api()) if name not in BASES}
    return [name for name, found in known.items() if is_schedule(found) and name[0] != "_"]


def order_of(schedule: Any) -> Mapping[int, Any] | None:
    """Return a made schedule's actions by rank: with sends and receives, where it has those.

    None for one that keeps no order, or does not run by it.
    """
    if not isinstance(schedule, api().PipelineScheduleMulti):
        return None
    for name in ("pipeline_order_with_comms", "pipeline_order"):
        order = getattr(schedule, name, None)
        if isinstance(order, Mapping) and order:
            return order
    return None


def stage_ranks_of(schedule: Any) -> tuple[int, ...] | None:
    """Return the rank of each stage as a made schedule has it; None where it does not say."""
    ranks = getattr(schedule, "stage_index_to_group_rank", None)
    if not isinstance(ranks, Mapping) or sorted(ranks) != list(range(len(ranks))):
        return None
    return tuple(ranks[stage] for stage in range(len(ranks)))


class StandIn:
    """A stage as far as torch's own classes look at it when they are made."""

    submod = None

    def __init__(self, world: int, count: int) -> None:
        self.num_stages, self.group_size = count, world
        self.group_rank = self.stage_index = 0
        self.stage_index_to_group_rank: dict[int, int] = {}


_LARGEST = 256  # ranks times microbatches of a schedule that is made only to ask


@functools.lru_cache(maxsize=4096)
def refusal(name: str, world: int, chunks: int) -> str:
    """Say why one of torch's own classes refuses a shape; empty where it does not.

    It is made for the shape: nothing else knows. Of a large one that takes long, and the ranks say.
    """
    if world * chunks > _LARGEST:
        return ""
    schedule = getattr(api(), name)
    several = holds_several(schedule)
    stage = StandIn(world, 2 * world if several else world)
    try:
        schedule([stage, stage] if several else stage, chunks, loss_fn=StandIn)
    except (ValueError, AssertionError, RuntimeError) as error:
        return " ".join(str(error).split())
    except Exception:
        return ""  # a stand-in will not do: the ranks will say
    return ""

"""What stands around each call of ``torch.distributed`` while a recorder is active."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, Work

from harness import recorder as recording
from harness.arguments import reduce_op_of, root_of, splits_of, tensors_of
from harness.recorder import Recorder

Wrapper = Callable[..., Any]
Wrap = Callable[[Wrapper], Wrapper]

# method → the name a user knows it by, and which argument holds the tensors that all ranks
# must agree on in element count (None: none does)
_COLLECTIVES: dict[str, tuple[str, int | None]] = {
    "broadcast": ("broadcast", 0),
    "allreduce": ("all_reduce", 0),
    "allreduce_coalesced": ("all_reduce_coalesced", 0),
    "reduce": ("reduce", 0),
    "allgather": ("all_gather", 1),
    "_allgather_base": ("all_gather_into_tensor", 1),
    "all_gather_single": ("all_gather_into_tensor", 1),
    "allgather_coalesced": ("all_gather_coalesced", 1),
    "allgather_into_tensor_coalesced": ("all_gather_into_tensor_coalesced", 1),
    "all_gather_single_coalesced": ("all_gather_into_tensor_coalesced", 1),
    "gather": ("gather", 1),
    "scatter": ("scatter", 0),
    "reduce_scatter": ("reduce_scatter", 0),
    "_reduce_scatter_base": ("reduce_scatter_tensor", 0),
    "reduce_scatter_single": ("reduce_scatter_tensor", 0),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter_tensor_coalesced", 0),
    "reduce_scatter_single_coalesced": ("reduce_scatter_tensor_coalesced", 0),
    "alltoall": ("all_to_all", 1),
    "alltoall_base": ("all_to_all_single", 1),
    "all_to_all_single": ("all_to_all_single", 1),
    "barrier": ("barrier", None),
}
_WATCHED = ("all_reduce", "broadcast", "reduce")
"""Collectives of which only a program's own operators count up a tensor's version: they work on
its memory. Others copy into their outputs by operators, whenever they have ended, and so does an
average, which gloo divides at the end (measured, every type and reduction)."""
COLLECTIVE_METHODS = (*_COLLECTIVES, "monitored_barrier")
"""The methods of ``ProcessGroup`` that all of a group's ranks call."""
_LONG = timedelta(minutes=10)  # a group's timeout below this is meant to be used
_ESCAPES = ("get_future", "get_future_result", "synchronize", "block_current_stream", "boxed")


def _send(original: Wrapper) -> Wrapper:
    @functools.wraps(original)
    def send(group: Any, tensors: Any, dst: int, tag: int = 0) -> Any:
        recorder = recording.active()
        if recorder is None:
            return original(group, tensors, dst, tag)
        if recorder.buffered:
            tensors = [tensor.detach().clone() for tensor in tensors]
        op = recorder.post("send", group, tensors[0], peer=int(dst), tag=int(tag))
        work = _posting(recorder, op, original, group, tensors, dst, tag)
        recorder.groups.saw_one(group)
        recorder.attach(op, work, group, tensors[0], is_send=True)
        return work

    return send


def _recv(original: Wrapper) -> Wrapper:
    @functools.wraps(original)
    def recv(group: Any, tensors: Any, src: int, tag: int = 0) -> Any:
        recorder = recording.active()
        if recorder is None:
            return original(group, tensors, src, tag)
        op = recorder.post("recv", group, tensors[0], peer=int(src), tag=int(tag))
        work = _posting(recorder, op, original, group, tensors, src, tag)
        recorder.groups.saw_one(group)
        recorder.attach(op, work, group, tensors[0])
        return work

    return recv


def _recv_anysource(original: Wrapper) -> Wrapper:
    @functools.wraps(original)
    def recv_anysource(group: Any, tensors: Any, tag: int = 0) -> Any:
        recorder = recording.active()
        if recorder is None:
            return original(group, tensors, tag)
        op = recorder.post("recv", group, tensors[0], tag=int(tag), any_source=True)
        work = _posting(recorder, op, original, group, tensors, tag)
        recorder.groups.saw_one(group)
        recorder.attach(op, work, group, tensors[0], any_source=True)
        return work

    return recv_anysource


def _posting(
    recorder: Recorder, op: int | None, original: Wrapper, *args: Any, **kwargs: Any
) -> Any:
    try:
        return original(*args, **kwargs)
    except BaseException:
        recorder.failed(op)
        raise


def _collective(method: str, original: Wrapper) -> Wrapper:
    kind, agreeing = _COLLECTIVES[method]

    @functools.wraps(original)
    def collective(group: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = recording.active()
        if recorder is None:
            return original(group, *args, **kwargs)
        recorder.check_unseen()
        everything = (*args, *kwargs.values())
        reduce_op = reduce_op_of(kind, everything)
        held = tensors_of(args[agreeing]) if agreeing is not None and len(args) > agreeing else []
        root = root_of(kind, everything)
        reduced_by = None if reduce_op is None else getattr(reduce_op, "op", reduce_op).name
        op = recorder.post(
            kind,
            group,
            held[0] if held else None,
            numel=sum(tensor.numel() for tensor in held),
            root=None if root is None else int(root),
            reduce_op=reduced_by,
            splits=splits_of(kind, args),
        )
        work = _posting(recorder, op, original, group, *args, **kwargs)
        recorder.groups.saw_all(group)
        is_watched = kind in _WATCHED and reduced_by != "AVG"
        recorder.attach(op, work, group, more=tuple(tensors_of(args)) if is_watched else ())
        return work

    return collective


def _monitored_barrier(original: Wrapper) -> Wrapper:
    @functools.wraps(original)
    def monitored_barrier(group: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = recording.active()
        if recorder is None:
            return original(group, *args, **kwargs)
        recorder.check_unseen()
        op = recorder.post("monitored_barrier", group)
        try:
            return _inside(recorder, op, lambda: original(group, *args, **kwargs), gives_up=True)
        finally:
            recorder.groups.saw_all(group)

    return monitored_barrier


def _inside(
    recorder: Recorder, op: int | None, call: Callable[[], Any], *, gives_up: bool = False
) -> Any:
    """Run a call that blocks by itself, as the wait for ``op``."""
    if op is not None:
        recorder.block((op,), gives_up=gives_up, inside=True)
    try:
        result = _posting(recorder, op, call)
    except BaseException as error:
        recording.mark_waited(error)
        raise
    recorder.done(op)
    return result


def _wait(original: Wrapper) -> Wrapper:
    def call(recorder: Recorder, work: Any, args: Any, kwargs: Any) -> Any:
        result = original(work, *args, **kwargs)
        if recorder.host_blocking:  # a wait that only orders streams: make it end here
            while not _is_completed(work):
                time.sleep(0.0005)
        return result

    @functools.wraps(original)
    def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = recording.active()
        if recorder is None:
            return original(work, *args, **kwargs)
        if not args and not kwargs and not recorder.host_blocking:
            return recorder.wait(work, original, work, gives_up=False)
        gives_up = any(bool(value) for value in (*args, *kwargs.values()))
        return recorder.wait(work, call, recorder, work, args, kwargs, gives_up=gives_up)

    return wait


_is_completed: Wrapper = Work.is_completed


def _polled(original: Wrapper) -> Wrapper:
    @functools.wraps(original)
    def is_completed(work: Any) -> bool:
        completed = bool(original(work))
        if completed and (recorder := recording.active()) is not None:
            recorder.completed(work)
        return completed

    return is_completed


def _escaping(original: Wrapper) -> Wrapper:
    @functools.wraps(original)
    def escape(work: Any, *args: Any, **kwargs: Any) -> Any:
        if (recorder := recording.active()) is not None:
            recorder.escape(work)
        return original(work, *args, **kwargs)

    return escape


def _start_coalescing(original: Wrapper) -> Wrapper:
    @functools.wraps(original)
    def start(group: Any, *args: Any, **kwargs: Any) -> Any:
        if (recorder := recording.active()) is not None:
            recorder.begin_batch()
        return original(group, *args, **kwargs)

    return start


def _end_coalescing(original: Wrapper) -> Wrapper:
    @functools.wraps(original)
    def end(group: Any, *args: Any, **kwargs: Any) -> Any:
        work = original(group, *args, **kwargs)
        if (recorder := recording.active()) is not None:
            recorder.end_batch(work)
        return work

    return end


def _argument(args: Any, kwargs: Any, place: int, name: str) -> Any:
    return args[place] if len(args) > place else kwargs.get(name)


def _init_process_group(original: Wrapper) -> Wrapper:
    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        recorder = recording.active()
        if recorder is None:
            return original(*args, **kwargs)
        world, rank = (
            _argument(args, kwargs, *which) for which in ((3, "world_size"), (4, "rank"))
        )
        url = str(_argument(args, kwargs, 1, "init_method") or "")
        op = None
        if "?" not in url and recorder.groups.is_whole(
            os.environ.get("RANK") if rank in (None, -1) else rank,
            os.environ.get("WORLD_SIZE") if world in (None, -1) else world,
        ):
            op = recorder.post("init_process_group", "init_process_group")
        result = _inside(recorder, op, lambda: original(*args, **kwargs))
        recorder.initialised()
        return result

    return init_process_group


def _new_group(original: Wrapper) -> Wrapper:
    @functools.wraps(original)
    def new_group(*args: Any, **kwargs: Any) -> Any:
        recorder = recording.active()
        if recorder is None:
            return original(*args, **kwargs)
        ranks = _argument(args, kwargs, 0, "ranks")
        members = range(dist.get_world_size()) if ranks is None else sorted(map(int, ranks))
        op = None
        if dist.get_rank() in members:  # who is no member only counts up, and meets nobody
            op = recorder.post("new_group", f"new_group:{','.join(map(str, members))}")
        group = _inside(recorder, op, lambda: original(*args, **kwargs))
        if isinstance(group, ProcessGroup):
            timeout = _argument(args, kwargs, 1, "timeout")
            recorder.groups.made(group, gives_up=timeout is not None and timeout < _LONG)
        return group

    return new_group


def _batch_isend_irecv(original: Wrapper) -> Wrapper:
    @functools.wraps(original)
    def batch_isend_irecv(*args: Any, **kwargs: Any) -> Any:
        recorder = recording.active()
        if recorder is None:
            return original(*args, **kwargs)
        recorder.begin_batch(coalesced=False)  # a backend that coalesces begins anew inside
        try:
            return original(*args, **kwargs)
        finally:
            recorder.end_batch(None)

    return batch_isend_irecv


def _destroy_process_group(original: Wrapper) -> Wrapper:
    @functools.wraps(original)
    def destroy_process_group(group: Any = None) -> Any:
        if (recorder := recording.active()) is not None:
            whole = group is None or group == dist.group.WORLD
            recorder.destroy(None if whole else group)
        return original(group)

    return destroy_process_group


def _start_new_thread(original: Wrapper) -> Wrapper:
    @functools.wraps(original)
    def start_new_thread(function: Any, args: Any, kwargs: Any = None) -> int:
        recorder = recording.active()
        if recorder is None:
            return int(original(function, args, kwargs or {}))

        def run(*args: Any, **kwargs: Any) -> None:
            try:
                function(*args, **kwargs)
            finally:
                recorder.raw_threads -= 1

        recorder.raw_threads += 1
        return int(original(run, args, kwargs or {}))

    return start_new_thread


PROCESS_GROUP: Mapping[str, Wrap] = {
    **{method: functools.partial(_collective, method) for method in _COLLECTIVES},
    "send": _send,
    "recv": _recv,
    "recv_anysource": _recv_anysource,
    "monitored_barrier": _monitored_barrier,
    "_start_coalescing": _start_coalescing,
    "_end_coalescing": _end_coalescing,
}
"""Methods of ``ProcessGroup``, and what makes each one's wrapper."""

WORK: Mapping[str, Wrap] = {
    **dict.fromkeys(_ESCAPES, _escaping),
    "wait": _wait,
    "is_completed": _polled,
}
"""Methods of ``Work``."""

THREAD: Mapping[str, Wrap] = {"start_new_thread": _start_new_thread}
"""Functions of ``_thread``; the threading module has its own reference to it."""

FUNCTIONS: Mapping[str, Wrap] = {
    "init_process_group": _init_process_group,
    "new_group": _new_group,
    "destroy_process_group": _destroy_process_group,
    "batch_isend_irecv": _batch_isend_irecv,
}
"""Functions of ``torch.distributed``."""

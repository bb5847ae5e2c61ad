"""The recorder of one rank: what it is about to do, written down before it can block.

An event begins with a letter and a monotonic time in nanoseconds (0 for a definition, which comes
before every use when several ranks' events are sorted by time). Definitions are tuples, written
once; what happens often is a few numbers that refer to them:

=====  =========================================================================================
``S``  site: id, file, line, function
``G``  group: name, its global ranks in group order
``A``  action label: id, text
``T``  template, all that operations posted alike have in common: id, kind, api, group, peer, tag,
       numel, dtype, shape, root, reduce op, site, any source, splits
``K``  group destroyed: name, site
``P``  post: op, template, action, first op of its batch
``W``  about to block: op, thread, site, other threads alive; flags gives up, inside the call
``D``  a wait returned: op, thread, source
``F``  failed: op, thread
``X``  handle dropped, never waited for: op
``M``  buffer modified between post and wait: op
``C``  compute: stage, microbatch, site, microseconds; flags kind, input requires grad
=====  =========================================================================================

References (site, action, source, batch) are one higher than the id, 0 for none.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

from harness.frames import Frames
from harness.handles import Handles
from pipeline.actions import CURRENT, Action

_SEEN = 4096  # actions known by identity at a time
WAITED = "__harness_waited__"  # marks an exception that ended a wait
GIVES_UP, INSIDE = 1, 2  # flags of W
KINDS = "FBIW"  # flags of C: the place in here, and
REQUIRES_GRAD = 8
_POST, _WAIT, _DONE, _FAILED, _DROPPED, _MODIFIED, _COMPUTE = map(ord, "PWDFXMC")


_alive: dict[int, Any] = threading._active  # type: ignore[attr-defined]  # active_count() locks


class Sink(Protocol):
    """Where events go: :class:`harness.ring.Ring`, or a list in tests."""

    def put(
        self, code: int, time_ns: int, a: int, b: int = 0, c: int = 0, d: int = 0, flags: int = 0
    ) -> None:
        """Take a frequent event."""

    def write(self, event: tuple[Any, ...]) -> None:
        """Take any event."""


class Recorder:
    """Writes one rank's events into a sink."""

    def __init__(
        self,
        sink: Sink,
        *,
        world: int = 1,
        delay_ms: int = 0,
        seed: int = 0,
        buffered: bool = False,
        host_blocking: bool = False,
    ) -> None:
        self.buffered = buffered  # a send completes at once, on a copy
        self.host_blocking = host_blocking  # waits of this backend only order streams
        self.frames = Frames()
        self._put, self._write = sink.put, sink.write
        self._world = tuple(range(world))
        self._lock = threading.RLock()
        self._sites: dict[tuple[Any, int], int] = {}
        self._actions: dict[Action, int] = {}
        self._seen: dict[int, tuple[Action, int]] = {}  # by identity; holds what it names
        self._templates: dict[tuple[Any, ...], int] = {}
        self._threads: dict[int, int] = {}
        self._groups: dict[str, str] = {}
        self._members: dict[str, tuple[int, ...]] = {}
        self._generations: dict[str, int] = {}
        self._buffered: dict[int, tuple[int, Any]] = {}  # sends that count as ended
        self._handles = Handles()
        self._dropped = self._handles.dropped
        self._batch: list[int] | None = None
        self._next = 0
        self._delay_s = delay_ms / 1000
        self._random = random.Random(seed)

    def _event(
        self, code: int, time_ns: int, a: int, b: int = 0, c: int = 0, d: int = 0, flags: int = 0
    ) -> None:
        """Put an event, after the drops that came before it."""
        with self._lock:
            if self._dropped:
                self.flush()
            self._put(code, time_ns, a, b, c, d, flags)

    def silence(self) -> None:
        """Write nothing from now on: this is a copy of the rank, made by a fork."""
        self._lock = threading.RLock()  # another thread may have held the old one
        self._put = self._write = _nowhere

    def flush(self) -> None:
        """Write the drops that no other event has carried yet."""
        with self._lock:
            while self._dropped:
                at, ops = self._dropped.popleft()
                for op in ops:
                    self._put(_DROPPED, at, op)

    def post(
        self,
        kind: str,
        group: Any,
        tensor: Any = None,
        *,
        peer: int | None = None,
        tag: int = 0,
        numel: int | None = None,
        root: int | None = None,
        reduce_op: str | None = None,
        any_source: bool = False,
        splits: bool = False,
    ) -> int:
        """Write down an operation about to be posted; ``peer`` and ``root`` are group ranks."""
        if self._delay_s:
            time.sleep(self._random.random() * self._delay_s)
        api, frame = self.frames.caller(sys._getframe(2))
        name = group if isinstance(group, str) else group.group_name
        shape, dtype = (None, None) if tensor is None else (tensor.shape, tensor.dtype)
        action = CURRENT.get()
        if frame is not None:
            place: tuple[Any, int] = (frame.f_code, frame.f_lineno)
        else:
            place = (None, self._known(action))
        key = (
            kind, api, place, name, self._generations.get(name), peer, tag, shape, dtype,
            numel, root, reduce_op, any_source, splits,
        )  # fmt: skip
        with self._lock:
            template = self._templates.get(key)
            if template is None:
                template = self._templates[key] = len(self._templates)
                unique, ranks = self.group(group)
                size = numel if numel is not None else (0 if tensor is None else tensor.numel())
                self._write(
                    (
                        "T",
                        0,
                        template,
                        kind,
                        api or kind,
                        unique,
                        None if peer is None else _member(ranks, peer),
                        tag,
                        size,
                        "" if dtype is None else str(dtype)[6:],
                        () if shape is None else tuple(shape),
                        None if root is None else _member(ranks, root),
                        reduce_op,
                        self._site(frame, action),
                        any_source,
                        splits,
                    )
                )
            op = self._next
            self._next = op + 1
            if self._batch is not None:
                self._batch.append(op)
            label = self._known(action)
            batch = self._batch[0] + 1 if self._batch else 0
            self._event(_POST, time.monotonic_ns(), op, template, label, batch)
        return op

    def attach(
        self,
        op: int,
        work: Any,
        tensor: Any = None,
        *,
        any_source: bool = False,
        is_send: bool = False,
    ) -> None:
        """Follow the handle of ``op``: its waits, and its end by garbage collection."""
        if is_send and self.buffered:
            self._buffered[id(work)] = (op, work)  # delivered whatever happens to its handle
        elif work is not None and self._batch is None:
            self._handles.follow((op,), work, tensor, any_source)

    def begin_batch(self) -> None:
        """Operations from here to :meth:`end_batch` share one handle (NCCL's coalescing)."""
        self._batch = []

    def end_batch(self, work: Any) -> None:
        """Follow the one handle of the batch."""
        ops, self._batch = tuple(self._batch or ()), None
        if work is not None and ops:
            self._handles.follow(ops, work, None, False)

    def failed(self, op: int) -> None:
        """Note that the backend refused the operation, or that a wait for it raised."""
        self._event(_FAILED, time.monotonic_ns(), op, self._thread())

    def block(self, ops: tuple[int, ...], *, gives_up: bool, inside: bool = False) -> None:
        """Note that this thread is about to wait for ``ops``; ``inside`` the call that posts."""
        frame = sys._getframe(3)  # the caller of Work.wait
        if inside or self.frames.kind(frame.f_code) == "c10d":
            site, flags = 0, INSIDE
        else:
            site, flags = self._site(self.frames.caller(frame)[1], CURRENT.get()), 0
        if gives_up:
            flags |= GIVES_UP
        others = len(_alive) - 1
        now, thread = time.monotonic_ns(), self._thread()
        for op in ops:
            self._event(_WAIT, now, op, thread, site, others, flags)

    def wait(self, work: Any, call: Callable[..., Any], *args: Any, gives_up: bool) -> Any:
        """Run ``call(*args)``, which waits for ``work``, and note both ends."""
        handle = self._handles.of(work)
        if handle is None:
            if self._buffered and (sent := self._buffered.get(id(work))) is not None:
                self.done(sent[0])
                return True
            return call(*args)
        if handle.changed:
            for op in handle.ops:
                self._event(_MODIFIED, time.monotonic_ns(), op)
        self.block(handle.ops, gives_up=gives_up)
        try:
            result = call(*args)
        except BaseException as error:
            handle.escaped = True  # it has ended: losing the handle now means nothing
            with contextlib.suppress(AttributeError):
                setattr(error, WAITED, True)
            for op in handle.ops:
                self.failed(op)
            raise
        self.completed(work)
        return result

    def completed(self, work: Any) -> None:
        """Note that ``work`` is known to have ended."""
        handle = self._handles.end(work)
        if handle is not None:
            source = work._source_rank() if handle.any_source else None
            for op in handle.ops:
                self.done(op, source)

    def done(self, op: int, source: int | None = None) -> None:
        """Note that ``op`` has ended well."""
        self._event(
            _DONE, time.monotonic_ns(), op, self._thread(), 0 if source is None else source + 1
        )

    def escape(self, work: Any) -> None:
        """Note that the future of ``work`` was taken: it may be awaited where nobody sees it."""
        if (handle := self._handles.of(work)) is not None:
            handle.escaped = True

    def compute(
        self,
        stage: int,
        kind: str,
        microbatch: int,
        start_ns: int,
        end_ns: int,
        requires_grad: bool = True,
    ) -> None:
        """Write down a forward or backward that the stage executed."""
        site = self._site(self.frames.caller(sys._getframe(1))[1], CURRENT.get())
        flags = KINDS.index(kind) | (REQUIRES_GRAD if requires_grad else 0)
        taken = min((end_ns - start_ns) // 1000, 2**32 - 1)
        self._event(_COMPUTE, end_ns, stage, microbatch, site, taken, flags)

    def destroy(self, name: str | None) -> None:
        """Note that a group (all of them, for None) is about to be destroyed."""
        site = self._site(self.frames.caller(sys._getframe(1))[1], None)
        names = list(self._groups) if name is None else [name]
        for known in names:
            if (unique := self._groups.pop(known, None)) is not None:
                self._generations[known] = self._generations.get(known, 0) + 1
                self.flush()
                with self._lock:
                    self._write(("K", time.monotonic_ns(), unique, site))

    def group(self, group: Any) -> tuple[str, tuple[int, ...]]:
        """Return the group's name, unique over re-initialisations, and its global ranks."""
        name = group if isinstance(group, str) else str(group.group_name)
        if (unique := self._groups.get(name)) is None:
            generation = self._generations.get(name, 0)
            unique = self._groups[name] = f"{name}#{generation + 1}" if generation else name
            ranks = self._world if isinstance(group, str) else _global_ranks(group)
            self._members[unique] = ranks
            with self._lock:
                self._write(("G", 0, unique, ranks))
        return unique, self._members[unique]

    def _thread(self) -> int:
        ident = threading.get_ident()
        if (number := self._threads.get(ident)) is None:
            number = self._threads[ident] = len(self._threads)
        return number

    def _known(self, action: Action | None) -> int:
        """Return the action's label id, 0 for none; a plan's actions are known by identity."""
        if action is None:
            return 0
        seen = self._seen.get(id(action))
        if seen is not None:
            return seen[1]
        with self._lock:
            if (label := self._actions.get(action)) is None:
                label = self._actions[action] = len(self._actions) + 1
                self._write(("A", 0, label, str(action)))
        if len(self._seen) >= _SEEN:
            self._seen.clear()
        self._seen[id(action)] = (action, label)
        return label

    def _site(self, frame: FrameType | None, action: Action | None) -> int:
        """Return the id of the user's line; for a plan's action the line that yielded it."""
        if frame is not None:
            key: tuple[Any, int] = (frame.f_code, frame.f_lineno)
            place = (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        elif action is not None and (origin := action.origin) is not None:
            key = (origin.file, origin.line)
            place = (origin.file, origin.line, origin.function)
        else:
            return 0
        with self._lock:
            if (site := self._sites.get(key)) is None:
                site = self._sites[key] = len(self._sites) + 1
                self._write(("S", 0, site, *place))
        return site


def _nowhere(*_: Any, **__: Any) -> None:
    """Take an event and forget it."""


def _member(ranks: tuple[int, ...], index: int) -> int:
    """Return the global rank of a group rank; one out of range is left for torch to refuse."""
    return ranks[index] if 0 <= index < len(ranks) else index


def _global_ranks(group: Any) -> tuple[int, ...]:
    import torch.distributed as dist

    try:
        return tuple(int(rank) for rank in dist.get_process_group_ranks(group))
    except (KeyError, ValueError):  # a group made without torch.distributed's registry
        return tuple(range(group.size()))


_active: Recorder | None = None


def active() -> Recorder | None:
    """Return the recorder of the rank that runs here, None outside a run."""
    return _active


def activate(recorder: Recorder | None) -> None:
    """Make ``recorder`` the one that :mod:`harness.instrument` writes to; None for none."""
    global _active
    _active = recorder


def _forked() -> None:
    if _active is not None:
        _active.silence()
        activate(None)


os.register_at_fork(after_in_child=_forked)

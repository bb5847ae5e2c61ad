"""The recorder of one rank: what it is about to do, written down before it can block.

An event begins with a letter and a monotonic time in nanoseconds (0 for a definition, which comes
before every use when several ranks' events are sorted by time). Definitions are tuples, written
once; what happens often is a few numbers that refer to them:

=====  =========================================================================================
``S``  site: id, file, line, function
``G``  group: name, its global ranks in group order
``A``  action label: id, text, whether a plan has it
``T``  template, all that operations posted alike have in common: id, kind, api, group, peer, tag,
       numel, dtype, shape, root, reduce op, site, any source, splits
``K``  group destroyed: name, site
``U``  unusual world, nothing can be proved: why
``Q``  operations that nobody saw were posted: group
``P``  post: op, template, action, first op of its batch
``W``  about to block: op, thread, site, other threads alive; flags gives up, inside the call
``D``  a wait returned: op, thread, source
``F``  failed: op, thread
``X``  handle dropped, never waited for: op
``M``  buffer used between post and wait: op, site; flag seen, by whoever watches all operators
``C``  compute: stage, microbatch, site, microseconds; flags kind, input requires grad
=====  =========================================================================================

References (site, action, source, batch) are one higher than the id, 0 for none.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

from harness.active import WAITED, activate, active, mark_waited
from harness.definitions import Definitions, is_planned
from harness.frames import Frames
from harness.groups import Groups, member
from harness.handles import Handle, Handles
from harness.trace import UNKNOWN_SITE, Splits
from pipeline.actions import CURRENT, carried

GIVES_UP, INSIDE = 1, 2  # flags of W
_LAYER = os.path.join(os.path.dirname(__file__), "layer.py")  # noqa: PTH118, PTH120
KINDS = "FBIW"  # flags of C: the place in here, and
SEEN = 1  # flag of M
REQUIRES_GRAD = 8
_POST, _WAIT, _DONE, _FAILED, _DROPPED, _MODIFIED, _COMPUTE = map(ord, "PWDFXMC")


__all__ = ["WAITED", "Recorder", "Sink", "activate", "active", "mark_waited"]
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
        rank: int = 0,
        world: int = 1,
        delay_ms: int = 0,
        seed: int = 0,
        buffered: bool = False,
        host_blocking: bool = False,
        clock: Callable[[], int] = time.monotonic_ns,
        other_threads: Callable[[], int] | None = None,
    ) -> None:
        self.buffered = buffered  # a send completes at once, on a copy
        self.host_blocking = host_blocking  # waits of this backend only order streams
        self.frames = Frames()
        self.now = clock  # nanoseconds of the time that the trace is in
        self._other_threads = other_threads or self._alive_besides
        self._put, self._write = sink.put, sink.write
        self.groups = Groups(rank, world)
        self._lock = threading.RLock()
        self._define = Definitions(self._written, self._lock)
        self._buffered: dict[int, tuple[int, Any]] = {}  # sends that count as ended
        self._handles = Handles(clock)
        self._dropped = self._handles.dropped
        self._batches: dict[int, tuple[list[int], bool]] = {}  # by thread; has one handle
        self.raw_threads = 0  # started below the threading module, and perhaps not yet running
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

    def _written(self, event: tuple[Any, ...]) -> None:
        with self._lock:
            self._write(event)

    def silence(self) -> None:
        """Write nothing from now on: this is a copy of the rank, made by a fork."""
        self._lock = self._define.lock = threading.RLock()  # another thread may have held the old
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
        splits: Splits = False,
    ) -> int | None:
        """Write down an operation about to be posted; ``peer`` and ``root`` are group ranks.

        None for one that is not followed.
        """
        if self._delay_s:
            time.sleep(self._random.random() * self._delay_s)
        action = CURRENT.get() or carried(tensor)
        api, frame = self.frames.caller(sys._getframe(2), up_to_user=not is_planned(action))
        known = self.groups.find(group)
        if known is None:
            return None
        shape, dtype = (None, None) if tensor is None else (tensor.shape, tensor.dtype)
        label, site = self._define.action(action)
        if frame is not None:
            site = self._define.site(frame, None)
        key = (
            kind, api, site, known.name, peer, tag, shape, dtype, numel, root, reduce_op,
            any_source, splits,
        )  # fmt: skip
        with self._lock:
            template = self._define.templates.get(key)
            if template is None:
                size = numel if numel is not None else (0 if tensor is None else tensor.numel())
                template = self._define.template(
                    key,
                    known,
                    (
                        kind,
                        self.frames.asker(sys._getframe(2)) + (api or kind),
                        known.name,
                        None if peer is None else member(known.ranks, peer),
                        tag,
                        size,
                        "" if dtype is None else str(dtype)[6:],
                        () if shape is None else tuple(shape),
                        None if root is None else member(known.ranks, root),
                        reduce_op,
                        site,
                        any_source,
                        splits,
                    ),
                )
            op = self._next
            self._next = op + 1
            batch = 0
            if self._batches and (posting := self._batches.get(threading.get_ident())):
                posting[0].append(op)
                batch = posting[0][0] + 1
            if self._dropped:
                self.flush()
            self._put(_POST, self.now(), op, template, label, batch)
        return op

    def attach(
        self,
        op: int | None,
        work: Any,
        group: Any,
        tensor: Any = None,
        *,
        any_source: bool = False,
        is_send: bool = False,
        more: tuple[Any, ...] = (),
    ) -> None:
        """Follow the handle of ``op``: its waits, and its end by garbage collection."""
        if op is None or work is None:
            return
        if is_send and self.buffered:
            self._buffered[id(work)] = (op, work)  # delivered whatever happens to its handle
        elif not (self._batches and self._is_coalescing()):
            known = self.groups.find(group)
            gives_up = known is not None and known.gives_up
            self._handles.follow(
                (op,), work, tensor,
                any_source=any_source, is_send=is_send, gives_up=gives_up, more=more,
            )  # fmt: skip

    def _is_coalescing(self) -> bool:
        return self._batches.get(threading.get_ident(), ([], False))[1]

    def begin_batch(self, *, coalesced: bool = True) -> None:
        """Note that this thread posts a batch until `end_batch`; coalesced, it has one handle."""
        self._batches[threading.get_ident()] = [], coalesced

    def end_batch(self, work: Any) -> None:
        """Follow the one handle of the batch; for None, of a batch that came to nothing."""
        ops, coalesced = self._batches.pop(threading.get_ident(), ((), False))
        if work is not None and coalesced and ops:
            self._handles.follow(tuple(ops), work)

    def failed(self, op: int | None) -> None:
        """Note that the backend refused the operation, or that a wait for it raised."""
        if self._batches:
            self.end_batch(None)
        if op is None:
            return
        self._event(_FAILED, self.now(), op, self._define.thread())

    def block(self, ops: tuple[int, ...], *, gives_up: bool, inside: bool = False) -> None:
        """Note that this thread is about to wait for ``ops``; ``inside`` the call that posts."""
        frame = sys._getframe(3)  # the caller of Work.wait
        if frame.f_code.co_filename == _LAYER and frame.f_back is not None:
            frame = frame.f_back
        if inside or self.frames.kind(frame.f_code) == "c10d":
            site, flags = 0, INSIDE
        else:
            action, flags = CURRENT.get(), 0
            if is_planned(action):
                site = self._define.action(action)[1]
            else:
                site = self._define.site(self.frames.caller(frame)[1], action)
        if gives_up:
            flags |= GIVES_UP
        self.check_unseen()
        others = self._other_threads()
        now, thread = self.now(), self._define.thread()
        with self._lock:
            if self._dropped:
                self.flush()
            for op in ops:
                self._put(_WAIT, now, op, thread, site, others, flags)

    def _alive_besides(self) -> int:
        """Return how many threads of this process may post something, besides the calling one."""
        return len(_alive) - 1 + self._handles.escaped + self.raw_threads

    def wait(self, work: Any, call: Callable[..., Any], *args: Any, gives_up: bool) -> Any:
        """Run ``call(*args)``, which waits for ``work``, and note both ends."""
        handle = self._handles.of(work)
        if handle is None:
            if self._buffered and (sent := self._buffered.get(id(work))) is not None:
                self.done(sent[0])
                return True
            return call(*args)
        version = handle.version
        moved = version is not None and handle.tensor._version != version
        if (handle.more or moved) and handle.changed:
            for op in handle.ops:
                self._event(_MODIFIED, self.now(), op)
        self.block(handle.ops, gives_up=gives_up or handle.gives_up)
        try:
            result = call(*args)
        except BaseException as error:
            handle.escaped = True  # it has ended: losing the handle now means nothing
            mark_waited(error)
            for op in handle.ops:
                self.failed(op)
            raise
        self._handles.end(work)
        if handle.any_source:
            self._ended(handle, work)
            return result
        now, thread = self.now(), self._define.thread()
        with self._lock:
            if self._dropped:
                self.flush()
            for op in handle.ops:
                self._put(_DONE, now, op, thread)
        return result

    def completed(self, work: Any) -> None:
        """Note that ``work`` is known to have ended."""
        handle = self._handles.end(work)
        if handle is not None:
            self._ended(handle, work)

    def _ended(self, handle: Handle, work: Any) -> None:
        source = work._source_rank() if handle.any_source else None
        for op in handle.ops:
            self.done(op, source)

    def done(self, op: int | None, source: int | None = None) -> None:
        """Note that ``op`` has ended well."""
        if op is None:
            return
        self._event(
            _DONE,
            self.now(),
            op,
            self._define.thread(),
            0 if source is None else source + 1,
        )

    def escape(self, work: Any) -> None:
        """Note that the future of ``work`` was taken: it may be awaited where nobody sees it."""
        self._handles.escape(work)

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
        action = CURRENT.get()
        if action is not None and action.origin is not None:
            site = self._define.action(action)[1]
        else:
            site = self._define.site(self.frames.caller(sys._getframe(1))[1], action)
        flags = KINDS.index(kind) | (REQUIRES_GRAD if requires_grad else 0)
        taken = min((end_ns - start_ns) // 1000, 2**32 - 1)
        self._event(_COMPUTE, end_ns, stage, microbatch, site, taken, flags)

    def destroy(self, group: Any) -> None:
        """Note that a group (all of them, for None) is about to be destroyed."""
        site = self._define.site(self.frames.caller(sys._getframe(1))[1], None)
        with self._lock:
            self.flush()
            for name in self.groups.forget(group):
                self._write(("K", self.now(), name, site))

    def initialised(self) -> None:
        """Note that the default group was made."""
        self.groups.initialised()
        if (why := self.groups.unusual()) is not None:
            with self._lock:
                self._write(("U", self.now(), why))

    def check_unseen(self) -> None:
        """Note the groups in which torch has posted something by itself, from C++."""
        if not self.groups.anything_unseen():
            return
        for group in self.groups.unseen():
            with self._lock:
                self._write(("Q", self.now(), group.name))

    def touched(self, work: Any, frame: FrameType | None) -> None:
        """Note that the tensor of ``work`` was used before the wait, by the caller at ``frame``."""
        handle = self._handles.of(work)
        if handle is None:
            return
        user = None if frame is None else self.frames.caller(frame)[1]
        site = self._define.site(user, CURRENT.get())
        for op in handle.ops:
            self._event(_MODIFIED, self.now(), op, site, flags=SEEN)

    def note(self, text: str) -> None:
        """Write down what somebody has done to this rank."""
        self._written(("N", self.now(), text))

    def beat(self) -> None:
        """Show that this process is alive, though nothing has happened."""
        self._written(("S", 0, 0, *UNKNOWN_SITE))

    def finish(self) -> None:
        """Write what no other event has carried yet: the program has ended."""
        self.check_unseen()
        self.flush()


def _nowhere(*_: Any, **__: Any) -> None:
    """Take an event and forget it."""

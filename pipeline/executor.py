"""One training step of one rank: its row of a lowered plan in, calls on stage and comms out."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributed import Work

from pipeline.actions import CURRENT, Action, Kind, doing
from pipeline.comms import Comms
from pipeline.lower import Policy, batches, get_policy
from pipeline.model import Batch, chunk_sizes
from pipeline.shared_gradients import SharedGradients
from pipeline.stage import Stage, StageRunner


@dataclass
class StepProfile:
    """Where a rank's time went, in seconds, over the steps it was given to."""

    compute: float = 0.0
    waiting: float = 0.0
    """Inside sends, receives and waits."""
    peak_in_flight: int = 0


def run_step(
    row: Sequence[Action],
    policy: Policy | str,
    stages: Stage | Sequence[Stage],
    comms: Comms,
    batch: Batch,
    chunks: int,
    profile: StepProfile | None = None,
) -> Tensor | None:
    """Run a rank's row, adding to the gradients of its stages' parameters.

    Returns the batch's mean loss on the last stage's rank, as a detached 0-d tensor so that the
    step itself never waits for a GPU, and None elsewhere. It is summed in the order of this
    row's backwards, microbatches weighted by size. Of two directions (`comms.placement`) the
    ranks with the same slices then sum their gradients, and the two that have a last stage their
    losses. ValueError for an action on a stage that is not given. Whatever was posted has
    completed on return.
    """
    comms.start_step()
    held = [stages] if isinstance(stages, Stage) else stages
    sizes = chunk_sizes(batch.size, chunks)
    runners = {stage.number: StageRunner(stage, batch, sizes) for stage in held}
    shared = SharedGradients(held, comms)
    rules = get_policy(policy)
    step = _Step(rules, runners, comms, profile)
    try:
        for actions in batches(row, rules):
            step.run(actions)
        step.finish()
        return shared.sum(step.loss)
    finally:
        shared.restore()
        # An exception's traceback would hold on to these.
        step.clear()


class _Step:
    def __init__(
        self,
        policy: Policy,
        runners: Mapping[int, StageRunner],
        comms: Comms,
        profile: StepProfile | None,
    ) -> None:
        self._policy = policy
        self._runners = runners
        self._comms = comms
        self._profile = profile
        self._peak = 0
        device = comms.device
        self._synchronized = device if profile is not None and device.type == "cuda" else None
        self._results: dict[Action, Tensor] = {}  # by the send that takes them away
        self._received: dict[Action, Tensor] = {}  # by the receive that brings them
        self._pending: dict[Action, Work] = {}

    @property
    def loss(self) -> Tensor | None:
        """The mean loss of the microbatches that ended on this rank, None where none do."""
        losses = [runner.loss for runner in self._runners.values() if runner.loss is not None]
        return losses[0] if losses else None

    def run(self, actions: Sequence[Action]) -> None:
        """Run one action, or a batch of sends and receives."""
        for action in actions:
            for part in action.parts:
                if part.stage not in self._runners:
                    held = " and ".join(map(str, self._runners))
                    raise ValueError(f"{part} is on a rank that holds stage {held}")
        action = actions[0]
        if action.kind.is_comm and self._policy.batched:
            self._exchange(actions)
            return
        for part in action.parts:  # an overlapped pair: its F, then its B
            with doing(part):
                _HANDLERS[part.kind](self, part)

    def finish(self) -> None:
        for action in list(self._pending):
            self._wait(action)

    def clear(self) -> None:
        if (profile := self._profile) is not None:
            profile.peak_in_flight = max(profile.peak_in_flight, self._peak)
        for runner in self._runners.values():
            runner.clear()
        for held in (self._results, self._received, self._pending):
            held.clear()

    def _forward(self, action: Action) -> None:
        runner, x = self._runners[action.stage], None
        if not runner.stage.is_first:
            x = self._take(Action(action.stage, Kind.RECV_F, action.microbatch))
        with self._timed("compute"):
            y = runner.forward(action.microbatch, x)
        self._peak = max(self._peak, sum(runner.in_flight for runner in self._runners.values()))
        if not runner.stage.is_last:
            self._give(Action(action.stage, Kind.SEND_F, action.microbatch), y)

    def _backward(self, action: Action) -> None:
        runner, gradient = self._runners[action.stage], None
        if not runner.stage.is_last:
            gradient = self._take(Action(action.stage, Kind.RECV_B, action.microbatch))
            # The gradient is there, so the activation has arrived and this returns at once.
            # Were it left to the end, every sent activation would live as long.
            self._wait(Action(action.stage, Kind.SEND_F, action.microbatch))
        run = runner.backward if action.kind is Kind.B else runner.backward_input
        with self._timed("compute"):
            x_gradient = run(action.microbatch, gradient)
        if x_gradient is not None:
            self._give(Action(action.stage, Kind.SEND_B, action.microbatch), x_gradient)

    def _weight(self, action: Action) -> None:
        with self._timed("compute"):
            self._runners[action.stage].backward_weight(action.microbatch)

    def _give(self, send: Action, tensor: Tensor) -> None:
        """Keep a result for its send; of a stage that is here too, hand it over."""
        if send.other_end.stage in self._runners:
            self._received[send.other_end] = tensor.detach()
        else:
            self._results[send] = tensor

    def _exchange(self, actions: Sequence[Action]) -> None:
        messages = [
            (action, self._result(action) if action.kind.is_send else self._shape(action))
            for action in actions
        ]
        with self._timed("waiting"):
            self._received.update(self._comms.exchange(messages))

    def _result(self, send: Action) -> Tensor:
        """Take out what a send gives away."""
        tensor = self._results.pop(send, None)
        if tensor is None:
            raise ValueError(f"{send} comes before what makes its data, or a second time")
        return tensor

    def _shape(self, receive: Action) -> tuple[int, ...]:
        runner, forward = self._runners[receive.stage], receive.kind is Kind.RECV_F
        shape_of = runner.input_shape if forward else runner.output_shape
        return shape_of(receive.microbatch)

    def _send(self, action: Action) -> None:
        forward = action.kind is Kind.SEND_F
        tensor = self._result(action)
        with self._timed("waiting"):
            if action.kind in self._policy.asynchronous:
                post = self._comms.isend_forward if forward else self._comms.isend_backward
                self._pending[action] = post(tensor)
            else:
                send = self._comms.send_forward if forward else self._comms.send_backward
                send(tensor)

    def _receive(self, action: Action) -> None:
        comms, forward = self._comms, action.kind is Kind.RECV_F
        shape = self._shape(action)
        with self._timed("waiting"):
            if action.kind in self._policy.asynchronous:
                post = comms.ireceive_forward if forward else comms.ireceive_backward
                self._received[action], self._pending[action] = post(shape)
            else:
                receive = comms.receive_forward if forward else comms.receive_backward
                self._received[action] = receive(shape)

    def _take(self, receive: Action) -> Tensor:
        self._wait(receive)
        if receive not in self._received:
            if receive.other_end.stage in self._runners:
                raise ValueError(f"{CURRENT.get()} comes before what it needs on its own rank")
            raise ValueError(f"{receive} is missing before {CURRENT.get()}: lower the plan first")
        return self._received.pop(receive)

    def _wait(self, action: Action) -> None:
        if work := self._pending.pop(action, None):
            with doing(action), self._timed("waiting"):
                work.wait()

    def _timed(self, what: str) -> AbstractContextManager[None]:
        if self._profile is None:
            return _UNTIMED
        return _Timed(self._profile, what, self._synchronized)


# No bound methods in the step: it would hold itself, and the stage with it, until it is collected.
_HANDLERS: dict[Kind, Callable[[_Step, Action], None]] = {
    Kind.F: _Step._forward,
    Kind.B: _Step._backward,
    Kind.I: _Step._backward,
    Kind.W: _Step._weight,
    Kind.SEND_F: _Step._send,
    Kind.SEND_B: _Step._send,
    Kind.RECV_F: _Step._receive,
    Kind.RECV_B: _Step._receive,
}
_UNTIMED = nullcontext()


class _Timed(AbstractContextManager[None]):
    """Adds the time that a block takes to a profile's field; of a GPU, until it has computed."""

    __slots__ = ("_device", "_profile", "_start", "_what")
    _start: float

    def __init__(self, profile: StepProfile, what: str, device: torch.device | None) -> None:
        self._profile, self._what, self._device = profile, what, device

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._device is not None and kind is None:
            torch.cuda.synchronize(self._device)
        spent = time.perf_counter() - self._start
        setattr(self._profile, self._what, getattr(self._profile, self._what) + spent)

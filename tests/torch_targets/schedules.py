"""Schedules that users make of torch's classes: right ones, and with one fault each."""

# mypy: ignore-errors

import torch.distributed as dist
from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.pipelining.schedules import (
    PipelineScheduleMulti,
    PipelineScheduleSingle,
    _Action,
    _ComputationType,
    _PipelineScheduleRuntime,
)


class Mine(Schedule1F1B):
    """Torch's own, by another name."""


class Plain(PipelineScheduleSingle):
    """GPipe, written out."""

    divide = True
    order = staticmethod(lambda chunks: range(chunks))

    def _step_microbatches(
        self, arg_mbs=None, kwarg_mbs=None, target_mbs=None, losses=None, *_, **__
    ):
        arg_mbs, kwarg_mbs = self._check_inputs(arg_mbs, kwarg_mbs, target_mbs, losses)
        stage, chunks = self._stage, self._n_microbatches
        first = target_mbs[0] if target_mbs is not None else None
        self._initialize_stage(arg_mbs[0], kwarg_mbs[0], first)
        sent = []
        for i in range(chunks):
            self.post(stage.get_fwd_recv_ops(i), wait=True)
            output = stage.forward_one_chunk(i, arg_mbs[i], kwarg_mbs[i])
            sent += self.post(stage.get_fwd_send_ops(i))
            self._maybe_compute_loss(stage, output, target_mbs, i)
        for i in self.order(chunks):
            self.post(stage.get_bwd_recv_ops(i), wait=True)
            stage.backward_one_chunk(i, loss=self._maybe_get_loss(stage, i))
            sent += self.post(stage.get_bwd_send_ops(i))
        for work in sent:
            work.wait()
        self._update_losses(stage, losses)
        if self.divide:
            stage.scale_grads(chunks)

    def post(self, operations, wait=False):
        works = dist.batch_isend_irecv(operations) if operations else []
        for work in works if wait else ():
            work.wait()
        return works


class NotDivided(Plain):
    divide = False


class Weighted(Plain):
    """Right with uneven microbatches too, on one rank: each loss by its share of the batch."""

    divide = False

    def _maybe_get_loss(self, stage, index):
        loss = super()._maybe_get_loss(stage, index)
        sizes = [len(output) for output in stage.output_chunks]
        return loss * sizes[index] / sum(sizes)


class WeightedButItsLoss(Weighted):
    """The gradients are right; the last microbatch's loss is told seven times as large."""

    def _update_losses(self, stages, losses):
        super()._update_losses(stages, losses)
        losses[-1] = losses[-1] * 7


class LastLeftOut(Plain):
    order = staticmethod(lambda chunks: range(chunks - 1))


class OtherOrder(Plain):
    """Ranks disagree about the order in which gradients come."""

    def order(self, chunks):
        return range(chunks) if dist.get_rank() else range(chunks - 1, -1, -1)


class WaitsForItsSends(Plain):
    """Every message is waited for where it is posted: in GPipe that is enough."""

    def post(self, operations, wait=False):
        super().post(operations, wait=True)
        return []


class ReceivesFirst(Plain):
    """The first stage wants its gradients before it has given anything."""

    def _step_microbatches(self, *args, **kwargs):
        if self._stage.is_first and not self._stage.is_last:
            self._stage.chunks = self._n_microbatches
            self._initialize_stage(args[0][0], args[1][0])
            self.post(self._stage.get_bwd_recv_ops(0), wait=True)  # fault
        super()._step_microbatches(*args, **kwargs)


class Greedy(ScheduleGPipe):
    """Promises what GPipe does not keep."""

    promises = "1f1b"


class OnlyTwo(Schedule1F1B):
    """Refuses what it was not made for."""

    def __init__(self, stage, n_microbatches, loss_fn=None):
        if stage.group_size != 2:
            raise ValueError(f"OnlyTwo is for 2 ranks: got {stage.group_size}")
        super().__init__(stage, n_microbatches, loss_fn)


class Wants(Schedule1F1B):
    """Cannot be made as torch's are."""

    def __init__(self, stage, n_microbatches, recompute, loss_fn=None):
        super().__init__(stage, n_microbatches, loss_fn)


class Runtime(_PipelineScheduleRuntime):
    """All forwards, then all backwards, of stages in a V: torch sees that from the order."""

    def __init__(self, stages, n_microbatches, loss_fn=None, **more):
        super().__init__(stages, n_microbatches, loss_fn, **more)
        world, count = self.pp_group_size, stages[0].num_stages
        self.pipeline_order = {
            rank: list(self.actions((rank, count - 1 - rank), n_microbatches))
            for rank in range(world)
        }
        self._prepare_schedule_with_comms(self.pipeline_order)

    def actions(self, stages, chunks):
        kind = _ComputationType
        for stage in stages:
            yield from (_Action(stage, kind.FORWARD, i) for i in range(chunks))
        for stage in reversed(stages):
            yield from (_Action(stage, kind.FULL_BACKWARD, i) for i in range(chunks))


class Twice(Runtime):
    """One backward is there twice, which torch's validation does not see."""

    def actions(self, stages, chunks):
        for action in super().actions(stages, chunks):
            yield action
            if str(action) == "1B0":
                yield action


class TooEarly(Runtime):
    """A backward before its forward: torch's constructor raises."""

    def actions(self, stages, chunks):
        done = list(super().actions(stages, chunks))
        return [done[-1], *done[:-1]]


class Lockstep(PipelineScheduleMulti):
    """Step by step with all other ranks, three stages on each."""

    stages_per_rank = 3

    def __init__(self, stages, n_microbatches, loss_fn=None):
        super().__init__(stages, n_microbatches, loss_fn)
        world, count = self.pp_group_size, stages[0].num_stages
        if world == 1:
            raise ValueError("Lockstep sends to itself on a single rank")
        kind = _ComputationType
        self.pipeline_order = {rank: [] for rank in range(world)}
        forward = [(kind.FORWARD, s) for s in range(count)]
        backward = [(kind.FULL_BACKWARD, s) for s in reversed(range(count))]
        for i in range(n_microbatches):
            for what, stage in forward + backward:
                for rank, row in self.pipeline_order.items():
                    row.append(_Action(stage, what, i) if rank == stage % world else None)


class NoOrder(PipelineScheduleMulti):
    """Has no order at all, though it runs by one."""


class OrderOfOne(PipelineScheduleMulti):
    """Leaves every rank out of its order but the first."""

    def __init__(self, stages, n_microbatches, loss_fn=None):
        super().__init__(stages, n_microbatches, loss_fn=loss_fn)
        whole = ScheduleInterleaved1F1B(stages, n_microbatches, loss_fn=loss_fn)
        self.pipeline_order = {0: whole.pipeline_order[0]}


class OwnWay(PipelineScheduleMulti):
    """Has no order, and needs none: another schedule runs its steps."""

    def __init__(self, stages, n_microbatches, loss_fn=None):
        super().__init__(stages, n_microbatches, loss_fn=loss_fn)
        self.whole = ScheduleInterleaved1F1B(stages, n_microbatches, loss_fn=loss_fn)

    def step(self, *args, **kwargs):
        return self.whole.step(*args, **kwargs)


class Idle(ScheduleGPipe):
    """Does nothing in a step."""

    def step(self, *args, **kwargs):
        return None


class OrderWhenRun(PipelineScheduleMulti):
    """Makes its order in its first step."""

    def __init__(self, stages, n_microbatches, loss_fn=None):
        super().__init__(stages, n_microbatches, loss_fn=loss_fn)
        self.whole = ScheduleInterleaved1F1B(stages, n_microbatches, loss_fn=loss_fn)

    def step(self, *args, **kwargs):
        self.pipeline_order = self.whole.pipeline_order
        return super().step(*args, **kwargs)


class Delegates(PipelineScheduleMulti):
    """Has another schedule's way of running microbatches, and no order of its own."""

    def __init__(self, stages, n_microbatches, loss_fn=None):
        super().__init__(stages, n_microbatches, loss_fn=loss_fn)
        whole = ScheduleInterleaved1F1B(stages, n_microbatches, loss_fn=loss_fn)
        self.step = whole.step


class CannotBeMade(PipelineScheduleMulti):
    """Raises an error of its own when it is made."""

    def __init__(self, stages, n_microbatches, loss_fn=None):
        super().__init__(stages, n_microbatches, loss_fn=loss_fn)
        raise RuntimeError("there is no such table")  # in CannotBeMade

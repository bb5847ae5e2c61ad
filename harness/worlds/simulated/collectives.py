"""The collectives of a simulated group: who puts what in, and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import ProcessGroup, ReduceOp

from harness.worlds.simulated import checks, monitored, parts
from harness.worlds.simulated.data import Inputs, Part, put, reduced
from harness.worlds.simulated.exchange import Algorithm
from harness.worlds.simulated.request import Request
from harness.worlds.simulated.work import BARE, SimWork

if TYPE_CHECKING:
    from harness.worlds.simulated.simulation import Simulation

_OPTIONS: Any = None
_Base: Any = ProcessGroup  # whose stubs have each method in several forms


class Collectives(_Base):  # type: ignore[misc]
    """A process group's collectives; each method in torch's form and in its short one."""

    simulation: Simulation
    members: tuple[int, ...]
    key: str
    timeout: timedelta
    _rank: int
    _size: int

    def _post(self, request: Request, result: Any) -> SimWork:
        raise NotImplementedError

    def _member(self, group_rank: int) -> int:
        raise NotImplementedError

    def _checked(self, tensors: Any, count: int | None = 1) -> Sequence[Tensor]:
        raise NotImplementedError

    def _collective(
        self,
        kind: str,
        inputs: Sequence[Tensor],
        finish: Callable[[Inputs], None],
        algorithm: Algorithm,
        slot: str = "",
        *,
        root: int | None = None,
        agree: int | None = None,
        alike: Any = None,
        result: Any = None,
    ) -> SimWork:
        """Post this rank's part.

        Gloo carries out ``algorithm``, whose messages meet those of the same ``slot``. What only
        NCCL does is not looked into: there ``finish`` makes the result of what all put in, of
        which ``agree`` elements must be alike. It is also quicker, and the same where all ranks
        have ``alike`` alike.
        """
        self._checked(inputs, None)
        size = sum(tensor.numel() for tensor in inputs) if agree is None else agree
        tags = len(inputs) if kind.startswith("reduce_scatter") else 1
        alike = None if alike is None else (kind, alike)
        part = Part(list(inputs), finish, size, slot or kind, algorithm, alike, tags)
        if not self.simulation.is_gloo:
            part.keep()
        request = Request(
            self.members[self._rank], kind, self.key, self.members,
            size=sum(tensor.numel() * tensor.element_size() for tensor in inputs),
            root=None if root is None else self._member(root),
            payload=part,
        )  # fmt: skip
        return self._post(request, result)

    def _all(self, given: Inputs, place: int = 0) -> list[Tensor]:
        """Return every rank's tensor, in group order."""
        return [given[member][place] for member in self.members]

    def broadcast(self, tensors: Sequence[Tensor], opts: Any = _OPTIONS) -> SimWork:
        """Give every rank the root's tensor."""
        root, (tensor,) = _root(opts), self._checked(tensors)
        checks.root("broadcast", root, self._size)

        def finish(given: Inputs) -> None:
            if self._rank != root:
                put(tensor, given[self.members[root]][0])

        run = parts.broadcast(tensor, root)
        return self._collective("broadcast", [tensor], finish, run, root=root, result=[tensor])

    def allreduce(self, tensors: Sequence[Tensor], opts: Any = _OPTIONS) -> SimWork:
        """Give every rank the reduction over all."""
        (tensor,) = self._checked(tensors)
        return self._allreduce("all_reduce", [tensor], opts)

    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: Any = _OPTIONS) -> SimWork:
        """Reduce several tensors at once."""
        return self._allreduce("all_reduce_coalesced", list(tensors), opts)

    def _allreduce(self, kind: str, tensors: list[Tensor], opts: Any) -> SimWork:
        def finish(given: Inputs) -> None:
            for place, tensor in enumerate(tensors):
                if place not in given.results:
                    given.results[place] = reduced(self._all(given, place), _op(opts))
                put(tensor, given.results[place])

        run, alike = (
            parts.all_reduce(tensors, _op(opts)),
            checks.alike_if_simple(tensors, _op(opts)),
        )
        return self._collective(
            kind, tensors, finish, run, "all_reduce", alike=alike, result=tensors
        )

    def reduce(self, tensors: Sequence[Tensor], opts: Any = _OPTIONS) -> SimWork:
        """Give the root the reduction over all."""
        root, (tensor,) = _root(opts), self._checked(tensors)
        checks.root("reduce", root, self._size)

        def finish(given: Inputs) -> None:
            if self._rank == root:
                put(tensor, reduced(self._all(given), _op(opts)))

        run = parts.reduce(tensor, _op(opts), root)
        return self._collective("reduce", [tensor], finish, run, root=root, result=[tensor])

    def allgather(self, outputs: Any, inputs: Any, opts: Any = _OPTIONS) -> SimWork:
        """Give every rank a list of all tensors."""
        if isinstance(inputs, Tensor):
            return self._gather_lists("all_gather", [outputs], [inputs])
        return self._gather_lists("all_gather", outputs, inputs)

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = _OPTIONS) -> SimWork:
        """Gather several tensors at once; the outputs are lists by rank."""
        by_tensor = [list(column) for column in zip(*outputs, strict=True)]
        return self._gather_lists("all_gather_coalesced", by_tensor, inputs)

    def _gather_lists(
        self, kind: str, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor]
    ) -> SimWork:
        for place, (held, tensor) in enumerate(zip(outputs, inputs, strict=True)):
            checks.gathered(held, tensor, self._size, place)

        def finish(given: Inputs) -> None:
            for place, held in enumerate(outputs):
                for target, source in zip(held, self._all(given, place), strict=True):
                    put(target, source)

        run, lists = parts.all_gather(outputs, inputs), [list(o) for o in outputs]
        result = lists[0] if len(lists) == 1 else lists
        alike = checks.alike_if_simple(inputs)
        return self._collective(kind, inputs, finish, run, "all_gather", alike=alike, result=result)

    def _allgather_base(self, output: Tensor, given: Tensor, opts: Any = _OPTIONS) -> SimWork:
        """Give every rank all tensors, one after another in one."""
        return self._gather_flat("all_gather_into_tensor", [output], [given])

    all_gather_single = _allgather_base

    def allgather_into_tensor_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = _OPTIONS
    ) -> SimWork:
        """Gather several tensors at once, each into one."""
        return self._gather_flat("all_gather_into_tensor_coalesced", outputs, inputs)

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def _gather_flat(
        self, kind: str, outputs: Sequence[Tensor], inputs: Sequence[Tensor]
    ) -> SimWork:
        held = [list(output.chunk(self._size)) for output in outputs]
        for place, (pieces, given) in enumerate(zip(held, inputs, strict=True)):
            checks.gathered(pieces, given, self._size, place)

        def finish(given: Inputs) -> None:
            for place, output in enumerate(outputs):
                put(output, torch.cat([t.reshape(-1) for t in self._all(given, place)]))

        run, result = parts.all_gather(held, inputs), held[0] if len(held) == 1 else held
        alike = checks.alike_if_simple(inputs)
        return self._collective(kind, inputs, finish, run, "all_gather", alike=alike, result=result)

    def gather(self, outputs: Any, inputs: Any, opts: Any = _OPTIONS) -> SimWork:
        """Give the root a list of all tensors."""
        root, (tensor,) = _root(opts), self._checked(inputs)
        lists = [outputs] if isinstance(inputs, Tensor) else list(outputs)
        checks.root("gather", root, self._size)
        if self._rank == root:
            checks.gather_list(lists, tensor, self._size)
        elif lists:
            raise checks.refuse("gather", "requires empty output on non-root")
        held = lists[0] if lists else []

        def finish(given: Inputs) -> None:
            if self._rank == root:
                for target, source in zip(held, self._all(given), strict=True):
                    put(target, source)

        run = parts.gather(held, tensor, root)
        return self._collective("gather", [tensor], finish, run, root=root, result=list(held))

    def scatter(self, outputs: Any, inputs: Any, opts: Any = _OPTIONS) -> SimWork:
        """Give each rank its tensor of the root's list."""
        root, (target,) = _root(opts), self._checked(outputs)
        me = self._rank
        lists = [inputs] if isinstance(outputs, Tensor) else list(inputs)
        checks.root("scatter", root, self._size)
        if me == root:
            checks.scatter_list(lists, target, self._size)
        elif lists:
            raise checks.refuse("scatter", "requires empty input on non-root")

        def finish(given: Inputs) -> None:
            put(target, given[self.members[root]][me])

        held = list(lists[0]) if me == root else []
        run = parts.scatter(target, held, root)
        return self._collective(
            "scatter", held, finish, run, root=root, agree=target.numel(), result=[target]
        )

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = _OPTIONS) -> SimWork:
        """Reduce lists of tensors, and give each rank its own of the result."""
        (target,), me = self._checked(outputs), self._rank

        def finish(given: Inputs) -> None:
            put(target, reduced(self._all(given, me), _op(opts)))

        given = list(inputs if isinstance(outputs, Tensor) else inputs[0])
        checks.reduce_scatter_list(target, given, self._size)
        run = parts.reduce_scatter(target, given, _op(opts))
        result = self._bare(outputs)
        return self._collective("reduce_scatter", given, finish, run, "all_reduce", result=result)

    def _reduce_scatter_base(self, output: Tensor, given: Tensor, opts: Any = _OPTIONS) -> SimWork:
        """Reduce one tensor, and give each rank its part of it."""
        return self._scatter_flat("reduce_scatter_tensor", [output], [given], opts)

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = _OPTIONS
    ) -> SimWork:
        """Reduce several tensors at once."""
        return self._scatter_flat("reduce_scatter_tensor_coalesced", outputs, inputs, opts)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def _scatter_flat(
        self, kind: str, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any
    ) -> SimWork:
        for output, given in zip(outputs, inputs, strict=True):
            checks.reduce_scattered(output, given, self._size)
        me = self._rank

        def finish(given: Inputs) -> None:
            for place, output in enumerate(outputs):
                whole = reduced(self._all(given, place), _op(opts)).reshape(-1)
                put(output, whole[me * output.numel() : (me + 1) * output.numel()])

        run = parts.reduce_scatter_tensors(outputs, inputs, _op(opts))
        return self._collective(kind, inputs, finish, run, "all_reduce", result=self._bare(outputs))

    def alltoall(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = _OPTIONS
    ) -> SimWork:
        """Give each rank one tensor of each."""
        me = self._rank
        checks.all_to_all_lists(outputs, inputs, self._size)

        def finish(given: Inputs) -> None:
            for target, member in zip(outputs, self.members, strict=True):
                put(target, given[member][me])

        run, result = parts.all_to_all(outputs, inputs), list(outputs)
        return self._collective("all_to_all", inputs, finish, run, agree=0, result=result)

    def alltoall_base(
        self,
        output: Tensor,
        given: Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: Any = _OPTIONS,
    ) -> SimWork:
        """Give each rank a part of one tensor of each."""
        me = self._rank
        if not (output.is_contiguous() and given.is_contiguous()):
            raise ValueError("Tensors must be contiguous")
        run = parts.all_to_all_single(output, given, output_splits, input_splits)
        pieces: list[Tensor] = [given]
        if not self.simulation.is_gloo:
            rows = list(input_splits) or [given.size(0) // self._size] * self._size
            pieces = [piece.contiguous() for piece in given.detach().split(rows)]

        def finish(all_given: Inputs) -> None:
            came = torch.cat([all_given[member][me].reshape(-1) for member in self.members])
            put(output, came)

        agree = 0 if output_splits or input_splits else given.numel()
        return self._collective(
            "all_to_all_single", pieces, finish, run, agree=agree, result=[output]
        )

    all_to_all_single = alltoall_base

    def _bare(self, outputs: Any) -> Any:
        """Return the result of a collective whose handle, on gloo, can only be waited for."""
        return BARE if self.simulation.is_gloo else outputs

    def barrier(self, opts: Any = _OPTIONS) -> SimWork:
        """Return when all ranks have come."""
        return self._collective(
            "barrier", [], _nothing, parts.barrier, agree=0, alike="barrier", result=[]
        )

    def monitored_barrier(
        self, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        """Wait for all ranks; RuntimeError naming one that did not come in time."""
        limit = self.timeout if timeout is None else timeout
        if self.simulation.is_gloo:
            monitored.barrier(self, limit, wait_all_ranks)
        else:
            self._collective("monitored_barrier", [], _nothing, parts.barrier, agree=0).wait()


def _root(options: Any) -> int:
    """Return the root's group rank: of torch's options, or given by itself."""
    return int(getattr(options, "rootRank", options))


def _op(options: Any) -> Any:
    """Return the reduce operation: of torch's options, or given by itself; a sum by default."""
    return ReduceOp.SUM if options is None else getattr(options, "reduceOp", options)


def _nothing(given: Inputs) -> None:
    """A barrier moves no data."""

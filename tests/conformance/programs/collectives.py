"""Collectives that finish: each of them, in every form and with every kind of tensor."""

# mypy: ignore-errors

import time

import torch
import torch.distributed as dist

from tests.conformance.rows import attempt, row

OPS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
TYPES = (
    "float64", "float32", "float16", "bfloat16", "complex64", "uint8", "int8", "int16", "int32",
    "int64", "bool", "float8_e4m3fn",
)  # fmt: skip


def numbers(rank, count=7, dtype=torch.float32):
    """Such whose sum depends on the order."""
    generator = torch.Generator().manual_seed(rank)
    return (torch.randn(count, generator=generator) * 10 ** (rank % 3)).to(dtype)


@row(2)
def every_reduction_of_every_type(rank, world_size):
    out = {}
    for name in TYPES:
        for op in OPS:
            tensor = torch.tensor([rank + 1, 3, 2 * rank, 5]).to(getattr(torch, name))
            said = attempt(dist.all_reduce, tensor, op=getattr(dist.ReduceOp, op))
            out[name, op] = said, tensor.view(torch.uint8).tolist()
    return out


@row(3)
def sums_of_every_type_on_three(rank, world_size):
    out = {}
    for name in ("float64", "float32", "float16", "bfloat16", "int32"):
        for op in ("SUM", "PRODUCT", "MIN", "MAX", "AVG"):
            tensor = numbers(rank, 11, getattr(torch, name))
            said = attempt(dist.all_reduce, tensor, op=getattr(dist.ReduceOp, op))
            out[name, op] = said, tensor
    return out


@row(2)
def averages_that_end_before_the_wait(rank, world_size):
    """gloo divides them at the end by an operator, which is no write of the program's."""
    out = []
    for name in ("float64", "float16", "complex64"):
        for collective in (dist.all_reduce, lambda t, **more: dist.reduce(t, 0, **more)):
            tensor = numbers(rank, 5, torch.float64).to(getattr(torch, name))
            work = collective(tensor, op=dist.ReduceOp.AVG, async_op=True)
            time.sleep(0.03)
            work.wait()
            out.append(tensor if collective is dist.all_reduce or rank == 0 else None)
    return out


@row(3)
def what_is_no_number(rank, world_size):
    nan, inf = float("nan"), float("inf")
    values = ([nan, 1, inf, -0.0, 2], [1, nan, -inf, 0.0, nan], [nan, nan, 1, 0.0, 1])[rank]
    out = []
    for op in ("MIN", "MAX", "SUM"):
        tensor = torch.tensor(values)
        dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op))
        out.append(tensor)
    return out


@row(4)
def sums_of_every_size_on_four(rank, world_size):
    out = []
    for count in (0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 100, 1001):
        tensor = numbers(rank, count)
        dist.all_reduce(tensor)
        out.append(tensor)
    return out


@row(3)
def a_large_sum(rank, world_size):
    tensor = numbers(rank, 300_000)
    dist.all_reduce(tensor)
    return tensor


@row(4)
def reductions_onto_each_rank(rank, world_size):
    """What the others are left with is gloo's scratch, and the same here."""
    out = []
    for root in range(world_size):
        for op in ("SUM", "MAX", "AVG"):
            tensor = numbers(rank, 9)
            dist.reduce(tensor, root, op=getattr(dist.ReduceOp, op))
            out.append(tensor)
    return out


@row(4)
def broadcasts_from_each_rank(rank, world_size):
    out = []
    for root in range(world_size):
        tensor = numbers(rank)
        dist.broadcast(tensor, root)
        out.append(tensor)
    return out


@row(3)
def gathers(rank, world_size):
    out = []
    for root in range(world_size):
        held = [torch.zeros(7) for _ in range(world_size)] if rank == root else None
        dist.gather(numbers(rank), held, root)
        out.append(held)
    every = [torch.zeros(7) for _ in range(world_size)]
    dist.all_gather(every, numbers(rank))
    flat = torch.zeros(7 * world_size)
    dist.all_gather_into_tensor(flat, numbers(rank))
    return out, every, flat


@row(3)
def scatters(rank, world_size):
    out = []
    for root in range(world_size):
        held = [numbers(10 * root + k) for k in range(world_size)] if rank == root else None
        tensor = torch.zeros(7)
        dist.scatter(tensor, held, root)
        out.append(tensor)
    given = [numbers(10 * rank + k) for k in range(world_size)]
    tensor, flat = torch.zeros(7), torch.zeros(7)
    dist.reduce_scatter(tensor, [t.clone() for t in given])
    dist.reduce_scatter_tensor(flat, torch.cat(given))
    average = torch.zeros(7)
    dist.reduce_scatter_tensor(average, torch.cat(given), op=dist.ReduceOp.AVG)
    return out, tensor, flat, average, given


@row(3)
def all_to_alls(rank, world_size):
    one = [torch.zeros(4) for _ in range(world_size)]
    dist.all_to_all(one, [torch.full((4,), 10.0 * rank + k) for k in range(world_size)])
    flat = torch.zeros(2 * world_size, 2)
    dist.all_to_all_single(flat, torch.arange(4.0 * world_size).reshape(-1, 2) + 100 * rank)
    # rank r sends r + 1 rows to everybody
    given = torch.arange(3.0 * (rank + 1)) + 100 * rank
    uneven = torch.zeros(6)
    dist.all_to_all_single(uneven, given, [1, 2, 3], [rank + 1] * 3)
    return one, flat, uneven


@row(2)
def rows_that_do_not_divide(rank, world_size):
    tensor = torch.zeros(3)
    dist.all_to_all_single(tensor, torch.arange(3.0) + 10 * rank)
    return tensor


@row(3)
def shapes_of_the_flat_forms(rank, world_size):
    """Which shapes gloo takes for the whole, and which it refuses."""
    ones, zeros, n = torch.ones, torch.zeros, world_size
    out = {}
    for whole, part in (((n * 2,), (2,)), ((n, 2), (2,)), ((n * 2, 3), (2, 3)), ((n * 6,), (2, 3)),
                        ((n,), ()), ((0,), (0,)), ((n * 2, 3), (3, 2))):  # fmt: skip
        out["gather", whole, part] = attempt(dist.all_gather_into_tensor, zeros(whole), ones(part))
        if part:
            out["scatter", whole, part] = attempt(
                dist.reduce_scatter_tensor, zeros(part), ones(whole)
            )
    return out


@row(3)
def scalars_and_empty_ones(rank, world_size):
    out = []
    for shape in ((), (0,), (2, 0), (1, 1)):
        tensor = torch.full(shape, float(rank + 1))
        dist.all_reduce(tensor)
        dist.broadcast(tensor, 1)
        dist.reduce(tensor, 0)
        every = [torch.zeros(shape) for _ in range(world_size)]
        dist.all_gather(every, tensor)
        part = torch.zeros(shape)
        dist.reduce_scatter(part, every)
        out.append((tensor, every, part))
    return out


@row(2)
def of_every_type(rank, world_size):
    """What each collective says of a type; the refusals come before anything is sent."""
    out = {}
    for name in TYPES:
        dtype = getattr(torch, name)

        def make(count=2, dtype=dtype):
            return torch.full((count,), rank + 1).to(dtype)

        many = [make() for _ in range(world_size)]
        at_root = many if rank == 0 else None
        long = make(2 * world_size)
        calls = {
            "broadcast": lambda x: dist.broadcast(x, 1),
            "reduce": lambda x: dist.reduce(x, 0),
            "all_gather": lambda x, m=many: dist.all_gather(m, x),
            "into": lambda x, y=long: dist.all_gather_into_tensor(y, x),
            "gather": lambda x, m=at_root: dist.gather(x, m, 0),
            "scatter": lambda x, m=at_root: dist.scatter(x, m, 0),
            "reduce_scatter": lambda x, m=many: dist.reduce_scatter(x, m),
            "scatter_tensor": lambda x, y=long: dist.reduce_scatter_tensor(x, y),
            "all_to_all": lambda x, m=many: dist.all_to_all(m, [x, x]),
            "single": lambda x, y=long: dist.all_to_all_single(y, y.clone()),
        }
        for which, call in calls.items():
            tensor = make()
            said = attempt(call, tensor)
            out[name, which] = said, tensor.view(torch.uint8).tolist()
    return out


@row(2)
def several_at_once(rank, world_size):
    pair = [torch.full((2,), rank + 1.0), torch.full((3,), rank + 2.0)]
    dist.all_reduce_coalesced(pair)
    lists = [[torch.zeros(2), torch.zeros(3)] for _ in range(world_size)]
    dist.all_gather_coalesced(lists, pair)
    with dist._coalescing_manager():
        one, two = torch.ones(2), torch.full((3,), float(rank))
        dist.all_reduce(one)
        dist.all_reduce(two)
    return pair, lists, one, two


@row(3)
def objects(rank, world_size):
    every, at_root, taken = [None] * world_size, [None] * world_size, [None]
    dist.all_gather_object(every, {"rank": rank, "text": "x" * rank})
    dist.gather_object((rank, rank), at_root if rank == 2 else None, dst=2)
    named = [rank, f"from {rank}"]
    dist.broadcast_object_list(named, 1)
    dist.scatter_object_list(taken, [f"for {k}" for k in range(3)] if rank == 0 else None, src=0)
    return every, at_root, named, taken


@row(3)
def waited_for_in_another_order(rank, world_size):
    tensors = [numbers(rank + k) for k in range(4)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for k in (2, 0, 3, 1):
        works[k].wait()
    return tensors, [work.is_completed() for work in works]


@row(2)
def handles_and_futures(rank, world_size):
    """What each handle says of itself once it was waited for."""
    two, out = world_size, []
    zeros = [torch.zeros(2) for _ in range(two)]
    ones = [torch.ones(2) for _ in range(two)]
    at_root = ones if rank == 0 else None
    for make in (
        lambda: dist.all_reduce(torch.ones(2), async_op=True),
        lambda: dist.broadcast(torch.ones(2), 0, async_op=True),
        lambda: dist.reduce(torch.ones(2), 0, async_op=True),
        lambda: dist.all_gather(zeros, torch.ones(2), async_op=True),
        lambda: dist.all_gather_into_tensor(torch.zeros(4), torch.ones(2), async_op=True),
        lambda: dist.gather(torch.ones(2), zeros if rank == 0 else None, 0, async_op=True),
        lambda: dist.scatter(torch.zeros(2), at_root, 0, async_op=True),
        lambda: dist.reduce_scatter(torch.zeros(2), ones, async_op=True),
        lambda: dist.reduce_scatter_tensor(torch.zeros(2), torch.ones(4), async_op=True),
        lambda: dist.all_to_all(zeros, ones, async_op=True),
        lambda: dist.all_to_all_single(torch.zeros(4), torch.ones(4), async_op=True),
        lambda: dist.barrier(async_op=True),
    ):
        work = make()
        said = [work.wait(), work.is_completed(), work.is_success(), work.exception()]
        out.append((said, attempt(work.result), attempt(lambda w=work: w.get_future().wait())))
    work = dist.isend(torch.ones(1), 1) if rank == 0 else dist.irecv(torch.zeros(1), 0)
    said = [work.wait(), work.is_completed(), work.is_success(), work.exception()]
    out.append((said, attempt(work.result), attempt(work.get_future)))
    return out


@row(2)
def chained_futures(rank, world_size):
    tensor = torch.full((2,), rank + 1.0)
    future = dist.all_reduce(tensor, async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2)
    return doubled.wait(), future.done(), tensor


@row(2)
def polled_until_completed(rank, world_size):
    if rank == 1:
        time.sleep(0.05)
    work = dist.all_reduce(torch.ones(2), async_op=True)
    while not work.is_completed():
        time.sleep(0.002)
    work.wait()


@row(2)
def not_completed_before_the_others_come(rank, world_size):
    work = dist.all_reduce(torch.ones(2), async_op=True) if rank == 0 else None
    before = [work.is_completed() for _ in range(3)] if work else None
    group_wide = dist.new_group([0, 1])
    if work is None:
        dist.all_reduce(torch.ones(2))
    else:
        work.wait()
    dist.barrier(group=group_wide)
    return before


@row(4)
def a_rooted_collective_that_some_leave_early(rank, world_size):
    """A gather ends on the others when the root has come, whoever else is missing."""
    held = [torch.zeros(1) for _ in range(4)] if rank == 0 else None
    if rank == 3:
        dist.recv(torch.zeros(1), 1, tag=5)
    dist.gather(torch.full((1,), float(rank)), held, 0)
    if rank == 1:
        dist.send(torch.ones(1), 3, tag=5)
    return held


@row(3)
def barriers(rank, world_size):
    for _ in range(3):
        dist.barrier()
    work = dist.all_reduce(torch.ones(2), async_op=True)
    dist.barrier()
    done = work.is_completed()
    work.wait()
    dist.monitored_barrier()
    dist.monitored_barrier(wait_all_ranks=True)
    return done


@row(2)
def of_functions_that_meet_though_named_otherwise(rank, world_size):
    """gloo carries both out by the same messages; the finding is the same, and the values."""
    flat, many = torch.zeros(4), [torch.zeros(2) for _ in range(2)]
    if rank == 0:
        dist.all_gather_into_tensor(flat, torch.ones(2))
    else:
        dist.all_gather(many, torch.full((2,), 2.0))
    return flat, many


@row(2)
def dropped_and_never_waited_for(rank, world_size):
    tensor = torch.ones(2)
    dist.all_reduce(tensor, async_op=True)
    dist.barrier()
    return tensor

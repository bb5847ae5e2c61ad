"""Programs that are right, and use much of ``torch.distributed``."""

# mypy: ignore-errors

import _thread
import datetime
import threading
import time

import torch
import torch.distributed as dist


def everything(rank, world_size):
    """Three ranks: messages, batches, groups, collectives, objects."""
    after, before = (rank + 1) % world_size, (rank - 1) % world_size
    tensor = torch.full((3,), float(rank))
    buffer = torch.empty(3)
    group = dist.new_group([1, 2])
    if rank:
        dist.all_reduce(tensor.clone(), group=group)
    objects = [None] * world_size
    dist.all_gather_object(objects, {"rank": rank})
    named = [{"from": rank}]
    dist.broadcast_object_list(named, 1)
    work = dist.isend(tensor, after)
    dist.recv(buffer, before)
    work.wait()
    batch = [dist.P2POp(dist.isend, tensor, after), dist.P2POp(dist.irecv, buffer, before)]
    for each in dist.batch_isend_irecv(batch):
        each.wait()
    pending = dist.all_reduce(tensor.clone(), async_op=True)
    dist.barrier()
    pending.wait()
    dist.monitored_barrier()
    return objects, named, buffer.tolist()


def waits_for_collectives_after_they_have_ended(rank, world_size):
    """What a backend itself does to the tensors, meanwhile, is no use of them by the program."""

    def many(count=4):
        return [torch.ones(count) for _ in range(world_size)]

    def one(count=4):
        return torch.ones(count)

    whole, lists = 4 * world_size, many()
    calls = [
        lambda: dist.all_reduce(one(), async_op=True),
        lambda: dist.broadcast(one(), 0, async_op=True),
        lambda: dist.reduce(one(), 0, async_op=True),
        lambda: dist.all_gather(many(), one(), async_op=True),
        lambda: dist.all_gather_into_tensor(one(whole), one(), async_op=True),
        lambda: dist.gather(one(), many() if rank == 0 else None, 0, async_op=True),
        lambda: dist.scatter(one(), many() if rank == 0 else None, 0, async_op=True),
        lambda: dist.all_to_all(many(), lists, async_op=True),
        lambda: dist.all_to_all_single(one(whole), one(whole), async_op=True),
        lambda: dist.reduce_scatter(one(), many(), async_op=True),
        lambda: dist.reduce_scatter_tensor(one(), one(whole), async_op=True),
    ]
    for call in calls:
        work = call()
        time.sleep(0.01)
        work.wait()


def waits_in_another_order(rank, world_size):
    tensors = [torch.full((2,), float(tag)) for tag in range(4)]
    if rank == 0:
        works = [dist.isend(tensor, 1, tag=tag) for tag, tensor in enumerate(tensors)]
    else:
        works = [dist.irecv(tensor, 0, tag=tag) for tag, tensor in reversed([*enumerate(tensors)])]
    for work in reversed(works):
        work.wait()


def flat_into_shaped(rank, world_size):
    if rank == 0:
        dist.send(torch.ones(8), 1)
    else:
        dist.recv(torch.ones(2, 4), 0)


def leader_and_followers(rank, world_size):
    for _ in range(2):
        if rank == 0:
            dist.barrier()  # leader
        else:
            dist.barrier()  # follower


def from_anyone(rank, world_size):
    tensor = torch.ones(3)
    if rank == 0:
        return sorted(dist.recv(tensor) for _ in range(world_size - 1))
    dist.send(tensor, 0)
    return None


def a_thread_sends(rank, world_size):
    """The main thread is blocked on what another thread of its peer sends later."""
    if rank == 0:
        dist.recv(torch.ones(3), 1)
    else:
        late = threading.Thread(target=lambda: (time.sleep(0.3), dist.send(torch.ones(3), 0)))
        late.start()
        dist.recv(torch.ones(3), 0, tag=1) if world_size > 2 else late.join()


def both_threads_of_each(rank, world_size):
    """The main threads wait for each other's second thread."""
    peer = 1 - rank

    def serve():
        time.sleep(0.3)
        dist.send(torch.ones(3), peer, tag=rank)

    thread = threading.Thread(target=serve)
    thread.start()
    dist.recv(torch.ones(3), peer, tag=peer)
    thread.join()


def polls_until_it_is_there(rank, world_size):
    tensor = torch.ones(3)
    if rank == 0:
        dist.all_reduce(tensor)
    else:
        work = dist.all_reduce(tensor, async_op=True)
        while not work.is_completed():
            time.sleep(0.001)


def takes_the_future(rank, world_size):
    future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
    future.wait()
    dist.barrier()


def waits_with_a_limit(rank, world_size):
    """A wait that gives up by itself is the program's own business."""
    if rank == 0:
        work = dist.irecv(torch.ones(3), 1)
        try:
            work.wait(datetime.timedelta(milliseconds=200))
        except RuntimeError:
            return "gave up"
        return "got it"
    time.sleep(0.6)
    return None


def many_small_messages(rank, world_size):
    tensor, peer = torch.ones(1), 1 - rank
    for _ in range(200):
        if rank == 0:
            dist.send(tensor, peer)
            dist.recv(tensor, peer)
        else:
            dist.recv(tensor, peer)
            dist.send(tensor, peer)


def everyone_counts(rank, world_size):
    tensor = torch.tensor(float(rank))
    dist.all_reduce(tensor)
    return float(tensor)


def makes_its_group_again(rank, world_size):
    dist.destroy_process_group()
    dist.init_process_group("gloo", init_method="env://")
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    return float(tensor)


def a_thread_goes_on_after_the_end(rank, world_size):
    """As in any Python program, a thread that is no daemon ends first."""
    if rank == 0:
        dist.recv(torch.ones(3), 1)
    else:
        late = threading.Thread(target=lambda: (time.sleep(0.3), dist.send(torch.ones(3), 0)))
        late.start()


def sends_one_half_and_changes_the_other(rank, world_size):
    """Two buffers in one storage: a change of the one is none of the other."""
    buffers = torch.zeros(2, 4)
    if rank == 0:
        work = dist.isend(buffers[0], 1)
        buffers[1].add_(2)
        work.wait()
    else:
        work = dist.irecv(buffers[0], 0)
        buffers[1].add_(2)
        work.wait()


def sends_from_a_callback(rank, world_size):
    """A future's callback runs on a thread of the backend's."""
    tensor = torch.ones(1)
    if rank == 0:
        work = dist.all_reduce(torch.ones(1), async_op=True)

        def send(future):
            time.sleep(0.5)
            dist.send(tensor, 1)

        done = work.get_future().then(send)
        dist.recv(torch.empty(1), 1)
        done.wait()
    else:
        dist.all_reduce(torch.ones(1))
        dist.recv(torch.empty(1), 0)
        dist.send(tensor, 0)


def sends_from_a_thread_below_threading(rank, world_size):
    """A thread that the threading module does not know."""
    if rank == 0:

        def send():
            time.sleep(0.5)
            dist.send(torch.ones(1), 1)

        _thread.start_new_thread(send, ())
        dist.recv(torch.empty(1), 1)
    else:
        dist.recv(torch.empty(1), 0)
        dist.send(torch.ones(1), 0)


def lets_a_group_time_out(rank, world_size):
    """A probe: nobody answers in the group made for it, and the program goes on."""
    group = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=0.5))
    if rank == 0:
        try:
            dist.recv(torch.empty(1), 1, group=group)
        except RuntimeError:
            dist.send(torch.ones(1), 1)
    else:
        dist.recv(torch.empty(1), 0)


def makes_a_group_of_its_members_only(rank, world_size):
    """Three ranks, of which two make a group and tell nobody."""
    if rank < 2:
        dist.all_reduce(torch.ones(1), group=dist.new_group([0, 1]))


def joins_with_uneven_batches(rank, world_size):
    """DDP's join: a rank that has ended shadows the collectives that the others issue from C++."""
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Linear(4, 4), find_unused_parameters=True
    )
    with model.join():
        for _ in range(2 + 2 * rank):
            model(torch.ones(2, 4)).sum().backward()


def mixes_functional_collectives(rank, world_size):
    """The same collective, on one rank by an operator that never comes by Python."""
    operators = torch.ops._c10d_functional
    for _ in range(2):
        if rank == 0:
            value = operators.all_reduce(torch.ones(3), "sum", dist.group.WORLD.group_name)
            operators.wait_tensor(value)
        else:
            dist.all_reduce(torch.ones(3))
    dist.barrier()

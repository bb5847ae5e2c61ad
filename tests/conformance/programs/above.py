"""What stands on ``torch.distributed``: meshes, functional collectives, autograd, DDP, FSDP."""

# mypy: ignore-errors

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.conformance.rows import row


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))


def batch(rank):
    generator = torch.Generator().manual_seed(100 + rank)
    return torch.randn(3, 4, generator=generator)


@row(4)
def a_mesh(rank, world_size):
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    tensor = torch.full((2,), rank + 1.0)
    dist.all_reduce(tensor, group=mesh["dp"].get_group())
    dist.broadcast(tensor, group=mesh.get_group("tp"), group_src=1)
    return tensor, mesh.get_coordinate(), mesh.get_local_rank("dp")


@row(2)
def functional_collectives(rank, world_size):
    from torch.distributed import _functional_collectives as funcol

    group, tensor = dist.group.WORLD, torch.full((2,), rank + 1.0)
    total = funcol.all_reduce(tensor, "sum", group)
    every = funcol.all_gather_tensor(tensor, 0, group)
    part = funcol.reduce_scatter_tensor(torch.arange(4.0) + rank, "sum", 0, group)
    there = funcol.broadcast(tensor, 1, group)
    swapped = funcol.all_to_all_single(torch.arange(4.0) + rank, None, None, group)
    return total + 0, every + 0, part + 0, there + 0, swapped + 0


@row(2)
def collectives_of_autograd(rank, world_size):
    from torch.distributed.nn import functional as differentiable

    tensor = torch.full((2,), rank + 1.0, requires_grad=True)
    out = differentiable.all_reduce(tensor * 2)
    gathered = differentiable.all_gather(tensor)
    (out.sum() + (gathered[1 - rank] ** 2).sum()).backward()
    return out, tensor.grad


@row(2)
def hooks_that_communicate(rank, world_size):
    """A pipeline by hand: the backward of one rank receives from the other's."""

    class Pass(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            dist.send(x.detach(), 1)
            return x.sum()

        @staticmethod
        def backward(context, gradient):
            buffer = torch.zeros(3, 4)
            dist.recv(buffer, 1)
            return buffer

    weight = torch.full((3, 4), 2.0, requires_grad=True)
    if rank == 0:
        Pass.apply(weight * batch(0)).backward()
        return weight.grad
    buffer = torch.zeros(3, 4)
    dist.recv(buffer, 0)
    buffer.requires_grad_()
    buffer.register_hook(lambda gradient: dist.send(gradient.contiguous(), 0))
    (buffer**2).sum().backward()
    return buffer.grad


@row(2)
def hooks_that_reduce(rank, world_size):
    net = model()
    for parameter in net.parameters():
        parameter.register_hook(lambda g: (dist.all_reduce(g), g)[1])
    net(batch(rank)).sum().backward()
    return [p.grad for p in net.parameters()]


@row(3)
def data_parallel(rank, world_size):
    net = DistributedDataParallel(model())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    for step in range(2):
        optimizer.zero_grad()
        net(batch(rank + step)).square().mean().backward()
        optimizer.step()
    return [p.detach() for p in net.parameters()]


@row(2)
def data_parallel_without_synchronisation(rank, world_size):
    net = DistributedDataParallel(model())
    with net.no_sync():
        net(batch(rank)).square().mean().backward()
    net(batch(rank + 5)).square().mean().backward()
    return [p.grad for p in net.parameters()]


@row(2)
def fully_sharded(rank, world_size):
    from torch.distributed.fsdp import fully_shard

    net = model()
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    net(batch(rank)).square().mean().backward()
    optimizer.step()
    return [p.to_local() for p in net.parameters()]


@row(2)
def distributed_tensors(rank, world_size):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = dist.init_device_mesh("cpu", (world_size,))
    whole = torch.arange(12.0).reshape(4, 3)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    product = sharded @ distribute_tensor(whole.t().contiguous(), mesh, [Replicate()])
    moved = product.redistribute(mesh, [Shard(1)])
    return product.full_tensor(), moved.to_local(), sharded.sum().full_tensor()


@row(2)
def compiled(rank, world_size):
    net = torch.compile(model(), backend="eager")
    loss = net(batch(rank)).square().mean()
    loss.backward()
    gradients = [copy.deepcopy(p.grad) for p in net.parameters()]
    for gradient in gradients:
        dist.all_reduce(gradient)
    return gradients


@row(2)
def a_pipeline_of_torch(rank, world_size):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    part = model()[:2] if rank == 0 else model()[2:]
    stage = PipelineStage(part, rank, world_size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, 3, loss_fn=lambda out, target: ((out - target) ** 2).mean())
    losses = []
    if rank == 0:
        schedule.step(batch(0))
    else:
        schedule.step(target=torch.zeros(3, 2), losses=losses)
    return [p.grad for p in part.parameters()], losses

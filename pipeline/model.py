"""The seeded monolith, its data, and its losses: what every pipeline has to reproduce."""

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pipeline.optimizers import OPTIMIZERS

M = TypeVar("M", bound=nn.Module)

LEAK = 0.5
KINDS = ("seed", "conditioned")


Targets = Tensor | None
Samples = slice | list[int]


class Whole(Protocol):
    """A model in one process with its batch, for whoever compares a pipeline with it."""

    targets: Tensor
    """Of the batch, samples first."""

    def parameters(self) -> Iterable[nn.Parameter]:
        """Give the parameters stage after stage; one that several stages hold, each time."""
        ...

    def loss_of(self, samples: Samples, targets: Targets = None) -> Tensor:
        """Return the mean loss of some of the batch's samples; ``targets`` replace their own."""
        ...

    def gradient(self, loss: Tensor, weight: Tensor, parameters: Sequence[nn.Parameter]) -> Tensor:
        """Return the gradient of ``weight * loss``, flat, in the order of its ``parameters``."""
        ...

    def copy(self, dtype: torch.dtype) -> "Whole":
        """Copy it in that dtype, its parameters and what it has of floating inputs too."""
        ...

    def floating_inputs(self) -> Sequence[Tensor]:
        """Give the batch's inputs that rounding concerns, to be changed in place."""
        ...

    def take(self, inputs: Any, targets: Tensor) -> None:
        """Have this batch from now on."""
        ...


class Training(Protocol):
    """What ranks train and what is known whole: the seeded workload, or a user's own model."""

    rounds_as_its_dtype: ClassVar[bool]
    """Whether it is known to compute in its dtype and nothing coarser."""

    @property
    def runs_in_float64(self) -> bool:
        """Whether a copy in float64 can be run."""
        ...

    @property
    def batch(self) -> int:
        """Samples of a batch."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """Of its parameters and activations."""
        ...

    @property
    def seed(self) -> int:
        """What all random numbers come from."""
        ...

    def __hash__(self) -> int:
        """It is a value: what is built of it is kept."""
        ...

    def whole(self) -> Whole:
        """Build it in one process, on the CPU."""
        ...

    def data_at(self, step: int) -> "tuple[Any, Tensor] | None":
        """Return a step's own inputs and targets; None where they are the first one's."""
        ...

    def optimizer_for(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Return its optimizer over some of its parameters."""
        ...


@dataclass(frozen=True)
class Workload:
    """A model with its data, decided by these values alone.

    `seed` is the course's workload: PyTorch's default weights, binary targets. Its logits hardly
    differ over the batch, so its loss says little. `conditioned` is scaled so that every
    microbatch moves every parameter. Either has `layers` blocks of Linear and ReLU, and a head.

    The seed's has one batch for all steps, as the course does; `conditioned` has one of its own for
    each, so that what a step keeps of an earlier one's data shows.
    """

    kind: str = "seed"
    layers: int = 16
    width: int = 128
    classes: int = 2
    batch: int = 32
    dtype: torch.dtype = torch.float32
    seed: int = 42
    lr: float = 1e-3
    optimizer: str = "adam"
    rounds_as_its_dtype: ClassVar[bool] = True
    runs_in_float64: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name, known in (("kind", KINDS), ("optimizer", tuple(OPTIMIZERS))):
            if getattr(self, name) not in known:
                given = getattr(self, name)
                raise ValueError(f"unknown {name} {given!r}; known: {', '.join(known)}")
        for name in ("layers", "width", "classes", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1: got {getattr(self, name)}")
        if not self.dtype.is_floating_point:
            raise ValueError(f"dtype must be a floating one: got {self.dtype}")

    @classmethod
    def conditioned(cls, **overrides: Any) -> "Workload":
        """Return the well-conditioned workload at its usual size: float64 and small."""
        usual = cls("conditioned", layers=8, width=16, classes=8, batch=16, dtype=torch.float64)
        return replace(usual, **overrides)

    def whole(self) -> "Monolith":
        """Build the monolith, on the CPU."""
        return Monolith(self)

    def data_at(self, step: int) -> "tuple[Tensor, Tensor] | None":
        """Return a step's own inputs and targets; None where they are the first one's."""
        if not step or self.kind != "conditioned":
            return None
        shape = self.batch, self.width, self.classes
        inputs, targets = _draw_data(*shape, self.seed * 1_000_003 + step)
        return inputs.to(self.dtype, copy=True), targets.clone()

    def optimizer_for(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Return the workload's optimizer over some of its parameters."""
        return OPTIMIZERS[self.optimizer](parameters, lr=self.lr)  # type: ignore[call-arg]


@dataclass(frozen=True)
class Built:
    """A workload's parts: `layers` blocks and the head, and one batch."""

    units: tuple[nn.Module, ...]
    inputs: Tensor
    """(batch, width)."""
    targets: Tensor
    """(batch,), class indices."""


@dataclass(frozen=True)
class Batch:
    """What one rank sees of a batch: inputs on the first stage's, targets on the last's."""

    size: int
    inputs: Any
    """A tensor, or a tuple of them for a user's model that takes several; None elsewhere."""
    targets: Tensor | None


def batch_at(workload: Training, step: int, first: Batch) -> Batch:
    """Return what a rank sees of a step's batch, who saw `first` of the first one."""
    sees_any = first.inputs is not None or first.targets is not None
    data = workload.data_at(step) if sees_any else None
    if data is None:
        return first

    def there(new: Any, old: Any) -> Any:
        if old is None:
            return None
        if isinstance(old, tuple):
            return (*map(there, new, old),)
        return new.to(old.device)

    inputs, targets = data
    return replace(first, inputs=there(inputs, first.inputs), targets=there(targets, first.targets))


ALL, NONE = slice(None), slice(0)
"""Which of a workload's units to build."""


def build(workload: Workload, units: slice = ALL) -> Built:
    """Draw the weights, then inputs, then targets, all from the workload's seed, on the CPU.

    Of the units only those asked for are given, in copies of the caller's own. Values are drawn in
    float32 and cast, so that one seed means one model in every dtype. The caller's random state is
    left as it was, but is used meanwhile: one thread at a time.
    """
    drawn = _draw(replace(workload, lr=1.0, optimizer="sgd"))  # which nothing here depends on
    own = copy_module(nn.Sequential(*drawn.units[units]))
    return Built(tuple(own), drawn.inputs.clone(), drawn.targets.clone())


def copy_module(module: M, copied: dict[nn.Module, nn.Module] | None = None) -> M:
    """Copy a module, parameters and all, many times as fast as `copy.deepcopy` does.

    For such as these here: what it has besides parameters and modules is shared with the copy.
    """
    copied = {} if copied is None else copied
    twin = copied[module] = module.__class__.__new__(module.__class__)
    for name, value in vars(module).items():
        # Tables (of hooks, buffers and so on) are each module's own.
        twin.__dict__[name] = value.copy() if isinstance(value, dict | set) else value
    for name, parameter in module._parameters.items():
        if parameter is not None:
            twin._parameters[name] = nn.Parameter(
                parameter.detach().clone(), parameter.requires_grad
            )
    for name, child in module._modules.items():
        if child is not None:
            twin._modules[name] = copied[child] if child in copied else copy_module(child, copied)
    return twin


@functools.lru_cache(maxsize=2)  # the ranks of a case ask for the same one, and so does its oracle
def _draw(workload: Workload) -> Built:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(workload.seed)
        wide, narrow = workload.width, workload.classes
        conditioned = workload.kind == "conditioned"
        # Not quite ReLU, so that no unit of a narrow model is dead for the whole batch.
        activation = nn.LeakyReLU(LEAK) if conditioned else nn.ReLU()
        units: list[nn.Module] = [
            nn.Sequential(nn.Linear(wide, wide, dtype=torch.float32), activation)
            for _ in range(workload.layers)
        ]
        units.append(nn.Linear(wide, narrow, dtype=torch.float32))
        if conditioned:
            for unit in units:
                _condition(unit)
        if conditioned:
            inputs, targets = _conditioned_data(workload.batch, wide, narrow)
        else:
            inputs = torch.randn(workload.batch, wide, dtype=torch.float32)
            targets = torch.randint(0, narrow, (workload.batch,))
    for unit in units:
        unit.to(workload.dtype)
    return Built(tuple(units), inputs.to(workload.dtype), targets)


def _conditioned_data(
    batch: int, width: int, classes: int, source: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Draw inputs, float32, and targets from a generator, by default torch's own."""
    inputs = torch.randn(batch, width, generator=source, dtype=torch.float32)
    # Spread over the classes, with no period that a microbatch could fall in with.
    return inputs, torch.randperm(batch, generator=source) % classes


@functools.lru_cache(maxsize=8)  # the ranks of a case ask for the same, and so does its oracle
def _draw_data(batch: int, width: int, classes: int, seed: int) -> tuple[Tensor, Tensor]:
    return _conditioned_data(batch, width, classes, torch.Generator().manual_seed(seed))


@torch.no_grad()
def _condition(unit: nn.Module) -> None:
    for linear in unit.modules():
        if isinstance(linear, nn.Linear):
            # Orthogonal, so that no depth makes the samples alike or a gradient vanish.
            nn.init.orthogonal_(linear.weight, nn.init.calculate_gain("leaky_relu", LEAK))
            nn.init.normal_(linear.bias, std=0.2)


def split(layers: int, count: int) -> list[range]:
    """Spread `layers` over `count` stages: all of them, in order, sizes at most one apart.

    The earlier stages get the extra ones, because the last has the head as well.
    """
    if count > layers:
        raise ValueError(f"{layers} layers cannot fill {count} stages: use at most {layers}")
    ends = [0]
    for size in _even(layers, count, "stages"):
        ends.append(ends[-1] + size)
    return [range(start, end) for start, end in pairwise(ends)]


def chunk_sizes(batch: int, chunks: int) -> list[int]:
    """Spread `batch` samples over exactly `chunks` microbatches, sizes at most one apart.

    `torch.chunk` rounds sizes up instead, and may return fewer chunks than it is asked for.
    """
    if chunks > batch:
        raise ValueError(f"{batch} samples cannot fill {chunks} chunks: use at most {batch}")
    return _even(batch, chunks, "chunks")


def _even(total: int, parts: int, name: str) -> list[int]:
    if parts < 1:
        raise ValueError(f"{name} must be at least 1: got {parts}")
    return [total // parts + (part < total % parts) for part in range(parts)]


def loss_weight(loss: Tensor, size: int, batch: int) -> Tensor:
    """Return a microbatch's share of the batch, as what its mean loss is weighted by."""
    return loss.new_tensor(size / batch)


class Monolith(nn.Module):
    """The whole model on one device: the oracle that pipelines are compared with."""

    def __init__(self, workload: Workload, device: torch.device | str = "cpu") -> None:
        super().__init__()
        self.workload = workload
        built = build(workload)
        self.units = nn.Sequential(*built.units).to(device)
        self.inputs = built.inputs.to(device)
        self.targets = built.targets.to(device)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits, (samples, classes)."""
        return self.units(inputs)  # type: ignore[no-any-return]

    def loss_of(self, samples: Samples, targets: Targets = None) -> Tensor:
        """Return the mean loss of some samples; ``targets`` replace their own."""
        own = self.targets[samples] if targets is None else targets
        return F.cross_entropy(self(self.inputs[samples]), own)

    def gradient(self, loss: Tensor, weight: Tensor, parameters: Sequence[nn.Parameter]) -> Tensor:
        """Return the gradient of ``weight * loss`` with respect to the parameters, flat."""
        gradients = torch.autograd.grad(loss, parameters, weight)
        return torch.cat([g.reshape(-1) for g in gradients])

    def copy(self, dtype: torch.dtype) -> "Monolith":
        """Copy it in that dtype; data of the same dtype is shared with the copy."""
        twin = copy_module(self)
        if dtype != self.inputs.dtype:
            twin.to(dtype)
            twin.inputs = self.inputs.to(dtype)
        return twin

    def take(self, inputs: Tensor, targets: Tensor) -> None:
        """Have this batch from now on."""
        self.inputs, self.targets = inputs.to(self.inputs), targets.to(self.targets)

    def floating_inputs(self) -> Sequence[Tensor]:
        """Give the inputs, which no other model shares from now on."""
        self.inputs = self.inputs.clone()
        return (self.inputs,)

    def step(self) -> Tensor:
        """Add the whole batch's gradients to `.grad`, and return its mean loss, detached."""
        loss = F.cross_entropy(self(self.inputs), self.targets)
        loss.backward()
        return loss.detach()

    def step_microbatched(self, order: Sequence[int], sizes: Sequence[int]) -> Tensor:
        """Do the same in microbatches of `sizes`, accumulated in the `order` of their backwards.

        Bitwise equal to a pipeline that does its backwards in this order.
        """
        inputs = self.inputs.split(list(sizes))
        targets = self.targets.split(list(sizes))
        total = torch.zeros((), dtype=self.inputs.dtype, device=self.inputs.device)
        for microbatch in order:
            loss = F.cross_entropy(self(inputs[microbatch]), targets[microbatch])
            weight = loss_weight(loss, sizes[microbatch], len(self.inputs))
            torch.autograd.backward(loss, weight)
            total += loss.detach() * weight
        return total


def train_monolith(
    workload: Workload, steps: int, device: torch.device | str = "cpu"
) -> Iterator[float]:
    """Train on the whole batch, and yield the loss of every step before its update."""
    model = Monolith(workload, device)
    optimizer = workload.optimizer_for(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model.step()
        optimizer.step()
        yield loss.item()

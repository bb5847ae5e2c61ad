"""A user's own model in place of the seeded one: built whole, cut into stages, with its data."""

import contextlib
import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pipeline.model import Samples, split
from pipeline.optimizers import OPTIMIZERS

RAISED_IN = "_raised_in"
"""What an error that left one of the user's functions has the call's text as."""
TRIED = (2, 3)
"""Numbers of samples that a model is run on to see the shapes between its stages."""


class OwnModelError(Exception):
    """What a user's model, data, loss, split or optimizer gave cannot be used; one line."""


@dataclass(frozen=True, eq=False)  # what it has need not be hashable
class Parts:
    """The user's functions; torch is seeded before each call of `model` and of `data`.

    `model()` gives the whole model, which is called with all inputs; of an `nn.Sequential` the
    first module is.
    `data(batch)` gives `(inputs, targets)`: a tensor, or a tuple of tensors for a model that takes
    several, and a tensor; samples first. `loss(output, targets)` is a mean over the samples, 0-d.
    `split(model, stages)` gives as many modules, which one after the other are the model; they
    share its parameters, and one parameter may be on several. `optimizer(parameters)` gives the
    optimizer of some of them.
    """

    model: Callable[[], Any]
    data: Callable[[int], Any]
    loss: Callable[[Any, Tensor], Any] = F.cross_entropy
    split: Callable[[nn.Module, int], Any] | None = None
    optimizer: Callable[[list[nn.Parameter]], Any] | None = None


@dataclass(frozen=True)
class OwnWorkload:
    """A user's model with its data, on so many stages; as `pipeline.model.Training`."""

    parts: Parts
    stages: int
    batch: int
    dtype: torch.dtype
    seed: int
    lr: float
    optimizer: str
    runs_in_float64: bool = True
    rounds_as_its_dtype: ClassVar[bool] = False

    def whole(self) -> "OwnModel":
        """Build the model and its batch on the CPU, floating values cast to the dtype.

        OwnModelError where what the user's functions give cannot be used; what they raise passes
        through. The caller's random state is left as it was.
        """
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            model = _asked("model()", self.parts.model)
        inputs, targets = self._data(0)
        if not isinstance(model, nn.Module):
            raise OwnModelError(f"model() returned {kind_of(model)}; expected an nn.Module")
        model = copy.deepcopy(model).to(self.dtype)  # it may be the same one at every call
        slices = self._split(model)
        several = isinstance(inputs, tuple)
        given = inputs if several else (inputs,)
        return OwnModel(model, slices, given, targets, self.parts.loss, several=several)

    def _split(self, model: nn.Module) -> tuple[nn.Module, ...]:
        count = self.stages
        if self.parts.split is None:
            if count == 1:
                return (model,)
            if not isinstance(model, nn.Sequential):
                raise OwnModelError(
                    f"a {type(model).__name__} is cut into stages by split(model, stages) alone, "
                    "which is missing: only an nn.Sequential is cut without it"
                )
            children = list(model)
            chosen = split(len(children), count)
            return tuple(nn.Sequential(*(children[at] for at in layers)) for layers in chosen)
        found = _asked(f"split(model, {count})", self.parts.split, model, count)
        if not isinstance(found, Iterable):
            raise OwnModelError(f"split(model, {count}) returned {kind_of(found)}; {_MODULES}")
        slices = tuple(found)
        if wrong := [part for part in slices if not isinstance(part, nn.Module)]:
            raise OwnModelError(f"split(model, {count}) gave {kind_of(wrong[0])}; {_MODULES}")
        if len(slices) != count:
            raise OwnModelError(
                f"split(model, {count}) returned {len(slices)} modules; expected {count}, one for "
                "each stage"
            )
        return tuple(part.to(self.dtype) for part in slices)  # what is made anew is told later

    def data_at(self, step: int) -> tuple[Any, Tensor] | None:
        """Return a step's inputs and targets, asked for anew; None for the first one's.

        Drawn from another seed in each step; a function that draws nothing gives the same again.
        """
        return self._data(step) if step else None

    def _data(self, step: int) -> tuple[Any, Tensor]:
        """Ask for a batch, and cast it, in memory of its own; OwnModelError where it is none."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed + 1 + step)
            found = _asked(f"data({self.batch})", self.parts.data, self.batch)
        inputs, targets = checked_data(found, self.batch)

        def own(given: Any) -> Any:
            several = isinstance(given, tuple)
            return (*map(own, given),) if several else cast(given, self.dtype).clone()

        return own(inputs), own(targets)

    def optimizer_for(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Return the user's optimizer over some of the parameters, else the case's."""
        given = list(parameters)
        if self.parts.optimizer is None:
            return OPTIMIZERS[self.optimizer](given, lr=self.lr)  # type: ignore[call-arg]
        found = _asked("optimizer(parameters)", self.parts.optimizer, given)
        if not isinstance(found, torch.optim.Optimizer):
            raise OwnModelError(
                f"optimizer(parameters) returned {kind_of(found)}; expected a torch.optim.Optimizer"
            )
        return found


_MODULES = "expected a list of nn.Modules"


class OwnModel:
    """A user's model in one process with its batch; as `pipeline.model.Whole`."""

    def __init__(
        self,
        model: nn.Module,
        slices: Sequence[nn.Module],
        inputs: tuple[Tensor, ...],
        targets: Tensor,
        loss: Callable[[Any, Tensor], Any],
        *,
        several: bool,
    ) -> None:
        self.model = model
        self.slices = tuple(slices)
        self.inputs = inputs
        self.targets = targets
        self.several = several
        """Whether the data has its inputs as a tuple."""
        self.loss = loss

    def parameters(self) -> list[nn.Parameter]:
        """Give the parameters stage after stage; one that several stages hold, each time."""
        return [parameter for part in self.slices for parameter in part.parameters()]

    def output_of(self, samples: Samples) -> Any:
        """Return what the whole model makes of some of the samples."""
        return call(self.model, tuple(tensor[samples] for tensor in self.inputs))

    def loss_of(self, samples: Samples, targets: Tensor | None = None) -> Tensor:
        """Return the whole model's mean loss of some of the samples."""
        output = self.output_of(samples)
        own = self.targets[samples] if targets is None else targets
        return checked_loss(self.loss, output, own)

    def gradient(self, loss: Tensor, weight: Tensor, parameters: Sequence[nn.Parameter]) -> Tensor:
        """Return the gradient of `weight * loss`, flat; zeros for what the loss has nothing of."""
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        found = iter(torch.autograd.grad(loss, trained, weight, allow_unused=True))
        gradients = [next(found) if p.requires_grad else None for p in parameters]
        flat = [
            (torch.zeros_like(p) if g is None else g).reshape(-1)
            for g, p in zip(gradients, parameters, strict=True)
        ]
        return torch.cat(flat)

    def copy(self, dtype: torch.dtype) -> "OwnModel":
        """Copy it in that dtype: what its stages share, the copy's share too."""
        model, slices = copy.deepcopy((self.model, self.slices))
        for module in (model, *slices):
            module.to(dtype)
        inputs = tuple(cast(tensor, dtype) for tensor in self.inputs)
        targets = cast(self.targets, dtype)
        return OwnModel(model, slices, inputs, targets, self.loss, several=self.several)

    def untied(self) -> "OwnModel":
        """Copy it with parameters of each stage's own: what stages share is no longer one."""
        slices = [copy.deepcopy(part) for part in self.slices]
        whole = _Chained(slices)
        return OwnModel(whole, slices, self.inputs, self.targets, self.loss, several=self.several)

    def in_stages(self) -> "OwnModel":
        """Return the same with its stages, one after the other, as the whole model."""
        whole = _Chained(self.slices)
        return OwnModel(
            whole, self.slices, self.inputs, self.targets, self.loss, several=self.several
        )

    def take(self, inputs: Any, targets: Tensor) -> None:
        """Have this batch from now on."""
        self.inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        self.targets = targets

    def floating_inputs(self) -> list[Tensor]:
        """Give the inputs that rounding concerns, which no other model shares from now on."""
        self.inputs = tuple(tensor.clone() for tensor in self.inputs)
        return [tensor for tensor in self.inputs if tensor.is_floating_point()]


def call(module: nn.Module, inputs: tuple[Any, ...]) -> Any:
    """Run a module; of an `nn.Sequential`, the first one is given all inputs."""
    if type(module).forward is not nn.Sequential.forward:
        return module(*inputs)
    for child in module:  # type: ignore[attr-defined]
        inputs = (call(child, inputs),)
    return inputs[0]


class _Chained(nn.Module):
    """Stages one after the other."""

    def __init__(self, slices: Iterable[nn.Module]) -> None:
        super().__init__()
        self.slices = nn.ModuleList(slices)

    def forward(self, *inputs: Tensor) -> Any:
        given: Any = inputs
        for part in self.slices:
            given = (call(part, given),)
        return given[0]


def checked_data(found: Any, batch: int) -> tuple[Any, Tensor]:
    """Return what data(batch) gave, (inputs, targets); OwnModelError where it is not that."""
    given_by = f"data({batch})"
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise OwnModelError(
            f"{given_by} returned {kind_of(found)}; expected (inputs, targets), with a tuple of "
            "inputs for a model that takes several"
        )
    inputs, targets = found
    several = isinstance(inputs, tuple | list)
    given = tuple(inputs) if several else (inputs,)
    named = [(f"input {at}" if several else "inputs", t) for at, t in enumerate(given)]
    for name, tensor in [*named, ("targets", targets)]:
        if not isinstance(tensor, Tensor):
            raise OwnModelError(f"{given_by} gave {kind_of(tensor)} as {name}; expected a tensor")
        if not tensor.dim() or len(tensor) != batch:
            raise OwnModelError(
                f"{given_by} gave {name} of shape {tuple(tensor.shape)}; expected {batch} samples, "
                "in the first dimension"
            )
    if not given:
        raise OwnModelError(f"{given_by} gave no input at all")
    return (given if several else inputs), targets


def _asked(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the user's; what it raises tells by `RAISED_IN` which one it was."""
    try:
        return function(*arguments)
    except Exception as error:
        error.add_note(f"in {what}")
        with contextlib.suppress(AttributeError):
            setattr(error, RAISED_IN, what)
        raise


def checked_loss(loss: Callable[[Any, Tensor], Any], output: Any, targets: Tensor) -> Tensor:
    """Return the user's mean loss; OwnModelError where it is no 0-d tensor."""
    found = _asked("loss(output, targets)", loss, output, targets)
    if not isinstance(found, Tensor) or found.dim():
        raise OwnModelError(
            f"loss(output, targets) returned {kind_of(found)}; expected a 0-d tensor, the mean "
            "over the samples"
        )
    return found


def cast(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a floating tensor in a dtype, any other as it is; with no history."""
    tensor = tensor.detach()
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def kind_of(value: Any) -> str:
    """Name what something is, for a message."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    name = type(value).__name__
    if isinstance(value, tuple | list):
        return f"a {name} of {len(value)}"
    article = "an" if name[:1].lower() in "aeiou" else "a"
    return "None" if value is None else f"{article} {name}"

"""The user's own model beside a step: found by its names, or given from Python; tried once.

``model`` and ``data`` make it one; ``loss``, ``split`` and ``optimizer`` go with them. What they
are called with and give is told in :class:`pipeline.own_model.Parts`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FunctionType
from typing import TYPE_CHECKING, Any

from harness.targets import loading
from harness.targets.signature import TargetError
from harness.targets.target import Target, pickle_by_value

if TYPE_CHECKING:
    from pipeline.own_model import Parts

NEEDED = ("model", "data")
NAMES = (*NEEDED, "loss", "split", "optimizer")
WITHOUT = ("layers", "width", "workload")
"""What a case decides of the seeded model alone."""
SAMPLES, SHARES = 6, (2, 4)
CLOSE = 1e-3  # a mean over the samples is as good as this in any precision


def with_own_model(target: Target, **given: Callable[..., Any] | None) -> Target:
    """Return a target with functions given from Python; TargetError where that cannot be."""
    functions = {name: value for name, value in given.items() if value is not None}
    if not functions:
        return target
    if target.kind != "step":
        raise TargetError(f"{next(iter(functions))}= goes with a step, and {target.text} is none")
    for name, function in functions.items():
        _require_callable(name, function)
    modules = [sys.modules.get(getattr(f, "__module__", None) or "") for f in functions.values()]
    try:
        pickled = pickle_by_value(functions, modules)
    except Exception as error:
        what = " ".join(str(error).split())
        raise TargetError(
            f"{'=, '.join(functions)}= cannot be sent to the ranks ({type(error).__name__}: "
            f"{what}): create what cannot be pickled inside of the functions"
        ) from error
    return replace(target, own_model=pickled)


def load_own_model(target: Target) -> Parts | None:
    """Return the user's functions, on a rank; None where the seeded model is meant.

    Those given from Python come first, then the step's attributes, then what stands beside it in
    its file. TargetError where only one of the two that are needed is given.
    """
    if target.kind != "step":
        return None
    step = target.load_function()
    has = {name: getattr(step, name) for name in NAMES if hasattr(step, name)}
    asked = dict(has) if isinstance(step, FunctionType) else {}  # an object has its own
    if target.own_model is not None:
        asked |= loading.unpickle(target.own_model)
    maybe = target.beside(NAMES) | {n: v for n, v in has.items() if not hasattr(v, "parameters")}
    found = {name: value for name, value in maybe.items() if callable(value)} | asked
    if lacking := [name for name in NEEDED if name not in found]:
        if not asked:
            return None
        raise TargetError(
            f"{target.text}: {next(iter(asked))} without {lacking[0]}; a model of one's own needs "
            "both model and data"
        )
    if target.load_build_stage() is not None:
        raise TargetError(f"{target.text} has a model and a build_stage: give one of them")
    from pipeline.own_model import Parts

    for name in found:
        _require_callable(name, found[name])
    return Parts(**found)


def _require_callable(name: str, value: Any) -> None:
    from torch import nn

    if isinstance(value, nn.Module) and name in NEEDED:
        raise TargetError(
            f"{name} is a module; give a function that returns one, so that it is drawn under the "
            "case's seed"
        )
    if not callable(value):
        raise TargetError(f"{name} is {type(value).__name__}, not a function")


def try_own_model(target: Target) -> tuple[str, ...]:
    """Run the user's model once, on a rank; return what of a case it leaves without a meaning.

    () where the target has none. TargetError, with the user's traceback, where it cannot be used.
    """
    parts = load_own_model(target)
    if parts is None:
        return ()
    from pipeline.own_model import RAISED_IN, OwnModelError

    without = (*WITHOUT, "optimizer") if parts.optimizer else WITHOUT
    try:
        if not _runs_in_float64(parts):  # it may be made for float32 alone
            _try(parts, "float32")
            return (*without, "dtype")
    except TargetError:
        raise
    except OwnModelError as error:
        raise TargetError(f"{target.text}: {error}") from None
    except Exception as error:
        what = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raised_in = getattr(error, RAISED_IN, None)
        which = f"{raised_in} fails" if raised_in else "its model cannot be run"
        trace = loading.user_traceback(error)
        raise TargetError(f"{target.text}: {which}: {what}", trace) from error
    return without


def _runs_in_float64(parts: Parts) -> bool:
    """Try it; False where it raises, which may be for want of another dtype."""
    from pipeline.own_model import OwnModelError

    try:
        _try(parts, "float64")
    except (TargetError, OwnModelError):
        raise
    except Exception:
        return False
    return True


def _try(parts: Parts, precision: str) -> None:
    """Run the whole model; TargetError where it cannot be compared with itself in microbatches."""
    import torch

    from harness.parity.reference import one_thread
    from pipeline.own_model import OwnWorkload

    dtype: torch.dtype = getattr(torch, precision)
    whole = OwnWorkload(replace(parts, split=None), 1, SAMPLES, dtype, 0, 0.1, "sgd")
    with one_thread(), torch.random.fork_rng(devices=[]):
        model = whole.whole()
        everything = slice(0, SAMPLES)
        losses = []
        for seed in (0, 1):
            torch.default_generator.manual_seed(seed)
            losses.append(float(model.copy(dtype).loss_of(everything).detach()))
        small, at = 0.0, 0
        for size in SHARES:
            part = model.copy(dtype).loss_of(slice(at, at + size))
            small, at = small + float(part.detach()) * size / SAMPLES, at + size
        whole.optimizer_for(model.parameters())
    if not math.isfinite(losses[0]):
        raise TargetError(
            f"the model's loss on the data is {losses[0]}, so that nothing can be compared with it"
        )
    if losses[0] != losses[1]:
        raise TargetError(
            "the same model gives another loss at every call, so that nothing can be compared with "
            "it: it draws random numbers in its forward (dropout?); set their rate to 0"
        )
    if abs(losses[0] - small) > CLOSE * max(1.0, abs(small)):
        raise TargetError(
            f"the loss of {SAMPLES} samples is {losses[0]:.6g}, and {small:.6g} as the mean over "
            f"its microbatches of {SHARES[0]} and {SHARES[1]}: let the loss be a mean over the "
            "samples, and the model compute each sample alone (no batch normalisation)"
        )

"""What a wrong gradient is made of, shown by arithmetic.

The observed gradient is solved for, in float64, as a combination of the reference's gradients,
one per microbatch. The residual says whether it is one at all, the columns' conditioning how well
the coefficients are known; whatever is not shown is ``unknown``, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

SLACK = 10.0  # how far beyond rounding a residual may be and still count as nothing
SURE = 0.02  # a coefficient known worse than this names nothing
SHOWN = 8  # coefficients, at most, that a message has


@dataclass(frozen=True, slots=True)
class Claim:
    """A cause, and the arithmetic that shows it."""

    cause: str = "unknown"
    coefficients: tuple[float, ...] = ()
    residual: float = 0.0
    """‖observed − combination‖ over the sum of the columns' norms."""
    note: str = ""
    each: float | None = None
    """How much each microbatch's mean loss counts, where that is the same whatever its size."""

    @property
    def kind(self) -> str:
        """The cause without its numbers."""
        return self.cause.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Fit:
    """A least-squares solution: coefficients, how well each is known, and what is left over."""

    coefficients: Tensor
    uncertainty: Tensor
    residual: float


def fit(observed: Tensor, columns: Tensor, noise: float) -> Fit | None:
    """Solve ``coefficients @ columns ≈ observed``; None when a column says nothing of itself.

    ``columns`` is (n, values), ``noise`` the rounding of one value relative to the sum of the
    columns' norms.
    """
    norms = columns.norm(dim=1)
    total = float(norms.sum())
    if total == 0 or bool((norms <= total * noise).any()) or len(columns) > columns.shape[1]:
        return None
    unit = (columns / norms[:, None]).T
    left, singular, right = torch.linalg.svd(unit, full_matrices=False)
    if float(singular[-1]) <= 1e-13 * float(singular[0]):
        return None
    scaled = right.T @ ((left.T @ observed) / singular)
    spread = (right.T / singular).norm(dim=1)  # of each scaled coefficient, per unit of noise
    left_over = float((observed - unit @ scaled).norm()) / total
    return Fit(scaled / norms, SLACK * noise * total * spread / norms, left_over)


def explain(
    observed: Tensor,
    columns: Tensor,
    noise: float,
    *,
    shares: Sequence[float] = (),
    earlier: Sequence[Tensor] = (),
    permuted: Iterable[Tensor] = (),
) -> Claim:
    """Name the cause of ``observed`` (values,) not being the sum of ``columns`` (n, values).

    ``shares`` are the microbatches' parts of the batch; ``earlier`` the gradients of earlier
    steps, (k, values) each; ``permuted`` what the sum would be with the targets of other
    microbatches. All float64 and finite.
    """
    solved = fit(observed, columns, noise)
    if solved is not None and solved.residual <= SLACK * noise:
        return _named(solved, shares)
    for gradients in earlier:
        claim = _stale(observed, columns, gradients, noise)
        if claim is not None:
            return claim
    size = float(columns.norm(dim=1).sum())
    right = columns.sum(dim=0)
    for candidate in permuted if size else ():  # else no order of targets is told from another
        left_over = float((observed - candidate).norm()) / size
        apart = float((right - candidate).norm()) / size
        if left_over <= SLACK * noise < apart / SLACK:
            return Claim("permuted-targets", residual=left_over)
    return Claim(
        coefficients=() if solved is None else _plain(solved.coefficients),
        residual=float("nan") if solved is None else solved.residual,
    )


def _named(solved: Fit, shares: Sequence[float]) -> Claim:
    """Read a combination that fits; the coefficients must be known well enough to be read."""
    c, u = solved.coefficients, solved.uncertainty
    shown = Claim(coefficients=_plain(c), residual=solved.residual)
    if not bool((u <= SURE).all()):
        return Claim(
            residual=solved.residual,
            note="the microbatches' gradients are too much alike to tell them apart",
        )

    def all_equal(values: Tensor, unsure: Tensor, to: float) -> bool:
        return bool(((values - to).abs() <= unsure.clamp(min=1e-9)).all())

    mean = float(c.mean())
    zero = (c.abs() <= u.clamp(min=1e-9)) & (u < 0.5)
    rest = c[~zero]
    common = float(rest.mean()) if len(rest) else 0.0
    if len(rest) == len(c) and all_equal(c, u, mean) and not all_equal(c, u, 1.0):
        return _with(shown, f"scale:{number(mean, float(u.max()))}")
    twice = (c - 2).abs() <= u.clamp(min=1e-9)
    once = (c - 1).abs() <= u.clamp(min=1e-9)
    if bool(zero.any()) and (
        all_equal(rest, u[~zero], common) or bool((zero | once | twice).all())
    ):
        return _with(shown, f"missing-microbatch:{_places(zero)}")
    if bool((once | twice).all()) and bool(twice.any()):
        return _with(shown, f"duplicate-microbatch:{_places(twice)}")
    if (each := _weighting(c, u, shares)) is not None:
        told = number(each, float(u.max()))
        note = f"each microbatch's mean loss counts {told}, whatever its size"
        return replace(_with(shown, "unknown", note), each=each)
    return _with(shown, "unknown", _counted(c, u))


def _counted(c: Tensor, u: Tensor) -> str:
    """Say how much of each microbatch's gradient there is."""
    if len(c) > SHOWN:
        return ""
    times = [number(float(value), float(unsure)) for value, unsure in zip(c, u, strict=True)]
    return f"it is the microbatches' gradients times {', '.join(times)}, and not 1 each"


def _weighting(c: Tensor, u: Tensor, shares: Sequence[float]) -> float | None:
    """Return what each microbatch counted, where uneven ones were weighted as if they were even."""
    if len(shares) != len(c):
        return None
    part = torch.tensor(shares, dtype=c.dtype)
    weighted = c * part  # how much each microbatch's mean loss counted
    if bool(((weighted - weighted.mean()).abs() <= (u * part).clamp(min=1e-9)).all()):
        return float(weighted.mean())
    return None


def _stale(observed: Tensor, columns: Tensor, gradients: Tensor, noise: float) -> Claim | None:
    """Tell whether something of an earlier step's gradient is in this one."""
    solved = fit(observed, torch.cat([columns, gradients]), noise)
    if solved is None or solved.residual > SLACK * noise:
        return None
    c, u = solved.coefficients, solved.uncertainty
    old, unsure = c[len(columns) :], u[len(columns) :]
    if not bool((u <= SURE).all()) or not bool((old.abs() > unsure.clamp(min=1e-6)).any()):
        return None
    return Claim("stale-accumulation", _plain(c), solved.residual)


def number(value: float, uncertainty: float) -> str:
    """Print a coefficient with no more digits than are known; whole numbers as such."""
    if abs(value - round(value)) <= max(uncertainty, 1e-9):
        return str(round(value))
    return f"{value:.4g}" if uncertainty < 1e-4 else f"{value:.2g}"


def _with(claim: Claim, cause: str, note: str = "") -> Claim:
    return Claim(cause, claim.coefficients, claim.residual, note)


def _plain(values: Tensor) -> tuple[float, ...]:
    return tuple(round(float(value), 6) for value in values)


def _places(chosen: Tensor) -> str:
    return ",".join(str(int(place)) for place in chosen.nonzero().reshape(-1))

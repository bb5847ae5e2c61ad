"""Small pieces of a model with shared or split weights, the same on every rank."""

import torch

FEATURES = 4


def samples(count):
    """Return that many samples, (count, FEATURES); the same on every rank."""
    return torch.arange(count * FEATURES, dtype=torch.float64).reshape(count, FEATURES).sin()


def weights():
    """Return a square weight that requires grad; the same values on every rank."""
    values = torch.arange(FEATURES * FEATURES, dtype=torch.float64).reshape(FEATURES, FEATURES)
    return values.cos().requires_grad_()


def gradient(weight, x):
    """Return the gradient of this model's mean loss over samples."""
    return torch.autograd.grad((x @ weight).square().mean(), weight)[0]


def close(got, expected):
    """Tell whether two results are the same but for rounding."""
    return torch.allclose(got, expected, rtol=1e-10, atol=1e-12)

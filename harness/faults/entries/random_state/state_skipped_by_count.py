"""The random state is skipped by a count of tensors.

Does: To start where the layers before would have ended, each rank draws two numbers for each of
them, one for the weight and one for the bias, and builds its own.

Wrong: An initialisation consumes as many numbers as a tensor has values.

Shows: The second stage's first weight is the model's first one, moved on by two numbers. The loss
starts near the right one, for so does every random model.

Instead: Build the whole seeded model on every rank and keep a slice of it.
"""

import torch
from _built import blocks, gpipe
from torch import nn

LABEL = {
    "class": "random-state",
    "scope": "step",
    "source": "the course; micropp HEAD (rank * (16 // world) * 2 draws)",
    "world": 2,
    "chunks": 1,
    "code": "init-mismatch",
    "ranks": [1],
    "details": {"draws": {"expected": 20, "got": 2}},
    "options": {"cases": 2},
}


def faulty_stage(index, count, layers, width):  # fault
    before = layers * index // count
    for _ in range(before * 2):
        torch.rand(1)  # fault
    model = blocks(layers * (index + 1) // count - before, width)
    head = [nn.Linear(width, 2)] if index == count - 1 else []
    return nn.Sequential(*model, *head)


def faulty(stage, comms, batch, chunks):
    return gpipe(stage, comms, batch, chunks)


faulty.build_stage = faulty_stage


def correct_stage(index, count, layers, width):
    before = layers * index // count
    blocks(before, width)
    model = blocks(layers * (index + 1) // count - before, width)
    head = [nn.Linear(width, 2)] if index == count - 1 else []
    return nn.Sequential(*model, *head)


def correct(stage, comms, batch, chunks):
    return gpipe(stage, comms, batch, chunks)


correct.build_stage = correct_stage

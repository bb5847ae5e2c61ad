"""One rank draws a number more than the others.

Does: Every rank builds the whole seeded model. The last one first draws a number for the name of
its log.

Wrong: From there on its random state is one ahead of the others': its slice is of another model.

Shows: The last stage alone starts wrong; nothing is raised. Logging on one rank only changes the
run.

Instead: Draw what differs between ranks from a generator of its own.
"""

import logging
import random

import torch
from _built import blocks, gpipe
from torch import nn

LABEL = {
    "class": "random-state",
    "scope": "step",
    "source": "usual practice: work that only one rank does",
    "world": 2,
    "chunks": 1,
    "code": "init-mismatch",
    "ranks": [1],
    "details": {"draws": {"expected": 20, "got": 21}},
    "options": {"cases": 2},
}


def faulty_stage(index, count, layers, width):  # fault
    if index > 0 and index == count - 1:
        name = f"run-{torch.rand(1).item():.4f}"  # fault
        logging.debug(name)
    model = [*blocks(layers, width), nn.Linear(width, 2)]
    ends = [layers * place // count for place in range(count)] + [layers + 1]
    return nn.Sequential(*model[ends[index] : ends[index + 1]])


def faulty(stage, comms, batch, chunks):
    return gpipe(stage, comms, batch, chunks)


faulty.build_stage = faulty_stage


def correct_stage(index, count, layers, width):
    if index > 0 and index == count - 1:
        name = f"run-{random.random():.4f}"
        logging.debug(name)
    model = [*blocks(layers, width), nn.Linear(width, 2)]
    ends = [layers * place // count for place in range(count)] + [layers + 1]
    return nn.Sequential(*model[ends[index] : ends[index + 1]])


def correct(stage, comms, batch, chunks):
    return gpipe(stage, comms, batch, chunks)


correct.build_stage = correct_stage

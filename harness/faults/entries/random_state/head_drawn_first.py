"""The head is drawn before the layers.

Does: Every rank builds the whole model and keeps a slice; the head is created first.

Wrong: The order of creation is the order of draws: all layers begin where the head's numbers end.

Shows: All ranks agree with each other, at every number of stages, and none with the model in one
process.

Instead: Create modules in the order in which the model does.
"""

from _built import blocks, gpipe
from torch import nn

LABEL = {
    "class": "random-state",
    "scope": "step",
    "source": "the course (order of draws)",
    "world": 1,
    "chunks": 1,
    "code": "init-mismatch",
    "ranks": [0],
    "options": {"cases": 2},
}


def faulty_stage(index, count, layers, width):  # fault
    head = nn.Linear(width, 2)  # fault
    model = [*blocks(layers, width), head]
    ends = [layers * place // count for place in range(count)] + [layers + 1]
    return nn.Sequential(*model[ends[index] : ends[index + 1]])


def faulty(stage, comms, batch, chunks):
    return gpipe(stage, comms, batch, chunks)


faulty.build_stage = faulty_stage


def correct_stage(index, count, layers, width):
    model = [*blocks(layers, width), nn.Linear(width, 2)]
    ends = [layers * place // count for place in range(count)] + [layers + 1]
    return nn.Sequential(*model[ends[index] : ends[index + 1]])


def correct(stage, comms, batch, chunks):
    return gpipe(stage, comms, batch, chunks)


correct.build_stage = correct_stage

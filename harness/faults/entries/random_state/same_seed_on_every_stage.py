"""Every stage draws its layers from the same seed.

Does: Each rank sets the same seed and builds its own layers only.

Wrong: All stages begin with the same draws: the first layer of each has the values of the model's
first.

Shows: Nothing is raised; the stages start as copies of each other. Right with one stage.

Instead: Build the whole seeded model on every rank and keep a slice of it.
"""

from _built import blocks, gpipe
from torch import nn

LABEL = {
    "class": "random-state",
    "scope": "step",
    "source": "pytorch#139304",
    "world": 2,
    "chunks": 1,
    "code": "init-mismatch",
    "ranks": [1],
    "details": {"drawn_for_layer": 0},
    "options": {"cases": 2},
}


def faulty_stage(index, count, layers, width):  # fault
    mine = layers * (index + 1) // count - layers * index // count
    model = blocks(mine, width)  # fault
    head = [nn.Linear(width, 2)] if index == count - 1 else []
    return nn.Sequential(*model, *head)


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

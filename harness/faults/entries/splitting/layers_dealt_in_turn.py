"""Layers are dealt to the stages in turn.

Does: With two stages the first takes layers 0, 2, 4, the second 1, 3, 5 and the head.

Wrong: A stage runs its layers one after the other: the model becomes 0, 2, 4, 1, 3, 5. Placement in
turn needs a stage for each of them.

Shows: All layers are there, in shapes that fit. With one layer a stage it is right.

Instead: Give each stage consecutive layers; or cut the model into more stages than ranks, and use
an interleaved schedule.
"""

from _built import blocks, gpipe
from torch import nn

LABEL = {
    "class": "splitting",
    "scope": "step",
    "source": "torchtitan#774 (stages in another order than the model's)",
    "world": 2,
    "chunks": 1,
    "code": "init-mismatch",
    "ranks": [0, 1],
    "options": {"cases": 2},
}


def faulty_stage(index, count, layers, width):  # fault
    model = [*blocks(layers, width), nn.Linear(width, 2)]
    head = model[layers:] if index == count - 1 else []
    return nn.Sequential(*model[index:layers:count], *head)  # fault


def faulty(stage, comms, batch, chunks):
    return gpipe(stage, comms, batch, chunks)


faulty.build_stage = faulty_stage


def correct_stage(index, count, layers, width):
    model = [*blocks(layers, width), nn.Linear(width, 2)]
    head = model[layers:] if index == count - 1 else []
    ends = [layers * place // count for place in range(count + 1)]
    return nn.Sequential(*model[ends[index] : ends[index + 1]], *head)


def correct(stage, comms, batch, chunks):
    return gpipe(stage, comms, batch, chunks)


correct.build_stage = correct_stage

"""Layers are lost where the stages do not divide them.

Does: Every stage takes layers // count layers; the last one adds the head.

Wrong: The remainder is on no stage: 3 layers on 2 stages are 2, and the course's 16 on 3 are 15.

Shows: Nothing is raised and the loss falls. A smaller model is trained. Right wherever the stages
divide the layers.

Instead: Spread the remainder over the stages, and count the layers after the split.
"""

from _built import blocks, gpipe
from torch import nn

LABEL = {
    "class": "splitting",
    "scope": "step",
    "source": "the course (16 // 3); micropp HEAD",
    "world": 2,
    "chunks": 1,
    "code": "layer-mismatch",
    "ranks": [0, 1],
    "options": {"cases": 4},
}


def faulty_stage(index, count, layers, width):  # fault
    model = [*blocks(layers, width), nn.Linear(width, 2)]
    share = layers // count
    head = model[layers:] if index == count - 1 else []
    return nn.Sequential(*model[index * share : (index + 1) * share], *head)  # fault


def faulty(stage, comms, batch, chunks):
    return gpipe(stage, comms, batch, chunks)


faulty.build_stage = faulty_stage


def correct_stage(index, count, layers, width):
    model = [*blocks(layers, width), nn.Linear(width, 2)]
    ends = [layers * place // count for place in range(count + 1)]
    head = model[layers:] if index == count - 1 else []
    return nn.Sequential(*model[ends[index] : ends[index + 1]], *head)


def correct(stage, comms, batch, chunks):
    return gpipe(stage, comms, batch, chunks)


correct.build_stage = correct_stage

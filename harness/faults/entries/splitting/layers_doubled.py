"""A layer is on two stages.

Does: Every stage takes its slice of the layers, from its first to its last.

Wrong: The end of the slice is taken to be part of it: each stage but the last holds the next one's
first layer as well.

Shows: Nothing is raised, since all layers have one shape. The model is deeper than it should be,
and two copies of a layer part as they train.

Instead: model[first:end]: the end is excluded already.
"""

from _built import blocks, gpipe
from torch import nn

LABEL = {
    "class": "splitting",
    "scope": "step",
    "source": "the course (manual split of the layers)",
    "world": 2,
    "chunks": 1,
    "code": "layer-mismatch",
    "ranks": [0, 1],
    "options": {"cases": 2},
}


def faulty_stage(index, count, layers, width):  # fault
    model = [*blocks(layers, width), nn.Linear(width, 2)]
    ends = [layers * place // count for place in range(count)] + [layers + 1]
    return nn.Sequential(*model[ends[index] : min(ends[index + 1] + 1, layers + 1)])  # fault


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

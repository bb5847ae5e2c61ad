"""The seed differs from rank to rank.

Does: Each rank adds its number to the seed before it builds the model, of which it keeps a slice.

Wrong: What is right for data or dropout is wrong for parameters: each stage is a slice of another
model.

Shows: Nothing is raised. The run depends on how many stages there are, and agrees with that of one
process on the first stage only.

Instead: One seed for the parameters of all ranks; another one, with the rank in it, for what is
drawn later.
"""

import torch
from _built import blocks, gpipe
from torch import nn

LABEL = {
    "class": "random-state",
    "scope": "step",
    "source": "pytorch#139304, as it is often mended",
    "world": 2,
    "chunks": 1,
    "code": "init-mismatch",
    "ranks": [1],
    "details": {"drawn_with_seed": 1},
    "options": {"cases": 2},
}


def faulty_stage(index, count, layers, width):  # fault
    torch.manual_seed(torch.initial_seed() + index)  # fault
    model = [*blocks(layers, width), nn.Linear(width, 2)]
    ends = [layers * place // count for place in range(count)] + [layers + 1]
    return nn.Sequential(*model[ends[index] : ends[index + 1]])


def faulty(stage, comms, batch, chunks):
    return gpipe(stage, comms, batch, chunks)


faulty.build_stage = faulty_stage


def correct_stage(index, count, layers, width):
    torch.manual_seed(torch.initial_seed())
    model = [*blocks(layers, width), nn.Linear(width, 2)]
    ends = [layers * place // count for place in range(count)] + [layers + 1]
    return nn.Sequential(*model[ends[index] : ends[index + 1]])


def correct(stage, comms, batch, chunks):
    return gpipe(stage, comms, batch, chunks)


correct.build_stage = correct_stage

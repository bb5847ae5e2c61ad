"""A step as Megatron's: 1F1B, the first rank's word embedding tied to the last rank's output layer.

The model and what goes with it stand beside the step; the harness finds them by their names.
"""

import torch
import torch.distributed as dist
from torch import nn

WORDS, LENGTH, WIDTH, LAYERS = 13, 6, 8, 6


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
        self.norm, self.output = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.output.weight = self.embedding.weight  # tied

    def forward(self, tokens):
        return self.output(self.norm(self.layers(self.embedding(tokens))))


def model():
    return Model()


def data(batch):
    tokens = torch.randint(WORDS, (batch, LENGTH))
    return tokens, tokens.roll(-1, dims=1)


def loss(logits, targets):
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def split(whole, stages):
    parts = [[whole.layers[at] for at in own] for own in torch.arange(LAYERS).tensor_split(stages)]
    parts[0].insert(0, whole.embedding)
    parts[-1] += [whole.norm, whole.output]
    return [nn.Sequential(*part) for part in parts]


def all_reduce_embedding_grads(stage, comms):
    """Sum the tied weight's gradient over the embedding group: the first and the last rank."""
    if comms.world_size > 1:
        group = dist.new_group([0, comms.world_size - 1])
        if stage.is_first or stage.is_last:
            dist.all_reduce(stage.module[0 if stage.is_first else -1].weight.grad, group=group)


def exchange(stage, peer, send, shape):
    """Send to and receive from one neighbour at once; return what was received."""
    buffer = None if shape is None else torch.empty(shape, dtype=stage.dtype, device=stage.device)
    pairs = (dist.isend, send), (dist.irecv, buffer)
    operations = [dist.P2POp(kind, tensor, peer) for kind, tensor in pairs if tensor is not None]
    for work in dist.batch_isend_irecv(operations) if operations else []:
        work.wait()
    return buffer


def step(stage, comms, batch, chunks):
    pieces = torch.arange(batch.size).tensor_split(chunks)
    running, total = [], torch.zeros((), dtype=stage.dtype, device=stage.device)
    before, after = comms.previous_rank, comms.next_rank

    def forward(rows, x):
        x = batch.inputs[rows] if stage.is_first else x.requires_grad_()
        y = stage(x, batch.targets[rows]) * (len(rows) / batch.size) if stage.is_last else stage(x)
        running.append((x, y))
        return None if stage.is_last else y.detach()

    def shape(index, ends, of):
        return None if ends or index >= chunks else of(len(pieces[index]))

    warmup = min(chunks, comms.world_size - comms.rank - 1)
    for index in range(warmup):
        x = exchange(stage, before, None, shape(index, stage.is_first, stage.input_shape))
        exchange(stage, after, forward(pieces[index], x), None)
    x = exchange(stage, before, None, shape(warmup, stage.is_first, stage.input_shape))
    for index in range(chunks):
        coming = warmup + index
        y = forward(pieces[coming], x) if coming < chunks else None
        grad = exchange(stage, after, y, shape(index, stage.is_last, stage.output_shape))
        x, y = running.pop(0)
        y.backward(grad)
        total = total + y.detach() if stage.is_last else total
        back = None if stage.is_first else x.grad
        x = exchange(stage, before, back, shape(coming + 1, stage.is_first, stage.input_shape))
    all_reduce_embedding_grads(stage, comms)
    return total if stage.is_last else None

"""A step as DeepSeek's DualPipeV: each rank has a stage on the way down and one on the way up.

The model stands beside the step; the harness finds it by the names model, data and loss. Its first
and its last stage are on rank 0, where they share the tied weight: there is nothing to sum.
"""

import torch
import torch.distributed as dist
from torch import nn

WORDS, LENGTH, WIDTH = 11, 5, 8
WORK, ONWARD = ("F0", "F1", "B0", "B1"), {"F0": "F1", "B1": "B0"}


def model():
    embedding, output = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
    output.weight = embedding.weight  # tied
    blocks = (nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)) for _ in range(10))
    return nn.Sequential(embedding, *blocks, output)


def data(batch):
    tokens = torch.randint(WORDS, (batch, LENGTH))
    return tokens, tokens.roll(-1, dims=1)


def loss(logits, targets):
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class DualPipeV:
    """Runs F0, F1, B0 and B1: phase 0 is the way down. Messages wait for the next batch of them."""

    def __init__(self, stages, comms, batch, chunks):
        self.stages, self.comms, self.batch = stages, comms, batch
        rows = torch.arange(batch.size).tensor_split(chunks)
        self.expected, self.rows = ({w: iter(rows) for w in WORK} for _ in range(2))
        self.arrived, self.result = {w: [] for w in WORK}, {}
        self.running, self.operations = {"0": [], "1": []}, []
        self.chunks, self.total = chunks, torch.zeros((), dtype=stages[0].dtype)

    def peer(self, work, offset):
        peer = self.comms.rank + (offset if work in ("F0", "B1") else -offset)
        return peer if 0 <= peer < self.comms.world_size else None

    def receive(self, work):
        rows, stage = next(self.expected[work], None), self.stages[int(work[1])]
        peer = self.peer(work, -1)
        if peer is not None and rows is not None:
            shape = stage.input_shape if work[0] == "F" else stage.output_shape
            buffer = torch.empty(shape(len(rows)), dtype=stage.dtype, device=stage.device)
            self.operations.append(dist.P2POp(dist.irecv, buffer, peer))
            self.arrived[work].append(buffer)

    def send(self, work):
        tensor, peer = self.result.pop(work), self.peer(work, 1)
        if peer is not None:
            self.operations.append(dist.P2POp(dist.isend, tensor, peer))

    def exchange(self):
        works = dist.batch_isend_irecv(self.operations) if self.operations else []
        self.operations = []
        for work in works:
            work.wait()

    def compute(self, work):
        stage, rows = self.stages[int(work[1])], next(self.rows[work])
        arrived = self.arrived[work].pop(0) if self.arrived[work] else None
        if work[0] == "F":
            x = self.batch.inputs[rows] if stage.is_first else arrived.requires_grad_()
            share = len(rows) / self.batch.size
            y = stage(x, self.batch.targets[rows]) * share if stage.is_last else stage(x)
            self.running[work[1]].append((x, y))
            self.result[work] = y.detach()
        else:
            x, y = self.running[work[1]].pop(0)
            y.backward(arrived)
            self.total += y.detach() if stage.is_last else 0
            self.result[work] = x.grad
        if work in ONWARD and self.comms.next_rank is None:  # the last rank's own other stage
            self.arrived[ONWARD[work]].append(self.result[work])

    def run(self, *works, receive=True, send=True):
        for work in works if receive else ():
            self.receive(work)
        self.exchange()
        for work in works:
            self.compute(work)
        for work in works if send else ():
            self.send(work)

    def step(self):
        rank, world, chunks = self.comms.rank, self.comms.world_size, self.chunks
        is_last = rank == world - 1
        for _ in range((world - rank - 1) * 2):
            self.run("F0")
        self.receive("F0")
        for index in range(rank + 1):
            self.run("F0", receive=False, send=False)
            self.receive("F0")
            self.run("F1", send=not is_last or index < rank)
            self.send("F0")
        for _ in range(world - rank - 1):
            self.run("B1")
            self.receive("F1")
            self.run("F1", receive=False)
        for index in range(chunks - world * 2 + rank + 1):
            if index == 0 and is_last:  # not overlapped, for a smaller bubble
                self.run("F0", receive=False, send=False)
                self.send("F1")
                self.run("B1", send=False)
                self.send("F0")
                self.send("B1")
            elif index == 0:
                self.receive("B1")
                self.run("F0", "B1", receive=False)
            else:
                self.run("F0", "B1")
            self.run("F1", "B0")
        for _ in range(world - rank - 1):
            self.run("B1")
            self.run("F1", "B0")
        for _ in range(rank + 1):
            self.run("B1")
            self.run("B0")
        for _ in range(world - rank - 1):
            self.run("B0")
        self.exchange()
        return self.total if self.stages[1].is_last else None


def step(stages, comms, batch, chunks):
    if chunks < 2 * comms.world_size:
        raise ValueError(f"DualPipeV needs 2 chunks a rank: {chunks} for {comms.world_size} ranks")
    return DualPipeV(stages, comms, batch, chunks).step()


step.placement = "v"

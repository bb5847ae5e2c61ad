import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from pipeline.model import (
    Monolith,
    Workload,
    build,
    chunk_sizes,
    split,
    train_monolith,
)


def test_the_seed_workload_has_the_course_s_losses() -> None:
    losses = list(train_monolith(Workload(), 50))
    assert [f"{losses[step]:.6f}" for step in (0, 45, 49)] == ["0.698788", "0.243551", "0.231414"]


def test_the_seed_workload_is_drawn_as_a_plain_script_would() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(42)
        layers: list[nn.Module] = []
        for _ in range(16):
            layers += [nn.Linear(128, 128), nn.ReLU()]
        model = nn.Sequential(*layers, nn.Linear(128, 2))
        inputs, targets = torch.randn(32, 128), torch.randint(0, 2, (32,))
    monolith = Monolith(Workload())
    pairs = zip(model.parameters(), monolith.parameters(), strict=True)
    assert all(torch.equal(theirs, ours) for theirs, ours in pairs)
    assert torch.equal(inputs, monolith.inputs)
    assert torch.equal(targets, monolith.targets)


def test_building_leaves_the_caller_s_random_state_alone() -> None:
    before = torch.get_rng_state()
    build(Workload())
    assert torch.equal(before, torch.get_rng_state())


def test_one_seed_is_one_model_in_every_dtype() -> None:
    single, double = (build(Workload(dtype=d)) for d in (torch.float32, torch.float64))
    assert torch.equal(single.inputs.double(), double.inputs)


def gradients(model: Monolith) -> list[Tensor]:
    """Return each unit's gradient as one vector."""
    return [
        torch.cat([p.grad.flatten() for p in unit.parameters() if p.grad is not None])
        for unit in model.units
    ]


@settings(max_examples=25)
@given(
    seed=st.integers(0, 1000),
    layers=st.integers(1, 16),
    width=st.integers(4, 32),
    batch=st.integers(2, 32),
)
def test_every_gradient_of_the_conditioned_workload_is_of_comparable_size(
    seed: int, layers: int, width: int, batch: int
) -> None:
    model = Monolith(Workload.conditioned(seed=seed, layers=layers, width=width, batch=batch))
    model.step()
    norms = [p.grad.norm().item() for p in model.parameters() if p.grad is not None]
    assert len(norms) == 2 * (layers + 1)
    assert max(norms) < 1000 * min(norms)


@pytest.mark.parametrize("seed", range(5))
def test_the_conditioned_workload_is_not_blind_to_permuted_targets(seed: int) -> None:
    model = Monolith(Workload.conditioned(seed=seed))
    loss, before = model.step(), gradients(model)
    model.targets = torch.cat(model.targets.split(4)[::-1])
    model.zero_grad()
    assert abs(model.step() - loss) > 1e-2 * loss
    for clean, permuted in zip(before, gradients(model), strict=True):
        assert (permuted - clean).norm() > 1e-2 * clean.norm()


def test_the_logits_of_the_conditioned_workload_differ_over_the_batch() -> None:
    model = Monolith(Workload.conditioned())
    assert model(model.inputs).std(dim=0).min() > 0.1


@settings(max_examples=25)
@given(st.data())
def test_microbatches_in_any_order_make_the_whole_batch_s_step(data: st.DataObject) -> None:
    whole, parts = (Monolith(Workload.conditioned()) for _ in range(2))
    chunks = data.draw(st.integers(1, 16))
    order = data.draw(st.permutations(range(chunks)))
    loss = whole.step()
    torch.testing.assert_close(
        parts.step_microbatched(order, chunk_sizes(16, chunks)), loss, rtol=1e-12, atol=0
    )
    for one, other in zip(gradients(whole), gradients(parts), strict=True):
        assert (one - other).norm() <= 1e-12 * one.norm()


def test_a_microbatched_step_is_bitwise_reproducible() -> None:
    first, second = (Monolith(Workload()) for _ in range(2))
    losses = [m.step_microbatched(range(5), chunk_sizes(32, 5)) for m in (first, second)]
    assert torch.equal(*losses)
    pairs = zip(gradients(first), gradients(second), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)


@given(st.integers(1, 200), st.integers(1, 200))
def test_layers_are_spread_evenly_and_none_is_lost(layers: int, count: int) -> None:
    if count > layers:
        with pytest.raises(ValueError, match=f"{layers} layers cannot fill {count} stages"):
            split(layers, count)
        return
    parts = split(layers, count)
    assert [layer for part in parts for layer in part] == list(range(layers))
    assert len(parts) == count
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(st.integers(1, 200), st.integers(1, 200))
def test_samples_are_spread_evenly_over_exactly_as_many_chunks(batch: int, chunks: int) -> None:
    if chunks > batch:
        with pytest.raises(ValueError, match=f"{batch} samples cannot fill {chunks} chunks"):
            chunk_sizes(batch, chunks)
        return
    sizes = chunk_sizes(batch, chunks)
    assert sum(sizes) == batch
    assert len(sizes) == chunks
    assert max(sizes) - min(sizes) <= 1


def test_where_torch_would_give_fewer_chunks_all_are_there() -> None:
    assert len(torch.arange(9).chunk(6)) == 5
    assert chunk_sizes(9, 6) == [2, 2, 2, 1, 1, 1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "tidy"}, "unknown kind 'tidy'; known: seed, conditioned"),
        ({"optimizer": "lion"}, "unknown optimizer 'lion'; known: adam, sgd"),
        ({"layers": 0}, "layers must be at least 1: got 0"),
        ({"dtype": torch.int64}, "dtype must be a floating one"),
    ],
)
def test_a_workload_that_cannot_be_is_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Workload(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "kind"), [("adam", torch.optim.Adam), ("sgd", torch.optim.SGD)])
def test_the_optimizer_is_the_workload_s(name: str, kind: type) -> None:
    workload = Workload.conditioned(optimizer=name, lr=0.5)
    optimizer = workload.optimizer_for(Monolith(workload).parameters())
    assert isinstance(optimizer, kind)
    assert optimizer.param_groups[0]["lr"] == 0.5

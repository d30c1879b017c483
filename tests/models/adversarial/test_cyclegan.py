"""CycleGAN: its losses by hand, the history of its discriminators, and a known mapping that it recovers."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import Absorb, DataError, Descend, ImagePairs, TwoDomains, UsageError
from deepcanon.data import load_data, of
from deepcanon.data.sets.two_domains import counterpart
from deepcanon.losses.energy_distance import energy_distance
from deepcanon.models.adversarial._history import History
from deepcanon.models.adversarial.cyclegan import CycleGAN
from deepcanon.train import fit


def small(**arguments: Any) -> tuple[CycleGAN, TwoDomains]:
    """A model of linear networks in double precision, and unpaired data."""
    torch.manual_seed(0)
    model = CycleGAN(features=2, hidden=(), **arguments).double()
    x, y = torch.randn(2, 12, 2, dtype=torch.float64)
    return model, TwoDomains(3 * x + 1, y[:9] - 5)


def affine(part: nn.Module) -> tuple[Tensor, Tensor]:
    (layer,) = (layer for layer in part.modules() if isinstance(layer, nn.Linear))
    return layer.weight.detach(), layer.bias.detach()


def by_hand(model: CycleGAN, batch: TwoDomains) -> dict[str, float]:
    """The losses, example by example, from the weights."""
    weights = {name: {d: affine(getattr(model, name)[d]) for d in "xy"} for name in ("generators", "discriminators")}

    def generate(u: Tensor, to: str) -> Tensor:
        matrix, bias = weights["generators"][to]
        return u + matrix @ u + bias

    def judge(u: Tensor, domain: str) -> float:
        matrix, bias = weights["discriminators"][domain]
        return (matrix @ u + bias).item()

    def mean(values: Any) -> float:
        listed = [float(value) for value in values]
        return sum(listed) / len(listed)

    unit = {d: [(row - rows.mean(0)) / spread(rows) for row in rows] for d, rows in (("x", batch.x), ("y", batch.y))}
    terms = {}
    for here, to in (("x", "y"), ("y", "x")):
        fakes = [generate(u, to) for u in unit[here]]
        terms[f"real_{to}"] = mean((judge(u, to) - 1) ** 2 for u in unit[to]) / 2
        terms[f"fake_{to}"] = mean(judge(u, to) ** 2 for u in fakes) / 2
        terms[f"adversarial_{to}"] = mean((judge(u, to) - 1) ** 2 for u in fakes)
        back = zip(fakes, unit[here], strict=True)
        terms[f"cycle_{here}"] = model.cycle * mean((generate(f, here) - u).abs().sum() / 2 for f, u in back)
        terms[f"identity_{here}"] = model.identity * mean((generate(u, here) - u).abs().sum() / 2 for u in unit[here])
    return terms


def spread(rows: Tensor) -> Tensor:
    return (rows - rows.mean(0)).square().mean().sqrt()


def test_the_losses_are_those_of_the_paper() -> None:
    model, batch = small(cycle=3.0, identity=0.5, history=0)
    model.prepare([batch])
    exact = by_hand(model, batch)
    found = {**model.discriminator_loss(batch), **model.loss(batch)}
    assert found.keys() == exact.keys()
    for name, value in found.items():
        assert value.item() == pytest.approx(exact[name], rel=1e-5), name  # mean and deviation are kept in float32
    assert model.surrogate


def test_without_a_weight_there_is_no_identity_loss() -> None:
    model, batch = small(identity=0.0)
    assert set(model.loss(batch)) == {"adversarial_x", "adversarial_y", "cycle_x", "cycle_y"}


def test_each_side_moves_alone_and_the_history_learns_without_gradient() -> None:
    model, batch = small(history=4)
    first, second, third = model.turns()
    assert isinstance(first, Descend)
    assert isinstance(second, Descend)
    assert isinstance(third, Absorb)
    assert {id(p) for p in first.parameters} == {id(p) for p in model.discriminators.parameters()}
    assert {id(p) for p in second.parameters} == {id(p) for p in model.generators.parameters()}
    sum(model.discriminator_loss(batch).values()).backward()  # type: ignore[union-attr]
    assert all(parameter.grad is None for parameter in model.generators.parameters())
    assert len(small(history=0)[0].turns()) == 2


def test_a_history_fills_up_and_then_is_replaced_at_random_places() -> None:
    torch.manual_seed(0)
    history = History(size=100, features=1)
    fresh = torch.full((60, 1), 7.0)
    assert torch.equal(history.mixed(fresh), fresh)  # nothing is kept yet
    history.keep(torch.full((40, 1), 1.0))
    history.keep(torch.full((40, 1), 2.0))
    assert history.kept.flatten().tolist() == [1.0] * 40 + [2.0] * 40 + [0.0] * 20
    history.keep(torch.full((420, 1), 3.0))
    # 20 fill the room; of the other 400 about 200 replace, which leaves a place as it was with probability 0.99 ** 200
    left = int((history.kept != 3.0).sum())
    assert int(history.count) == 100
    assert 2 <= left <= 25
    seen = torch.cat([history.mixed(fresh) for _ in range(50)])
    assert 0.45 < (seen == 7.0).double().mean().item() < 0.55


def test_a_history_that_is_not_full_is_only_drawn_from_where_it_is_filled() -> None:
    torch.manual_seed(0)
    history = History(size=100, features=1)
    history.keep(torch.full((1, 1), 5.0))
    seen = torch.cat([history.mixed(torch.full((60, 1), 7.0)) for _ in range(50)])
    assert set(seen.flatten().tolist()) == {5.0, 7.0}


def test_the_history_is_part_of_the_state_and_holds_generated_examples() -> None:
    model, batch = small(history=12)
    model.prepare([batch])
    model.remember(batch)
    state = model.state_dict()
    mapped = model.map(batch.x)
    unit = (mapped - batch.y.mean(0)) / spread(batch.y)
    torch.testing.assert_close(state["histories.y.kept"], unit.detach(), rtol=1e-4, atol=1e-4)
    assert int(state["histories.x.count"]) == 9
    assert not state["histories.y.kept"].requires_grad


def test_a_mapping_goes_from_the_scale_of_one_domain_to_that_of_the_other() -> None:
    model, batch = small()
    model.prepare([batch])
    with torch.no_grad():
        for parameter in model.generators.parameters():
            parameter.zero_()  # the residual generators are now the identity at unit scale
    unit = (batch.x - batch.x.mean(0)) / spread(batch.x)
    torch.testing.assert_close(model.map(batch.x), unit * spread(batch.y) + batch.y.mean(0), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(model.map(model.map(batch.x), to="x"), batch.x, rtol=1e-5, atol=1e-5)
    images = batch.x.view(-1, 1, 1, 2)
    assert model.map(images).shape == images.shape
    torch.testing.assert_close(model(images).flatten(1), model.map(batch.x))


def test_the_metrics_of_pairs_are_distances_to_the_counterparts() -> None:
    model, batch = small()
    model.prepare([batch])
    pairs = ImagePairs(batch.x[:9], batch.y)
    plain, paired = model.metrics(TwoDomains(pairs.x, pairs.y)), model.metrics(pairs)
    assert set(plain) == {"energy_distance", "cycle_distance"}
    assert set(paired) == {"energy_distance", "cycle_distance", "pair_distance", "partner_found"}
    scale = {"x": spread(batch.x), "y": spread(batch.y)}
    there = (model.map(pairs.x) - pairs.y).norm(dim=1).mean() / scale["y"]
    back = (model.map(pairs.y, to="x") - pairs.x).norm(dim=1).mean() / scale["x"]
    assert paired["pair_distance"].item() == pytest.approx((there + back).item() / 2 / 2**0.5, rel=1e-5)
    distances = [
        energy_distance(model.map(pairs.x), pairs.y) / scale["y"],
        energy_distance(model.map(pairs.y, to="x"), pairs.x) / scale["x"],
    ]
    assert plain["energy_distance"].item() == pytest.approx(torch.stack(distances).mean().item(), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_it_recovers_the_known_mapping_from_unpaired_examples(seed: int) -> None:
    data = load_data("two-domains")
    pairs = data.split("test")
    torch.manual_seed(seed)
    model = CycleGAN(features=2)
    model.prepare([data.train])
    before = model.metrics(pairs)["pair_distance"].item()
    result = fit(model, data, quiet=True, seed=seed, epochs=25)
    assert before > 0.6  # in standard deviations of a feature
    assert result.test["pair_distance"] < 0.1
    assert result.test["cycle_distance"] < 0.02
    error = (model.map(pairs.x) - counterpart(pairs.x)).norm(dim=1).mean()
    assert error < 0.1 * (pairs.y - pairs.y.mean(0)).norm(dim=1).mean()


@pytest.mark.slow
def test_of_unpaired_images_it_recovers_the_known_mapping() -> None:
    """Of 360 test digits in inverted colors, the nearest to a mapped digit is its own partner; chance is 1 in 360."""
    data = load_data("inverted-digits")
    pairs = data.split("test")
    torch.manual_seed(0)
    model = CycleGAN(64, 1, 8, 8, network="convolutional", cycle=5.0)
    result = fit(model, data, quiet=True, seed=0, steps=120)
    for mapped, partners in ((model.map(pairs.x), pairs.y), (model.map(pairs.y, to="x"), pairs.x)):
        nearest = torch.cdist(mapped.flatten(1), partners.flatten(1)).argmin(1)
        assert (nearest == torch.arange(360)).double().mean() > 0.9
    assert result.test["partner_found"] > 0.9
    assert result.test["pair_distance"] < 0.3


def test_convolutional_networks_see_all_pixels_at_one_scale() -> None:
    """Their domains have one mean and one deviation, over all pixels and images."""
    torch.manual_seed(0)
    batch = TwoDomains(3 * torch.rand(20, 1, 4, 4) + torch.arange(4.0), torch.rand(30, 1, 4, 4))
    model = CycleGAN(16, 1, 4, 4, network="convolutional", hidden=(4,))
    model.prepare([batch])
    x = model._of(batch, "x")
    torch.testing.assert_close(x, ((batch.x - batch.x.mean()) / batch.x.std(correction=0)).flatten(1))
    with pytest.raises(UsageError, match="convolutions need images"):
        CycleGAN(16, network="convolutional")
    with pytest.raises(UsageError, match="too often"):
        CycleGAN(16, 1, 4, 4, network="convolutional", hidden=(4, 4, 4))


def test_wrong_arguments_and_data_are_refused() -> None:
    model, batch = small()
    with pytest.raises(UsageError, match="to must be one of x, y"):
        model.map(batch.x, to="z")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"may not be negative \(got -1 and 0"):
        CycleGAN(features=2, cycle=-1)
    with pytest.raises(UsageError, match="history must be at least 0"):
        CycleGAN(features=2, history=-1)
    with pytest.raises(DataError, match="examples of 2 features"):
        model.loss(TwoDomains(batch.x, torch.zeros(3, 5).double()))


def test_domains_of_other_sizes_are_refused_before_the_training() -> None:
    data = of(torch.rand(6, 1, 4, 4), torch.rand(6, 3, 8, 8))
    with pytest.raises(DataError, match="both domains have 16 values an example; got 16 and 192"):
        fit(CycleGAN(features=16, hidden=(4,)), data, steps=1, quiet=True)

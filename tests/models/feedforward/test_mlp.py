"""The MLP: exact parameter counts, torch's own layers as its oracle, its accuracy on real digits, and its heads."""

import itertools

import pytest
import torch
from scipy import stats
from torch import Generator, Tensor, nn

from deepcanon.core import DataError, Labeled, UsageError
from deepcanon.data import from_tensors, load_data
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.train import fit


@pytest.mark.parametrize("hidden", [(), (7,), (512, 512), (5, 4, 3, 2)])
def test_the_number_of_parameters_is_that_of_the_formula(hidden: tuple[int, ...]) -> None:
    model = MLP(features=784, classes=10, hidden=hidden)
    widths = (784, *hidden, 10)
    formula = sum((before + 1) * after for before, after in itertools.pairwise(widths))
    assert sum(parameter.numel() for parameter in model.parameters()) == formula


def test_a_net_of_one_width_has_the_count_of_the_textbook() -> None:
    inputs, width, depth, outputs = 6, 5, 4, 3
    model = MLP(features=inputs, targets=outputs, hidden=(width,) * depth)
    formula = inputs * width + width + (depth - 1) * (width**2 + width) + width * outputs + outputs
    assert sum(parameter.numel() for parameter in model.parameters()) == formula


def test_it_is_torchs_own_layers_in_a_row() -> None:
    model = MLP(features=12, classes=4, hidden=(9, 8), activation="gelu", dropout=0.5).double()
    oracle = nn.Sequential(
        nn.Linear(12, 9), nn.GELU(), nn.Dropout(0.5), nn.Linear(9, 8), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 4)
    ).double()
    weights = zip(oracle.state_dict(), model.state_dict().values(), strict=True)
    oracle.load_state_dict(dict(weights))
    x = torch.randn(5, 3, 2, 2, dtype=torch.float64)
    for training in (True, False):
        model.train(training), oracle.train(training)
        torch.manual_seed(0)
        ours = model(x)
        torch.manual_seed(0)
        assert torch.equal(ours, oracle(x.flatten(1)))


def test_no_dropout_is_the_plain_net_bit_for_bit() -> None:
    torch.manual_seed(0)
    plain = MLP(features=3, classes=2, hidden=(8,))
    torch.manual_seed(0)
    zero = MLP(features=3, classes=2, hidden=(8,), dropout=0.0)
    x = torch.randn(16, 3)
    assert torch.equal(plain(x), zero(x))


def test_the_initialization_is_chosen_by_name() -> None:
    model = MLP(features=3, classes=2, hidden=(8,), initialize="signs:value=0.5")
    weights = [value for name, value in model.named_parameters() if name.endswith("weight")]
    assert all(weight.abs().eq(0.5).all() for weight in weights)
    with pytest.raises(UsageError, match="there is no initialization 'glorot'"):
        MLP(features=3, classes=2, initialize="glorot")


def test_a_linear_net_finds_the_least_squares_solution() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 3, generator=generator, dtype=torch.float64)
    y = x @ torch.randn(3, 2, generator=generator, dtype=torch.float64) + 1
    y = y + torch.randn(200, 2, generator=generator, dtype=torch.float64)
    model = MLP(features=3, targets=2, hidden=()).double()
    data = from_tensors(x, y).with_validation_split(0)
    fit(model, data, quiet=True, optimizer="lbfgs", lr=1.0, batch_size=200, epochs=20)
    rows = torch.cat([data.train.x, torch.ones(len(data.train), 1, dtype=torch.float64)], dim=1)
    solution = torch.linalg.lstsq(rows, data.train.y).solution
    torch.testing.assert_close(model.predict(data.train.x), rows @ solution, rtol=1e-5, atol=1e-5)


def test_bfloat16_gives_nearly_the_loss_of_float32() -> None:
    torch.manual_seed(0)
    model, batch = MLP.example()
    plain = model.loss(batch)["nll"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = model.loss(batch)["nll"]
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(plain.item(), rel=1e-2)
    assert half.item() != plain.item()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_reads_96_and_a_half_percent_of_real_digits(seed: int) -> None:
    data = load_data("digits")
    torch.manual_seed(seed)
    result = fit(MLP(features=64, classes=10), data, quiet=True, seed=seed)
    assert result.test["accuracy"] >= 0.965


def test_it_predicts_classes_or_targets_but_not_both() -> None:
    for classes, targets in ((None, None), (3, 1)):
        with pytest.raises(UsageError, match="either classes or targets"):
            MLP(features=2, classes=classes, targets=targets)


def test_arguments_are_checked() -> None:
    with pytest.raises(UsageError, match="features must be at least 1"):
        MLP(features=0, classes=2)
    with pytest.raises(UsageError, match="classes must be at least 2"):
        MLP(features=2, classes=1)
    with pytest.raises(UsageError, match="targets must be at least 1"):
        MLP(features=2, targets=0)
    with pytest.raises(UsageError, match="activation must be one of relu"):
        MLP(features=2, classes=2, activation="step")  # type: ignore[arg-type]


def test_each_example_is_predicted_independently() -> None:
    model = MLP(features=3, classes=2, hidden=(8,), dropout=0.5).double().eval()
    batch = Labeled(torch.randn(6, 3, dtype=torch.float64), torch.zeros(6, dtype=torch.long))
    alone = torch.cat([model(batch.x[i : i + 1]) for i in range(6)])
    torch.testing.assert_close(model(batch.x), alone, rtol=1e-12, atol=1e-12)


def noise(x: Tensor) -> Tensor:
    return 0.1 + 0.5 * x.square()


def noisy_sine(count: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = Generator().manual_seed(seed)
    x = 2 * torch.rand(count, 1, generator=generator) - 1
    return x, (3 * x).sin() + noise(x) * torch.randn(count, 1, generator=generator)


def trained(head: str) -> MLP:
    torch.manual_seed(0)
    x, y = noisy_sine(4000, seed=0)
    model = MLP(features=1, targets=1, hidden=(32,), activation="tanh", head=head)
    fit(model, from_tensors(x, y), quiet=True, lr=2e-2, schedule="one_cycle", batch_size=500, epochs=40)
    return model.eval()


def ranks(model: MLP, x: Tensor, y: Tensor) -> Tensor:
    """The share of the predicted distribution that lies below each true target; uniform if the head is calibrated."""
    assert model.output_head is not None
    with torch.no_grad():
        answer = model.output_head.distribution(model(x))
    below: Tensor = torch.distributions.Normal(answer.mean, answer.stddev).cdf(y)
    return below.flatten()


@pytest.mark.slow
def test_the_heteroscedastic_head_finds_the_noise_and_is_calibrated_where_one_scale_is_not() -> None:
    x, y = noisy_sine(4000, seed=1)
    model = trained("heteroscedastic")
    assert model.output_head is not None
    places = torch.linspace(-0.95, 0.95, 39).unsqueeze(1)
    with torch.no_grad():
        found = model.output_head.distribution(model(places)).stddev
    assert (found / noise(places) - 1).abs().max() < 0.25
    assert (found / noise(places) - 1).abs().mean() < 0.1
    middle = x.flatten().abs() < 0.3
    for part in (middle, ~middle):
        share = ranks(model, x, y)[part]
        assert stats.kstest(share.numpy(), "uniform").statistic < 0.06
        for level in (0.5, 0.9):
            inside = ((share - 0.5).abs() < level / 2).double().mean().item()
            assert inside == pytest.approx(level, abs=0.05)
    one_scale = ranks(trained("gaussian"), x, y)[middle]
    assert ((one_scale - 0.5).abs() < 0.25).double().mean() > 0.7  # half of them would be right


def test_the_loss_is_minus_the_log_likelihood_of_the_head() -> None:
    torch.manual_seed(0)
    model = MLP(features=3, targets=2, hidden=(), head="gumbel").double()
    x, y = torch.randn(5, 3, dtype=torch.float64), torch.randn(5, 2, dtype=torch.float64)
    place, log_scale = model(x).detach().chunk(2, dim=-1)
    oracle = stats.gumbel_r(place.numpy(), log_scale.exp().numpy())
    batch = Labeled(x, y)
    assert model.loss(batch)["nll"].item() == pytest.approx(-oracle.logpdf(y.numpy()).sum(-1).mean())
    assert model.metrics(batch)["nll"].item() == pytest.approx(model.loss(batch)["nll"].item())
    torch.testing.assert_close(model.predict(x, how="mode"), place)
    torch.testing.assert_close(model.predict(x, how="mean"), torch.from_numpy(oracle.mean()))
    many = x[:1].expand(5000, 3)
    drawn = model.predict(many, how="sample", generator=Generator().manual_seed(0))
    first = stats.gumbel_r(place[0, 0].item(), log_scale[0, 0].exp().item())
    assert stats.kstest(drawn[:, 0].numpy(), first.cdf).pvalue > 1e-3


def test_several_labels_are_there_or_not_each_by_itself() -> None:
    torch.manual_seed(0)
    x = torch.randn(600, 2, generator=Generator().manual_seed(0))
    y = torch.stack([x[:, 0] > 0, x[:, 1] > 0, x.sum(1) > 0], -1).float()
    model = MLP(features=2, targets=3, hidden=(), head="bernoulli")
    fit(model, from_tensors(x, y), quiet=True, lr=0.1, batch_size=100, epochs=20)
    said = model.predict(x)
    assert said.unique().tolist() == [0, 1]
    assert (said == y).float().mean() > 0.97
    assert torch.equal((model.predict(x, how="mean") > 0.5).float(), said)


def test_targets_without_a_probability_are_refused_before_training() -> None:
    x, y = noisy_sine(50, seed=0)
    with pytest.raises(DataError, match=r"the head BernoulliLikelihood.* models other targets than these"):
        fit(MLP(features=1, targets=1, head="bernoulli"), from_tensors(x, y), quiet=True, epochs=1)


def test_mistakes_are_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match="a head is for real targets"):
        MLP(features=2, classes=3, head="gaussian")
    model = MLP(features=2, targets=1, head="heteroscedastic")
    with pytest.raises(DataError, match=r"must have the shape \(4, 1\), got \(4,\)"):
        model.loss(Labeled(torch.zeros(4, 2), torch.zeros(4)))
    with pytest.raises(UsageError, match="has no mode"):
        MLP(features=2, targets=1, head="continuous_bernoulli").predict(torch.zeros(1, 2))

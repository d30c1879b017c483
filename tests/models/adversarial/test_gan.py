"""The GAN: its games' values and gradients, the best discriminator p / (p + q), and the modes it covers."""

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.distributions import Distribution, Normal
from torch.nn.functional import binary_cross_entropy, logsigmoid

from deepcanon.core import Batch, Descend, Turn, UsageError
from deepcanon.data import from_tensors, load_data
from deepcanon.losses.energy_distance import energy_distance
from deepcanon.models.adversarial._game import GameName
from deepcanon.models.adversarial.gan import GAN
from deepcanon.train import fit


def with_generated(model: GAN, scale: float, shift: float) -> GAN:
    """The model with a generator that gives N(shift, scale^2) exactly."""
    linear = next(layer for layer in model.generator.modules() if isinstance(layer, nn.Linear))
    nn.init.constant_(linear.weight, scale)
    nn.init.constant_(linear.bias, shift)
    return model


def train_discriminator(model: GAN, data: Distribution, steps: int, lr: float) -> None:
    optimizer = torch.optim.Adam(model.discriminator.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        terms = model.discriminator_loss(Batch(data.sample(torch.Size([4096, 1])).double()))
        (terms["real"] + terms["fake"]).backward()
        optimizer.step()
        schedule.step()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "q", "hidden"),
    [(Normal(1.0, 1.0), Normal(0.0, 1.0), ()), (Normal(0.0, 1.0), Normal(0.0, 2.0), (32,))],
    ids=["log-odds on a line", "log-odds on a parabola"],
)
def test_the_best_discriminator_is_p_over_p_plus_q(p: Normal, q: Normal, hidden: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    model = GAN(features=1, latent=1, hidden=hidden).double()
    model.generator = GAN(features=1, latent=1, hidden=()).double().generator
    model = with_generated(model, scale=q.scale.item(), shift=q.loc.item())
    train_discriminator(model, p, steps=300, lr=0.03)
    x = torch.linspace(-2.5, 2.5, 51)
    density, other = p.log_prob(x).exp(), q.log_prob(x).exp()
    exact = (density / (density + other)).double()
    found = model.discriminate(x[:, None].double()).sigmoid()
    assert (found - exact).abs().max() < 0.03
    assert (exact - 0.5).abs().max() > 0.3
    terms = model.discriminator_loss(Batch(p.sample(torch.Size([50_000, 1])).double()))
    grid = torch.linspace(-15, 15, 20_001, dtype=torch.float64)
    one, two = p.log_prob(grid).exp(), q.log_prob(grid).exp()
    mean = (one + two) / 2
    twice_js = torch.trapezoid(torch.xlogy(one, one / mean) + torch.xlogy(two, two / mean), grid).item()
    assert twice_js > 0.05
    assert -sum(term.item() for term in terms.values()) == pytest.approx(twice_js - math.log(4), abs=0.01)


def test_where_data_and_samples_are_the_same_the_game_is_worth_minus_log_4() -> None:
    torch.manual_seed(0)
    model = with_generated(GAN(features=1, latent=1, hidden=()).double(), scale=1.0, shift=0.0)
    train_discriminator(model, Normal(0.0, 1.0), steps=300, lr=0.02)
    terms = model.discriminator_loss(Batch(torch.randn(50_000, 1, dtype=torch.float64)))
    assert sum(term.item() for term in terms.values()) == pytest.approx(math.log(4), abs=0.01)


def test_the_discriminator_loss_is_the_cross_entropy_of_telling_data_from_samples() -> None:
    torch.manual_seed(0)
    model, batch = GAN.example()
    model, x = model.double(), batch.x.double()
    torch.manual_seed(1)
    terms = model.discriminator_loss(Batch(x))
    torch.manual_seed(1)
    fake = model.sample(len(x))
    for name, part, label in (("real", x, 1.0), ("fake", fake, 0.0)):
        probability = model.discriminate(part).sigmoid()
        torch.testing.assert_close(terms[name], binary_cross_entropy(probability, torch.full_like(probability, label)))


@pytest.mark.parametrize(
    ("game", "value"),
    [("minimax", lambda odds: logsigmoid(-odds).mean()), ("non_saturating", lambda odds: -logsigmoid(odds).mean())],
)
def test_the_generator_minimizes_what_its_game_says(game: GameName, value: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    model = GAN(features=2, latent=2, hidden=(8,), game=game).double()
    torch.manual_seed(1)
    (term,) = model.loss(Batch(torch.zeros(16, 2, dtype=torch.float64))).values()
    torch.manual_seed(1)
    torch.testing.assert_close(term, value(model.discriminate(model.sample(16))))


def test_only_the_minimax_generator_stops_learning_from_a_sure_discriminator() -> None:
    norms = {}
    games: tuple[GameName, ...] = ("minimax", "non_saturating")
    for game in games:
        torch.manual_seed(0)
        model = GAN(features=2, latent=2, hidden=(8,), game=game).double()
        last = [layer for layer in model.discriminator.modules() if isinstance(layer, nn.Linear)][-1]
        nn.init.constant_(last.bias, -20.0)  # sure that all samples are fakes
        torch.manual_seed(1)
        (term,) = model.loss(Batch(torch.zeros(16, 2, dtype=torch.float64))).values()
        gradients = torch.autograd.grad(term, list(model.generator.parameters()))
        norms[game] = math.hypot(*(float(gradient.norm()) for gradient in gradients))
    assert norms["minimax"] < 1e-7 * norms["non_saturating"]


def test_each_player_moves_only_itself() -> None:
    model, batch = GAN.example()
    first, second = model.turns()
    assert (first.name, second.name) == ("discriminator", "generator")
    for parameter in model.generator.parameters():
        assert parameter.requires_grad
    terms = model.discriminator_loss(batch)
    sum(terms.values()).backward()  # type: ignore[union-attr]
    assert all(parameter.grad is None for parameter in model.generator.parameters())


def test_shift_and_scale_of_the_data_change_nothing_but_shift_and_scale() -> None:
    """Both players see standardized data, so a run on 3 x + 5 is the run on x in other units."""
    x = torch.randn(256, 2, generator=Generator().manual_seed(0), dtype=torch.float64)
    samples, odds = [], []
    for data in (x, 3 * x + 5):
        torch.manual_seed(0)
        model = GAN(features=2, latent=2, hidden=(8,)).double()
        model.prepare([Batch(data[:100]), Batch(data[100:])])
        samples.append(model.sample(50, generator=Generator().manual_seed(1)))
        odds.append(model.discriminate(data))
    torch.testing.assert_close(samples[1], 3 * samples[0] + 5, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(odds[1], odds[0], rtol=1e-6, atol=1e-6)


def test_no_tensor_is_kept_under_two_names() -> None:
    state = GAN.example()[0].state_dict()
    assert len({tensor.data_ptr() for tensor in state.values()}) == len(state)


def test_samples_repeat_with_the_generator_and_leave_the_global_one_alone() -> None:
    model, _ = GAN.example()
    state = torch.get_rng_state()
    first, again, other = (model.sample(20, generator=Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_metric_is_the_distance_between_samples_and_data() -> None:
    model, batch = GAN.example()
    torch.manual_seed(0)
    metric = model.metrics(batch)["energy_distance"]
    torch.manual_seed(0)
    torch.testing.assert_close(metric, energy_distance(model.sample(len(batch)), batch.x))
    assert model.surrogate


def covered_modes(model: GAN) -> int:
    """How many of the eight modes hold at least 1 % of 2,000 samples within three standard deviations."""
    angle = torch.arange(8) * (math.pi / 4)
    centers = 2 * torch.stack([angle.cos(), angle.sin()], dim=1)
    samples = model.sample(2000, generator=Generator().manual_seed(0))
    shares = (torch.cdist(samples, centers) <= 0.3).double().mean(0)
    return int((shares >= 0.01).sum())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_it_covers_seven_of_eight_modes(seed: int) -> None:
    torch.manual_seed(seed)
    model = GAN(features=2)
    assert covered_modes(model) < 7
    fit(model, load_data("eight-gaussians"), quiet=True, seed=seed, epochs=10, evaluate=False)
    assert covered_modes(model) >= 7


def test_arguments_are_checked() -> None:
    with pytest.raises(UsageError, match="features must be at least 1"):
        GAN(features=0)
    with pytest.raises(UsageError, match="game must be one of non_saturating, minimax"):
        GAN(features=2, game="zero_sum")  # type: ignore[arg-type]


class TwoTurns(GAN):
    """The game as it is without the argument: both players move at every step."""

    def turns(self) -> Sequence[Turn[Batch]]:
        return [
            Descend(self.discriminator_loss, self.discriminator.parameters(), name="discriminator"),
            Descend(self.loss, self.generator.parameters(), name="generator"),
        ]


def test_with_one_critic_step_it_is_the_plain_game_of_two_turns_bit_for_bit() -> None:
    x = torch.randn(64, 2, generator=torch.Generator().manual_seed(0)) + 1
    states = []
    for cls, steps in ((GAN, 1), (TwoTurns, 1), (GAN, 2)):
        torch.manual_seed(0)
        model = cls(features=2, latent=2, hidden=(8,), critic_steps=steps)
        fit(model, from_tensors(x), steps=12, seed=3, batch_size=16, quiet=True)
        states.append(model.state_dict())
    game, plain, slower = states
    assert all(torch.equal(game[name], value) for name, value in plain.items())
    assert not all(torch.equal(game[name], value) for name, value in slower.items())

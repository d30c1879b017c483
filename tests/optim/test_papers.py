"""The updates of the papers, written out, against torch's and ours: where they agree and where they do not.

Each line of the table in docs/optimizers.md stands on a test of this file.
"""

import itertools
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.optim import optimizer, schedule

STEPS, LR = 40, 0.05
START = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
CURVATURE = torch.tensor([1.0, 3.0, 0.2], dtype=torch.float64)
Rate = Callable[[int], float]
Rule = Callable[[Rate], Iterator[Tensor]]


def gradient(weight: Tensor, step: int) -> Tensor:
    """Of a bowl that is shaken a little, so that no two gradients are alike."""
    return CURVATURE * weight + 0.1 * torch.tensor([step % 3 - 1, step % 5 - 2, step % 2], dtype=torch.float64)


def level(step: int) -> float:
    return LR


def falling(step: int) -> float:
    return LR * schedule("linear")(step, STEPS)


def walked(text: str, rate: Rate = level) -> list[Tensor]:
    """Where an optimizer by name goes from the start, step by step."""
    weight = nn.Parameter(START.clone())
    opt = optimizer(text, [weight], LR)
    path = []
    for step in range(1, STEPS + 1):
        opt.param_groups[0]["lr"] = rate(step)
        weight.grad = gradient(weight.detach(), step)
        opt.step()
        path.append(weight.detach().clone())
    return path


def far(path: list[Tensor], other: list[Tensor]) -> float:
    return max((a - b).abs().max().item() for a, b in zip(path, other, strict=True))


def momentum(rate: Rate, gamma: float = 0.9) -> Iterator[Tensor]:
    w, v = START.clone(), torch.zeros(3, dtype=torch.float64)
    for t in range(1, STEPS + 1):
        v = gamma * v - rate(t) * gradient(w, t)
        w = w + v
        yield w


def nesterov(rate: Rate, gamma: float = 0.9) -> Iterator[Tensor]:
    """Gives the look-ahead point, which is what torch and we keep in the parameters."""
    w, v = START.clone(), torch.zeros(3, dtype=torch.float64)
    for t in range(1, STEPS + 1):
        v = gamma * v - rate(t) * gradient(w + gamma * v, t)
        w = w + v
        yield w + gamma * v


def adagrad(rate: Rate) -> Iterator[Tensor]:
    w, s = START.clone(), torch.zeros(3, dtype=torch.float64)
    for t in range(1, STEPS + 1):
        g = gradient(w, t)
        s = s + g**2
        w = w - rate(t) * g / (s.sqrt() + 1e-10)
        yield w


def adadelta(rate: Rate, rho: float = 0.9, eps: float = 1e-6) -> Iterator[Tensor]:
    """Zeiler's rule has no rate."""
    w, s, d = START.clone(), torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for t in range(1, STEPS + 1):
        g = gradient(w, t)
        s = rho * s + (1 - rho) * g**2
        change = -((d + eps).sqrt() / (s + eps).sqrt()) * g
        d = rho * d + (1 - rho) * change**2
        w = w + change
        yield w


def rmsprop(rate: Rate, rho: float = 0.99, gamma: float = 0.0) -> Iterator[Tensor]:
    w, s, v = START.clone(), torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for t in range(1, STEPS + 1):
        g = gradient(w, t)
        s = rho * s + (1 - rho) * g**2
        v = gamma * v - rate(t) * g / (s.sqrt() + 1e-8)
        w = w + v
        yield w


def adam(rate: Rate, l2: float = 0.0, decay: float = 0.0, b1: float = 0.9, b2: float = 0.999) -> Iterator[Tensor]:
    """With ``l2`` in the loss, or with Loshchilov and Hutter's ``decay``: it follows the schedule, not the rate."""
    w, m, v = START.clone(), torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for t in range(1, STEPS + 1):
        g = gradient(w, t) + l2 * w
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        adapted = (m / (1 - b1**t)) / ((v / (1 - b2**t)).sqrt() + 1e-8)
        w = w - rate(t) / LR * (LR * adapted + decay * w)
        yield w


def amsgrad(rate: Rate, b1: float = 0.9, b2: float = 0.999) -> Iterator[Tensor]:
    w, m, v, top = START.clone(), *(torch.zeros(3, dtype=torch.float64) for _ in range(3))
    for t in range(1, STEPS + 1):
        g = gradient(w, t)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        top = torch.maximum(top, v)
        w = w - rate(t) * m / (top.sqrt() + 1e-8)
        yield w


def nadam(rate: Rate, decay: float | None = 0.004, b1: float = 0.9, b2: float = 0.999) -> Iterator[Tensor]:
    """Dozat's, with his growing momentum, or with one that is constant where ``decay`` is None.

    The product of the momenta is rounded to single precision, as torch keeps it whatever the parameters have.
    """
    w, m, v = START.clone(), torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)

    def mu(t: int) -> float:
        return b1 if decay is None else b1 * (1 - 0.5 * 0.96 ** (t * decay))

    running = torch.ones((), dtype=torch.float32)
    for t in range(1, STEPS + 1):
        g = gradient(w, t)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        running *= mu(t)
        product = running.item()
        ahead = mu(t + 1) * m / (1 - product * mu(t + 1)) + (1 - mu(t)) * g / (1 - product)
        w = w - rate(t) * ahead / ((v / (1 - b2**t)).sqrt() + 1e-8)
        yield w


SAME: dict[str, Rule] = {
    "sgd:momentum=0.9": momentum,
    "sgd:momentum=0.9,nesterov=true": nesterov,
    "momentum": momentum,
    "momentum:nesterov=true": nesterov,
    "adagrad": adagrad,
    "rmsprop": rmsprop,
    "rmsprop:momentum=0.9": lambda rate: rmsprop(rate, gamma=0.9),
    "adam": adam,
    "amsgrad": amsgrad,
    "nadam": nadam,
    "nadam:momentum_decay=1e9": lambda rate: nadam(rate, decay=None),
    "adam:weight_decay=0.1": lambda rate: adam(rate, l2=0.1),
    "adamw:weight_decay=0.1": lambda rate: adam(rate, decay=0.1 * LR),
}
UNDER_A_SCHEDULE_TOO = [name for name in SAME if not ("momentum=0.9" in name and name.startswith(("sgd", "rmsprop")))]


@pytest.mark.parametrize("name", SAME)
def test_at_a_constant_rate_it_is_the_papers_path(name: str) -> None:
    assert far(walked(name), list(SAME[name](level))) < 1e-10


@pytest.mark.parametrize("name", UNDER_A_SCHEDULE_TOO)
def test_under_a_schedule_it_is_the_papers_path(name: str) -> None:
    assert far(walked(name, falling), list(SAME[name](falling))) < 1e-10


@pytest.mark.parametrize("name", sorted(SAME.keys() - set(UNDER_A_SCHEDULE_TOO)))
def test_under_a_schedule_torchs_velocity_forgets_its_rates(name: str) -> None:
    assert far(walked(name, falling), list(SAME[name](falling))) > 1e-3


def test_torchs_adadelta_at_rate_one_is_the_papers() -> None:
    assert far(walked("adadelta", lambda step: 1.0), list(adadelta(level))) < 1e-12


def lbfgs(slope: Callable[[Tensor], Tensor]) -> Iterator[Tensor]:
    """With the inverse of BFGS as a whole matrix, from y's/y'y I on; the first step, without a past, is torch's own."""
    path, one = [START.clone()], torch.eye(3, dtype=torch.float64)
    for _ in range(12):
        g = slope(path[-1])
        inverse = one * min(1.0, 1 / g.abs().sum().item())
        pairs = [(b - a, slope(b) - slope(a)) for a, b in itertools.pairwise(path)]
        if pairs:
            s, y = pairs[-1]
            inverse = one * (s @ y) / (y @ y)
        for s, y in pairs:
            keep = one - torch.outer(s, y) / (s @ y)
            inverse = keep @ inverse @ keep.T + torch.outer(s, s) / (s @ y)
        path.append(path[-1] - LR * inverse @ g)
        yield path[-1]


def test_lbfgs_multiplies_the_gradient_by_the_inverse_of_bfgs() -> None:
    def slope(w: Tensor) -> Tensor:
        return CURVATURE * w + 0.1 * w.sin()

    weight = nn.Parameter(START.clone())
    opt = optimizer("lbfgs:max_iter=1,tolerance_grad=0,tolerance_change=0", [weight], LR)

    def closure() -> Tensor:
        weight.grad = slope(weight.detach())
        return weight.detach().sum()  # looked at by a search along the line only, and there is none

    path = []
    for _ in range(12):
        opt.step(closure)  # type: ignore[arg-type]
        path.append(weight.detach().clone())
    assert far(path, list(lbfgs(slope))) < 1e-10


def test_torchs_amsgrad_is_not_the_papers() -> None:
    assert far(walked("adam:amsgrad=true"), list(amsgrad(level))) > 1e-2


@pytest.mark.parametrize(("name", "grows"), [("adam:amsgrad=true", True), ("amsgrad", False)])
def test_after_one_large_gradient_only_torchs_amsgrad_lengthens_its_steps(name: str, grows: bool) -> None:
    """Without momentum and with gradients 1, then 0.1: the paper's steps on the small ones never grow."""
    weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    opt = optimizer(f"{name},betas=0.0/0.999" if ":" in name else f"{name}:betas=0.0/0.999", [weight], LR)
    weights = [0.0]
    for step in range(60):
        weight.grad = torch.full_like(weight, 1.0 if step == 0 else 0.1)
        opt.step()
        weights.append(weight.item())
    lengths = [a - b for a, b in itertools.pairwise(weights[1:])]
    if grows:
        assert lengths[-1] > 2 * lengths[0]
    else:
        assert all(later < sooner for sooner, later in itertools.pairwise(lengths))


def test_torchs_nadam_with_no_decay_has_half_the_momentum() -> None:
    """What looks like the constant momentum is half of it; the constant one is the limit of a fast decay."""
    half = list(nadam(level, decay=0.0))
    assert far(walked("nadam:momentum_decay=0"), half) < 1e-10
    assert far(half, list(nadam(level, decay=None))) > 1e-3


def test_decay_of_weights_is_l2_for_plain_descent_only() -> None:
    shrink = 1 - LR * 0.1
    weight = START.clone()
    path = []
    for step in range(1, STEPS + 1):
        weight = shrink * weight - LR * gradient(weight, step)
        path.append(weight)
    assert far(walked("sgd:weight_decay=0.1"), path) < 1e-12
    assert far(walked("adam:weight_decay=0.1"), walked("adamw:weight_decay=0.1")) > 1e-3


def test_torchs_decay_is_the_papers_times_the_rate() -> None:
    assert far(walked("adamw:weight_decay=0.1"), list(adam(level, decay=0.1))) > 1e-2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("momentum:momentum=1", "from 0 to below 1"),
        ("momentum:weight_decay=-1", "at least 0"),
        ("amsgrad:betas=0.9/1.0", "from 0 to below 1"),
        ("amsgrad:eps=-1", "at least 0"),
    ],
)
def test_values_that_make_no_sense_are_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        optimizer(text, [nn.Parameter(START.clone())], LR)


def test_ours_leave_alone_what_has_no_gradient_and_take_a_closure() -> None:
    for name in ("momentum:nesterov=true,weight_decay=0.1", "amsgrad"):
        still, moved = nn.Parameter(START.clone()), nn.Parameter(START.clone())
        opt = optimizer(name, [still, moved], LR)

        def closure(opt: torch.optim.Optimizer = opt, moved: nn.Parameter = moved) -> Tensor:
            opt.zero_grad()
            loss = moved.square().sum()
            loss.backward()
            return loss

        loss: object = opt.step(closure)  # type: ignore[arg-type]
        assert isinstance(loss, Tensor)
        assert loss.item() == pytest.approx(START.square().sum().item())
        assert torch.equal(still, START)
        assert not torch.equal(moved, START)


def test_our_weight_decay_is_torchs() -> None:
    assert far(walked("momentum:weight_decay=0.1"), walked("sgd:momentum=0.9,weight_decay=0.1")) < 1e-12

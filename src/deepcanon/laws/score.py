"""The laws of score models: modules with ``score(x)``, the gradient of a log-density, and a loss that trains it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import Batch, Descend, Model, UsageError
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.probe import doubled, seeded, total

STEPS = 400
ROWS = 256
RATE = 1e-2


@law
def scores_have_the_shape_of_the_data(module: Any, batch: Batch) -> Measured:
    """Each example has a finite score, the gradient of the log-density, in its own shape."""
    module, batch = doubled(module, batch)
    with torch.no_grad():
        found = module.score(batch.x)
    wrong = found.shape != batch.x.shape
    words = f"examples {tuple(batch.x.shape)}, scores {tuple(found.shape)}"
    return int(wrong) + int((~found.isfinite()).sum()), 0, words


@law
def learns_the_score_of_a_gaussian(module: Any, batch: Batch) -> Measured | None:
    """Trained on draws of a Gaussian, it comes near the score -(x - m) / v, of data plus noise where it has a sigma."""
    if not any(parameter.requires_grad for parameter in module.parameters()):
        return None
    size = batch.x.shape[1:].numel()
    mean = torch.linspace(-1, 1, size) if size > 1 else torch.ones(1)
    scale = torch.linspace(0.8, 1.25, size)
    random = seeded(0)

    def drawn() -> Batch:
        x = mean + scale * torch.randn(ROWS, size, generator=random)
        return Batch(x.reshape(ROWS, *batch.x.shape[1:]))

    module.train()
    if isinstance(module, Model):
        module.prepare([drawn() for _ in range(8)])
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    turns = module.turns() if isinstance(module, Model) else []
    afterwards = [turn.after for turn in turns if isinstance(turn, Descend) and turn.after is not None]
    optimizer = torch.optim.Adam(parameters, lr=RATE)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for _ in range(STEPS):
        optimizer.zero_grad()
        total(module.loss(drawn())).backward()
        optimizer.step()
        decay.step()
        for after in afterwards:  # an average of the weights, say
            after()
    module.eval()
    variance = scale.square() + torch.as_tensor(getattr(module, "sigma", 0.0)).square()
    x = mean + variance.sqrt() * torch.randn(1000, size, generator=random)
    wanted = -(x - mean) / variance
    with torch.no_grad():
        found: Tensor = module.score(x.reshape(1000, *batch.x.shape[1:])).flatten(1)
    error = float((found - wanted).square().mean() / wanted.square().mean())
    share = float((found * wanted).sum() / wanted.square().sum())
    return error, 0.15, f"after {STEPS} steps the error is {error:.3g} of the score, whose size is met by {share:.3g}"


LAWS = (scores_have_the_shape_of_the_data, learns_the_score_of_a_gaussian)


def check_score(module: nn.Module, batch: Batch) -> list[Outcome]:
    """The outcomes of the laws of score models in any module with ``score`` and ``loss``."""
    missing = [method for method in ("score", "loss") if not callable(getattr(module, method, None))]
    if missing:
        raise UsageError(f"a score model has score and loss; {', '.join(missing)} is missing")
    return outcomes(LAWS, module, batch)

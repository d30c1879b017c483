"""Score matching."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Self, get_args

import torch
from torch import Generator, Tensor

from deepcanon.core import Batch, Recipe, Sampler, Support, Terms, UsageError
from deepcanon.core.checks import at_least, flat, one_of
from deepcanon.core.precision import full
from deepcanon.nn.activations import Activation
from deepcanon.nn.dense import dense
from deepcanon.nn.rescale import Rescale, mean_and_std

Objective = Literal["denoising", "implicit", "sliced"]


class ScoreMatching(Sampler[Batch]):
    r"""A network that estimates the score, the gradient of the log-density, without a normalizing constant.

    Also known as: score estimation, denoising score matching (DSM), sliced score matching (SSM).

    Its distance from the true score (the Fisher divergence), :math:`\tfrac12 E \lVert \psi(x) - \nabla \log p(x)
    \rVert^2`, cannot be computed, but up to a constant it equals each of

    .. math:: \text{implicit:}\; E \left[ \operatorname{tr} \nabla \psi(x) + \tfrac12 \lVert \psi(x) \rVert^2 \right]
              \qquad (1)

    .. math:: \text{sliced:}\; E \left[ v^\top \nabla \psi(x) \, v + \tfrac12 \lVert \psi(x) \rVert^2 \right], \quad
              v \sim N(0, I) \qquad (2)

    .. math:: \text{denoising:}\; E \tfrac12 \lVert \psi(x + \sigma \varepsilon) + \varepsilon / \sigma \rVert^2, \quad
              \varepsilon \sim N(0, I) \qquad (3)

    where (3) is the distance from the score of the data plus noise, :math:`p * N(0, \sigma^2 I)`. The first two need a
    smooth activation. The implicit one costs one backward pass per feature, the sliced one a single pass.

    ``sample`` runs unadjusted Langevin dynamics from a broad Gaussian.

    .. math:: x \leftarrow x + \tfrac12 h^2 \psi(x) + h \xi, \quad \xi \sim N(0, I) \qquad (4)

    Its samples come from the model up to an error that falls with h, but between modes that lie far apart they are
    divided as by the initial Gaussian, not as in the data.

    References:
        | Estimation of Non-Normalized Statistical Models by Score Matching (Hyvärinen, 2005),
          https://jmlr.org/papers/v6/hyvarinen05a.html
        | A Connection Between Score Matching and Denoising Autoencoders (Vincent, 2011),
          https://doi.org/10.1162/NECO_a_00142
        | Sliced Score Matching: A Scalable Approach to Density and Score Estimation (Song et al., 2019),
          https://arxiv.org/abs/1905.07088

    Arguments:
        features: The dimension of the data.
        hidden: The widths of the hidden layers of the network :math:`\psi`.
        objective: The loss: ``denoising``, ``implicit`` or ``sliced``.
        noise: The :math:`\sigma` of the denoising objective, in units of the standard deviation of the data.
        activation: The activation of the hidden layers by name.
        langevin_steps: The number of Langevin steps of a sample.
        step_size: The step size :math:`h` of Langevin dynamics, in units of the standard deviation of the data.
    """

    recipe = Recipe(lr=2e-3, schedule="cosine", batch_size=256, epochs=60)

    def __init__(
        self,
        features: int,
        hidden: tuple[int, ...] = (128, 128),
        objective: Objective = "denoising",
        noise: float = 0.1,
        activation: Activation = "silu",
        langevin_steps: int = 500,
        step_size: float = 0.1,
    ) -> None:
        super().__init__()
        at_least(1, features=features, langevin_steps=langevin_steps)
        one_of(get_args(Objective), objective=objective)
        if noise <= 0 or step_size <= 0:
            raise UsageError(f"noise and step_size must be positive (got {noise} and {step_size})")
        if objective != "denoising" and activation in ("relu", "leaky_relu"):
            raise UsageError(f"{objective} score matching needs an activation with a second derivative, like silu")
        self.features = features
        self.objective = objective
        self.noise, self.langevin_steps, self.step_size = noise, langevin_steps, step_size
        self.to_standard = Rescale(features)
        self.net = dense(features, features, hidden, activation=activation)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0)) * 2 + 1
        return cls(features=2, hidden=(8,), langevin_steps=20), Batch(x)

    @property
    def support(self) -> Support:
        return "real"

    @property
    def sigma(self) -> Tensor:
        """The standard deviation of the added noise in the units of the data, a 0-d tensor."""
        return self.noise / self.to_standard.scale

    def prepare(self, data: Iterable[Batch]) -> None:
        """Take the mean and the standard deviation of the data, so that the network works at unit scale."""
        mean, std = mean_and_std(data)
        if std > 0:
            self.to_standard.set(1 / std, -mean / std)

    def loss(self, batch: Batch) -> Terms:
        x = flat(batch.x, self.features)
        if self.objective == "denoising":
            noise = torch.randn_like(x)
            error = self(x + self.sigma * noise) + noise / self.sigma
            return {"denoising": 0.5 * error.square().sum(-1).mean()}  # eq. (3)
        learning = torch.is_grad_enabled()
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            psi = self(x)
            slope = self._trace(psi, x, learning) if self.objective == "implicit" else self._slice(psi, x, learning)
        return {"slope": slope.mean(), "square": 0.5 * psi.square().sum(-1).mean()}  # eqs. (1) and (2)

    def forward(self, x: Tensor) -> Tensor:
        """The score, flat: (B, features)."""
        scores: Tensor = full(self.net(self.to_standard(flat(x, self.features))))
        return self.to_standard.scale * scores

    def score(self, x: Tensor) -> Tensor:
        """The learned gradient of the log-density at each example, in the shape of ``x``."""
        return self.forward(x).reshape(x.shape)

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        """Examples after ``langevin_steps`` steps of Langevin dynamics, (n, features)."""
        scale, shift = self.to_standard.scale, self.to_standard.shift

        def noise() -> Tensor:
            return torch.randn(n, self.features, generator=generator, device=scale.device, dtype=scale.dtype) / scale

        x = noise() - shift / scale
        for _ in range(self.langevin_steps):
            x = x + 0.5 * (self.step_size / scale) ** 2 * self(x) + self.step_size * noise()  # eq. (4)
        return x

    def _trace(self, psi: Tensor, x: Tensor, learning: bool) -> Tensor:
        """tr dψ/dx of each example, (B,), one row of the Jacobian at a time."""
        rows = [
            torch.autograd.grad(psi[:, i].sum(), x, create_graph=learning, retain_graph=True)[0][:, i]
            for i in range(self.features)
        ]
        return torch.stack(rows).sum(0)  # eq. (1)

    def _slice(self, psi: Tensor, x: Tensor, learning: bool) -> Tensor:
        """v' (dψ/dx) v along a random direction for each example, (B,); its mean is the trace."""
        v = torch.randn_like(x)
        (row,) = torch.autograd.grad((psi * v).sum(), x, create_graph=learning)
        return (row * v).sum(-1)  # eq. (2)

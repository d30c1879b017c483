"""Faults that only a family of models can have: generative models by their latents, games, chains, densities, order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional

import deepcanon as dc
from deepcanon.core import Descend, Turn
from tests.diagnosis.cases.case import Patient, fault
from tests.diagnosis.cases.catalogue_settings import (
    binary_vae,
    conditional_vae,
    ddpm,
    ebm,
    gan,
    gpt,
    lstm,
    made,
    maf,
    nade,
    nice,
    ours,
    pixelcnn,
    rbm,
    realnvp,
    small_rbm,
    vae,
    wavenet,
    wgan,
)

family = partial(fault, area="family")


def changed(patient: Patient, **methods: Any) -> None:
    """Give the model methods of a faulty subclass of its own class."""
    cls = type(patient.model)
    patient.model.__class__ = type(cls.__name__, (cls,), {**methods, "__module__": cls.__module__, "planted": True})


def sound_class(model: Any) -> Any:
    """The class of the catalogue whose methods a faulty one has changed; of a healthy model its own."""
    return type(model).__mro__[1] if hasattr(type(model), "planted") else type(model)


def explains(patient: Patient) -> float:
    """The share of the variance of fresh data that is reconstructed."""
    model: Any = patient.model.eval()
    x = patient.fresh.x
    with torch.no_grad():
        seen = model.given(patient.fresh.y) if hasattr(model, "conditioned_on") else model
        return float(1 - (seen.reconstruct(x) - x).square().mean() / x.var(0).mean())


def _kl_times(factor: float) -> Any:
    def loss(self: Any, batch: Any) -> dict[str, Tensor]:
        terms = sound_class(self).loss(self, batch)
        return {name: factor * term if name == "kl" else term for name, term in terms.items()}

    return loss


@family(vae, "posterior collapse")
def kl_a_thousand_times(patient: Patient) -> None:
    changed(patient, loss=_kl_times(1000.0))
    patient.score, patient.chance = explains, 0.0


@family(conditional_vae, "posterior collapse")
def kl_of_each_class_too_heavy(patient: Patient) -> None:
    changed(patient, loss=_kl_times(1000.0))
    patient.score, patient.chance = explains, 0.0


@family(binary_vae, "posterior collapse")
def mean_of_the_pixels_and_sum_of_the_latents(patient: Patient) -> None:
    def loss(self: Any, batch: Any) -> dict[str, Tensor]:
        reconstruction, kl = self.bound(batch.x)
        return {"reconstruction": reconstruction.mean() / 64, "kl": kl.mean()}

    changed(patient, loss=loss)
    patient.score, patient.chance = explains, 0.0


@family(vae, "posterior collapse")
def decoder_that_does_not_listen(patient: Patient) -> None:
    def decode(self: Any, z: Tensor) -> Any:
        return sound_class(self).decode(self, 0 * z)

    changed(patient, decode=decode)
    patient.score, patient.chance = explains, 0.0


@family(vae, "prior unused", "loss with the wrong sign")
def kl_left_out(patient: Patient) -> None:
    changed(patient, loss=_kl_times(0.0))
    patient.score, patient.chance = _drawn_well, -1.0


@family(binary_vae, "prior unused")
def kl_nearly_left_out(patient: Patient) -> None:
    changed(patient, loss=_kl_times(1e-4))
    patient.score, patient.chance = _drawn_well, -1.0


@family(gan, "mode dropping")
def generator_without_noise(patient: Patient) -> None:
    def _sample(self: Any, n: int, generator: Generator | None = None) -> Tensor:
        drawn: Tensor = self.generator(
            torch.zeros(n, self.latent) + 0.01 * torch.randn(n, self.latent, generator=generator)
        )
        return drawn

    changed(patient, _sample=_sample)


@family(wgan, "mode dropping")
def one_point_for_all(patient: Patient) -> None:
    def _sample(self: Any, n: int, generator: Generator | None = None) -> Tensor:
        drawn: Tensor = self.generator(torch.ones(n, self.latent))
        return drawn

    changed(patient, _sample=_sample)


@family(gan, "mode dropping")
def half_of_the_noise_is_used(patient: Patient) -> None:
    """The samples fall on one side of the plane, so that half of the eight Gaussians have none."""

    def _sample(self: Any, n: int, generator: Generator | None = None) -> Tensor:
        drawn: Tensor = self.generator(torch.randn(n, self.latent, generator=generator))
        return torch.cat([drawn[:, :1].abs() + 0.5, drawn[:, 1:]], 1)

    changed(patient, _sample=_sample)


def _generator_at(rate: float, game: Any = None) -> Any:
    def turns(self: Any) -> Sequence[Turn[Any]]:
        discriminator, generator = sound_class(self).turns(self)
        return [
            Descend(discriminator.loss, discriminator.parameters, name="discriminator", after=discriminator.after),
            Descend(generator.loss, generator.parameters, name="generator", lr=rate, optimizer="sgd"),
        ]

    return turns


@family(gan, "discriminator wins", "vanishing generator gradient")
def generator_hardly_moves(patient: Patient) -> None:
    changed(patient, turns=_generator_at(1e-7))


@family(wgan, "discriminator wins", "vanishing generator gradient")
def critic_far_ahead(patient: Patient) -> None:
    changed(patient, turns=_generator_at(1e-9))


@family(gan, "vanishing generator gradient", "discriminator wins")
def saturated_game(patient: Patient) -> None:
    """The generator starts far away from the data, minimizes log(1 - D), and hears nothing."""
    torch.manual_seed(1)
    patient.model = dc.models.GAN(features=2, game="minimax", critic_steps=40)
    with torch.no_grad():
        patient.model.generator[0][-1].bias.add_(40)


@family(rbm, "chain does not mix")
def chains_that_stay(patient: Patient) -> None:
    """The negative phase takes the state that it has begun with."""

    def _run_chains(self: Any, x: Tensor) -> Any:
        on = self.chains if self.persistent else self._up(x).sigmoid()
        return (self._down((on > 0.5).to(x.dtype)) > 0).to(x.dtype)

    changed(patient, _run_chains=_run_chains)


@family(small_rbm, "chain does not mix")
def chains_frozen_at_the_start(patient: Patient) -> None:
    def _keep_chains(self: Any, on: Tensor) -> None:
        self.chains.copy_((torch.arange(self.chains.numel()).view_as(self.chains) % 3 == 0).to(on))

    def _run_chains(self: Any, x: Tensor) -> Tensor:
        return (torch.arange(len(self.chains) * self.width).view(-1, self.width) % 5 == 0).to(x.dtype)

    changed(patient, _keep_chains=_keep_chains, _run_chains=_run_chains)


@family(rbm, "chain rate too high", "learning rate too high")
def rate_too_high_for_chains(patient: Patient) -> None:
    patient.settings |= {"lr": 300.0, "schedule": "constant"}


@family(ebm, "chain does not mix")
def langevin_without_steps(patient: Patient) -> None:
    patient.model.step_size = 1e-9


@family(ebm, "chain rate too high", "learning rate too high", "chain does not mix")
def energy_that_runs_away(patient: Patient) -> None:
    patient.settings |= {"lr": 3.0, "schedule": "constant"}


def _honest(patient: Patient) -> float:
    """The likelihood of fresh data by the healthy formula."""
    model: Any = patient.model.eval()
    kept, model.__class__ = model.__class__, sound_class(model)
    with torch.no_grad():
        value = float(model.log_prob(patient.fresh.x).mean())
    model.__class__ = kept
    return value if math.isfinite(value) else -1e9


@family(realnvp, "wrong log-determinant")
def sign_of_the_log_determinant(patient: Patient) -> None:
    def to_latent(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        z, log_det = sound_class(self).to_latent(self, x)
        return z, -log_det

    changed(patient, to_latent=to_latent)
    patient.score = _honest


@family(nice, "wrong log-determinant")
def log_determinant_left_out(patient: Patient) -> None:
    def to_latent(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        z, log_det = sound_class(self).to_latent(self, x)
        return z, 0 * log_det

    changed(patient, to_latent=to_latent)
    patient.score = _honest


@family(maf, "wrong log-determinant")
def log_determinant_twice(patient: Patient) -> None:
    def to_latent(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        z, log_det = sound_class(self).to_latent(self, x)
        return z, 2 * log_det

    changed(patient, to_latent=to_latent)
    patient.score = _honest


def _drawn_well(patient: Patient) -> float:
    """Minus the root of the energy distance of samples to fresh data, which is a metric."""
    from deepcanon.losses.energy_distance import energy_distance

    model: Any = patient.model.eval()
    with torch.no_grad():
        drawn = model.sample(len(patient.fresh.x), generator=torch.Generator().manual_seed(0))
        value = -math.sqrt(max(0.0, float(energy_distance(drawn, patient.fresh.x))))
    return value if math.isfinite(value) else -1e9


@family(realnvp, "wrong inverse")
def scale_not_inverted(patient: Patient) -> None:
    def to_data(self: Any, z: Tensor) -> Any:
        a, b = self._split(z, len(self.nets))
        for i in reversed(range(len(self.nets))):
            s, t = self._couple(i, b)
            a, b = b, (a - t) * s.exp()
        return self.standard.inverse(self._join(a, b))

    changed(patient, to_data=to_data)
    patient.score, patient.chance = _drawn_well, -0.55


@family(nice, "wrong inverse")
def layers_in_the_wrong_order(patient: Patient) -> None:
    def to_data(self: Any, z: Tensor) -> Any:
        return sound_class(self).to_data(self, z.flip(-1))

    changed(patient, to_data=to_data)
    patient.score, patient.chance = _drawn_well, -0.55


@family(made, "causality leak")
def masks_open(patient: Patient) -> None:
    from deepcanon.nn.masked import MaskedLinear

    for layer in patient.model.modules():
        if isinstance(layer, MaskedLinear):
            layer.mask.fill_(1)
    patient.score, patient.chance = _dreams, -40.0


@family(nade, "causality leak")
def value_sees_itself(patient: Patient) -> None:
    def logits(self: Any, x: Tensor) -> Any:
        return sound_class(self).logits(self, x) + 3 * (2 * x.flatten(1) - 1) * self.readout.mean(1).abs().add(1)

    changed(patient, logits=logits)
    patient.score, patient.chance = _dreams, -40.0


def _dreams(patient: Patient) -> float:
    """Minus the distance of the mean of samples to that of the data: what a model draws when it cannot look ahead."""
    model: Any = patient.model.eval()
    with torch.no_grad():
        drawn = model.sample(200, generator=torch.Generator().manual_seed(0)).flatten(1)
    x = patient.fresh.x.flatten(1)
    return -float((drawn.mean(0) - x.mean(0)).norm()) - 10 * float((torch.cdist(drawn, x).min(1).values).mean())


@family(pixelcnn, "causality leak")
def pixel_sees_itself(patient: Patient) -> None:
    def logits(self: Any, x: Tensor) -> Any:
        found = sound_class(self).logits(self, x)
        hint = functional.one_hot(x.long(), self.levels).movedim(-1, 1).to(found)
        return found + 8 * hint

    changed(patient, logits=logits)
    patient.score = _dreams


def _blind(patient: Patient) -> float:
    """The log-probability of the next token where what comes later is not known."""
    model: Any = patient.model.eval()
    x = patient.fresh.x[:200, :33].clone()
    last = x[:, 32].clone()
    x[:, 32] = 0
    with torch.no_grad():
        shares = model.logits(model.outputs(x))[:, 31].log_softmax(-1)
    return float(shares.gather(1, last.unsqueeze(1)).mean())


def _looks_ahead(self: Any, tokens: Tensor) -> Tensor:
    """The outputs, each mixed with that of the next position."""
    outputs: Tensor = sound_class(self).outputs(self, tokens)
    return outputs + torch.cat([outputs[:, 1:], outputs[:, -1:]], 1)


@family(gpt, "causality leak")
def attention_without_mask(patient: Patient) -> None:
    from deepcanon.models.attention._transformer import run_blocks

    def outputs(self: Any, tokens: Tensor) -> Any:
        return self._output_logits(run_blocks(self.blocks, self._embedded(tokens, 0), causal=False))

    changed(patient, outputs=outputs)
    patient.score, patient.steps = _blind, 1000  # so long it takes to learn to look ahead


@family(lstm, "causality leak")
def next_state_mixed_in(patient: Patient) -> None:
    changed(patient, outputs=_looks_ahead)
    patient.score = _blind


@family(wavenet, "causality leak")
def convolution_reaches_ahead(patient: Patient) -> None:
    changed(patient, outputs=_looks_ahead)
    patient.score = _blind


@family(lstm, "repetition", "causality leak")
def token_predicts_itself(patient: Patient) -> None:
    """Inputs and targets are the same tokens, so that what is generated repeats the last one for ever."""

    def loss(self: Any, batch: Any) -> dict[str, Tensor]:
        logits = self.logits(self.outputs(batch.x))
        return {"nll": functional.cross_entropy(logits.flatten(0, 1), batch.x.flatten())}

    changed(patient, loss=loss)
    patient.score = _blind


@family(ddpm, "schedule does not reach noise")
def noise_ends_too_soon(patient: Patient) -> None:
    patient.model.betas.mul_(0.02)
    patient.score, patient.chance = _drawn_well, -0.55


@family(ddpm, "schedule does not reach noise")
def betas_of_a_thousand_steps_in_fifty(patient: Patient) -> None:
    betas: Any = patient.model.betas
    betas[1:] = torch.linspace(1e-4, 0.02, 50)
    patient.score, patient.chance = _drawn_well, -0.55


def noisy_scores() -> Patient:
    return ours("noise_conditional_score:hidden=64/64", "moons", "loss", sign=-1.0, steps=500)


@family(noisy_scores, "schedule does not reach noise")
def largest_noise_too_small(patient: Patient) -> None:
    patient.model = dc.models.NoiseConditionalScore(features=2, hidden=(64, 64), most_noise=0.002, least_noise=0.001)
    patient.score, patient.chance = _drawn_well, -0.55

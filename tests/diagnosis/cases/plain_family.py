"""Faults of generative and sequence models written in plain PyTorch."""

from __future__ import annotations

import math
from functools import partial

import torch
from sklearn.datasets import make_moons
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Adam

from tests.diagnosis.cases.case import Patient, fault
from tests.diagnosis.cases.plain_settings import TinyTransformer, _digits, letter_model, letters, minus_loss, token_loss

family = partial(fault, area="family", plain=True)


@family(letter_model, "causality leak")
def no_mask(patient: Patient) -> None:
    patient.model = TinyTransformer(causal=False)


@family(letter_model, "causality leak")
def target_not_shifted(patient: Patient) -> None:
    """Each letter is to be predicted from itself."""
    x, _ = patient.data
    patient.data = (x, x.clone())


@family(letter_model, "causality leak")
def both_directions(patient: Patient) -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(12, 32)
            self.lstm = nn.LSTM(32, 32, batch_first=True, bidirectional=True)
            self.head = nn.Linear(64, 12)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.head(self.lstm(self.tokens(x))[0])
            return out

    patient.model = Both()


@family(letter_model, "causality leak")
def convolution_in_the_middle(patient: Patient) -> None:
    class Centered(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(12, 32)
            self.net = nn.Sequential(nn.Conv1d(32, 64, 5, padding=2), nn.ReLU(), nn.Conv1d(64, 12, 1))

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.net(self.tokens(x).transpose(1, 2)).transpose(1, 2)
            return out

    patient.model = Centered()


class PlainVAE(nn.Module):
    """A variational autoencoder of the digits, which gives reconstruction, mean and log-variance."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 16))
        self.decoder = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, 1)
        z = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
        return self.decoder(z), mean, log_variance


def negative_elbo(outputs: tuple[Tensor, Tensor, Tensor], x: Tensor, kl_weight: float = 1.0) -> Tensor:
    """The negative ELBO in nats per example, with a Gaussian of standard deviation 0.2."""
    again, mean, log_variance = outputs
    reconstruction = 12.5 * (again - x).square().sum(1)
    kl = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)
    return (reconstruction + kl_weight * kl).mean()


def reconstructed(patient: Patient) -> float:
    """The share of the variance of fresh digits that is reconstructed."""
    (x,) = patient.fresh
    with torch.no_grad():
        again = patient.model.eval()(x)[0]
    return float(1 - (again - x).square().mean() / x.var(0).mean())


def digits_vae() -> Patient:
    """A variational autoencoder of the digits, Adam."""
    x, _ = _digits()
    return Patient(
        PlainVAE(), x[:1400].clone(), reconstructed, 0.0, (x[1400:],), negative_elbo, partial(Adam, lr=3e-3), steps=500
    )


@family(digits_vae, "posterior collapse")
def divergence_weighed_too_much(patient: Patient) -> None:
    patient.loss = partial(negative_elbo, kl_weight=100.0)


@family(digits_vae, "posterior collapse", "wrong reduction")
def mean_over_the_pixels(patient: Patient) -> None:
    """The reconstruction is a mean over pixels, the divergence a sum over the latent."""

    def loss(outputs: tuple[Tensor, Tensor, Tensor], x: Tensor) -> Tensor:
        again, mean, log_variance = outputs
        kl = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
        return functional.mse_loss(again, x) + kl

    patient.loss = loss


@family(digits_vae, "prior unused", "loss with the wrong sign")
def no_divergence(patient: Patient) -> None:
    patient.loss = partial(negative_elbo, kl_weight=0.0)

    def prior_samples(p: Patient) -> float:
        (x,) = p.fresh
        net = p.model
        with torch.no_grad():
            drawn = net.decoder(torch.randn(len(x), 8, generator=torch.Generator().manual_seed(0)))
        return -float(torch.cdist(drawn, x).min(1).values.mean())

    patient.score, patient.chance = prior_samples, -4.0


class Coupling(nn.Module):
    """A flow of affine couplings in the plane; ``sign`` is that of the scales in the log-determinant."""

    def __init__(self, sign: float = 1.0, steps: int = 6) -> None:
        super().__init__()
        self.sign = sign
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 2)) for _ in range(steps))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = x.chunk(2, 1)
        log_det = x.new_zeros(len(x))
        for net in self.nets:
            s, t = net(a).chunk(2, 1)
            s = 2 * torch.tanh(s)
            a, b = b * s.exp() + t, a
            log_det = log_det + self.sign * s.squeeze(1)
        return torch.cat([a, b], 1), log_det


def negative_log_likelihood(outputs: tuple[Tensor, Tensor], x: Tensor) -> Tensor:
    """By the change of variables, with a standard normal latent."""
    z, log_det = outputs
    return (0.5 * z.square().sum(1) + math.log(2 * math.pi) - log_det).mean()


def moons_flow() -> Patient:
    """A normalizing flow of two moons, Adam."""
    x = torch.tensor(make_moons(2000, noise=0.1, random_state=0)[0], dtype=torch.float32)
    x = (x - x.mean(0)) / x.std(0)

    def likely(patient: Patient) -> float:
        net = patient.model
        assert isinstance(net, Coupling)
        net.sign, sign = 1.0, net.sign
        value = minus_loss(patient)
        net.sign = sign
        return value

    return Patient(
        Coupling(), x[:1500].clone(), likely, -2.84, (x[1500:],), negative_log_likelihood, partial(Adam, lr=5e-3),
        steps=500,
    )  # fmt: skip


@family(moons_flow, "wrong log-determinant")
def log_determinant_subtracted(patient: Patient) -> None:
    patient.model = Coupling(sign=-1.0)


@family(moons_flow, "wrong log-determinant")
def log_determinant_forgotten(patient: Patient) -> None:
    patient.model = Coupling(sign=0.0)


def recurrent_letters() -> Patient:
    """A GRU language model of drawn letters."""

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.gru, self.head = nn.Embedding(12, 32), nn.GRU(32, 64, batch_first=True), nn.Linear(64, 12)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.head(self.gru(self.tokens(x))[0])
            return out

    patient = letter_model()
    patient.model, patient.loss = Reader(), token_loss
    patient.optimizer = partial(Adam, lr=1e-2)
    return patient


@family(recurrent_letters, "causality leak")
def next_letter_among_the_inputs(patient: Patient) -> None:
    """The window begins one letter too late: what is to be predicted is what is read."""
    x = letters()[:1000]
    patient.data = (x[:, 1:].clone(), x[:, 1:].clone())

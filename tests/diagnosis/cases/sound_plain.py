"""Healthy cases of plain PyTorch: the settings that faults break, and unusual ones that are sound all the same."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop

import deepcanon as dc
from tests.diagnosis.cases import plain_family, plain_players
from tests.diagnosis.cases.case import HEALTHY, Case, Patient, sound
from tests.diagnosis.cases.plain_settings import (
    TinyTransformer,
    autoencoder,
    digits_cnn,
    digits_mlp,
    letter_model,
    regression,
    sequences,
    tumors,
    two_moons,
)

plain = partial(sound, plain=True)

for _setting in (
    digits_mlp,
    digits_cnn,
    regression,
    two_moons,
    tumors,
    letter_model,
    sequences,
    autoencoder,
    plain_family.digits_vae,
    plain_family.moons_flow,
    plain_family.recurrent_letters,
    plain_players.moons_game,
    plain_players.digits_student,
    plain_players.block_graph,
):
    HEALTHY.append(Case(f"{_setting.__name__} as it is".replace("_", " "), _setting, "recipe", plain=True))


@plain(digits_mlp)
def large_rate_with_warm_up(patient: Patient) -> None:
    patient.optimizer = partial(SGD, lr=0.5, momentum=0.9)
    patient.model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
    done = [0]

    def step(model: nn.Module, optimizer: Optimizer, batch: Any) -> Tensor:
        done[0] += 1
        for group in optimizer.param_groups:
            group["lr"] = 0.5 * min(1.0, done[0] / 50)
        optimizer.zero_grad()
        value = functional.cross_entropy(model(batch[0]), batch[1])
        value.backward()
        optimizer.step()
        return value

    patient.step = step


@plain(digits_mlp)
def batches_of_two(patient: Patient) -> None:
    patient.settings["batch_size"] = 2
    patient.optimizer = partial(SGD, lr=0.02)


@plain(regression)
def batches_of_one(patient: Patient) -> None:
    patient.settings["batch_size"] = 1
    patient.optimizer = partial(SGD, lr=0.01)


@plain(digits_mlp)
def gradients_accumulated(patient: Patient) -> None:
    calls = [0]

    def step(model: nn.Module, optimizer: Optimizer, batch: Any) -> Tensor:
        value = functional.cross_entropy(model(batch[0]), batch[1]) / 4
        value.backward()
        calls[0] += 1
        if calls[0] % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return 4 * value.detach()

    patient.step = step
    patient.settings["batch_size"] = 16


@plain(digits_cnn)
def frozen_features_on_purpose(patient: Patient) -> None:
    for parameter in patient.model.features[0].parameters():
        parameter.requires_grad_(False)
    patient.optimizer = lambda all_: SGD([p for p in all_ if p.requires_grad], lr=0.05, momentum=0.9)


@plain(digits_mlp)
def head_alone_on_trained_features(patient: Patient) -> None:
    """A trained body, frozen, and a new head: feature extraction."""
    from tests.diagnosis.cases.case import train

    train(patient)
    body = patient.model[:-1].requires_grad_(False)
    head = nn.Linear(64, 10)
    patient.model = nn.Sequential(body, head)
    patient.optimizer = lambda _: Adam(head.parameters(), lr=3e-3)


@plain(digits_mlp)
def labels_smoothed(patient: Patient) -> None:
    patient.loss = nn.CrossEntropyLoss(label_smoothing=0.2)


@plain(tumors)
def imbalance_of_one_to_fifteen(patient: Patient) -> None:
    train = patient.data.train
    keep = torch.cat([(train.y == 0).nonzero()[:15, 0], (train.y == 1).nonzero()[:, 0]])
    patient.data = dc.from_tensors(
        train.x[keep], train.y[keep], valid=(patient.data.valid.x, patient.data.valid.y), test=patient.fresh
    )


@plain(tumors)
def descent_at_one_on_a_convex_problem(patient: Patient) -> None:
    patient.model = nn.Linear(30, 2)
    patient.optimizer = partial(SGD, lr=1.0)


@plain(digits_mlp)
def last_layer_zero(patient: Patient) -> None:
    nn.init.zeros_(patient.model[-1].weight)
    nn.init.zeros_(patient.model[-1].bias)


@plain(tumors)
def linear_model_from_zero(patient: Patient) -> None:
    patient.model = nn.Linear(30, 2)
    nn.init.zeros_(patient.model.weight)
    nn.init.zeros_(patient.model.bias)


@plain(regression)
def a_few_outliers(patient: Patient) -> None:
    patient.data.train.y[::200] *= 6
    patient.loss = nn.HuberLoss()


@plain(regression)
def inputs_with_heavy_tails(patient: Patient) -> None:
    patient.data.train.x[::100, 5] *= 15


@plain(two_moons)
def duplicates_inside_training(patient: Patient) -> None:
    x, y = patient.data.train.x, patient.data.train.y
    patient.data = dc.from_tensors(
        torch.cat([x, x]), torch.cat([y, y]), valid=(patient.data.valid.x, patient.data.valid.y)
    )


@plain(tumors)
def few_patterns_in_all_splits(patient: Patient) -> None:
    """Six binary answers: most patterns are in every split, as there are only 64 of them."""
    random = torch.Generator().manual_seed(0)
    x = (torch.rand(900, 6, generator=random) < 0.5).float()
    y = ((x[:, 0] + x[:, 1] + x[:, 2] + 0.6 * torch.randn(900, generator=random)) > 1.5).long()
    patient.data = dc.from_tensors(x[:600], y[:600], valid=(x[600:750], y[600:750]), test=(x[750:], y[750:]))
    patient.model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))


@plain(digits_mlp)
def pixels_that_are_always_black(patient: Patient) -> None:
    for part in (patient.data.train, patient.data.valid, patient.data.test):
        part.x[:, :20] = 0


@plain(digits_mlp)
def dropout_of_sixty_percent(patient: Patient) -> None:
    patient.model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.6), nn.Linear(256, 10))


@plain(digits_mlp)
def mixed_precision(patient: Patient) -> None:
    def step(model: nn.Module, optimizer: Optimizer, batch: Any) -> Tensor:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value = functional.cross_entropy(model(batch[0]), batch[1])
        value.backward()
        optimizer.step()
        return value

    patient.step = step


@plain(regression)
def double_precision(patient: Patient) -> None:
    x, y = patient.data.train.x.double(), patient.data.train.y.double()
    patient.data, patient.model = (x, y), patient.model.double()


@plain(regression)
def noise_that_no_one_can_predict(patient: Patient) -> None:
    y = patient.data.train.y
    y.add_(0.8 * torch.randn(y.shape, generator=torch.Generator().manual_seed(0)))


@plain(tumors)
def a_tenth_of_the_labels_wrong(patient: Patient) -> None:
    y = patient.data.train.y
    wrong = torch.rand(len(y), generator=torch.Generator().manual_seed(0)) < 0.1
    y[wrong] = 1 - y[wrong]


@plain(digits_mlp)
def clipped_gradients(patient: Patient) -> None:
    def step(model: nn.Module, optimizer: Optimizer, batch: Any) -> Tensor:
        optimizer.zero_grad()
        value = functional.cross_entropy(model(batch[0]), batch[1])
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return value

    patient.step = step


@plain(digits_mlp)
def weights_decayed(patient: Patient) -> None:
    patient.optimizer = partial(AdamW, lr=3e-3, weight_decay=0.1)


@plain(two_moons)
def a_very_wide_network(patient: Patient) -> None:
    patient.model = nn.Sequential(nn.Linear(2, 1024), nn.ReLU(), nn.Linear(1024, 1))
    patient.optimizer = partial(Adam, lr=1e-3)


@plain(digits_mlp)
def sparse_rectifiers(patient: Patient) -> None:
    """Biases below zero, so that most units are silent on most examples."""
    patient.model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10))
    nn.init.constant_(patient.model[0].bias, -0.5)


@plain(digits_mlp)
def deep_with_skips(patient: Patient) -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.LayerNorm(48), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 48))

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = x + self.inner(x)
            return out

    patient.model = nn.Sequential(nn.Linear(64, 48), *(Residual() for _ in range(8)), nn.Linear(48, 10))
    patient.optimizer = partial(Adam, lr=1e-3)


@plain(letter_model)
def tied_embedding(patient: Patient) -> None:
    net = TinyTransformer()
    net.head.weight = net.tokens.weight
    patient.model = net


@plain(sequences)
def root_mean_square_descent(patient: Patient) -> None:
    patient.optimizer = partial(RMSprop, lr=2e-3)


@plain(regression)
def hinge_in_place_of_squares(patient: Patient) -> None:
    patient.loss = nn.L1Loss()


@plain(digits_mlp)
def one_class_against_the_rest(patient: Patient) -> None:
    """A tenth of the examples are of the class that is sought."""
    parts = [(part.x, (part.y == 3).long()) for part in (patient.data.train, patient.data.valid, patient.data.test)]
    patient.data = dc.from_tensors(*parts[0], valid=parts[1], test=parts[2])
    patient.model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2))


@plain(regression)
def a_feature_that_says_much(patient: Patient) -> None:
    """One honest feature explains most of the target."""
    for part in (patient.data.train, patient.data.valid, patient.data.test):
        noise = torch.randn(part.y.shape[0], generator=torch.Generator().manual_seed(len(part.y)))
        part.x[:, 5] = part.y[:, 0] + 0.5 * noise


@plain(tumors)
def columns_of_different_size(patient: Patient) -> None:
    """Scales within a factor of ten, as of a table that is nearly standardized."""
    for part in (patient.data.train, patient.data.valid, patient.data.test):
        part.x.mul_(torch.linspace(0.5, 3.0, 30))


@plain(digits_cnn)
def nesterov_with_weight_decay(patient: Patient) -> None:
    patient.optimizer = partial(SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)


@plain(regression)
def a_walk_that_is_split_by_time(patient: Patient) -> None:
    walk = torch.randn(1000, generator=torch.Generator().manual_seed(0)).cumsum(0) + 0.05 * torch.arange(1000)
    x, y = torch.stack([walk[place : place + 990] for place in range(6)], 1), walk[6:996].unsqueeze(1)
    patient.model = nn.Linear(6, 1)
    patient.data = dc.from_tensors(x[:700], y[:700], valid=(x[706:850], y[706:850]), test=(x[856:], y[856:]))
    patient.fresh = (x[856:], y[856:])


@plain(plain_players.moons_game)
def a_game_at_a_slow_pace(patient: Patient) -> None:
    patient.optimizer = partial(Adam, lr=2e-4, betas=(0.5, 0.99))


@plain(digits_mlp)
def a_module_with_a_lock(patient: Patient) -> None:
    patient.model.lock = threading.Lock()

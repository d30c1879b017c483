"""Faults in the recipe of the catalogue's models: rates, starts, depth, regularization."""

from __future__ import annotations

from functools import partial

from torch import nn

from deepcanon.blueprints import blueprint
from tests.diagnosis.cases.case import Patient, fault
from tests.diagnosis.cases.catalogue_settings import (
    autoencoder_model,
    cnn,
    gpt,
    logistic_regression_by_descent,
    lstm,
    measured,
    mlp,
    mlp_on_diabetes,
    mlp_on_houses,
    realnvp,
    vae,
)  # fmt: skip

recipe = partial(fault, area="recipe")


def rebuilt(patient: Patient, words: str) -> None:
    """Another model of the catalogue in its place, for the same data."""
    patient.model = blueprint(words).build(patient.data.model_sizes, patient.data.name)


@recipe(mlp, "learning rate too high")
def rate_of_ten(patient: Patient) -> None:
    patient.settings["lr"] = 10.0


@recipe(cnn, "learning rate too high")
def rate_of_a_hundred(patient: Patient) -> None:
    patient.settings["lr"] = 100.0


@recipe(vae, "learning rate too high")
def rate_of_one(patient: Patient) -> None:
    patient.settings["lr"] = 1.0


@recipe(gpt, "learning rate too high")
def rate_a_thousand_times_too_high(patient: Patient) -> None:
    patient.settings["lr"] = 1.0


@recipe(mlp_on_houses, "learning rate too high")
def descent_at_five(patient: Patient) -> None:
    patient.settings |= {"optimizer": "sgd", "lr": 5.0}


@recipe(mlp, "learning rate too low")
def rate_of_nothing(patient: Patient) -> None:
    patient.settings["lr"] = 1e-8


@recipe(vae, "learning rate too low")
def digits_lost(patient: Patient) -> None:
    patient.settings["lr"] = 3e-9


@recipe(realnvp, "learning rate too low")
def flow_that_stands_still(patient: Patient) -> None:
    patient.settings["lr"] = 1e-8


@recipe(lstm, "learning rate too low")
def memory_that_learns_nothing(patient: Patient) -> None:
    patient.settings["lr"] = 1e-8


@recipe(cnn, "learning rate too low")
def comma_in_the_wrong_place(patient: Patient) -> None:
    patient.settings["lr"] = 1e-7


@recipe(mlp, "weight decay too strong")
def decay_of_a_hundred(patient: Patient) -> None:
    patient.settings["optimizer"] = "adamw:weight_decay=300"
    patient.settings["lr"] = 2e-3


@recipe(cnn, "weight decay too strong")
def decay_of_convolutions(patient: Patient) -> None:
    patient.settings |= {"optimizer": "sgd:momentum=0.9,weight_decay=3.0", "lr": 0.05}


@recipe(mlp_on_diabetes, "weight decay too strong")
def penalty_of_a_thousand(patient: Patient) -> None:
    rebuilt(patient, "regularized:model=mlp,l2=1000")


@recipe(mlp, "clipping too strong", "learning rate too low")
def clipped_away(patient: Patient) -> None:
    patient.settings |= {"optimizer": "sgd", "lr": 0.1, "clip": "norm:1e-7"}


@recipe(mlp, "schedule ends too early")
def decay_within_a_few_steps(patient: Patient) -> None:
    patient.settings |= {"optimizer": "sgd", "lr": 0.1, "schedule": "exponential:rate=0.1,scale=2"}


@recipe(gpt, "schedule ends too early")
def rate_gone_at_once(patient: Patient) -> None:
    patient.settings["schedule"] = "exponential:rate=0.01,scale=2"


def _weights(patient: Patient) -> list[nn.Parameter]:
    return [parameter for parameter in patient.model.parameters() if parameter.ndim > 1]


@recipe(mlp, "symmetric start", "bad initialization")
def weights_all_zero(patient: Patient) -> None:
    for weight in patient.model.parameters():
        nn.init.zeros_(weight)


@recipe(autoencoder_model, "symmetric start", "bad initialization")
def weights_all_equal(patient: Patient) -> None:
    for weight in _weights(patient):
        nn.init.constant_(weight, 0.02)


@recipe(mlp, "bad initialization", "exploding gradients")
def weights_of_a_hundred(patient: Patient) -> None:
    for weight in _weights(patient):
        nn.init.normal_(weight, std=100.0)


@recipe(mlp, "saturated units", "bad initialization", "vanishing gradients")
def sigmoids_far_out(patient: Patient) -> None:
    rebuilt(patient, "mlp:hidden=64/64,activation=sigmoid")
    for weight in _weights(patient):
        nn.init.normal_(weight, std=50.0)


@recipe(mlp, "vanishing gradients")
def deep_sigmoids(patient: Patient) -> None:
    rebuilt(patient, "mlp:hidden=" + "/".join(["32"] * 14) + ",activation=sigmoid")


@recipe(autoencoder_model, "vanishing gradients")
def deep_sigmoids_both_ways(patient: Patient) -> None:
    rebuilt(patient, "autoencoder:activation=sigmoid,hidden=" + "/".join(["32"] * 8))


@recipe(mlp, "dead units", "bad initialization")
def units_that_never_fire(patient: Patient) -> None:
    for name, parameter in patient.model.named_parameters():
        if "bias" in name and len(parameter) != 10:
            nn.init.constant_(parameter, -100.0)


@recipe(mlp, "dropout too strong")
def dropout_of_nearly_all(patient: Patient) -> None:
    rebuilt(patient, "mlp:hidden=64/64,dropout=0.99")


@recipe(mlp, "noise too strong", "dropout too strong")
def noise_that_drowns_the_digits(patient: Patient) -> None:
    rebuilt(patient, "noise_injection:model=mlp,inputs=100")


@recipe(mlp, "noise too strong", "label noise", "shuffled labels")
def every_class_drawn_anew(patient: Patient) -> None:
    rebuilt(patient, "noise_injection:model=mlp,inputs=0,targets=1")


@recipe(mlp, "frozen parameters")
def all_but_the_biases_frozen(patient: Patient) -> None:
    rebuilt(patient, "mlp:hidden=4/4")
    patient.settings["freeze"] = "*weight*"


@recipe(logistic_regression_by_descent, "learning rate too low")
def convex_and_standing_still(patient: Patient) -> None:
    patient.settings["lr"] = 1e-8
    patient.score, patient.chance = measured("nll", -1.0), -0.66

"""Evaluation mode: what the model answers depends on the example alone, and is the same every time.

Measured in evaluation mode; exact. Twice the same batch: dropout that stays active gives two answers
(``functional.dropout`` without ``training=self.training``). An example alone and in its batch: batch normalization by
the statistics of the batch, or an operation over the wrong axis, gives two answers. After one batch and after another:
a state that a module of the user's keeps from batch to batch gives two answers. Models of ours that draw by other
means than dropout (a sampled latent) are let pass, and modules where answers differ little. And the training
steps find the model in training mode, also those after a validation.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, GraphBatch
from deepcanon.diagnosis.anatomy import Operations
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip, evaluating
from deepcanon.train.randomness import seed_all

STAGE, PLACE = "wiring", 50

ROUNDS = 24
"""So many steps of the user's own are made: some validate every tenth time, and leave the model in evaluation mode."""

CLOSE = 1e-3
"""Answers in other batches may differ by so much of their spread: sums are rounded in another order."""

NOISY = 0.1
"""Answers of a module of the user's that differ by more of their spread are noise, not a sampled latent's."""

DROPOUTS = frozenset({"dropout", "dropout_", "alpha_dropout", "feature_dropout", "feature_alpha_dropout", "dropout1d",
                      "dropout2d", "dropout3d"})  # fmt: skip


def check(patient: Patient) -> Iterator[Diagnosis]:
    batch = patient.batch(8)
    related = patient.whole or (patient.ours is not None and patient.ours.relates_examples)
    if related or isinstance(batch, GraphBatch) or len(batch) < 2:
        raise Skip("the examples of a batch belong together")
    model = patient.twin()
    with evaluating(model):
        seed_all(0)
        one = patient.outputs(model, batch)
        with Operations(DROPOUTS | {"batch_norm"}) as used:
            seed_all(1)
            other = patient.outputs(model, batch)
        if not isinstance(one, Tensor) or not one.is_floating_point() or one.ndim < 1:
            raise Skip("the outputs are not one tensor of numbers")
        if patient.ours is None and _keeps_state(patient, batch):
            yield Diagnosis(
                cause="state kept between batches",
                evidence={"examples": len(batch)},
                advice="begin every batch with a new state: examples that are shuffled do not continue one another",
                where="forward",
                confirmed_by="exact: after one batch and after another, the same examples get two answers",
            )
            return
        if not _close(one, other):
            if any(_drops(args, kwargs) for name, args, kwargs in used.seen if name in DROPOUTS):
                yield Diagnosis(
                    cause="train mode in evaluation",
                    evidence={"largest_difference": float((one - other).abs().max())},
                    advice="use nn.Dropout, or functional.dropout(x, p, training=self.training)",
                    where="dropout is active in evaluation mode",
                    confirmed_by="exact: two passes in evaluation mode differ",
                )
                return
            patient.note(random_in_evaluation=True)
            if patient.ours is None and patient.task != "none" and not _close(one, other, NOISY):
                yield Diagnosis(
                    cause="train mode in evaluation",
                    evidence={"largest_difference": float((one - other).abs().max())},
                    advice="draw noise only if self.training",
                    where="noise is drawn in evaluation mode",
                    confirmed_by="exact: two passes in evaluation mode differ",
                )
            return
        if len(one) != len(batch):
            return
        yield from _alone(patient, model, one, used)
    yield from _left_in_evaluation(patient)


def _keeps_state(patient: Patient, batch: AnyBatch) -> bool:
    """Whether answers depend on the batch before, by the same random numbers."""
    answers = []
    for seed in (1, 2):
        model = patient.twin()
        with evaluating(model):
            seed_all(0)
            patient.outputs(model, patient.batch(len(batch), seed))
            answers.append(patient.outputs(model, batch))
    return bool(answers[0].isfinite().all()) and not _close(*answers)


def _drops(args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    training = kwargs.get("training", args[2] if len(args) > 2 else True)
    return bool(training)


def _close(one: Tensor, other: Tensor, share: float = CLOSE) -> bool:
    if one.shape != other.shape:
        return False
    spread = float(one.double().std().nan_to_num()) if one.numel() > 1 else 0.0
    scale = max(spread, 1e-3 * float(one.abs().max().nan_to_num()), 1e-12)
    return float((one - other).abs().max().nan_to_num()) <= share * scale


def _alone(patient: Patient, model: nn.Module, together: Tensor, used: Operations) -> Iterator[Diagnosis]:
    batch = patient.batch(8)

    def answers(copies: int) -> Tensor:
        places = [batch.select(torch.tensor([place] * copies)) for place in range(len(batch))]
        return torch.cat([patient.outputs(model, each)[:1] for each in places])

    try:
        alone = answers(1)
    except (RuntimeError, ValueError, IndexError):
        alone = answers(2)
    if bool(together.isfinite().all()) and not bool(alone.isfinite().all()):
        alone = answers(2)  # a deviation over the batch is none of one example
    if bool(together.isfinite().all()) and not bool(alone.isfinite().all()):
        half = len(batch) // 2  # nor of two that are alike
        together, alone = together[:half], patient.outputs(model, batch.select(torch.arange(half)))
    if _close(together, alone):
        return
    normed = [args for name, args, kwargs in used.seen if name == "batch_norm" and _by_batch(args, kwargs)]
    gap = float((together - alone).abs().max())
    if normed:
        yield Diagnosis(
            cause="train mode in evaluation",
            evidence={"largest_difference": gap},
            advice="keep running statistics (track_running_stats=True) and use them in evaluation (training=False)",
            where="batch norm uses the statistics of the batch in evaluation mode",
            confirmed_by="exact: an example alone and in its batch get two answers",
        )
        return
    yield Diagnosis(
        cause="examples mix within a batch",
        evidence={"largest_difference": gap},
        advice="look for softmax, mean, reshape or attention over axis 0, which is that of the examples",
        where="forward",
        confirmed_by="exact: an example alone and in its batch get two answers",
    )


def _by_batch(args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    return bool(kwargs.get("training", args[5] if len(args) > 5 else False))


def _left_in_evaluation(patient: Patient) -> Iterator[Diagnosis]:
    """A step of the user's own that trains in evaluation mode, where that makes a difference."""
    if patient.step is None or patient.optimizer is None:
        return
    model, optimizer = patient.twins()
    differs = [module for module in model.modules()
               if isinstance(module, nn.modules.dropout._DropoutNd | nn.modules.batchnorm._BatchNorm)]  # fmt: skip
    if not differs:
        return
    modes: list[bool] = []
    hook = model.register_forward_pre_hook(
        lambda module, _: modes.append(module.training) if torch.is_grad_enabled() else None
    )
    model.train()
    steps = 0
    for number, batch in zip(range(1, ROUNDS + 1), patient.batches(), strict=False):
        modes.clear()
        patient.call_step(model, optimizer, batch, number)
        steps += bool(modes) and not any(modes)
    hook.remove()
    if steps:
        yield Diagnosis(
            cause="the model is trained in evaluation mode",
            evidence={"layers_that_differ": len(differs), "steps": steps, "of": ROUNDS},
            advice="call model.train() before each training step, and again after validation",
            where="step",
            confirmed_by="exact: the mode in which the step calls the model",
        )

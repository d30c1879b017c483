"""Output and loss: the end of the model gives what the loss takes, and descending on it makes predictions better.

Measured on a batch, at the functions that the loss calls; exact. Cross-entropy takes logits: where it gets rows that
are probabilities, there is a softmax before it, and its loss cannot fall below log(1 + (C - 1) / e). A binary
cross-entropy with logits takes no sigmoid, a negative log-likelihood log-probabilities. The end must reach the targets:
alarmed where at least 5 % of them lie beyond its range by a tenth of their deviation. That range is that of the last
activation, and else what comes out where numbers of any size are put in place of the last layer's output. The sign: the
slope of the loss must raise the output of the right class, and draw outputs to their targets; alarmed where it does the
opposite for nine of ten examples and the loss is negative, or the optimizer maximizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import Labeled
from deepcanon.diagnosis.anatomy import Operations
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.output_range import WHOLE, range_of_end
from deepcanon.diagnosis.patient import Patient, Skip

STAGE, PLACE = "loss", 30

FUNCTIONS = frozenset({"cross_entropy", "nll_loss", "binary_cross_entropy_with_logits", "binary_cross_entropy",
                       "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})  # fmt: skip

RANGES = {
    "Relu": (0.0, torch.inf),
    "Sigmoid": (0.0, 1.0),
    "Tanh": (-1.0, 1.0),
    "Softmax": (0.0, 1.0),
    "Softplus": (0.0, torch.inf),
    "Exp": (0.0, torch.inf),
    "Abs": (0.0, torch.inf),
    "Square": (0.0, torch.inf),
    "LogSoftmax": (-torch.inf, 0.0),
    "LogSigmoid": (-torch.inf, 0.0),
}
"""What activations can give."""

THROUGH = ("View", "Unsafe", "Squeeze", "Unsqueeze", "Reshape", "Transpose", "Permute", "Clone", "Alias", "Select")
"""Operations that only change the shape."""

BEYOND, DEVIATION, WRONG, NOTHING = 0.05, 0.1, 0.9, 0.01


def check(patient: Patient) -> Iterator[Diagnosis]:
    batch = patient.batch(64)
    model = patient.twin().eval()
    kept: list[Any] = []
    hook = model.register_forward_hook(lambda *call: kept.append(call[2]))
    with Operations(FUNCTIONS) as used:
        loss = patient.loss(model, batch)
    hook.remove()
    found = next((each for call in used.seen if (each := _mistaken(*call)) is not None), None)
    patient.note(losses=", ".join(sorted({name for name, _, _ in used.seen})) or "of its own")
    if found is not None:
        yield found
        return
    output = kept[-1] if kept else None
    if not isinstance(batch, Labeled) or not isinstance(output, Tensor) or len(output) != len(batch):
        raise Skip("there is no output for each label")
    ill = list(_out_of_reach(used, batch))
    compared = patient.task == "targets" and output.shape == batch.y.shape
    if not ill and compared and _is_drawn(patient, model, loss, output, batch):
        end = _end(output)
        low, high = RANGES.get(end) or range_of_end(model, lambda: patient.outputs(model, batch), output)
        ill = list(_beyond(low, high, batch.y, f"{end.lower()} at the end of the model"))
    yield from ill
    if not ill and not patient.without_fit:
        yield from _wrong_sign(patient, loss, output, batch)


def _mistaken(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Diagnosis | None:
    """A loss that gets something else than it takes."""
    given = args[0] if args else kwargs.get("input")
    if not isinstance(given, Tensor) or given.ndim < 1:
        return None
    end, values = _end(given), given.detach()
    exact = "exact: what the loss is given"
    if name == "cross_entropy" and values.ndim >= 2 and values.shape[1] > 1:
        sums = values.sum(1)
        if bool((values >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=1e-4):
            return Diagnosis(
                cause="softmax before cross-entropy",
                evidence={"outputs_sum_to": float(sums.mean()), "figure": "bars",
                          "bars": {str(k): float(v) for k, v in enumerate(values.flatten(1)[0][:20])}},
                advice="give the logits to the loss: leave out the softmax, which cross-entropy has inside",
                where="end of the model",
                confirmed_by=exact,
            )  # fmt: skip
        if end == "Sigmoid":
            return Diagnosis(
                cause="sigmoid before cross-entropy",
                evidence={"lowest_output": float(values.min()), "highest_output": float(values.max())},
                advice="give the logits to the loss: leave out the sigmoid",
                where="end of the model",
                confirmed_by=exact,
            )
    if name == "binary_cross_entropy_with_logits" and end in ("Sigmoid", "Softmax"):
        return Diagnosis(
            cause="sigmoid before cross-entropy with logits",
            evidence={"lowest_output": float(values.min()), "highest_output": float(values.max())},
            advice="leave out the sigmoid, which the loss has inside, or take binary_cross_entropy",
            where="end of the model: the sigmoid is applied twice",
            confirmed_by=exact,
        )
    if name == "nll_loss" and values.ndim >= 2 and values.shape[1] > 1:
        total = values.logsumexp(1)
        if not torch.allclose(total, torch.zeros_like(total), atol=1e-3):
            return Diagnosis(
                cause="missing log-softmax",
                evidence={"log_of_summed_probabilities": float(total.mean()), "should_be": 0.0},
                advice="give log-probabilities to the loss (log_softmax), or take cross_entropy of logits",
                where="end of the model",
                confirmed_by=exact,
            )
    return None


def _end(output: Tensor) -> str:
    """The last operation that gave a tensor, but for those that change its shape."""
    node = output.grad_fn
    while node is not None:
        name = node.name().removesuffix("Backward0").removesuffix("Backward1")
        if name == "Pow" and getattr(node, "_saved_exponent", 1) in (2, 4):
            return "Square"
        if name != "T" and not name.startswith(THROUGH):
            return name
        node = node.next_functions[0][0] if node.next_functions else None
    return ""


def _out_of_reach(used: Operations, batch: Labeled) -> Iterator[Diagnosis]:
    for name, args, kwargs in used.seen:
        if name not in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
            continue
        given = args[0] if args else kwargs.get("input")
        target = args[1] if len(args) > 1 else kwargs.get("target")
        if isinstance(given, Tensor) and isinstance(target, Tensor) and given.grad_fn is not None:
            end = _end(given)
            yield from _beyond(*RANGES.get(end, WHOLE), target.detach(), f"{end.lower()} at the end of the model")
            return


def _is_drawn(patient: Patient, model: nn.Module, loss: Tensor, output: Tensor, batch: Labeled) -> bool:
    """Whether the loss draws each output to its target, as a squared error does: where they meet it has no slope."""
    slope = _slope(loss, output)
    if slope is None or float((slope * (output.detach() - batch.y) >= 0).double().mean()) <= WRONG:
        return False
    kept: list[Any] = []
    hook = model.register_forward_hook(lambda *call: kept.append(call[2]))
    try:
        met = patient.loss(model, replace(batch, y=output.detach().to(batch.y.dtype)))
    except (RuntimeError, ValueError):  # such targets it does not take
        return False
    finally:
        hook.remove()
    rest = _slope(met, kept[-1]) if kept and isinstance(kept[-1], Tensor) else None
    return rest is not None and float(rest.norm()) <= NOTHING * float(slope.norm())


def _slope(loss: Tensor, output: Tensor) -> Tensor | None:
    if not output.requires_grad or not loss.requires_grad:
        return None
    slopes: tuple[Tensor | None, ...] = torch.autograd.grad(loss, [output], allow_unused=True, retain_graph=True)
    return slopes[0]


def _beyond(low: float, high: float, target: Tensor, where: str) -> Iterator[Diagnosis]:
    slack = DEVIATION * float(target.double().std())
    share = float(((target < low - slack) | (target > high + slack)).double().mean())
    if share >= BEYOND:
        yield Diagnosis(
            cause="output cannot reach targets",
            evidence={"share_beyond": share, "lowest_target": float(target.min()),
                      "highest_target": float(target.max()), "range_of_the_output": f"{low:g} to {high:g}"},
            advice="end with a linear layer, or scale the targets into the range of the activation",
            where=where,
            confirmed_by="exact: the range of the activation and the targets",
            margin=share / BEYOND,
        )  # fmt: skip


def _wrong_sign(patient: Patient, loss: Tensor, output: Tensor, batch: Labeled) -> Iterator[Diagnosis]:
    slope = _slope(loss, output)
    if slope is None:
        return
    y = batch.y
    if patient.task == "classes" and slope.ndim == 2 and y.ndim == 1 and int(y.max()) < slope.shape[1] > 1:
        against = slope.gather(1, y.unsqueeze(1)) > 0
        share = float(against.double().mean())
    elif y.is_floating_point() and output.numel() == y.numel():
        above = 0.5 - y.flatten() if patient.task == "bits" else output.detach().flatten() - y.flatten()
        share = float((slope.flatten() * above < 0).double().mean())
    else:
        return
    descends = (
        not any(group.get("maximize", False) for group in patient.optimizer.param_groups)
        if (patient.optimizer is not None)
        else True
    )
    value = float(loss.detach())
    patient.note(slope_against=share, descends=descends)
    if (share > WRONG and value < 0 and descends) or (share < 1 - WRONG and value > 0 and not descends):
        yield Diagnosis(
            cause="loss with the wrong sign",
            evidence={"loss": value, "examples_that_get_worse": share if descends else 1 - share},
            advice="descend on the loss, not on minus it" if descends else "leave out maximize=True",
            where="loss" if descends else "optimizer",
            confirmed_by="exact: the slope of the loss at the outputs",
        )

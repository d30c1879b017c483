"""Other checkers of trainings on the doctor's cases of plain PyTorch, for ``python benchmarks/doctor.py --part peers``.

    pip install --no-deps neural_net_checklist cockpit-for-pytorch backpack-for-pytorch json-tricks seaborn skorch \\
        einops unfoldNd
    pip install --target old 'setuptools<80' && PYTHONPATH=old ...  # of which cockpit imports pkg_resources

neural_net_checklist names torchvision among its needs and does not import it. Of the three only the checklist judges:
its assertions pass or fail. skorch's doctor and cockpit record numbers, which the user reads; so that they are in the
table at all, each is credited with every cause that its numbers show to anyone who looks: what is not finite, gradients
that are exactly zero, weights that never change, a loss that grows. A sign counts as the right cause if any of the
causes that it may stand for is right, where the doctor must name one.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import io
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from tests.diagnosis.cases.case import Case, Patient, batches

Row = dict[str, Any]
STEPS = 60

NOT_FINITE = (
    "non-finite inputs", "non-finite targets", "non-finite values", "learning rate too high", "exploding gradients",
    "bad initialization", "unscaled inputs", "unscaled targets", "wrong reduction",
)  # fmt: skip
NO_GRADIENT = (
    "detached graph", "frozen parameters", "dead units", "symmetric start", "saturated units", "vanishing gradients",
    "input not used", "bad initialization",
)  # fmt: skip
NO_CHANGE = (
    "gradients cleared before step", "parameters do not change", "parameters not in the optimizer", "frozen parameters",
    "detached graph", "learning rate too low", "clipping too strong",
)  # fmt: skip
LOSS_GROWS = (
    "learning rate too high",
    "exploding gradients",
    "wrong reduction",
    "momentum too high",
    "missing zero_grad",
)
FIRST_LOSS = (
    "bad initialization", "exploding gradients", "saturated units", "unscaled inputs", "wrong reduction",
    "missing log-softmax", "labels out of range",
)  # fmt: skip
MIXED = ("examples mix within a batch", "train mode in evaluation", "seed not honored")
CANNOT_FIT = (
    "softmax before cross-entropy", "output cannot reach targets", "wrong broadcast of targets",
    "loss with the wrong sign",
    "missing log-softmax", "dropout too strong", "vanishing gradients", "dead units", "symmetric start",
    "detached graph", "unregistered parameters", "frozen parameters", "bottleneck/underfitting",
)  # fmt: skip
NO_BETTER = ("input not used", "constant inputs", "dead units", "vanishing gradients", "symmetric start")


def examined(case: Case, seed: int) -> Row:
    """What each peer shows of a case: the signs, and whether one of them stands for the cause."""
    found: Row = {}
    for name, peer in PEERS.items():
        patient = case.patient(seed)
        with warnings.catch_warnings(), _quiet():
            warnings.simplefilter("ignore")
            try:
                signs = dict(peer(patient))
                found[name] = {
                    "signs": list(signs),
                    "named": any(cause in case.causes for c in signs.values() for cause in c),
                }
            except Exception as error:
                found[name] = {"signs": [], "named": False, "failed": f"{type(error).__name__}: {str(error)[:100]}"}
    return {"peers": found}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def load() -> None:
    """Import the peers here, which takes seconds, so that the process of each case has them."""
    for name in ("neural_net_checklist.torch_diagnostics", "skorch.helper", "cockpit", "backpack"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(name)


def checklist(patient: Patient) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The assertions of neural_net_checklist that fit the task, with its own optimizer, as it takes no other."""
    from neural_net_checklist import torch_diagnostics as all_

    batch, loss = next(batches(patient)), _loss(patient)
    if len(batch) == 1:
        batch = (batch[0], batch[0])
    given = (batch[0], batch[-1])

    def fresh() -> nn.Module:
        net: nn.Module = copy.deepcopy(patient.model)
        return net

    y = given[1]
    classes = int(y.max()) + 1 if not y.is_floating_point() else 0
    checks: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
        "forward depends on the batch": (lambda: all_.assert_forward_batch_independence(fresh, given), MIXED),
        "gradient is zero": (lambda: all_.assert_non_zero_gradients(fresh(), given), NO_GRADIENT),
        "backward depends on the batch": (lambda: all_.assert_backward_batch_independence(fresh, given), MIXED),
        "no better than without input": (
            lambda: all_.assert_input_independent_baseline_worse(fresh, given, loss_fn=loss),
            NO_BETTER,
        ),
        "batch cannot be fitted": (
            lambda: all_.assert_overfit_to_batch(fresh(), given, loss_fn=loss, threshold=0.1, max_steps=1000),
            CANNOT_FIT,
        ),
    }
    if classes and y.ndim == 1:
        checks["first loss"] = (
            lambda: all_.assert_balanced_classification_cross_entropy_loss_at_init(
                fresh(), given, num_classes=classes, loss_fn=loss
            ),
            FIRST_LOSS,
        )
        checks["not calibrated at first"] = (
            lambda: all_.assert_balanced_classification_cross_entropy_init_calibrated(
                fresh(), given, num_classes=classes
            ),
            ("bad initialization", "saturated units"),
        )
    if classes and y.ndim == 2:
        checks["later positions matter"] = (
            lambda: all_.assert_forward_causal_property(fresh, given), ("causality leak",)
        )  # fmt: skip
    for sign, (check, causes) in checks.items():
        try:
            check()
        except AssertionError:
            yield sign, causes
        except (RuntimeError, ValueError, IndexError, TypeError, AttributeError):
            continue  # it cannot be applied to such a model


def skorch(patient: Patient) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What skorch's doctor has recorded after some steps of skorch's own loop."""
    import numpy as np
    from skorch import NeuralNet
    from skorch.helper import SkorchDoctor

    class Criterion(nn.Module):
        def forward(self, output: Any, target: Tensor) -> Tensor:
            return _loss(patient)(output, target)

    given = patient.optimizer(patient.model.parameters()) if patient.optimizer is not None else None
    x, *others = (torch.cat(part) for part in zip(*(next(batches(patient)) for _ in range(20)), strict=True))
    net = NeuralNet(
        patient.model, criterion=Criterion, optimizer=type(given), lr=given.defaults["lr"] if given else 0.01,
        max_epochs=3, batch_size=patient.settings.get("batch_size", 64), train_split=None, verbose=0,
    )  # fmt: skip
    doctor = SkorchDoctor(net)
    doctor.fit(x, others[0] if others else x)
    steps = [record for kind in doctor.gradient_recs_.values() for record in kind]
    changes = [record for kind in doctor.param_update_recs_.values() for record in kind]
    outputs = [record for kind in doctor.activation_recs_.values() for record in kind]
    losses = [batch["train_loss"] for epoch in net.history for batch in epoch["batches"]]
    numbers = [v for record in (*steps, *changes, *outputs) for v in record.values() if v is not None]
    gradients: dict[str, float] = {}
    for record in steps:
        for name, value in record.items():
            gradients[name] = max(gradients.get(name, 0.0), float(np.abs(value).max()) if value is not None else 0.0)
    moved: dict[str, float] = {}
    for record in changes:
        for name, value in record.items():
            moved[name] = max(moved.get(name, 0.0), float(np.abs(value).max()))
    yield from _signs(any(not np.isfinite(v).all() for v in numbers), gradients.values(), moved.values(), losses)


def cockpit(patient: Patient) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What cockpit has recorded after some steps, by the quantities that need no particular layers."""
    from backpack import extend
    from cockpit import Cockpit, quantities
    from cockpit.utils import schedules

    model = extend(patient.model)
    always = schedules.linear(1)
    optimizer = patient.arguments()["optimizer"]
    dials = [kind(always) for kind in (quantities.Loss, quantities.GradNorm, quantities.Distance)]
    panel = Cockpit([p for p in model.parameters() if p.requires_grad], quantities=dials)
    feed = batches(patient)
    for number in range(STEPS):
        batch = next(feed)
        if patient.step is None:
            optimizer.zero_grad()
        loss = _loss(patient)(model(batch[0]), batch[-1])
        info = {"batch_size": len(batch[0]), "individual_losses": loss.detach().expand(len(batch[0])), "loss": loss}
        with panel(number, info={**info, "optimizer": optimizer}):
            if patient.step is not None:
                patient.step(model, optimizer, batch)
            else:
                loss.backward()
        if patient.step is None:
            optimizer.step()
    rows = list(panel.get_output().values())
    gradients = [max(row["GradNorm"][k] for row in rows) for k in range(len(rows[0]["GradNorm"]))]
    moved = rows[-1]["Distance"]
    numbers = [v for row in rows for v in (row["Loss"], *row["GradNorm"])]
    yield from _signs(any(not math.isfinite(v) for v in numbers), gradients, moved, [row["Loss"] for row in rows])


def _signs(bad: bool, gradients: Any, moved: Any, losses: list[float]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What anyone would see in recorded numbers."""
    if bad or any(not math.isfinite(value) for value in losses):
        yield "not finite", NOT_FINITE
    if any(value == 0 for value in gradients):
        yield "gradient is zero", NO_GRADIENT
    if any(value == 0 for value in moved):
        yield "weights do not change", NO_CHANGE
    if len(losses) > 20 and sum(losses[-10:]) / 10 > 3 * abs(losses[0]):
        yield "loss grows", LOSS_GROWS


def _loss(patient: Patient) -> Callable[..., Tensor]:
    assert patient.loss is not None
    return patient.loss


PEERS: dict[str, Callable[[Patient], Iterator[tuple[str, tuple[str, ...]]]]] = {
    "neural_net_checklist": checklist,
    "skorch's doctor": skorch,
    "cockpit": cockpit,
}


def table(rows: list[Row]) -> str:
    """How many faults each peer sees and names, and on how many healthy cases it shows a sign."""
    ill, well = ([row for row in rows if bool(row["expected"]) == want] for want in (True, False))
    lines = [
        "| | shows a sign of a fault | sign of the right cause | sign on a healthy case | cannot run |",
        "|---|---|---|---|---|",
    ]
    for peer in PEERS:
        of = [row["peers"][peer] for row in ill if "peers" in row]
        of_well = [row["peers"][peer] for row in well if "peers" in row]
        seen, named = sum(bool(one["signs"]) for one in of), sum(one["named"] for one in of)
        failed = sum("failed" in one for one in (*of, *of_well))
        cried = sum(bool(one["signs"]) for one in of_well)
        lines.append(f"| {peer} | {seen} of {len(of)} | {named} of {len(of)} | {cried} of {len(of_well)} | {failed} |")
    return "\n".join(lines)

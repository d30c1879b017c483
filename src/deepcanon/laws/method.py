"""The laws of methods: models that wrap a model, which is an argument of their constructor.

The ``null`` of a method are the other arguments with which it does nothing. So set, it must be the model it wraps, bit
for bit: in its outputs, in its training, and in the random numbers that it draws.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import (
    AnyBatch,
    Descend,
    Model,
    UsageError,
    arguments_of,
    given_batch,
    is_conditional,
    methods_of,
)
from deepcanon.laws.documentation import rebuilt
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes, violations
from deepcanon.laws.play import train_briefly
from deepcanon.laws.probe import converted, draws, first, maps, same, seeded


@law
def null_setting_is_declared(method: Model[Any], batch: AnyBatch) -> Measured:
    """``null`` names constructor arguments with which the method is the plain model."""
    null = getattr(type(method), "null", None)
    if not isinstance(null, Mapping) or not null:
        return violations(["it has no null = {argument: value} with which it does nothing"], "")
    unknown = [name for name in null if name not in arguments_of(type(method))]
    return violations([f"null names {name}, which is not an argument" for name in unknown], f"null is {dict(null)}")


@law
def null_setting_predicts_as_the_plain_model(method: Model[Any], batch: AnyBatch) -> Measured:
    """With its null setting it has the plain model's loss, metrics and predictions, and its random numbers."""
    idle, plain = idle_and_plain(method)
    faults = []
    for training, when in ((True, "in training"), (False, "in eval mode")):
        ours, theirs = (_outputs(model.train(training), batch) for model in (idle, plain))
        new = [name for name in ours if name not in theirs and name.startswith("loss")]
        faults += [f"{name} {when} is not in the plain model" for name in new]
        for name, (output, random) in theirs.items():
            if name not in ours or not same(ours[name][0], output):
                faults.append(f"{name} {when} is not the plain model's")
            elif not torch.equal(ours[name][1], random):
                faults.append(f"{name} {when} uses up other random numbers than the plain model")
    differ = set(methods_of(idle)) ^ set(methods_of(plain))
    faults += [
        f"the method {method} is {'new' if method in methods_of(idle) else 'missing'}" for method in sorted(differ)
    ]
    return violations(faults, f"{', '.join(theirs)} are the plain model's, bit for bit")


@law
def null_setting_trains_as_the_plain_model(method: Model[Any], batch: AnyBatch) -> Measured | None:
    """With its null setting the wrapped model ends a short training with the bits that it ends with alone.

    The law does not apply to a method that trains other parameters than those of the model it wraps.
    """
    idle, plain = idle_and_plain(method)
    inside = dict(wrapped(idle).named_parameters())
    if inside.keys() != dict(plain.named_parameters()).keys() or not _declared(idle) & _ids(inside.values()):
        return None
    streams = []
    for model in (idle, plain):
        torch.manual_seed(0)
        train_briefly(model, batch)
        streams.append(torch.get_rng_state())
    here, there = wrapped(idle).state_dict(), plain.state_dict()
    faults = [f"{name} ends otherwise" for name, value in there.items() if not torch.equal(here[name], value)]
    if not torch.equal(*streams):
        faults.append("other random numbers were used up")
    return violations(faults, f"{len(there)} tensors end with the plain model's bits")


@law
def only_declared_parameters_change(method: Model[Any], batch: AnyBatch) -> Measured | None:
    """A parameter of the wrapped model that no turn declares keeps its bits, whatever else is trained."""
    if not all(isinstance(turn, Descend) for turn in method.turns()):
        return None
    declared = _declared(method)
    kept = {name: p for name, p in wrapped(method).named_parameters() if id(p) not in declared}
    before = {name: parameter.detach().clone() for name, parameter in kept.items()}
    train_briefly(method, batch)
    faults = [f"{name} has changed" for name, parameter in kept.items() if not torch.equal(parameter, before[name])]
    return violations(faults, f"{len(kept)} parameters of the wrapped model stayed as they were")


@law
def conditioned_as_the_wrapped_model(method: Model[Any], batch: AnyBatch) -> Measured:
    """It is conditional exactly where the wrapped model is, and bound to a context it is around the model so bound."""
    idle, plain = idle_and_plain(method)
    if is_conditional(method) != is_conditional(plain):
        wanted = "is" if is_conditional(plain) else "is not"
        return violations([f"the wrapped model {wanted} conditional, and the method otherwise"], "")
    if not is_conditional(plain):
        return violations([], "neither method nor model is conditional")
    names = ("conditioned_on", "context_optional", "given_options", "context")
    faults = [f"{name} is not the wrapped model's" for name in names if _of(method, name) != _of(plain, name)]
    one = first(batch, 1)
    ours, theirs = (given_batch(model.eval(), one) for model in (idle, plain))
    if _of(ours, "context") is None or not same(ours.context, theirs.context):
        return violations([*faults, "the context of a batch is not bound as the wrapped model's"], "")
    here, there = (_outputs(model, batch) for model in (ours, theirs))
    faults += [f"{name} given a context is not the plain model's" for name in there if not _alike(name, here, there)]
    if given_batch(method, one).state_dict().keys() != method.state_dict().keys() or _of(method, "context") is not None:
        faults.append("to bind a context changes the method")
    return violations(faults, f"{', '.join(there)} given a context are the plain model's, bit for bit")


@law
def precision_of_the_model_is_kept(method: Model[Any], batch: AnyBatch) -> Measured:
    """Around a model in double precision all that the method adds has double precision, and it can be trained."""
    inner = rebuilt(wrapped(method)).double()
    given = {
        name: copy.deepcopy(inner) if isinstance(value, Model) else value for name, value in method.hparams.items()
    }
    double = type(method)(**given)
    faults = [f"{name} has {p.dtype}" for name, p in double.named_parameters() if p.dtype != torch.float64]
    if not faults:
        try:
            train_briefly(double, converted(batch, lambda t: t.double() if t.is_floating_point() else t))
        except RuntimeError as error:  # which torch raises where precisions meet
            faults = [f"training failed: {error}"]
    return violations(faults, f"{len(list(double.parameters()))} parameters have double precision")


LAWS = (
    null_setting_is_declared,
    null_setting_predicts_as_the_plain_model,
    null_setting_trains_as_the_plain_model,
    only_declared_parameters_change,
    conditioned_as_the_wrapped_model,
    precision_of_the_model_is_kept,
)


def check_method(method: Any, batch: AnyBatch) -> list[Outcome]:
    """The outcomes of the laws of methods in a deepcanon model that wraps another."""
    if not isinstance(method, Model):
        raise UsageError(f"a method is a deepcanon Model that wraps another; {type(method).__name__} is not")
    wrapped(method)
    return outcomes(LAWS, method, batch)


def wrapped(method: Model[Any]) -> Model[Any]:
    """The model that a method wraps: the one among its arguments, or that called ``model`` (others may teach it)."""
    inner = {name: value for name, value in method.hparams.items() if isinstance(value, Model)}
    if len(inner) != 1 and "model" not in inner:
        raise UsageError(f"a method wraps one model; {type(method).__name__} has {len(inner)} among its arguments")
    return inner.get("model", next(iter(inner.values())))


def idle_and_plain(method: Model[Any]) -> tuple[Model[Any], Model[Any]]:
    """A method like this one in its null setting around a new model, and that model alone."""
    plain = rebuilt(wrapped(method))
    given = {
        name: copy.deepcopy(plain) if isinstance(value, Model) else value for name, value in method.hparams.items()
    }
    return type(method)(**{**given, **type(method).null}), plain  # type: ignore[attr-defined]


def _outputs(model: Model[Any], batch: Any) -> dict[str, tuple[Any, Tensor]]:
    """All outputs of a model, each with the state of the global generator after it."""
    calls: dict[str, Callable[[], Any]] = {"loss": lambda: model.loss(batch), "metrics": lambda: model.metrics(batch)}
    calls |= {name: partial(call, batch) for name, call in maps(model).items()}
    calls |= {name: partial(call, seeded(0)) for name, call in draws(model, batch).items()}
    found: dict[str, tuple[Any, Tensor]] = {}
    for name, call in calls.items():
        torch.manual_seed(0)
        output = call()
        parts = {f"{name} {term}": value for term, value in output.items()} if name in ("loss", "metrics") else {}
        found |= {part: (value, torch.get_rng_state()) for part, value in (parts or {name: output}).items()}
    return found


def _alike(name: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    return name in ours and same(ours[name][0], theirs[name][0])


def _of(model: Model[Any], name: str) -> Any:
    return getattr(model, name, None)


def _declared(method: Model[Any]) -> set[int]:
    turns = [turn for turn in method.turns() if isinstance(turn, Descend)]
    return {key for turn in turns for key in _ids(turn.parameters)}


def _ids(parameters: Any) -> set[int]:
    return {id(parameter) for parameter in parameters}

"""The laws of methods: models that wrap a model, which is an argument of their constructor.

A method says by ``null`` with which other arguments it does nothing. So set, it must be the model it wraps, bit for
bit: in what it says, in how it learns, and in the random numbers that it uses up.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import AnyBatch, Descend, Model, UsageError, arguments_of, methods_of
from deepcanon.laws.documentation import rebuilt
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes, violations
from deepcanon.laws.play import train_briefly
from deepcanon.laws.probe import draws, maps, same, seeded


@law
def says_when_it_does_nothing(method: Model[Any], batch: AnyBatch) -> Measured:
    """``null`` names constructor arguments with which the method is the plain model."""
    null = getattr(type(method), "null", None)
    if not isinstance(null, Mapping) or not null:
        return violations(["it has no null = {argument: value} with which it does nothing"], "")
    unknown = [name for name in null if name not in arguments_of(type(method))]
    return violations([f"null names {name}, which is no argument" for name in unknown], f"null is {dict(null)}")


@law
def null_setting_answers_as_the_plain_model(method: Model[Any], batch: AnyBatch) -> Measured:
    """With its null setting the method has the plain model's loss, metrics and methods, and draws as that one draws."""
    idle, plain = idle_and_plain(method)
    faults = []
    for training, when in ((True, "in training"), (False, "in eval mode")):
        ours, theirs = (_answers(model.train(training), batch) for model in (idle, plain))
        new = [name for name in ours if name not in theirs and name.startswith("loss")]
        faults += [f"{name} {when} is not in the plain model" for name in new]
        for name, (said, random) in theirs.items():
            if name not in ours or not same(ours[name][0], said):
                faults.append(f"{name} {when} is not the plain model's")
            elif not torch.equal(ours[name][1], random):
                faults.append(f"{name} {when} uses up other random numbers than the plain model")
    differ = set(methods_of(idle)) ^ set(methods_of(plain))
    faults += [
        f"the method {method} is {'new' if method in methods_of(idle) else 'missing'}" for method in sorted(differ)
    ]
    return violations(faults, f"{', '.join(theirs)} are the plain model's, bit for bit")


@law
def null_setting_learns_as_the_plain_model(method: Model[Any], batch: AnyBatch) -> Measured | None:
    """With its null setting the wrapped model ends a short training with the bits that it ends with by itself.

    A method that trains other parameters than those of the model it wraps is not asked.
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


LAWS = (
    says_when_it_does_nothing,
    null_setting_answers_as_the_plain_model,
    null_setting_learns_as_the_plain_model,
    only_declared_parameters_change,
)


def check_method(method: Any, batch: AnyBatch) -> list[Outcome]:
    """What the laws of methods find in a deepcanon model that wraps another."""
    if not isinstance(method, Model):
        raise UsageError(f"a method is a deepcanon Model that wraps another, and {type(method).__name__} is none")
    wrapped(method)
    return outcomes(LAWS, method, batch)


def wrapped(method: Model[Any]) -> Model[Any]:
    """The model that a method wraps."""
    inner = [value for value in method.hparams.values() if isinstance(value, Model)]
    if len(inner) != 1:
        raise UsageError(f"a method wraps one model; {type(method).__name__} has {len(inner)} among its arguments")
    return inner[0]


def idle_and_plain(method: Model[Any]) -> tuple[Model[Any], Model[Any]]:
    """A method like this one in its null setting around a new model, and that model by itself."""
    plain = rebuilt(wrapped(method))
    given = {
        name: copy.deepcopy(plain) if isinstance(value, Model) else value for name, value in method.hparams.items()
    }
    return type(method)(**{**given, **type(method).null}), plain  # type: ignore[attr-defined]


def _answers(model: Model[Any], batch: Any) -> dict[str, tuple[Any, Tensor]]:
    """All that a model says, each with the state of the global generator after it."""
    asked: dict[str, Callable[[], Any]] = {"loss": lambda: model.loss(batch), "metrics": lambda: model.metrics(batch)}
    asked |= {name: partial(ask, batch) for name, ask in maps(model).items()}
    asked |= {name: partial(ask, seeded(0)) for name, ask in draws(model, batch).items()}
    said: dict[str, tuple[Any, Tensor]] = {}
    for name, ask in asked.items():
        torch.manual_seed(0)
        answer = ask()
        parts = {f"{name} {term}": value for term, value in answer.items()} if name in ("loss", "metrics") else {}
        said |= {part: (value, torch.get_rng_state()) for part, value in (parts or {name: answer}).items()}
    return said


def _declared(method: Model[Any]) -> set[int]:
    turns = [turn for turn in method.turns() if isinstance(turn, Descend)]
    return {key for turn in turns for key in _ids(turn.parameters)}


def _ids(parameters: Any) -> set[int]:
    return {id(parameter) for parameter in parameters}

"""Admission: the patient made of whatever the user gives, a model by name, any module, a run, with data in any form."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler
from torch.utils.data import Dataset as TorchDataset

from deepcanon.blueprints import blueprint, is_code
from deepcanon.core import AnyBatch, Batch, Blueprint, Labeled, Model, PlainModule, Recipe, UsageError
from deepcanon.core.named_code import load_named
from deepcanon.core.reading import is_frame, reading_of
from deepcanon.data import Batches, Dataset, from_tensors, of
from deepcanon.data.suits import check_suits, default_data
from deepcanon.data.torch_datasets import parts_of
from deepcanon.diagnosis.copies import copied
from deepcanon.diagnosis.patient import Patient, evaluating
from deepcanon.diagnosis.run_ends import start_of
from deepcanon.optim import optimizer as optimizer_by_name
from deepcanon.runs.run import Run
from deepcanon.train import randomness
from deepcanon.train.settings import resolve_settings
from deepcanon.train.trainer import Trainer

WHOLE = 20_000
"""No more examples of a torch data set are read."""

FEWEST = 4
"""Of fewer examples, two are too many to tell a part from the whole."""


def admit(
    model: Any,
    data: Any = None,
    *,
    loss: Callable[..., Tensor] | None = None,
    optimizer: Any = None,
    step: Callable[..., Any] | None = None,
    budget: float = 60.0,
    settings: Mapping[str, Any] | None = None,
) -> Patient:
    """The patient; nothing of what is given is changed."""
    given = dict(settings or {})
    if budget <= 0:
        raise UsageError(f"budget is a number of seconds above 0, got {budget}")
    reading = reading_of(given)
    if reading:
        if not isinstance(data, str | Path) and not is_frame(data):
            raise UsageError(f"{next(iter(reading))} says how a file or a data frame is read; leave it out of others")
        data = of(data, **reading)
        given = {name: value for name, value in given.items() if name not in reading}
    if _is_run(model):
        return _of_run(model if isinstance(model, Run) else Run(model), data, budget, given)
    if isinstance(model, str | Path) and is_code(str(model)):
        model = _built(str(model), data, loss)
    if isinstance(model, str | Path | Blueprint) or (isinstance(model, type) and issubclass(model, Model)):
        asked = blueprint(str(model) if isinstance(model, Path) else model)
        data = default_data(asked) if data is None else _of_any(data)
        check_suits(asked, data)
        with randomness.kept():
            randomness.seed_all(given.get("seed", 0))
            model = asked.build(data.model_sizes, data.name)
    if not isinstance(model, nn.Module):
        raise UsageError(f"the doctor examines a model, a module, a run's folder or a name; got {type(model).__name__}")
    if data is None:
        raise UsageError("a model that is given needs data: a data set, its name, or arrays (x, y)")
    if isinstance(model, PlainModule):
        model, loss = model.module, loss or model.criterion
    if isinstance(model, Model):
        return _of_ours(model, data, loss, optimizer, step, budget, given)
    return _plain(model, data, loss, optimizer, step, budget, given)


def _of_ours(
    model: Model[Any], data: Any, loss: Any, optimizer: Any, step: Any, budget: float, given: dict[str, Any]
) -> Patient:
    if loss is not None:
        raise UsageError(f"{type(model).__name__} has a loss of its own; leave out the other one")
    examples = _of_any(data)
    if isinstance(data, DataLoader) and data.batch_size is not None:
        given.setdefault("batch_size", data.batch_size)
    if isinstance(optimizer, str):
        given["optimizer"], optimizer = optimizer, None
    chosen = resolve_settings(model.recipe, **{**given, "evaluate": False, "pictures": False, "device": "cpu"})
    twin, kept = _copied(model, optimizer if isinstance(optimizer, torch.optim.Optimizer) else None)
    with randomness.kept():
        randomness.seed_all(chosen["seed"])
        Trainer(twin, examples, chosen, quiet=True)  # which tells the model what the data are
        twin.prepare(Batches(examples.train, chosen["batch_size"]))
    if (step is not None or optimizer is not None) and kept is None:
        kept = _made(optimizer, twin, chosen)
    return Patient(
        twin.name(), twin, examples, chosen, optimizer=kept, step=step, shuffled=_shuffled(data), budget=budget
    )


def _plain(
    module: nn.Module, data: Any, loss: Any, optimizer: Any, step: Any, budget: float, given: dict[str, Any]
) -> Patient:
    if loss is None and step is None:
        raise UsageError(
            f"{type(module).__name__} is a plain module without a loss: give one, loss=torch.nn.CrossEntropyLoss() for "
            "instance, or the training step that you use, step=f"
        )
    if isinstance(loss, type) or (loss is not None and not callable(loss)):
        raise UsageError(f"loss is a function of output and target, as nn.CrossEntropyLoss(), got {loss!r}")
    if isinstance(optimizer, str):
        given["optimizer"], optimizer = optimizer, None
    if isinstance(data, DataLoader) and data.batch_size is not None:
        given.setdefault("batch_size", data.batch_size)
    examples = _examples(data)
    given.setdefault("batch_size", min(32, max(1, len(examples.train))))
    chosen = resolve_settings(Recipe(), **{**given, "device": "cpu"})
    twin, kept = _copied(module, optimizer if isinstance(optimizer, torch.optim.Optimizer) else None)
    return Patient(
        type(module).__name__,
        twin,
        examples,
        chosen,
        criterion=copy.deepcopy(loss) if isinstance(loss, nn.Module) else loss,
        optimizer=_made(optimizer, twin, chosen) if kept is None else kept,
        step=step,
        originals=tuple(module.parameters()),
        shuffled=_shuffled(data),
        whole=_takes_all(twin, examples.train),
        budget=budget,
    )


def _takes_all(module: nn.Module, examples: AnyBatch) -> bool:
    """Whether a module takes all examples, and not two of them: it holds the edges between its rows, say."""
    if not isinstance(examples, Batch) or len(examples) < FEWEST:
        return False
    model = copy.deepcopy(module)
    with randomness.kept(), evaluating(model):
        try:
            model(*examples.select(torch.arange(2)).inputs)
        except (RuntimeError, ValueError, IndexError, AssertionError):
            try:
                output = model(*examples.inputs)
            except Exception:
                return False
            return isinstance(output, Tensor) and output.ndim > 0 and len(output) == len(examples)
        except Exception:
            return False
    return False


def _of_run(run: Run, data: Any, budget: float, given: dict[str, Any]) -> Patient:
    """The training of a run, from its start, with its data and its settings; what it came to is looked up there."""
    model = start_of(run)
    if isinstance(model, PlainModule):
        raise UsageError("the doctor examines a plain module itself: doctor(module, data, loss=...)")
    examples = run.data if data is None else of(data)
    patient = _of_ours(model, examples, None, None, None, budget, {**run.settings, **given})
    patient.run = run
    return patient


def _is_run(model: Any) -> bool:
    return isinstance(model, Run) or (isinstance(model, str | Path) and (Path(model) / "run.json").is_file())


def _built(name: str, data: Any, loss: Any) -> Any:
    """What ``FILE.py:Name`` names: a class of ours by its blueprint, any other module built without arguments."""
    thing = load_named(name)
    if isinstance(thing, type) and issubclass(thing, Model):
        return thing
    try:
        made = thing() if isinstance(thing, type) or not isinstance(thing, nn.Module) else thing
    except Exception as error:
        raise UsageError(f"{name} cannot be built without arguments: {type(error).__name__}: {error}") from error
    return made[0] if isinstance(made, tuple | list) and made else made


def _copied(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> tuple[Any, torch.optim.Optimizer | None]:
    try:
        twin, kept = copied(model, optimizer)
    except Exception as error:
        raise UsageError(
            f"{type(model).__name__} cannot be copied ({type(error).__name__}: {error}), and the doctor examines "
            "copies only: keep in a module what copy.deepcopy can copy"
        ) from error
    if kept is not None:
        kept.state.clear()  # a training is examined from its start
    return twin.cpu(), kept


def _made(optimizer: Any, model: nn.Module, settings: Any) -> torch.optim.Optimizer:
    """The optimizer by its name, or by a function of the parameters."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if callable(optimizer):
        made = optimizer(model.parameters())
        if not isinstance(made, torch.optim.Optimizer):
            raise UsageError(f"optimizer must give a torch optimizer of the parameters, got {type(made).__name__}")
        return made
    if optimizer is not None:
        raise UsageError(f"optimizer is a torch optimizer, its name, or a function that makes it; got {optimizer!r}")
    if not trained:
        trained = [nn.Parameter(torch.zeros(1))]  # nothing is trained, which a check says
    return optimizer_by_name(settings["optimizer"], trained, settings["lr"])


def _of_any(data: Any) -> Dataset[Any]:
    """The data set that this is; arrays may hold NaN and infinite values, which a check names."""
    if not isinstance(data, tuple | list | TorchDataset | DataLoader) and not _is_array(data):
        return of(data)
    parts = [torch.as_tensor(part) for part in parts_of(data)]
    bad = [part.isfinite().logical_not() if part.is_floating_point() else None for part in parts]
    if not any(where is not None and bool(where.any()) for where in bad):
        return of(data)
    mended = from_tensors(*(part.nan_to_num(0.0, 0.0, 0.0) if part.is_floating_point() else part for part in parts))
    train: Any = mended.train
    for name, part, where in zip(("x", "y"), parts, bad, strict=False):
        value = getattr(train, name)
        if where is not None and value.numel() == part.numel():
            train = replace(train, **{name: torch.where(where.reshape(value.shape), math.nan, value)})
    return replace(mended, train=train)


def _shuffled(data: Any) -> bool:
    return not (isinstance(data, DataLoader) and isinstance(data.sampler, SequentialSampler))


def _examples(data: Any) -> Dataset[Any]:
    """The data of a plain module: tensors stay as they are, so that their shapes and types can be examined."""
    if isinstance(data, Dataset):
        return data
    if isinstance(data, AnyBatch):
        return _dataset(data)
    if isinstance(data, DataLoader):
        return _dataset(_read(data.dataset, data.collate_fn, data))
    if isinstance(data, TorchDataset):
        return _dataset(_read(data, torch.utils.data.default_collate, None))
    if isinstance(data, tuple | list) and len(data) in (1, 2) and all(_is_array(part) for part in data):
        parts = [_tensor(part) for part in data]
        return _dataset(Labeled(*parts) if len(parts) == 2 else Batch(parts[0]))
    if _is_array(data):
        return _dataset(Batch(_tensor(data)))
    return of(data)


def _dataset(batch: AnyBatch) -> Dataset[Any]:
    return Dataset("the data", "table", batch, sizes={}, shape=tuple(batch.x.shape[1:]))


def _is_array(part: Any) -> bool:
    return isinstance(part, Tensor | np.ndarray)


def _tensor(part: Any) -> Tensor:
    if isinstance(part, Tensor):
        return part.detach()
    tensor = torch.as_tensor(np.array(part))
    return tensor.float() if tensor.is_floating_point() else tensor


def _read(data: Any, collate: Callable[..., Any], loader: DataLoader[Any] | None) -> AnyBatch:
    """The examples of a torch data set, in its order; of one that has none, or draws them, what a loader gives."""
    drawn = loader is not None and not isinstance(loader.sampler, SequentialSampler | RandomSampler)
    with randomness.kept():
        if drawn or not hasattr(data, "__len__") or (loader is not None and loader.batch_size is None):
            if loader is None:
                raise UsageError(f"{type(data).__name__} does not say how many examples it has; give a DataLoader")
            found, read = [], 0
            for batch in loader:
                found.append(batch)
                read += len(batch[0] if isinstance(batch, tuple | list) else batch)
                if read >= WHOLE:
                    break
        else:
            found = [collate([data[place] for place in range(min(len(data), WHOLE))])]
    rows = [tuple(each) if isinstance(each, tuple | list) else (each,) for each in found]
    if not rows or len(rows[0]) not in (1, 2) or not all(isinstance(part, Tensor) for row in rows for part in row):
        raise UsageError("an example of a torch data set is x or (x, y), tensors or numbers")
    parts = [torch.cat(column) for column in zip(*rows, strict=True)]
    return Labeled(*parts) if len(parts) == 2 else Batch(parts[0])


@contextmanager
def left_alone(model: Any, optimizer: Any) -> Iterator[None]:
    """Whatever a user's step does to the things themselves, afterwards they are as they were, bit for bit."""
    modules = model if isinstance(model, nn.Module) else None
    weights = {} if modules is None else {key: value.clone() for key, value in modules.state_dict().items()}
    slots = [] if modules is None else [(p, p.grad, _cloned(p.grad), p.requires_grad) for p in modules.parameters()]
    modes = [] if modules is None else [(each, each.training) for each in modules.modules()]
    state = copy.deepcopy(optimizer.state_dict()) if isinstance(optimizer, torch.optim.Optimizer) else None
    with randomness.kept():
        try:
            yield
        finally:
            if modules is not None and _changed(modules.state_dict(), weights):
                modules.load_state_dict(weights)
            for parameter, gradient, values, wanted in slots:
                if gradient is not None and values is not None and not torch.equal(gradient, values):
                    gradient.copy_(values)
                parameter.grad = gradient
                parameter.requires_grad_(wanted)
            for module, training in modes:
                module.training = training
            if state is not None and str(optimizer.state_dict()) != str(state):
                optimizer.load_state_dict(state)


def _cloned(gradient: Tensor | None) -> Tensor | None:
    return None if gradient is None or gradient.layout != torch.strided else gradient.clone()


def _changed(now: Mapping[str, Tensor], before: Mapping[str, Tensor]) -> bool:
    return any(not torch.equal(now[key], value) for key, value in before.items())

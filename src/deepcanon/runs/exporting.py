"""Trained models, or parts of them, as ONNX and safetensors files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from deepcanon.core import (
    AnyBatch,
    DeepcanonError,
    Model,
    UsageError,
    conditioned,
    describe,
    is_conditional,
    methods_of,
)
from deepcanon.core.files import with_folder
from deepcanon.data.tables.table import Table
from deepcanon.interop.onnx import export_onnx
from deepcanon.interop.parts import inputs_of, part_of
from deepcanon.interop.raw_table import RawTable
from deepcanon.interop.weights import export_weights


def export(
    model: Model[Any],
    path: Path,
    part: str | None,
    info: Mapping[str, Any],
    rows: Callable[[], AnyBatch],
    forward: bool = False,
) -> float | None:
    """Write a model, or a part of it; the largest difference of an ONNX file's output from torch's.

    ``info`` is what ``run.json`` says of the data, and ``rows`` gives some, where an example cannot be made up. A model
    of a table is written with its preprocessing, unless ``forward`` says that it is to be the network alone.
    """
    if forward and (part is not None or path.suffix.lower() != ".onnx"):
        what = "weights have no forward pass" if part is None else "a part is written alone already"
        raise UsageError(f"--forward writes the network of a whole model as ONNX, and {what}; leave it out")
    module, spec = model if part is None else part_of(model, part), describe(model)
    named = {} if part is None else {"part": part}
    if path.suffix.lower() == ".onnx":
        about = {**_about(spec, info), **named}
        if not columns_taken(path, part, info, forward):
            return export_onnx(module, _inputs(model, part, info, rows), with_folder(path), about=about)
        try:
            whole = RawTable(model, Table.from_json(info["preprocessing"]))
            return export_onnx(whole, whole.example(), with_folder(path), about=about, finish=whole.with_columns)
        except UsageError:
            raise
        except DeepcanonError as error:
            raise DeepcanonError(f"{error}; --forward writes the network alone, without its preprocessing") from error
    export_weights(module, with_folder(path), {**spec, **named})
    return None


def columns_taken(path: Path, part: str | None, info: Mapping[str, Any], forward: bool) -> list[str]:
    """The columns that the ONNX file of a table takes; none where it takes features, as every other file does."""
    if path.suffix.lower() != ".onnx" or part is not None or forward or info["kind"] != "table":
        return []
    return [column["name"] for column in info["preprocessing"].get("columns", [])]


def _about(spec: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, str]:
    """The metadata of an ONNX file: the model, its data, the names of the classes, what was done to the inputs."""
    told = {
        "deepcanon": version("deepcanon"),
        "model": spec["model"],
        "arguments": json.dumps(spec["arguments"]),
        "data": Path(info["name"]).name,
        "kind": info["kind"],
        "shape": json.dumps(info["shape"]),
        "labels": json.dumps(info["labels"]),
        "vocabulary": json.dumps(info["vocabulary"]),
        "preprocessing": json.dumps(info["preprocessing"]),
        "target": info["target"] or "",
    }
    return {name: value for name, value in told.items() if value not in ("", "[]", "{}")}


def _inputs(
    model: Model[Any], part: str | None, info: Mapping[str, Any], rows: Callable[[], AnyBatch]
) -> tuple[Any, ...]:
    """An example of two rows for the model, or for a part of it: whatever the model gives that part in use."""
    if info["kind"] in ("images", "points", "table"):
        inputs: tuple[Any, ...] = (torch.rand(2, *info["shape"], generator=torch.Generator().manual_seed(0)),)
    else:
        inputs = rows().select(torch.arange(2)).inputs
    needs_context = is_conditional(model) and not model.context_optional
    if part is None:
        if needs_context or model.forward.__name__ == "_forward_unimplemented":
            parts = ", ".join(name for name, part in model.named_children() if any(True for _ in part.parameters()))
            advice = f"export one of its parts by --part: {parts}" if parts else "export its weights to .safetensors"
            raise UsageError(f"{model.name()} is not a single map; {advice}")
        return inputs
    if needs_context:
        model = conditioned(model, rows(), 2)
    calls = [lambda: model(*inputs)]
    if "sample" in methods_of(model):
        calls.append(lambda: model.sample(2))  # type: ignore[operator]
    found = inputs_of(part_of(model, part), calls)
    if found is None:
        raise UsageError(f"{model.name()} does not use its part {part!r} alone; export the whole model")
    return found

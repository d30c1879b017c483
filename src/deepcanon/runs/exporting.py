"""Trained models, or parts of them, as ONNX and safetensors files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from deepcanon.core import AnyBatch, Model, UsageError, conditioned, describe, is_conditional, methods_of
from deepcanon.core.files import with_folder
from deepcanon.interop.onnx import export_onnx
from deepcanon.interop.parts import inputs_of, part_of
from deepcanon.interop.weights import export_weights


def export(
    model: Model[Any], path: Path, part: str | None, info: Mapping[str, Any], rows: Callable[[], AnyBatch]
) -> float | None:
    """Write a model, or a part of it; the largest difference of an ONNX file's output from torch's.

    ``info`` is what ``run.json`` says of the data, and ``rows`` gives some, where an example cannot be made up.
    """
    module = model if part is None else part_of(model, part)
    if path.suffix.lower() == ".onnx":
        return export_onnx(module, _inputs(model, part, info, rows), with_folder(path))
    export_weights(module, with_folder(path), {**describe(model), **({} if part is None else {"part": part})})
    return None


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
            parts = ", ".join(name for name, _ in model.named_children())
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

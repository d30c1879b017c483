"""Modules as ONNX files, whose first dimension is the batch, of any size."""

from __future__ import annotations

import importlib.util
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from deepcanon.core import DeepcanonError, UsageError
from deepcanon.core.files import write_whole

TOLERANCE = 1e-4
"""How far a file may be from its module, relative to the largest output: float32 sums in another order."""


def export_onnx(module: nn.Module, inputs: Sequence[Tensor], path: Path) -> float | None:
    """Write the module's ``forward`` to ``path`` and return by how much onnxruntime's outputs differ from torch's.

    ``inputs`` are an example, at least two rows of each input, whose first dimension becomes free. Without onnxruntime
    nothing is compared and None returned. A file that computes something else is not written.
    """
    if not all(isinstance(value, Tensor) for value in inputs):
        raise UsageError(
            f"{type(module).__name__} takes a graph, and an ONNX file only tensors; export its weights to .safetensors"
        )
    missing = [package for package in ("onnx", "onnxscript") if importlib.util.find_spec(package) is None]
    if missing:
        raise UsageError(
            f'an ONNX file needs {" and ".join(missing)}; install them with: pip install "deepcanon[onnx]"'
        )
    inputs = tuple(tensor.detach() for tensor in inputs)
    training = module.training
    module.eval()  # dropout and its kin are no part of the map
    try:
        content = _convert(module, inputs)
        difference = _difference(content, module, inputs)
    finally:
        module.train(training)
    if difference is not None and not difference <= TOLERANCE:
        raise DeepcanonError(
            f"the ONNX file differs from the model by {difference:.2g}, so it was not written to {path}"
        )
    write_whole(path, content)
    return difference


def _convert(module: nn.Module, inputs: tuple[Tensor, ...]) -> bytes:
    batch = torch.export.Dim("batch")
    file = io.BytesIO()
    try:
        with _quiet():
            program = torch.onnx.export(
                module,
                inputs,
                dynamo=True,
                verbose=False,
                input_names=[f"input_{i}" for i in range(len(inputs))] if len(inputs) > 1 else ["input"],
                dynamic_shapes=tuple({0: batch} for _ in inputs),
            )
    except torch.onnx.OnnxExporterError as error:
        reason = str(error.__cause__ or error).strip().partition("\n")[0]
        raise DeepcanonError(f"{type(module).__name__} cannot be written as ONNX: {reason}") from error
    if program is None:
        raise DeepcanonError(f"{type(module).__name__} cannot be written as ONNX")
    file.write(program.model_proto.SerializeToString())
    return file.getvalue()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's own deprecations and its remarks on torchvision, which no user of ours can do anything about."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


@torch.no_grad()
def _difference(content: bytes, module: nn.Module, inputs: tuple[Tensor, ...]) -> float | None:
    """The largest difference between the file in onnxruntime and the module, in units of the largest output.

    One row and all rows are compared, since a batch size that was frozen into the graph shows only in the other.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [node.name for node in session.get_inputs()]
    worst = 0.0
    for rows in (inputs, tuple(tensor[:1] for tensor in inputs)):
        ours = module(*rows)
        theirs = session.run(None, {name: tensor.cpu().numpy() for name, tensor in zip(names, rows, strict=True)})
        for mine, other in zip([ours] if isinstance(ours, Tensor) else ours, theirs, strict=True):
            scale = mine.abs().max().clamp_min(1).item()
            worst = max(worst, (mine.cpu() - torch.from_numpy(other)).abs().max().item() / scale)
    return worst

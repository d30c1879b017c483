"""Export of modules to ONNX files with a batch dimension of any size."""

from __future__ import annotations

import importlib.util
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor, nn

from deepcanon.core import DeepcanonError, UsageError
from deepcanon.core.files import write_whole

TOLERANCE = 1e-4
"""The largest difference of a file from its module, relative to the largest output: float32 sums in another order."""


def export_onnx(
    module: nn.Module,
    inputs: Sequence[Tensor],
    path: Path,
    *,
    about: Mapping[str, str] | None = None,
    finish: Callable[[bytes], bytes] = lambda content: content,
) -> float | None:
    """Write the module's ``forward`` to ``path`` and return by how much onnxruntime's outputs differ from torch's.

    ``inputs`` are an example, at least two rows of each input, whose first dimension becomes free. Without onnxruntime
    nothing is compared and None is returned. A file that computes something else is not written. ``about`` are the
    metadata of the file, and ``finish`` changes the graph in the end, with nodes that torch does not have. A module may
    name its inputs and outputs, by ``input_names`` and ``output_names``.
    """
    if not all(isinstance(value, Tensor) for value in inputs):
        raise UsageError(
            f"{module._get_name()} takes a graph, and an ONNX file only tensors; export its weights to .safetensors"
        )
    missing = [package for package in ("onnx", "onnxscript") if importlib.util.find_spec(package) is None]
    if missing:
        raise UsageError(
            f'an ONNX file needs {" and ".join(missing)}; install them with: pip install "deepcanon[onnx]"'
        )
    inputs = tuple(tensor.detach() for tensor in inputs)
    training = module.training
    module.eval()  # without dropout and batch statistics
    try:
        content = _convert(module, inputs)
        difference = _difference(content, module, inputs)
    finally:
        module.train(training)
    if difference is not None and not difference <= TOLERANCE:
        raise DeepcanonError(
            f"the ONNX file differs from the model by {difference:.2g}, so it was not written to {path}"
        )
    write_whole(path, _described(finish(content), about or {}))
    return difference


def _described(content: bytes, about: Mapping[str, str]) -> bytes:
    """The file with these metadata."""
    import onnx

    model = onnx.load_from_string(content)
    model.producer_name, model.producer_version = "deepcanon", version("deepcanon")
    onnx.helper.set_model_props(model, dict(about))
    described: bytes = model.SerializeToString()
    return described


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
                input_names=getattr(module, "input_names", None) or _numbered("input", len(inputs)),
                output_names=getattr(module, "output_names", None) or None,
                dynamic_shapes=tuple({0: batch} for _ in inputs),
            )
    except torch.onnx.OnnxExporterError as error:
        reason = str(error.__cause__ or error).strip().partition("\n")[0]
        raise DeepcanonError(f"{module._get_name()} cannot be written as ONNX: {reason}") from error
    if program is None:
        raise DeepcanonError(f"{module._get_name()} cannot be written as ONNX")
    file.write(program.model_proto.SerializeToString())
    return file.getvalue()


def _numbered(name: str, count: int) -> list[str]:
    return [f"{name}_{i}" for i in range(count)] if count > 1 else [name]


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence torch's own deprecation warnings and its remarks on torchvision inside; users cannot act on them."""
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

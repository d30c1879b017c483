"""Pretrained models from a folder of Hugging Face: sizes from ``config.json``, weights from safetensors files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from deepcanon.core import CheckpointError, Model, UsageError
from deepcanon.core.hints import listed
from deepcanon.core.memory import need
from deepcanon.core.stored import parse_json, read_text
from deepcanon.interop.bert_names import load_bert
from deepcanon.interop.hugging_face import load_gpt2
from deepcanon.interop.t5_names import load_t5
from deepcanon.interop.vit_names import load_vit
from deepcanon.models.attention.bert import BERT
from deepcanon.models.attention.gpt import GPT
from deepcanon.models.attention.t5 import T5
from deepcanon.models.attention.vit import ViT

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}
"""What old files call the parameters of a normalization."""

SIGNS = {"mask_token": "[MASK]", "class_token": "[CLS]", "separator_token": "[SEP]"}
"""The special tokens of BERT, whose ids stand in the files of its tokenizer."""

Config = Mapping[str, Any]


def _image_sizes(folder: Path, config: Config, weights: Mapping[str, Tensor]) -> dict[str, int]:
    side = config["image_size"]
    height, width = side if isinstance(side, list) and len(side) == 2 else (side, side)
    if "classifier.weight" not in weights:
        raise UsageError(f"{folder} has no classifier.weight: a ViT without a classifier has no classes to predict")
    return {
        "height": _size(height, "image_size", folder),
        "width": _size(width, "image_size", folder),
        "classes": len(weights["classifier.weight"]),
    }


def _special_tokens(folder: Path, config: Config, weights: Mapping[str, Tensor]) -> dict[str, int]:
    """The ids of the special tokens that the files of the tokenizer know."""
    words, whole = folder / "vocab.txt", folder / "tokenizer.json"
    ids: dict[str, Any] = {}
    if words.is_file():
        ids = {word: row for row, word in enumerate(read_text(words).splitlines())}
    elif whole.is_file():
        content = parse_json(read_text(whole), whole)
        added = content.get("added_tokens", []) if isinstance(content, dict) else []
        ids = {str(each.get("content")): each.get("id") for each in added if isinstance(each, dict)}
    return {name: ids[sign] for name, sign in SIGNS.items() if isinstance(ids.get(sign), int)}


def _text_to_text(folder: Path, config: Config, weights: Mapping[str, Tensor]) -> dict[str, int]:
    """Sizes of a T5 that the file has under another name, or leaves out where they are those of the paper."""
    decoders = config.get("num_decoder_layers", config["num_layers"])
    if decoders not in (None, config["num_layers"]):
        raise UsageError(f"{folder}: num_decoder_layers is {decoders}; our t5 has as many as num_layers")
    tokens = {"begin_token": config.get("decoder_start_token_id", 0), "end_token": config.get("eos_token_id", 1)}
    if not all(isinstance(token, int) for token in tokens.values()):
        raise UsageError(f"{folder / CONFIG}: decoder_start_token_id and eos_token_id are tokens (got {tokens})")
    farthest = _size(config.get("relative_attention_max_distance", 128), "relative_attention_max_distance", folder)
    return {"target_vocab": config["vocab_size"], "max_distance": farthest, **tokens}


@dataclass(frozen=True)
class Family:
    """A family of models of Hugging Face that is one of ours: how its configuration is read and its weights are named.

    ``sizes`` are our arguments and their names in the configuration, ``fixed`` the values that we compute with, the
    first of which holds where the configuration is silent, and ``others`` finds arguments elsewhere.
    """

    model: type[Model[Any]]
    load: Callable[[Any, Mapping[str, Tensor]], None]
    sizes: Mapping[str, str]
    fixed: Mapping[str, tuple[Any, ...]]
    dropouts: tuple[str, ...]
    reals: Mapping[str, str] = field(default_factory=dict)
    others: Callable[[Path, Config, Mapping[str, Tensor]], Mapping[str, Any]] = lambda *_: {}


FAMILIES = {
    "gpt2": Family(
        GPT,
        load_gpt2,
        {"vocab": "vocab_size", "length": "n_positions", "layers": "n_layer", "heads": "n_head", "embedding": "n_embd"},
        {
            "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
            "layer_norm_epsilon": (1e-5,),
            "n_inner": (None,),
            "scale_attn_weights": (True,),
            "scale_attn_by_inverse_layer_idx": (False,),
            "tie_word_embeddings": (True,),
            "add_cross_attention": (False,),
        },
        ("resid_pdrop", "embd_pdrop", "attn_pdrop"),
        others=lambda *_: {"activation": "gelu_tanh"},
    ),
    "bert": Family(
        BERT,
        load_bert,
        {
            "vocab": "vocab_size", "length": "max_position_embeddings", "layers": "num_hidden_layers",
            "heads": "num_attention_heads", "embedding": "hidden_size", "inner": "intermediate_size",
        },
        {
            "hidden_act": ("gelu",),
            "layer_norm_eps": (1e-12,),
            "type_vocab_size": (2,),
            "position_embedding_type": ("absolute",),
            "tie_word_embeddings": (True,),
            "is_decoder": (False,),
        },
        ("hidden_dropout_prob", "attention_probs_dropout_prob"),
        others=_special_tokens,
    ),
    "vit": Family(
        ViT,
        load_vit,
        {
            "channels": "num_channels", "patch": "patch_size", "layers": "num_hidden_layers",
            "heads": "num_attention_heads", "embedding": "hidden_size",
        },
        {"hidden_act": ("gelu",), "qkv_bias": (True,)},
        ("hidden_dropout_prob", "attention_probs_dropout_prob"),
        reals={"epsilon": "layer_norm_eps"},
        others=_image_sizes,
    ),
    "t5": Family(
        T5,
        load_t5,
        {
            "vocab": "vocab_size", "layers": "num_layers", "heads": "num_heads", "embedding": "d_model",
            "head_dim": "d_kv", "inner": "d_ff", "buckets": "relative_attention_num_buckets",
        },
        {
            "feed_forward_proj": ("relu",),
            "layer_norm_epsilon": (1e-6,),
            "tie_word_embeddings": (True,),
            "scale_decoder_outputs": (True,),
            "is_encoder_decoder": (True,),
        },
        ("dropout_rate",),
        others=_text_to_text,
    ),
}  # fmt: skip
"""The families by their ``model_type``."""


def from_pretrained(folder: str | Path, **arguments: Any) -> Model[Any]:
    """The model in a local folder of Hugging Face, a GPT-2, BERT, T5 or ViT, with its weights, in evaluation mode.

    The folder holds ``config.json`` and ``model.safetensors``, in one file or in several, as ``save_pretrained`` and
    ``hf download`` write them; pickled weights are never opened. ``arguments`` are those of our constructor that the
    folder does not know, or a ``dropout`` other than its own: ``from_pretrained("gpt2", dropout=0.1)``.

    >>> from_pretrained("nowhere")
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.UsageError: there is no folder nowhere with a config.json; download one first: ...
    """
    folder = Path(folder)
    if not (folder / CONFIG).is_file():
        raise UsageError(
            f"there is no folder {folder} with a {CONFIG}; download one first: "
            f"hf download {folder.name} --local-dir {folder.name}"
        )
    config = _read_config(folder)
    kind = config.get("model_type")
    if kind not in FAMILIES:
        raise UsageError(f"{folder} is a {kind!r}; from_pretrained builds {listed(FAMILIES)}")
    family = FAMILIES[kind]
    _check_fixed(family, config, folder)
    weights = _read_weights(folder)
    found = {ours: _size(config.get(theirs), theirs, folder) for ours, theirs in family.sizes.items()}
    given = {**found, **_real_numbers(family, config, folder, arguments), **family.others(folder, config, weights)}
    with torch.random.fork_rng(devices=[]):  # the weights that are drawn here are all replaced
        model = _built(family, {**given, **arguments}, folder)
    try:
        family.load(model, weights)
    except UsageError as error:
        raise UsageError(f"{folder}: {error}") from error
    return model.eval()


def _built(family: Family, arguments: Mapping[str, Any], folder: Path) -> Model[Any]:
    try:
        return family.model(**arguments)
    except TypeError as error:
        missing = [name for name in SIGNS if family.model is BERT and name not in arguments]
        remedy = f"give {', '.join(f'{name}=...' for name in missing)}" if missing else str(error)
        raise UsageError(f"{folder} does not say all that {family.model.name()} needs: {remedy}") from error


def _read_config(folder: Path) -> Config:
    path = folder / CONFIG
    content = parse_json(read_text(path, 2**20), path)
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} is not a configuration: it holds no names with values")
    if "quantization_config" in content:
        raise UsageError(f"{folder} holds quantized weights; from_pretrained takes those of floating-point numbers")
    return content


def _check_fixed(family: Family, config: Config, folder: Path) -> None:
    """Refuse a model that computes something else than ours."""
    width = config.get("n_embd", config.get("hidden_size"))
    for name, allowed in family.fixed.items():
        value = config.get(name, allowed[0])
        four_times = name == "n_inner" and isinstance(width, int) and value == 4 * width
        if value not in allowed and not four_times:
            wanted = " or ".join(str(each) for each in allowed)
            raise UsageError(f"{folder}: {name} is {value!r}; our {family.model.name()} computes with {wanted}")


def _real_numbers(family: Family, config: Config, folder: Path, arguments: Mapping[str, Any]) -> dict[str, float]:
    rates = {name: _real(config.get(name, 0.0), name, folder) for name in family.dropouts}
    if len({*rates.values()}) > 1 and "dropout" not in arguments:
        told = ", ".join(f"{name} {rate:g}" for name, rate in rates.items())
        raise UsageError(f"{folder} has several rates of dropout ({told}) and our model one: choose it by dropout=...")
    reals = {ours: _real(config.get(theirs), theirs, folder) for ours, theirs in family.reals.items()}
    return {"dropout": next(iter(rates.values())), **reals}


def _size(value: Any, name: str, folder: Path) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 2**31:
        raise UsageError(f"{folder / CONFIG}: {name} is a size, a whole number from 1 (got {value!r})")
    return value


def _real(value: Any, name: str, folder: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{folder / CONFIG}: {name} is a number (got {value!r})")
    return float(value)


def _read_weights(folder: Path) -> dict[str, Tensor]:
    """The tensors of all files, under the names that they have there but for old names of normalizations."""
    files = _weight_files(folder)
    size = sum(file.stat().st_size for file in files)
    need(3 * size, f"the weights in {folder}", "take a smaller model")
    found: dict[str, Tensor] = {}
    for file in files:
        try:
            found |= load_file(file)
        except (SafetensorError, KeyError, ValueError, RuntimeError, OSError) as error:
            raise CheckpointError(f"{file} is not a safetensors file that can be read: {error}") from error
    return {_current_name(name): tensor for name, tensor in found.items()}


def _weight_files(folder: Path) -> list[Path]:
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    index = folder / INDEX
    if index.is_file():
        content = parse_json(read_text(index), index)
        places = content.get("weight_map") if isinstance(content, dict) else None
        names = sorted({str(name) for name in places.values()}) if isinstance(places, dict) else []
        for name in names:
            if Path(name).name != name or not (folder / name).is_file():
                raise CheckpointError(f"{index} names the file {name!r}, which is not there")
        if names:
            return [folder / name for name in names]
        raise CheckpointError(f"{index} names no file of weights")
    pickled = sorted(file.name for pattern in PICKLES for file in folder.glob(pattern))
    if pickled:
        raise UsageError(
            f"{folder} holds its weights as a pickle, {pickled[0]}, which can run any code when it is opened; where "
            "you trust it, transformers' save_pretrained writes them as safetensors"
        )
    raise UsageError(f"{folder} holds no {WEIGHTS}")


def _current_name(name: str) -> str:
    old = next((ending for ending in OLD_NAMES if name.endswith(ending)), None)
    return name if old is None else name.removesuffix(old) + OLD_NAMES[old]

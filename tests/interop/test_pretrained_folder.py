"""A folder that transformers has saved becomes a model of ours with the same outputs."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import deepcanon as dc
from deepcanon.core import CheckpointError, DeepcanonError, UsageError
from deepcanon.models.attention.bert import BERT
from deepcanon.models.attention.gpt import GPT
from deepcanon.models.attention.t5 import T5
from deepcanon.models.attention.vit import ViT

transformers = pytest.importorskip("transformers", reason="needs transformers, of deepcanon[oracles]")


def saved(kind: str, config: Any, folder: Path, **how: Any) -> Any:
    """A model of transformers with weights that are all random, and its folder."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(transformers, kind)(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():  # biases begin at zero, norms at one: no test of where they go
                parameter.add_(0.1 * torch.randn_like(parameter))
        model.save_pretrained(folder, **how)
    return model


def gpt2(folder: Path, kind: str = "GPT2LMHeadModel", how: Any = None, **others: Any) -> Any:
    config = transformers.GPT2Config(vocab_size=23, n_positions=16, n_layer=2, n_head=4, n_embd=32, **others)
    return saved(kind, config, folder, **(how or {}))


def bert(folder: Path) -> Any:
    config = transformers.BertConfig(
        vocab_size=23, max_position_embeddings=16, num_hidden_layers=2, num_attention_heads=4, hidden_size=32,
        intermediate_size=48,
    )  # fmt: skip
    model = saved("BertForPreTraining", config, folder)
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(19))]) + "\n")
    return model


def t5(folder: Path) -> Any:
    config = transformers.T5Config(
        vocab_size=23, d_model=32, d_kv=7, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    return saved("T5ForConditionalGeneration", config, folder)


def vit(folder: Path) -> Any:
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=[8, 12],
        patch_size=4, num_channels=3, num_labels=5,
    )  # fmt: skip
    return saved("ViTForImageClassification", config, folder)


TOKENS = torch.randint(4, 23, (4, 12), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_gpt2_gives_the_logits_of_its_folder(tmp_path: Path) -> None:
    peer = gpt2(tmp_path)
    before = torch.get_rng_state()
    model = dc.from_pretrained(tmp_path)
    assert torch.equal(before, torch.get_rng_state())
    assert isinstance(model, GPT)
    assert not model.training
    assert dict(model.hparams) == {
        "vocab": 23, "length": 16, "layers": 2, "heads": 4, "embedding": 32, "dropout": 0.1, "activation": "gelu_tanh",
        "positions": "learned", "attention": "softmax", "reach": None, "output": "softmax",
    }  # fmt: skip
    assert (model(TOKENS) - peer(TOKENS).logits).abs().max() < 1e-5
    assert peer(TOKENS).logits.std() > 0.1


@torch.no_grad()
@pytest.mark.parametrize(
    ("kind", "how"),
    [("GPT2LMHeadModel", {"max_shard_size": "20KB"}), ("GPT2Model", {})],
    ids=["in several files", "without a head"],
)
def test_gpt2_comes_in_several_files_and_without_a_head(kind: str, how: dict[str, Any], tmp_path: Path) -> None:
    peer = gpt2(tmp_path, kind, how)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 1) == bool(how)
    states = peer(TOKENS, output_hidden_states=True).hidden_states[-1]
    model = dc.from_pretrained(tmp_path)
    wanted = states @ model.get_parameter("token_embedding.weight").T
    assert (model(TOKENS) - wanted).abs().max() < 1e-5


@torch.no_grad()
@pytest.mark.parametrize("old", [False, True], ids=["names of today", "names of the published file"])
def test_bert_gives_the_outputs_of_its_folder(old: bool, tmp_path: Path) -> None:
    peer = bert(tmp_path)
    if old:
        file = tmp_path / "model.safetensors"
        renamed = {
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
            for name, tensor in load_file(file).items()
        }
        assert any(name.endswith("gamma") for name in renamed)
        save_file(renamed, file, {"format": "pt"})
    model = dc.from_pretrained(tmp_path)
    assert isinstance(model, BERT)
    assert [model.hparams[name] for name in ("class_token", "separator_token", "mask_token", "inner")] == [1, 2, 3, 48]
    segments = (torch.arange(12) > 5).long().expand(4, -1)
    theirs = peer(input_ids=TOKENS, token_type_ids=segments)
    ours = model(TOKENS, torch.full((4,), 12), segments)
    assert (ours[0] - theirs.prediction_logits).abs().max() < 1e-5
    assert (ours[1] - theirs.seq_relationship_logits).abs().max() < 1e-5


@torch.no_grad()
def test_t5_gives_the_logits_of_its_folder_and_translates_as_it_does(tmp_path: Path) -> None:
    peer = t5(tmp_path)
    model = dc.from_pretrained(tmp_path)
    assert isinstance(model, T5)
    assert [model.hparams[name] for name in ("head_dim", "inner", "begin_token", "end_token")] == [7, 48, 0, 1]
    y = torch.cat([torch.zeros(4, 1, dtype=torch.long), TOKENS[:, :6]], 1)
    wanted = peer(input_ids=TOKENS, decoder_input_ids=y).logits
    assert (model(TOKENS, torch.full((4,), 12), y) - wanted).abs().max() < 1e-5
    greedy = peer.generate(TOKENS, max_new_tokens=9, do_sample=False, num_beams=1)
    found, lengths = model.translate(TOKENS, steps=9)
    for row, length in enumerate(lengths.tolist()):
        assert found[row, :length].tolist() == greedy[row, :length].tolist()
    edited(num_decoder_layers=3)(tmp_path)
    with pytest.raises(UsageError, match="num_decoder_layers is 3; our t5 has as many as num_layers"):
        dc.from_pretrained(tmp_path)
    edited(num_decoder_layers=2, feed_forward_proj="gated-gelu")(tmp_path)
    with pytest.raises(UsageError, match="feed_forward_proj is 'gated-gelu'; our t5 computes with relu"):
        dc.from_pretrained(tmp_path)


@torch.no_grad()
def test_vit_gives_the_logits_of_its_folder(tmp_path: Path) -> None:
    peer, x = vit(tmp_path), torch.randn(3, 3, 8, 12, generator=torch.Generator().manual_seed(1))
    model = dc.from_pretrained(tmp_path)
    assert isinstance(model, ViT)
    assert (model(x) - peer(x).logits).abs().max() < 1e-5


def test_the_special_tokens_of_bert_may_be_given_or_stand_in_tokenizer_json(tmp_path: Path) -> None:
    bert(tmp_path)
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(UsageError, match=r"needs: give mask_token=\.\.\., class_token=\.\.\., separator_token"):
        dc.from_pretrained(tmp_path)
    assert dc.from_pretrained(tmp_path, mask_token=3, class_token=1, separator_token=2).hparams["mask_token"] == 3
    added = [{"id": i, "content": sign} for i, sign in enumerate(("[CLS]", "[SEP]", "[MASK]"))]
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": added}))
    assert dc.from_pretrained(tmp_path).hparams["mask_token"] == 2


def edited(**changes: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return edit


def without(name: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        del weights[name]
        save_file(weights, folder / "model.safetensors", {"format": "pt"})

    return edit


def as_integers(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["transformer.ln_f.weight"] = weights["transformer.ln_f.weight"].to(torch.int8)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def pickled(folder: Path) -> None:
    """A pickle that would leave a file behind if anyone opened it."""
    (folder / "model.safetensors").unlink()
    command = f"cos\nsystem\n(S'touch {folder / 'opened'}'\ntR."
    (folder / "pytorch_model.bin").write_bytes(command.encode())


FAULTS: dict[str, tuple[Callable[[Path], Any], type[DeepcanonError], str]] = {
    "another model": (edited(model_type="llama"), UsageError, "is a 'llama'; from_pretrained builds gpt2, bert"),
    "no kind": (edited(model_type=None), UsageError, "is a None"),
    "another activation": (edited(activation_function="relu"), UsageError, "activation_function is 'relu'; our gpt"),
    "another epsilon": (edited(layer_norm_epsilon=1e-6), UsageError, "layer_norm_epsilon is 1e-06"),
    "another scale": (edited(scale_attn_by_inverse_layer_idx=True), UsageError, "scale_attn_by_inverse_layer_idx"),
    "another inner width": (edited(n_inner=64), UsageError, "n_inner is 64"),
    "an untied head": (edited(tie_word_embeddings=False), UsageError, "tie_word_embeddings is False"),
    "several dropouts": (edited(attn_pdrop=0.3), UsageError, r"several rates of dropout .*choose it by dropout="),
    "quantized": (edited(quantization_config={}), UsageError, "quantized weights"),
    "a size that is none": (edited(n_layer="two"), UsageError, "n_layer is a size, a whole number from 1"),
    "another size": (edited(n_layer=3), UsageError, r"it has no blocks\.2"),
    "another width": (edited(n_embd=64), UsageError, r"has the shape \(23, 32\) in the file and \(23, 64\)"),
    "a tensor is missing": (without("transformer.h.1.mlp.c_fc.bias"), UsageError, "blocks.1.up_projection.bias"),
    "whole numbers": (as_integers, UsageError, "norm.weight is of type torch.int8 in the file"),
    "a pickle": (pickled, UsageError, "as a pickle, pytorch_model.bin, which can run any code"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), UsageError, "holds no model.safetensors"),
    "weights that are none": (
        lambda folder: (folder / "model.safetensors").write_bytes(b"no weights"), CheckpointError,
        "not a safetensors file that can be read",
    ),
    "a list": (lambda folder: (folder / "config.json").write_text("[]"), CheckpointError, "is not a configuration"),
    "no JSON": (lambda folder: (folder / "config.json").write_text("{"), CheckpointError, "is not JSON"),
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpt2")
    gpt2(folder)
    return folder


@pytest.mark.parametrize("fault", FAULTS)
def test_a_folder_that_is_not_ours_to_build_is_refused_in_a_sentence(fault: str, sound: Path, tmp_path: Path) -> None:
    for file in sound.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    dc.from_pretrained(tmp_path)
    spoil, error, sentence = FAULTS[fault]
    spoil(tmp_path)
    with pytest.raises(error, match=sentence) as raised:
        dc.from_pretrained(tmp_path)
    assert str(tmp_path) in str(raised.value)
    assert not (tmp_path / "opened").exists()


def test_several_files_are_those_of_the_folder(sound: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((sound / "config.json").read_bytes())
    index = tmp_path / "model.safetensors.index.json"
    for content, sentence in (
        ({"weight_map": {"a": f"../{sound.name}/model.safetensors"}}, "which is not there"),
        ({"weight_map": {"a": ["x"]}}, "which is not there"),
        ({"weight_map": {}}, "names no file of weights"),
        ([], "names no file of weights"),
    ):
        index.write_text(json.dumps(content))
        with pytest.raises(CheckpointError, match=sentence):
            dc.from_pretrained(tmp_path)


def test_a_dropout_that_is_given_replaces_those_of_the_folder(sound: Path) -> None:
    assert dc.from_pretrained(sound, dropout=0.0).hparams["dropout"] == 0.0
    with pytest.raises(UsageError, match="unexpected keyword argument 'depth'"):
        dc.from_pretrained(sound, depth=3)
    with pytest.raises(UsageError, match=r"there is no folder gpt2 with a config\.json; download one first"):
        dc.from_pretrained("gpt2")

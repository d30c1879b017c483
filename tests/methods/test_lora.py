"""LoRA starts as its base, trains r (d_in + d_out) numbers per layer, keeps the base, and merges without loss."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Self

import pytest
import torch
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import Labeled, Model, Sequences, Terms, UsageError, describe
from deepcanon.core.toy import Toy
from deepcanon.data import Dataset
from deepcanon.methods.lora import LoRA, LowRank, candidates
from deepcanon.models.adversarial.gan import GAN
from deepcanon.models.energy.hopfield import Hopfield
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.models.recurrent.lstm import LSTM
from deepcanon.models.variational.vae import VAE


class Zoo(Model[Labeled]):
    """Every kind of layer that can be adapted, some that cannot, and weights that are used without their layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 6)
        self.conv = nn.Conv2d(1, 4, 3, stride=2)
        self.norm = nn.BatchNorm2d(4)
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.head = nn.Linear(4, 5)
        self.tied = nn.Linear(6, 5, bias=False)
        self.shared = nn.Embedding(5, 6)
        self.shared.weight = self.tied.weight

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        return cls(), Labeled(torch.randn(8, 1, 7, 7), torch.arange(8) % 5)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.norm(self.conv(x)).mean((2, 3))
        words = self.table(torch.arange(5, device=x.device)).expand(len(x), 5, 6)
        read, _ = self.attention(words, words, words)
        logits: Tensor = self.head(seen) + self.tied(read.mean(1))
        return logits

    def loss(self, batch: Labeled) -> Terms:
        return {"nll": nn.functional.cross_entropy(self(batch.x), batch.y)}


def stirred(method: LoRA[Any]) -> LoRA[Any]:
    """With updates that are not zero."""
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in method.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn(parameter.shape, generator=random))
    return method


def test_it_starts_as_the_base_bit_for_bit() -> None:
    kinds: tuple[type[Model[Any]], ...] = (MLP, VAE, GAN, Zoo)
    for cls in kinds:
        torch.manual_seed(0)
        model, batch = cls.example()
        plain = copy.deepcopy(model)
        method: LoRA[Any] = LoRA(model)
        for mode in (True, False):
            losses = []
            for each in (method.train(mode), plain.train(mode)):
                torch.manual_seed(1)
                losses.append(each.loss(batch))
            assert losses[0].keys() == losses[1].keys()
            assert all(torch.equal(losses[0][name], losses[1][name]) for name in losses[0])


def test_it_trains_as_many_numbers_as_the_formula_says() -> None:
    method: LoRA[Any] = LoRA(MLP(features=64, classes=10, hidden=(256,)), rank=4)
    assert sum(p.numel() for p in method.parameters() if p.requires_grad) == 4 * (64 + 256) + 4 * (256 + 10)
    zoo: LoRA[Any] = LoRA(Zoo(), rank=3, layers=("conv", "table"))
    assert sum(p.numel() for p in zoo.parameters() if p.requires_grad) == 3 * (4 + 9) + 3 * (5 + 6)


def test_the_count_that_peft_prints_for_a_large_model() -> None:
    """Qwen2.5-3B with rank 16 on queries and values: 36 layers of width 2048, with values of width 256."""
    shapes = [(2048, 2048), (256, 2048)]
    updates = [LowRank(torch.empty(shape, device="meta"), rank=16, scale=1.0) for shape in shapes]
    assert 36 * sum(p.numel() for update in updates for p in update.parameters()) == 3_686_400


def test_an_update_is_the_scaled_product_of_its_factors() -> None:
    model = MLP(features=3, classes=2, hidden=(5,)).double()
    weights = [layer.weight.detach().clone() for layer in model.net if isinstance(layer, nn.Linear)]
    biases = [layer.bias.detach() for layer in model.net if isinstance(layer, nn.Linear)]
    method = stirred(LoRA(model, rank=2, alpha=6.0))
    factors = [p.detach() for p in method.parameters() if p.requires_grad]
    x = torch.randn(7, 3, dtype=torch.float64)
    h = x
    for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        down, up = factors[2 * i : 2 * i + 2]
        h = h @ weight.T + 6 / 2 * (h @ down.T) @ up.T + bias
        h = h.relu() if i == 0 else h
    torch.testing.assert_close(method(x), h, rtol=1e-12, atol=1e-12)
    for before, update in method.updates().values():
        assert torch.linalg.matrix_rank(update) == 2
        assert before.shape == update.shape


def test_the_path_of_its_own_has_the_values_and_gradients_of_the_merged_weight() -> None:
    """In training the update is a path next to the weight, in eval mode it is merged, to the bit."""
    method = stirred(LoRA(MLP(features=3, classes=2, hidden=(5,)).double(), rank=2))
    x = torch.randn(7, 3, dtype=torch.float64)
    trained = [p for p in method.parameters() if p.requires_grad]
    both = []
    for mode in (True, False):
        y = method.train(mode)(x)
        both.append((y, *torch.autograd.grad(y.square().sum(), trained)))
    for one, other in zip(*both, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    assert torch.equal(both[1][0], method.unwrapped()(x))


@pytest.mark.slow
def test_peft_computes_the_same_on_the_same_weights() -> None:
    peft = pytest.importorskip("peft", reason="needs peft, of deepcanon[oracles]")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 3)).double()
    theirs = peft.get_peft_model(
        copy.deepcopy(net), peft.LoraConfig(r=2, lora_alpha=5, target_modules=["0", "3"], init_lora_weights=False)
    ).double()

    class Wrapped(Model[Labeled]):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        @classmethod
        def example(cls) -> Any:
            raise NotImplementedError

        def loss(self, batch: Labeled) -> Terms:
            return {}

        def forward(self, x: Tensor) -> Any:
            return self.net(x)

    ours: LoRA[Any] = LoRA(Wrapped(), rank=2, alpha=5.0)
    factors = {name: value for name, value in theirs.named_parameters() if "lora_" in name}
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            if parameter.requires_grad:
                place, kind = name.split(".")[2], "lora_A" if name.endswith("down") else "lora_B"
                (value,) = [value for key, value in factors.items() if f".{place}.{kind}." in key]
                parameter.copy_(value.flatten(1))
    x = torch.randn(5, 1, 4, 4, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-10, atol=1e-10)
    merged = theirs.merge_and_unload()
    torch.testing.assert_close(ours.unwrapped()(x), merged(x), rtol=1e-10, atol=1e-10)


def test_training_leaves_the_base_as_it_was_and_merging_loses_nothing() -> None:
    torch.manual_seed(0)
    data = dc.load_data("digits")
    base = MLP(features=64, classes=10, hidden=(32,))
    before = {name: value.clone() for name, value in base.state_dict().items()}
    method: LoRA[Any] = LoRA(base, rank=2)
    result = dc.fit(method, data, steps=60, lr=0.02, quiet=True)
    assert result.test["accuracy"] > 0.5
    frozen = {name: value for name, value in base.state_dict().items() if "weight.0" not in name}
    for (name, value), old in zip(sorted(frozen.items()), [before[key] for key in sorted(before)], strict=True):
        assert torch.equal(value, old), name
    merged = method.unwrapped()
    assert type(merged) is MLP
    assert describe(merged) == describe(base)
    assert merged.state_dict().keys() == before.keys()
    assert all(parameter.requires_grad for parameter in merged.parameters())
    x = data.split("test").x
    torch.testing.assert_close(merged(x), method(x), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(method(x), method(x))  # the method itself still has its updates
    assert not torch.equal(merged.get_parameter("net.0.weight"), before["net.0.weight"])


def test_every_kind_of_layer_is_adapted_and_takes_effect() -> None:
    model, batch = Zoo.example()
    assert candidates(model) == ["table", "conv", "attention.out_proj", "head"]
    base = model.eval()(batch.x)
    for name in candidates(model):
        again = copy.deepcopy(model)
        method = stirred(LoRA(again, layers=(name,))).eval()
        assert method.adapted == [name]
        assert not torch.allclose(method(batch.x), base)
        torch.testing.assert_close(method.unwrapped()(batch.x), method(batch.x), rtol=1e-6, atol=1e-6)


def test_players_of_a_game_keep_to_their_own_updates() -> None:
    model, _ = GAN.example()
    method: LoRA[Any] = LoRA(model)
    turns = {turn.name: turn for turn in method.turns()}
    assert turns.keys() == {"discriminator", "generator"}
    names = {id(parameter): name for name, parameter in method.named_parameters()}
    for name, turn in turns.items():
        assert {names[id(p)].split(".")[1] for p in turn.parameters} == {name}  # type: ignore[attr-defined]
    only: LoRA[Any] = LoRA(GAN.example()[0], layers=("generator.*",))
    assert [turn.name for turn in only.turns()] == ["generator"]


def test_a_layer_that_is_not_there_gets_the_list_of_those_that_are() -> None:
    with pytest.raises(UsageError, match=r"layers='query' matches no layer of mlp .*; it has net\.0, net\.2"):
        LoRA(MLP(features=2, classes=2, hidden=(4,)), layers=("net.0", "query"))
    with pytest.raises(UsageError, match="that LoRA can adapt; it has none"):
        LoRA(Toy(2))
    with pytest.raises(UsageError, match="name the layers to adapt; mlp has net"):
        LoRA(MLP(features=2, classes=2), layers=())
    with pytest.raises(UsageError, match="rank must be at least 1"):
        LoRA(MLP(features=2, classes=2), rank=0)
    with pytest.raises(UsageError, match="it has none"):
        LoRA(Hopfield.example()[0])


def test_the_wrapped_model_has_the_vocabulary_of_the_data(tmp_path: Path) -> None:
    story = Sequences(torch.randint(3, (4, 6)), torch.full((4,), 6))
    data: Dataset[Any] = Dataset(name="story", kind="text", train=story, sizes={"vocab": 3}, vocabulary=("a", "b", "c"))
    method: Any = LoRA(LSTM(vocab=3, embedding=4, units=5))
    dc.fit(method, data, out=tmp_path, quiet=True, steps=1)
    again: Any = dc.load(tmp_path)
    assert method.model.vocabulary == again.model.vocabulary == again.vocabulary == ("a", "b", "c")

"""Parts of torch, PyTorch Geometric, nflows, zuko and Hugging Face keep the laws of their kind, but for some."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deepcanon import laws
from deepcanon import nn as own

ORACLE = "needs {}, of deepcanon[oracles]"


def failures(thing: Any) -> dict[str, str]:
    """The laws that a part breaks, each with what was seen."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other libraries warn of what torch has deprecated
        found = laws.check(thing)
    assert found
    return {outcome.law: outcome.detail for outcome in found if not outcome.holds}


NORMS: dict[str, Callable[[], nn.Module]] = {
    "BatchNorm1d": lambda: nn.BatchNorm1d(8),
    "BatchNorm2d with a cumulative mean": lambda: nn.BatchNorm2d(4, momentum=None),
    "BatchNorm1d without statistics": lambda: nn.BatchNorm1d(4, track_running_stats=False),
    "BatchNorm3d without gains": lambda: nn.BatchNorm3d(3, affine=False),
    "LayerNorm": lambda: nn.LayerNorm([5, 8]),
    "GroupNorm": lambda: nn.GroupNorm(2, 6),
    "InstanceNorm1d": lambda: nn.InstanceNorm1d(4),
    "InstanceNorm2d": lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
    "RMSNorm": lambda: nn.RMSNorm(8, eps=1e-3),
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(5, 4)),
    "weight norm of a convolution": lambda: nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 4, 3)),
    "own BatchNorm": lambda: own.BatchNorm(3),
}

LAYERS: dict[str, Callable[[], Any]] = {
    "Dropout": lambda: nn.Dropout(0.2),
    "Dropout in place": lambda: nn.Dropout(0.2, inplace=True),
    "Dropout1d": nn.Dropout1d,
    "Dropout2d": nn.Dropout2d,
    "Dropout3d": nn.Dropout3d,
    "own PlainDropout": own.PlainDropout,
    "Conv1d": lambda: nn.Conv1d(3, 4, 3, stride=2, padding=1, dilation=2),
    "Conv2d": lambda: nn.Conv2d(4, 6, (3, 5), padding=(1, 2), groups=2),
    "Conv2d same": lambda: nn.Conv2d(3, 4, 3, padding="same"),
    "Conv2d reflected": lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"),
    "Conv3d": lambda: nn.Conv3d(2, 3, 2),
    "ConvTranspose1d": lambda: nn.ConvTranspose1d(3, 4, 3, stride=2),
    "ConvTranspose2d": lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
    "own Causal": lambda: own.Causal(2, 3, kernel=2, dilation=3),
    "own Same": lambda: own.Same(nn.Conv2d(3, 4, 3, stride=2)),
    "own DepthwiseSeparable": lambda: own.DepthwiseSeparable(3, 5, kernel=3),
    "LSTM": lambda: nn.LSTM(3, 4, 2, batch_first=True),
    "LSTM both ways": lambda: nn.LSTM(3, 4, bidirectional=True),
    "GRU": lambda: nn.GRU(3, 4),
    "RNN": lambda: nn.RNN(3, 4),
    "own LSTMVariant": lambda: own.LSTMVariant(3, 4, peepholes=True),
    "own MultiHeadAttention": lambda: own.MultiHeadAttention(8, 2, head_dim=3),
    "own InvertibleConv1x1": lambda: own.InvertibleConv1x1(3),
    "own InverseAutoregressive": lambda: own.InverseAutoregressive(3),
    "own Planar": lambda: own.Planar(3),
    "own Radial": lambda: own.Radial(3),
    "own RelativeBias": lambda: own.RelativeBias(2),
}

PLAIN = (
    *("ReLU", "ReLU6", "LeakyReLU", "PReLU", "ELU", "SELU", "CELU", "GELU", "SiLU", "Mish", "Softplus", "Tanh"),
    *("Sigmoid", "Softsign", "Hardtanh", "Hardswish", "Hardsigmoid", "LogSigmoid", "Tanhshrink", "Softshrink"),
    *("CrossEntropyLoss", "NLLLoss", "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCELoss", "BCEWithLogitsLoss"),
    *("PoissonNLLLoss", "MultiMarginLoss", "SoftMarginLoss", "MultiLabelSoftMarginLoss"),
)
"""Activations and losses of torch that are made without arguments."""

OPTIMIZERS = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "Adamax", "Rprop", "ASGD")


class Sinusoidal(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + own.sinusoidal(x.shape[1], x.shape[2])


@pytest.mark.parametrize("make", [*NORMS.values(), *LAYERS.values()], ids=[*NORMS, *LAYERS])
def test_layers_keep_their_laws(make: Callable[[], Any]) -> None:
    torch.manual_seed(0)
    assert failures(make()) == {}


@pytest.mark.parametrize("name", PLAIN)
def test_activations_and_losses_of_torch_keep_their_laws(name: str) -> None:
    module = getattr(nn, name)()
    assert laws.kinds_of(module) == ["loss" if name.endswith("Loss") else "activation"]
    assert failures(module) == {}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_of_torch_keep_their_laws(name: str) -> None:
    assert failures(getattr(torch.optim, name)) == {}


def test_our_sinusoids_keep_their_laws() -> None:
    assert failures(Sinusoidal()) == {}


def rightly_failing() -> Iterator[tuple[str, Callable[[], Any], set[str], str]]:
    """Parts that break laws of their kind, with the laws and the reason; docs/laws.md has the same list."""
    yield (
        "torch.nn.MultiheadAttention",
        lambda: nn.MultiheadAttention(8, 2),
        {"masked positions change nothing", "a fully masked query gets nothing"},
        "NaN spreads from masked positions, and a query with all keys masked gets NaN",
    )
    yield (
        "torch.nn.AlphaDropout",
        nn.AlphaDropout,
        {
            "training keeps the mean of evaluation",
            "the share of zeros is the probability",
            "kept values are scaled alike",
        },
        "it keeps mean and variance of standardized inputs, not of each value, and drops to a constant below zero",
    )
    yield (
        "torch.nn.KLDivLoss",
        nn.KLDivLoss,
        {"the value is the closed form"},
        'its "mean" divides by the number of entries; reduction="batchmean" is the divergence',
    )
    yield (
        "torch.nn.HingeEmbeddingLoss",
        nn.HingeEmbeddingLoss,
        {"the truth is best"},
        "its target is a sign, not a value that the prediction comes near to",
    )
    yield (
        "torch.nn.LocalResponseNorm",
        lambda: nn.LocalResponseNorm(2),
        {"outputs are standardized values", "variance becomes one"},
        "it divides by a power of a sum of squares of neighboring channels, not by a standard deviation",
    )
    yield (
        "torch.optim.LBFGS",
        lambda: torch.optim.LBFGS,
        {"the first step is proportional to the rate"},
        "one step is many inner ones",
    )


CASES = list(rightly_failing())


@pytest.mark.parametrize(("name", "make", "broken", "reason"), CASES, ids=[case[0] for case in CASES])
def test_parts_that_rightly_fail_are_known(name: str, make: Callable[[], Any], broken: set[str], reason: str) -> None:
    assert reason
    thing = make()
    assert set(failures(thing)) == broken, name


@pytest.mark.slow  # by the import
def test_normalizations_of_geometric() -> None:
    norms = pytest.importorskip("torch_geometric.nn.norm", reason=ORACLE.format("torch_geometric"))
    for healthy in (norms.BatchNorm(8), norms.InstanceNorm(8), norms.LayerNorm(8, mode="node")):
        assert failures(healthy) == {}, healthy
    # of a whole graph, eps is added to the standard deviation, not to the variance
    assert "epsilon is added to the variance" in failures(norms.LayerNorm(8))
    assert set(failures(norms.GraphNorm(8))) == {"gain and shift act linearly"}  # its mean scale acts inside the root
    for other in (norms.PairNorm(), norms.MeanSubtractionNorm()):  # which standardize nothing
        assert "variance becomes one" in failures(other)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GCNConv", "GATConv", "SAGEConv", "GraphConv", "TAGConv"])
def test_layers_of_geometric(name: str) -> None:
    layers = pytest.importorskip("torch_geometric.nn", reason=ORACLE.format("torch_geometric"))
    layer = getattr(layers, name)(3, 4)
    found = laws.check(layer, "graph")
    assert all(outcome.holds for outcome in found), laws.report(found)


@pytest.mark.slow
def test_transforms_of_nflows() -> None:
    transforms = pytest.importorskip("nflows.transforms", reason=ORACLE.format("nflows"))
    nets = pytest.importorskip("nflows.nn.nets", reason=ORACLE.format("nflows"))
    mask = torch.tensor([0, 1, 0, 1])

    def net(inputs: int, outputs: int) -> Any:
        return nets.ResidualNet(inputs, outputs, hidden_features=8)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        healthy = [
            transforms.AffineCouplingTransform(mask, net),
            transforms.AdditiveCouplingTransform(mask, net),
            transforms.PiecewiseRationalQuadraticCouplingTransform(mask, net, tails="linear"),
            transforms.MaskedAffineAutoregressiveTransform(4, 8),
            transforms.LULinear(4),
            transforms.OneByOneConvolution(3),
            transforms.ActNorm(3),
            transforms.RandomPermutation(4),
            transforms.SqueezeTransform(),
            transforms.CompositeTransform([transforms.LULinear(4), transforms.ReversePermutation(4)]),
        ]
        broken = transforms.NaiveLinear(4)
    for each in healthy:
        assert laws.kinds_of(each)[0] == "transform"
        assert failures(each) == {}, each
    assert "the inverse inverts" in failures(broken)  # it calls torch.solve, which torch has removed


def test_transforms_of_zuko() -> None:
    zuko = pytest.importorskip("zuko", reason=ORACLE.format("zuko"))

    class OfZuko(nn.Module):
        """A lazy transform of zuko, called as ours are."""

        def __init__(self, lazy: nn.Module) -> None:
            super().__init__()
            self.lazy, self.features = lazy, 4

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            z, log_det = self.lazy().call_and_ladj(x)
            return z, log_det

        def inverse(self, z: Tensor) -> Any:
            return self.lazy().inv(z)

    made = [
        zuko.flows.MaskedAutoregressiveTransform(4, hidden_features=(8,)),
        zuko.flows.GeneralCouplingTransform(4, hidden_features=(8,)),
    ]
    for lazy in made:
        assert laws.kinds_of(OfZuko(lazy))[0] == "transform"
        assert failures(OfZuko(lazy)) == {}, lazy


@pytest.mark.slow  # by the import
def test_parts_of_hugging_face() -> None:
    hf = pytest.importorskip("transformers", reason=ORACLE.format("transformers"))
    from transformers.activations import ACT2FN
    from transformers.models.bert.modeling_bert import BertSelfAttention
    from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
    from transformers.models.gpt2.modeling_gpt2 import GPT2Attention
    from transformers.models.llama.modeling_llama import LlamaRMSNorm
    from transformers.models.t5.modeling_t5 import T5Attention, T5LayerNorm
    from transformers.models.vit.modeling_vit import ViTAttention

    bert = hf.BertConfig(hidden_size=16, num_attention_heads=2, attn_implementation="eager")
    healthy = [
        LlamaRMSNorm(8),
        GemmaRMSNorm(8),
        T5LayerNorm(8),
        BertSelfAttention(bert),
        GPT2Attention(hf.GPT2Config(n_embd=16, n_head=2, attn_implementation="sdpa"), layer_idx=0),
        ViTAttention(hf.ViTConfig(hidden_size=16, num_attention_heads=2, attn_implementation="sdpa")),
        *(ACT2FN[name] for name in ("gelu", "gelu_new", "quick_gelu", "gelu_fast", "silu", "mish", "relu2")),
    ]
    for each in healthy:
        assert failures(each) == {}, each
    attention = T5Attention(hf.T5Config(d_model=16, d_kv=8, num_heads=2))
    # T5 has no scale in its scores: it is folded into the initial weights of the queries
    assert set(failures(attention)) == {"scores are divided by the root of the key width"}


@pytest.mark.slow
def test_rotations_of_hugging_face() -> None:
    hf = pytest.importorskip("transformers", reason=ORACLE.format("transformers"))
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    class Rotary(nn.Module):
        """The rotation of the queries of one head."""

        def __init__(self) -> None:
            super().__init__()
            self.turns = LlamaRotaryEmbedding(hf.LlamaConfig(hidden_size=16, num_attention_heads=2))
            self.width = 8

        def forward(self, x: Tensor) -> Tensor:
            cos, sin = self.turns(x, torch.arange(x.shape[1]).unsqueeze(0))
            turned: Tensor = apply_rotary_pos_emb(x.unsqueeze(1), x.unsqueeze(1), cos, sin)[0].squeeze(1)
            return turned

    assert laws.kinds_of(Rotary()) == ["positions"]
    assert failures(Rotary()) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["BertModel", "GPT2Model", "ViTModel"])
def test_initial_weights_of_hugging_face(name: str) -> None:
    hf = pytest.importorskip("transformers", reason=ORACLE.format("transformers"))
    small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    configs = {
        "BertModel": lambda: hf.BertConfig(**small, vocab_size=50),
        "GPT2Model": lambda: hf.GPT2Config(n_embd=32, n_layer=1, n_head=2, vocab_size=50),
        "ViTModel": lambda: hf.ViTConfig(**small, image_size=32),
    }
    torch.manual_seed(0)
    model = getattr(hf, name)(configs[name]())
    if name == "GPT2Model":  # whose layers are no linear layers of torch
        model = nn.Sequential(model, nn.Linear(32, 50))
    found = laws.check(model, "initialization")
    assert all(outcome.holds for outcome in found), laws.report(found)

"""Layers that torch.nn lacks, exported by name: ``deepcanon.nn.GraphConv``."""

from deepcanon.lazy import listing
from deepcanon.nn.activations import Arctan, BinaryThreshold, Softmax, StochasticBinary, Swish, activation_layer
from deepcanon.nn.associative_memory import AssociativeMemory, parameter_free_attention
from deepcanon.nn.attention import MultiHeadAttention, attention, attention_weights, causal_mask
from deepcanon.nn.attention_scores import AttentionScore, weigh
from deepcanon.nn.averaged import Averaged
from deepcanon.nn.batch_norm import BatchNorm
from deepcanon.nn.bidirectional import Bidirectional, last_output, reversed_in_time
from deepcanon.nn.codes import from_bits, to_bits
from deepcanon.nn.connections import DenselyConnected, HighwayGate, Residual, Skip
from deepcanon.nn.convolution import Causal, DepthwiseSeparable, Same, convolve, output_size, pad_same
from deepcanon.nn.dense import dense
from deepcanon.nn.dropout import PlainDropout
from deepcanon.nn.fixed_point import fixed_point
from deepcanon.nn.gelu import gelu_tanh
from deepcanon.nn.graph_attention import GraphAttention, neighbor_max, row_softmax
from deepcanon.nn.graph_conv import GraphConv, dropped
from deepcanon.nn.graph_isomorphism import GraphIsomorphism
from deepcanon.nn.graph_spectral import SpectralConv, chebyshev, chebyshev_coefficients, chebyshev_sum
from deepcanon.nn.gru import GRULayers, ResetBeforeGRU, gru
from deepcanon.nn.initialize import fans, initialize, own_weights
from deepcanon.nn.inverse_autoregressive import InverseAutoregressive
from deepcanon.nn.kv_cache import KVCache
from deepcanon.nn.lstm import LSTMLayers, LSTMVariant, lstm
from deepcanon.nn.masked import (
    MaskedLinear,
    ancestral_order,
    autoregressive_mask,
    owner_mask,
    parent_mask,
    spread_degrees,
)
from deepcanon.nn.masked_convolution import AboveConv, GatedLayer, GatedPixelNet, LeftConv
from deepcanon.nn.node_order import breadth_first
from deepcanon.nn.ode import integrate, integrate_adjoint
from deepcanon.nn.planar_flow import Planar, Radial
from deepcanon.nn.pointwise import Pointwise
from deepcanon.nn.positions import RelativeBias, frequencies, shift, sinusoidal, sinusoidal_2d
from deepcanon.nn.rescale import Rescale, mean_and_std
from deepcanon.nn.rnn import LinearRNN, RNNLayers, rnn
from deepcanon.nn.segment import pool, segment_max, segment_mean, segment_sum
from deepcanon.nn.standardize import Standardize
from deepcanon.nn.stepped import SteppedLayers, init_matrices, open_biases
from deepcanon.nn.time_mlp import ClassTimeMLP, TimeBlock, TimeMLP, time_features
from deepcanon.nn.transforms import (
    ActNorm,
    AffineCoupling,
    Chain,
    Flatten,
    InvertibleConv1x1,
    Reverse,
    Split,
    Squeeze,
    Transform,
)
from deepcanon.nn.transposed import Transposed, TransposedConv, output_padding, transposed
from deepcanon.nn.unpool import bed_of_nails
from deepcanon.nn.vector_field import TimeGated, VectorField

__all__ = [
    "AboveConv",
    "ActNorm",
    "AffineCoupling",
    "Arctan",
    "AssociativeMemory",
    "AttentionScore",
    "Averaged",
    "BatchNorm",
    "Bidirectional",
    "BinaryThreshold",
    "Causal",
    "Chain",
    "ClassTimeMLP",
    "DenselyConnected",
    "DepthwiseSeparable",
    "Flatten",
    "GRULayers",
    "GatedLayer",
    "GatedPixelNet",
    "GraphAttention",
    "GraphConv",
    "GraphIsomorphism",
    "HighwayGate",
    "InverseAutoregressive",
    "InvertibleConv1x1",
    "KVCache",
    "LSTMLayers",
    "LSTMVariant",
    "LeftConv",
    "LinearRNN",
    "MaskedLinear",
    "MultiHeadAttention",
    "PlainDropout",
    "Planar",
    "Pointwise",
    "RNNLayers",
    "Radial",
    "RelativeBias",
    "Rescale",
    "ResetBeforeGRU",
    "Residual",
    "Reverse",
    "Same",
    "Skip",
    "Softmax",
    "SpectralConv",
    "Split",
    "Squeeze",
    "Standardize",
    "SteppedLayers",
    "StochasticBinary",
    "Swish",
    "TimeBlock",
    "TimeGated",
    "TimeMLP",
    "Transform",
    "Transposed",
    "TransposedConv",
    "VectorField",
    "activation_layer",
    "ancestral_order",
    "attention",
    "attention_weights",
    "autoregressive_mask",
    "bed_of_nails",
    "breadth_first",
    "causal_mask",
    "chebyshev",
    "chebyshev_coefficients",
    "chebyshev_sum",
    "convolve",
    "dense",
    "dropped",
    "fans",
    "fixed_point",
    "frequencies",
    "from_bits",
    "gelu_tanh",
    "gru",
    "init_matrices",
    "initialize",
    "integrate",
    "integrate_adjoint",
    "last_output",
    "lstm",
    "mean_and_std",
    "neighbor_max",
    "open_biases",
    "output_padding",
    "output_size",
    "own_weights",
    "owner_mask",
    "pad_same",
    "parameter_free_attention",
    "parent_mask",
    "pool",
    "reversed_in_time",
    "rnn",
    "row_softmax",
    "segment_max",
    "segment_mean",
    "segment_sum",
    "shift",
    "sinusoidal",
    "sinusoidal_2d",
    "spread_degrees",
    "time_features",
    "to_bits",
    "transposed",
    "weigh",
]
__dir__ = listing(__name__)

"""Layers that torch.nn lacks, exported by name: ``deepcanon.nn.GraphConv``."""

from deepcanon.lazy import listing
from deepcanon.nn.activations import Arctan, BinaryThreshold, Softmax, StochasticBinary, Swish, activation_layer
from deepcanon.nn.associative_memory import AssociativeMemory, parameter_free_attention
from deepcanon.nn.attention import MultiHeadAttention, attention, attention_weights, causal_mask
from deepcanon.nn.attention_scores import AttentionScore, weigh
from deepcanon.nn.averaged import Averaged
from deepcanon.nn.bag_of_words import bag_of_words
from deepcanon.nn.batch_norm import BatchNorm
from deepcanon.nn.bidirectional import Bidirectional, last_output, reversed_in_time
from deepcanon.nn.bisection import bisection
from deepcanon.nn.bucket_bias import BucketBias
from deepcanon.nn.codes import class_codes, decoded, from_bits, to_bits
from deepcanon.nn.component_attention import ComponentAttention, GraphTransformerBlock
from deepcanon.nn.connections import DenselyConnected, HighwayGate, Residual, Skip
from deepcanon.nn.convolution import Causal, DepthwiseSeparable, Same, convolve, output_size, pad_same
from deepcanon.nn.convolution_matrix import ConvolutionCount, convolution_count, convolution_matrix
from deepcanon.nn.dense import dense, side_by_side
from deepcanon.nn.dropout import PlainDropout
from deepcanon.nn.feature_pool import FeaturePool
from deepcanon.nn.fixed_point import fixed_point
from deepcanon.nn.gated_conv import GatedConv
from deepcanon.nn.gelu import gelu_tanh
from deepcanon.nn.graph_attention import AttentionConv, NeighborAttention
from deepcanon.nn.graph_conv import GraphConv, dropped
from deepcanon.nn.graph_isomorphism import GraphIsomorphism
from deepcanon.nn.graph_pooling import ClusterPool, GlobalNode, pooled
from deepcanon.nn.graph_spectral import SpectralConv
from deepcanon.nn.gru import GRULayers, ResetBeforeGRU, gru
from deepcanon.nn.hierarchical_softmax import (
    ClassTree,
    HierarchicalSoftmax,
    balanced_tree,
    entropy_in_bits,
    huffman_tree,
)
from deepcanon.nn.image_ends import ImageEnds, ImageRows, image_ends, known_shape
from deepcanon.nn.initialize import fans, initialize, own_weights
from deepcanon.nn.inner_product_search import ApproximateSearch, nearest_vectors, recall, top_inner_products
from deepcanon.nn.inverse_autoregressive import InverseAutoregressive
from deepcanon.nn.kv_cache import KVCache
from deepcanon.nn.linear_attention import (
    LinearAttention,
    RunningSums,
    elu_features,
    linear_attention,
    linear_attention_weights,
)
from deepcanon.nn.lstm import LSTMLayers, LSTMVariant, lstm
from deepcanon.nn.masked import (
    MaskedLinear,
    ancestral_order,
    autoregressive_mask,
    owner_mask,
    parent_mask,
    spread_degrees,
)
from deepcanon.nn.masked_autoregressive import MaskedAutoregressive
from deepcanon.nn.masked_convolution import AboveConv, CausalConv, LeftConv
from deepcanon.nn.message_passing import (
    aggregate,
    at_columns,
    at_rows,
    head_dots,
    head_sums,
    neighbor_max,
    row_max,
    row_softmax,
    row_sum,
)
from deepcanon.nn.node_order import breadth_first
from deepcanon.nn.ode import integrate, integrate_adjoint
from deepcanon.nn.output_by_name import output_layer
from deepcanon.nn.output_layer import FullSoftmax, OutputLayer, draw_noise, noise_log_probs
from deepcanon.nn.packed import TiedEmbedding, can_pack, packed_weights
from deepcanon.nn.pixel_lstm import DiagonalBiLSTM, DiagonalLSTM, RecurrentBlock, RowLSTM
from deepcanon.nn.pixel_net import GatedLayer, GatedPixelNet, PixelHead, PixelLayer, PixelNet, ResidualConv
from deepcanon.nn.planar_flow import Planar, Radial
from deepcanon.nn.pointwise import Pointwise
from deepcanon.nn.positions import (
    ConcatenatedPositions,
    RelativeBias,
    Rotary,
    frequencies,
    shift,
    sinusoidal,
    sinusoidal_2d,
)
from deepcanon.nn.probability_flow import axes, random_signs, to_data, to_noise, with_divergence
from deepcanon.nn.rescale import Rescale, mean_and_std
from deepcanon.nn.rnn import LinearRNN, RNNLayers, rnn
from deepcanon.nn.sage_conv import SageConv
from deepcanon.nn.sampled_softmax import (
    AdaptiveImportanceSampling,
    ImportanceSampling,
    NegativeSampling,
    NoiseContrastive,
    Sampled,
    effective_sample_size,
)
from deepcanon.nn.segment import pool, segment_max, segment_mean, segment_sum
from deepcanon.nn.sparse_attention import (
    LocalAttention,
    band_mask,
    block_attention,
    block_mask,
    global_mask,
    local_attention,
)
from deepcanon.nn.spectral import SpectralNorm, iterate_spectral_norms, spectral_norm
from deepcanon.nn.standardize import Standardize
from deepcanon.nn.stepped import SteppedLayers, init_matrices, open_biases
from deepcanon.nn.time_mlp import ClassTimeMLP, TimeBlock, TimeMLP, time_features
from deepcanon.nn.transforms import (
    ActNorm,
    AffineCoupling,
    Chain,
    Flatten,
    Inverse,
    InvertibleConv1x1,
    Reverse,
    Split,
    Squeeze,
    Transform,
)
from deepcanon.nn.transposed import StridedStages, Transposed, TransposedConv, output_padding, transposed
from deepcanon.nn.u_net import ConvBlock, PixelAttention, UNet
from deepcanon.nn.unpool import bed_of_nails
from deepcanon.nn.vector_field import TimeGated, VectorField

__all__ = [
    "AboveConv",
    "ActNorm",
    "AdaptiveImportanceSampling",
    "AffineCoupling",
    "ApproximateSearch",
    "Arctan",
    "AssociativeMemory",
    "AttentionConv",
    "AttentionScore",
    "Averaged",
    "BatchNorm",
    "Bidirectional",
    "BinaryThreshold",
    "BucketBias",
    "Causal",
    "CausalConv",
    "Chain",
    "ClassTimeMLP",
    "ClassTree",
    "ClusterPool",
    "ComponentAttention",
    "ConcatenatedPositions",
    "ConvBlock",
    "ConvolutionCount",
    "DenselyConnected",
    "DepthwiseSeparable",
    "DiagonalBiLSTM",
    "DiagonalLSTM",
    "FeaturePool",
    "Flatten",
    "FullSoftmax",
    "GRULayers",
    "GatedConv",
    "GatedLayer",
    "GatedPixelNet",
    "GlobalNode",
    "GraphConv",
    "GraphIsomorphism",
    "GraphTransformerBlock",
    "HierarchicalSoftmax",
    "HighwayGate",
    "ImageEnds",
    "ImageRows",
    "ImportanceSampling",
    "Inverse",
    "InverseAutoregressive",
    "InvertibleConv1x1",
    "KVCache",
    "LSTMLayers",
    "LSTMVariant",
    "LeftConv",
    "LinearAttention",
    "LinearRNN",
    "LocalAttention",
    "MaskedAutoregressive",
    "MaskedLinear",
    "MultiHeadAttention",
    "NegativeSampling",
    "NeighborAttention",
    "NoiseContrastive",
    "OutputLayer",
    "PixelAttention",
    "PixelHead",
    "PixelLayer",
    "PixelNet",
    "PlainDropout",
    "Planar",
    "Pointwise",
    "RNNLayers",
    "Radial",
    "RecurrentBlock",
    "RelativeBias",
    "Rescale",
    "ResetBeforeGRU",
    "Residual",
    "ResidualConv",
    "Reverse",
    "Rotary",
    "RowLSTM",
    "RunningSums",
    "SageConv",
    "Same",
    "Sampled",
    "Skip",
    "Softmax",
    "SpectralConv",
    "SpectralNorm",
    "Split",
    "Squeeze",
    "Standardize",
    "SteppedLayers",
    "StochasticBinary",
    "StridedStages",
    "Swish",
    "TiedEmbedding",
    "TimeBlock",
    "TimeGated",
    "TimeMLP",
    "Transform",
    "Transposed",
    "TransposedConv",
    "UNet",
    "VectorField",
    "activation_layer",
    "aggregate",
    "ancestral_order",
    "at_columns",
    "at_rows",
    "attention",
    "attention_weights",
    "autoregressive_mask",
    "axes",
    "bag_of_words",
    "balanced_tree",
    "band_mask",
    "bed_of_nails",
    "bisection",
    "block_attention",
    "block_mask",
    "breadth_first",
    "can_pack",
    "causal_mask",
    "class_codes",
    "convolution_count",
    "convolution_matrix",
    "convolve",
    "decoded",
    "dense",
    "draw_noise",
    "dropped",
    "effective_sample_size",
    "elu_features",
    "entropy_in_bits",
    "fans",
    "fixed_point",
    "frequencies",
    "from_bits",
    "gelu_tanh",
    "global_mask",
    "gru",
    "head_dots",
    "head_sums",
    "huffman_tree",
    "image_ends",
    "init_matrices",
    "initialize",
    "integrate",
    "integrate_adjoint",
    "iterate_spectral_norms",
    "known_shape",
    "last_output",
    "linear_attention",
    "linear_attention_weights",
    "local_attention",
    "lstm",
    "mean_and_std",
    "nearest_vectors",
    "neighbor_max",
    "noise_log_probs",
    "open_biases",
    "output_layer",
    "output_padding",
    "output_size",
    "own_weights",
    "owner_mask",
    "packed_weights",
    "pad_same",
    "parameter_free_attention",
    "parent_mask",
    "pool",
    "pooled",
    "random_signs",
    "recall",
    "reversed_in_time",
    "rnn",
    "row_max",
    "row_softmax",
    "row_sum",
    "segment_max",
    "segment_mean",
    "segment_sum",
    "shift",
    "side_by_side",
    "sinusoidal",
    "sinusoidal_2d",
    "spectral_norm",
    "spread_degrees",
    "time_features",
    "to_bits",
    "to_data",
    "to_noise",
    "top_inner_products",
    "transposed",
    "weigh",
    "with_divergence",
]
__dir__ = listing(__name__)

"""The contract: models, the turns by which they learn, the batches they eat, and how they are written down."""

from deepcanon.core.batch import AnyBatch, Batch, GraphBatch, Labelled, LabelledSequences, SemiBatch, Sequences, Stream
from deepcanon.core.draw import draw, drawing_from
from deepcanon.core.errors import (
    CheckpointError,
    DataError,
    DeepcanonError,
    DivergenceError,
    DownloadError,
    UsageError,
)
from deepcanon.core.graph import Graph, Operator
from deepcanon.core.model import Evidence, Model, Support
from deepcanon.core.recipe import Recipe
from deepcanon.core.rest import at_rest
from deepcanon.core.roles import VERBS, How, verbs
from deepcanon.core.sparse import Sparse
from deepcanon.core.spec import SIZES, TRAINER_WORDS, arguments_of, build, describe, with_sizes
from deepcanon.core.turn import Absorb, Descend, Terms, Turn

__all__ = [
    "SIZES", "TRAINER_WORDS", "VERBS", "Absorb", "AnyBatch", "Batch", "CheckpointError", "DataError", "DeepcanonError",
    "Descend", "DivergenceError", "DownloadError", "Evidence", "Graph", "GraphBatch", "How", "Labelled",
    "LabelledSequences", "Model", "Operator", "Recipe", "SemiBatch", "Sequences", "Sparse", "Stream", "Support",
    "Terms", "Turn", "UsageError", "arguments_of", "at_rest", "build", "describe", "draw", "drawing_from", "verbs",
    "with_sizes",
]  # fmt: skip

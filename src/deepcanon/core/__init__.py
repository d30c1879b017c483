"""The contract: models, the turns by which they learn, the batches they learn from, and how they are written down."""

from deepcanon.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)

"""Errors of tensors: each says what was expected, what was given and what to do."""


class TensorError(ValueError):
    """A mistake in the use of a tensor."""


class ShapeError(TensorError):
    """Shapes, axes or indices that do not fit an operation."""


class AxisError(ShapeError, IndexError):
    """An axis or index that a tensor does not have."""


class GradientError(TensorError):
    """A derivative that does not exist, cannot be had any more, or would be spoilt by a write."""

"""Full-batch optimization of convex losses: steps that use all examples, until the gradient vanishes."""

from deepcanon.core import Recipe

BATCH = 65536
"""The batch size, which holds all examples of most data sets; with mini-batches each step would undo the last."""


def convex(epochs: int, iterations: int) -> Recipe:
    """L-BFGS with a line search, at most so many ``iterations`` in each epoch."""
    options = f"max_iter={iterations},tolerance_grad=1e-12,tolerance_change=0,line_search_fn=strong_wolfe"
    return Recipe(optimizer=f"lbfgs:{options}", lr=1.0, batch_size=BATCH, epochs=epochs, keep_weights="last")

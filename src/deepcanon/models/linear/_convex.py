"""How losses that are convex are minimised: by steps that use all examples, until the gradient vanishes."""

from deepcanon.core import Recipe

BATCH = 65536
"""So many examples are one batch, which is all of them in most data; with fewer, each step would undo the last."""

CONVEX = Recipe(
    optimizer="lbfgs:max_iter=25,tolerance_grad=1e-12,tolerance_change=0,line_search_fn=strong_wolfe",
    lr=1.0,
    batch_size=BATCH,
    epochs=20,
)

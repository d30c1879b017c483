"""Default training settings (hyperparameters) of a model."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """The default training settings of a model; what the caller gives overrides them.

    ``optimizer`` and ``schedule`` are names with options, written as on the command line:
    ``"sgd:momentum=0.9,nesterov=true"``, ``"cosine:warmup=100"``. ``clip`` is ``"norm:1.0"`` or ``"value:0.5"``.
    ``ema`` is the decay of a moving average of the weights, where that is the model. ``keep_weights`` is ``"last"``
    where the end of the training is the model, as with the optimum of a convex loss.

    >>> Recipe(lr=0.1).optimizer
    'adam'
    """

    optimizer: str = "adam"
    lr: float = 1e-3
    schedule: str = "constant"
    batch_size: int = 128
    epochs: int = 20
    clip: str | None = None
    ema: float | None = None
    keep_weights: str = "best"

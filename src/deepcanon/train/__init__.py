"""One trainer for every model: mini-batches, optimizers, observers, several processes, one loop."""

from deepcanon.core.settings import Settings
from deepcanon.lazy import listing
from deepcanon.train.evaluation import evaluate
from deepcanon.train.fitting import fit
from deepcanon.train.observers import Observer
from deepcanon.train.result import Result
from deepcanon.train.settings import resolve_settings
from deepcanon.train.trainer import Stopped, Trainer

__all__ = ["Observer", "Result", "Settings", "Stopped", "Trainer", "evaluate", "fit", "resolve_settings"]
__dir__ = listing(__name__)

"""One trainer for every model: runs that survive, checkpoints that are safe, one loop."""

from deepcanon.runs.folder import Run
from deepcanon.train.evaluate import evaluate
from deepcanon.train.fit import fit, load, resume
from deepcanon.train.observers import Observer
from deepcanon.train.settings import Settings
from deepcanon.train.trainer import Result, Stopped, Trainer

__all__ = ["Observer", "Result", "Run", "Settings", "Stopped", "Trainer", "evaluate", "fit", "load", "resume"]

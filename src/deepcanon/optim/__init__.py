"""Optimizers and schedules that torch.optim lacks: forms of the papers, names with options, pure functions of time."""

from deepcanon.lazy import listing
from deepcanon.optim.amsgrad import AMSGrad
from deepcanon.optim.batch_sizes import batch_size_schedule
from deepcanon.optim.by_name import default_lr, optimizer, optimizer_classes
from deepcanon.optim.momentum import Momentum
from deepcanon.optim.schedules import schedule

__all__ = ["AMSGrad", "Momentum", "batch_size_schedule", "default_lr", "optimizer", "optimizer_classes", "schedule"]
__dir__ = listing(__name__)

"""What torch.optim lacks: optimisers and schedules by name, schedules as pure functions of step or epoch."""

from deepcanon.optim.batch_sizes import batch_size_schedule
from deepcanon.optim.optimizers import default_lr, optimizer, optimizers
from deepcanon.optim.schedules import schedule

__all__ = ["batch_size_schedule", "default_lr", "optimizer", "optimizers", "schedule"]

"""What torch.optim lacks: optimisers and schedules by name, schedules as pure functions of the step."""

from deepcanon.optim.optimizers import default_lr, optimizer, optimizers
from deepcanon.optim.schedules import schedule

__all__ = ["default_lr", "optimizer", "optimizers", "schedule"]

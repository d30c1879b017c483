"""A history of generated examples, of which a discriminator sees some in place of the latest ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class History(nn.Module):
    """Generated examples of earlier steps, kept as buffers; a discriminator that sees them, too, forgets less.

    References:
        | Learning from Simulated and Unsupervised Images through Adversarial Training (Shrivastava et al., 2017),
          https://arxiv.org/abs/1612.07828
    """

    kept: Tensor
    count: Tensor

    def __init__(self, size: int, features: int) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(size, features))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def __len__(self) -> int:
        """The number of examples that fit into it."""
        return len(self.kept)

    def mixed(self, latest: Tensor) -> Tensor:
        """The latest examples, (B, features), each replaced by one of the history with probability 1/2."""
        if len(self) == 0:
            return latest
        place = torch.randint(len(self), latest.shape[:1], device=latest.device)
        old = (torch.rand(len(latest), device=latest.device) < 0.5) & (place < self.count)
        return torch.where(old.unsqueeze(1), self.kept[place].to(latest.dtype), latest)

    def keep(self, latest: Tensor) -> None:
        """Keep all of the latest examples while there is room, then each with probability 1/2 in a random place."""
        room = min(len(self) - int(self.count), len(latest))
        self.kept[int(self.count) : int(self.count) + room] = latest[:room].to(self.kept.dtype)
        self.count += room
        rest = latest[room:]
        rest = rest[torch.rand(len(rest), device=rest.device) < 0.5]
        self.kept[torch.randint(len(self), rest.shape[:1], device=rest.device)] = rest.to(self.kept.dtype)

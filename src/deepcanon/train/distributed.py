"""Distributed data-parallel training under ``torchrun``: gradients are averaged right before each step.

A wrapper that hooks into backward (DistributedDataParallel) misses a gradient that is written by hand, and its replicas
drift apart without a word; averaging what stands in ``.grad`` right before the optimizer's step is right for all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import safetensors.torch
import torch
import torch.distributed as dist
from torch import Tensor, nn

from deepcanon.core import DeepcanonError

T = TypeVar("T")


class World:
    """The processes that train together; alone, everything here does nothing."""

    def __init__(self) -> None:
        together = dist.is_available() and (dist.is_initialized() or int(os.environ.get("WORLD_SIZE", "1")) > 1)
        if together and not dist.is_initialized():
            dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
        self.rank = dist.get_rank() if together else 0
        self.size = dist.get_world_size() if together else 1

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes and speaks."""
        return self.rank == 0

    def shard(self, index: Tensor) -> Tensor:
        """This process's part of a batch."""
        return index if self.size == 1 else index.tensor_split(self.size)[self.rank]

    def average(self, parameters: Sequence[nn.Parameter], share: float) -> None:
        """Put the mean gradient over the whole batch into ``.grad``; ``share`` is this process's part of the examples.

        A parameter that has a gradient nowhere keeps none, as it would in one process.
        """
        if self.size == 1:
            return
        device = parameters[0].device
        precision = torch.float64 if any(p.dtype == torch.float64 for p in parameters) else torch.float32
        present = torch.tensor([float(p.grad is not None) for p in parameters], dtype=precision, device=device)
        parts = [(torch.zeros_like(p) if p.grad is None else p.grad).to(precision).flatten() for p in parameters]
        flat = torch.cat([present, torch.cat(parts) * share])
        dist.all_reduce(flat)
        there = flat[: len(parameters)].tolist()
        means = torch.split(flat[len(parameters) :], [parameter.numel() for parameter in parameters])
        for parameter, count, mean in zip(parameters, there, means, strict=True):
            parameter.grad = mean.view_as(parameter).to(parameter.dtype) if count else None

    def total(self, value: Tensor, share: float) -> Tensor:
        """The mean over the whole batch of a value of which each process has the mean over its part."""
        if self.size > 1:
            value = value.detach() * share
            dist.all_reduce(value)
        return value

    def agree(self, flag: bool) -> bool:
        """Whether any process raised the flag."""
        if self.size == 1:
            return flag
        raised = torch.tensor(int(flag))
        dist.all_reduce(raised, op=dist.ReduceOp.MAX)
        return bool(raised)

    def spread(self, tensors: Iterable[Tensor]) -> None:
        """Give every process the first one's tensors."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, src=0)

    def gather(self, tensors: dict[str, Tensor]) -> list[dict[str, Tensor]]:
        """What each process has, in the order of the ranks; names and shapes are the same everywhere."""
        if self.size == 1:
            return [tensors]
        mine = torch.frombuffer(bytearray(safetensors.torch.save(tensors)), dtype=torch.uint8)
        everyone = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(everyone, mine)
        return [safetensors.torch.load(each.numpy().tobytes()) for each in everyone]

    def first_does(self, action: Callable[[], T]) -> T | None:
        """Let the first process act; where it fails, all fail, so that none waits for ever."""
        result: T | None = None
        failure: Exception | None = None
        if self.first:
            try:
                result = action()
            except Exception as error:
                failure = error
        failed = self.agree(failure is not None)
        if failure is not None:
            raise failure
        if failed:
            raise DeepcanonError("the first process failed; its message says why")
        return result

"""Orders of the nodes of graphs, for models that read or write them one by one."""

from __future__ import annotations

import torch
from torch import Tensor


def breadth_first(adjacency: Tensor, sizes: Tensor) -> Tensor:
    """The nodes of each graph in breadth-first order, (B, N), from dense adjacency matrices (B, N, N).

    It begins at a node of the largest degree. Next comes the node whose earliest neighbor came first; of several the
    one of larger degree, then that of the smaller number. A part that no edge reaches begins anew. Of a graph with
    fewer than N nodes the padding comes last.

    >>> path = torch.tensor([[[0, 0, 1], [0, 0, 1], [1, 1, 0]]])
    >>> breadth_first(path, torch.tensor([3]))
    tensor([[2, 0, 1]])
    """
    rows, nodes, _ = adjacency.shape
    joined, degrees = adjacency != 0, adjacency.sum(2).long()
    padding = torch.arange(nodes, device=adjacency.device) >= sizes.unsqueeze(1)
    place = torch.full((rows, nodes), nodes, device=adjacency.device)  # that of a node that has not come yet
    order = torch.empty_like(place)
    for step in range(nodes):
        earliest = torch.where(joined, place.unsqueeze(1), nodes).amin(2)
        rank = earliest * (nodes + 1) - degrees + padding * (nodes + 1) ** 2
        chosen = rank.masked_fill(place < nodes, 2 * (nodes + 1) ** 2).argmin(1, keepdim=True)
        place.scatter_(1, chosen, step)
        order[:, step : step + 1] = chosen
    return order

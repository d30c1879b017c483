"""Tokens generated one after the other, by any model that gives the next one a distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Generator, Tensor

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least

State = TypeVar("State")


def generate(
    step: Callable[[Tensor, State], tuple[Tensor, State]],
    state: State,
    prompt: Tensor,
    steps: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop: int | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """The prompt, (B, T), and ``steps`` tokens that follow it, (B, T + steps).

    ``step(tokens, state)`` reads tokens, (B, t), and gives the logits of what follows each of them, (B, t, vocab),
    and the state after them; only the last logits are looked at. It is given the whole prompt first and then one token
    at a time. A row that has drawn the token ``stop`` is filled with it to the end.

    >>> after = lambda tokens, state: (torch.nn.functional.one_hot((tokens + 1) % 5, 5).float(), state)
    >>> generate(after, None, torch.tensor([[0, 1]]), 5, temperature=0, stop=4)
    tensor([[0, 1, 2, 3, 4, 4, 4]])
    """
    _check(prompt, steps, temperature, top_k, top_p)
    rows, begun = prompt.shape
    tokens = torch.empty(rows, begun + steps, dtype=torch.long, device=prompt.device)
    tokens[:, :begun] = prompt
    stopped = torch.zeros(rows, dtype=torch.bool, device=prompt.device)
    unread = prompt
    with torch.inference_mode():  # tokens are made outside of it, so that they are plain tensors to the caller
        for place in range(begun, begun + steps):
            logits, state = step(unread, state)
            drawn = choose(logits[:, -1], temperature, top_k, top_p, generator)
            if stop is not None:
                drawn = drawn.masked_fill(stopped, stop)
                stopped |= drawn == stop
                if bool(stopped.all()):
                    tokens[:, place:] = stop
                    break
            tokens[:, place] = drawn
            unread = drawn.unsqueeze(1)
    return tokens


def choose(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """A token of each row, (B,), drawn by its logits, (B, vocab); at temperature 0 the likeliest one."""
    if temperature == 0:
        return logits.argmax(-1)
    shares = filtered(logits, temperature, top_k, top_p).softmax(-1)
    # The first of exponential clocks that run at these rates; torch.multinomial does the same and checks a lot first.
    return (shares / torch.empty_like(shares).exponential_(generator=generator)).argmax(-1)


def filtered(logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None) -> Tensor:
    r"""The logits of the distribution that tokens are drawn from: minus infinity where a token is ruled out.

    First :math:`p_i \propto e^{l_i / \tau}`; then only the ``top_k`` likeliest tokens are kept, and equally likely
    ones with the last of these; then, of what is left, the likeliest tokens until their shares reach ``top_p``, at
    least one.

    References:
        | The Curious Case of Neural Text Degeneration (Holtzman et al., 2020), https://arxiv.org/abs/1904.09751

    >>> filtered(torch.tensor([[0.5, 0.3, 0.2]]).log(), top_p=0.6).softmax(-1)
    tensor([[0.6250, 0.3750, 0.0000]])
    """
    if temperature != 1:
        logits = logits / temperature
    if top_k is not None and top_k < logits.shape[-1]:
        least = logits.topk(top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if top_p is not None and top_p < 1:
        ordered, order = logits.sort(dim=-1, descending=True, stable=True)
        shares = ordered.softmax(-1)
        enough = shares.cumsum(-1) - shares >= top_p  # the likelier tokens make up the share without this one
        enough[..., 0] = False
        logits = logits.masked_fill(enough.scatter(-1, order, enough), -torch.inf)
    return logits


def _check(prompt: Tensor, steps: int, temperature: float, top_k: int | None, top_p: float | None) -> None:
    if prompt.ndim != 2 or prompt.shape[1] == 0 or prompt.dtype != torch.long:
        raise UsageError(
            f"a prompt is a batch of rows of at least one token, whole numbers (B, T); "
            f"got {prompt.dtype} of the shape {tuple(prompt.shape)}"
        )
    at_least(0, steps=steps)
    if not 0 <= temperature < float("inf"):
        raise UsageError(f"temperature must be 0 (always the likeliest token) or more (got {temperature})")
    if top_k is not None:
        at_least(1, top_k=top_k)
    if top_p is not None and not 0 < top_p <= 1:
        raise UsageError(f"top_p is a share of probability, above 0 and at most 1 (got {top_p})")

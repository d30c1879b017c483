"""Sampling of tokens from any next-token model: temperature, top-k, nucleus (top-p) and greedy decoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Generator, Tensor

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.memory import need

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
    """The prompt, (B, T), and ``steps`` tokens sampled autoregressively after it, (B, T + steps).

    ``step(tokens, state)`` reads tokens, (B, t), and gives the logits of the next token after each of them,
    (B, t, vocab), and the state after them; only the last logits are used. It is given the whole prompt first and then
    one token at a time. A row that has drawn the token ``stop`` is filled with it to the end.

    >>> after = lambda tokens, state: (torch.nn.functional.one_hot((tokens + 1) % 5, 5).float(), state)
    >>> generate(after, None, torch.tensor([[0, 1]]), 5, temperature=0, stop=4)
    tensor([[0, 1, 2, 3, 4, 4, 4]])
    """
    check_prompt(prompt, steps)
    _check(temperature, top_k, top_p)
    rows, given = prompt.shape
    need(8 * rows * (given + steps), f"{rows:,} x {steps:,} tokens to generate", "generate fewer at a time")
    tokens = torch.empty(rows, given + steps, dtype=torch.long, device=prompt.device)
    tokens[:, :given] = prompt
    stopped = torch.zeros(rows, dtype=torch.bool, device=prompt.device)
    unread = prompt
    with torch.inference_mode():  # tokens are made outside of it, so that they are plain tensors to the caller
        for position in range(given, given + steps):
            logits, state = step(unread, state)
            drawn = choose(logits[:, -1], temperature, top_k, top_p, generator)
            if stop is not None:
                drawn = drawn.masked_fill(stopped, stop)
                stopped |= drawn == stop
                if bool(stopped.all()):
                    tokens[:, position:] = stop
                    break
            tokens[:, position] = drawn
            unread = drawn.unsqueeze(1)
    return tokens


def choose(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """A token for each row, (B,), sampled from its logits, (B, vocab); at temperature 0 the likeliest one (greedy)."""
    if temperature == 0:
        return logits.argmax(-1)
    p = filtered(logits, temperature, top_k, top_p).softmax(-1)
    # The Gumbel-max trick with exponential numbers; torch.multinomial does the same and checks a lot first.
    return (p / torch.empty_like(p).exponential_(generator=generator)).argmax(-1)


def filtered(logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None) -> Tensor:
    r"""The logits that tokens are sampled from: minus infinity where temperature, top-k and top-p rule a token out.

    First the temperature, :math:`p_i \propto e^{l_i / \tau}`; then top-k: only the ``top_k`` likeliest tokens are kept,
    and equally likely ones with the last of these; then, of these, nucleus sampling: the likeliest tokens until their
    probabilities sum to ``top_p``, at least one.

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
        p = ordered.softmax(-1)
        enough = p.cumsum(-1) - p >= top_p  # the likelier tokens are the nucleus without this one
        enough[..., 0] = False
        logits = logits.masked_fill(enough.scatter(-1, order, enough), -torch.inf)
    return logits


def check_prompt(prompt: Tensor, steps: int) -> None:
    """Refuse a prompt that is not rows of tokens, and a negative number of steps."""
    if prompt.ndim != 2 or prompt.shape[1] == 0 or prompt.dtype != torch.long:
        raise UsageError(
            f"a prompt is a batch of rows of at least one token, whole numbers (B, T); "
            f"got {prompt.dtype} of the shape {tuple(prompt.shape)}"
        )
    at_least(0, steps=steps)


def _check(temperature: float, top_k: int | None, top_p: float | None) -> None:
    if not 0 <= temperature < float("inf"):
        raise UsageError(f"temperature must be 0 (always the likeliest token) or more (got {temperature})")
    if top_k is not None:
        at_least(1, top_k=top_k)
    if top_p is not None and not 0 < top_p <= 1:
        raise UsageError(f"top_p is a probability, above 0 and at most 1 (got {top_p})")

"""The engine of language models: loss, log-likelihood, generation and search of any network that reads tokens."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Self

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy, pad

from deepcanon.core import Evaluated, LikelihoodKind, Model, Support, Terms, UsageError, eval_mode
from deepcanon.core.checks import at_least
from deepcanon.core.conditional import Context, bound, given_batch
from deepcanon.core.padding import check_lengths, full_lengths, has_padding, known_tokens, valid_positions
from deepcanon.core.precision import full
from deepcanon.core.turn import B
from deepcanon.decoding.beam import Beams, beam_search
from deepcanon.decoding.exact import exact_search
from deepcanon.decoding.generation import choose, generate
from deepcanon.nn.output_by_name import output_layer
from deepcanon.nn.output_layer import OutputLayer
from deepcanon.nn.packed import TiedEmbedding, packed_weights


class LanguageModel(Model[B]):
    r"""A distribution over sequences of tokens, one token at a time, each given all tokens before it.

    .. math:: \log p(x_2 \dots x_n \mid x_1) = \sum_{t=2}^{n} \log p(x_t \mid x_{<t}) \qquad (1)

    A leaf writes its network as ``read(tokens, state)``. The first token of a sequence is given: of a window of text it
    is the last one of the window before, of a whole sequence the begin token. Training is teacher forcing: the inputs
    are the true tokens. The loss is the negative log-likelihood in nats per token: minus the sum of (1) over all
    sequences by the number of tokens that it predicts, so that long sequences count for more than short ones.

    By default the network ends in logits of the next token. With another output layer (a tree of decisions, a sampled
    softmax) ``read`` gives the hidden vectors that the layer reads. Its loss is what is trained on; what is measured,
    generated and compared are its exact probabilities.

    With ``own_inputs``, which recurrent leaves offer, a share of the inputs of training, each token but the first with
    this probability, is what the model itself draws there, given all inputs before. With a share that grows in the
    course of the training this is scheduled sampling, with a share of 1 free running. The targets stay the true tokens,
    and no gradient passes through the draws. In eval mode nothing is drawn: losses there are likelihoods.

    References:
        | Scheduled Sampling for Sequence Prediction with Recurrent Neural Networks (Bengio et al., 2015),
          https://arxiv.org/abs/1506.03099

    Arguments:
        vocab: The number of different tokens that are predicted.
        own_inputs: The share of own draws among the inputs: none, one of the whole training, or those of its beginning
            and of its end.
    """

    likelihood_kind: LikelihoodKind = "exact"
    causal = True

    def __init__(self, vocab: int, own_inputs: tuple[float, ...] = ()) -> None:
        super().__init__()
        at_least(1, vocab=vocab)
        if len(own_inputs) > 2 or not all(0 <= share <= 1 for share in own_inputs):
            raise UsageError(
                f"own_inputs are shares from 0 to 1, one of the whole training or those of its beginning and its end "
                f"(got {', '.join(map(str, own_inputs))})"
            )
        self.vocab, self.own_inputs = vocab, own_inputs
        self.output_layer: OutputLayer | None = None

    @abstractmethod
    def read(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """The outputs after each of the tokens (B, t), (B, t, vocab), and the state after the last of them.

        ``state`` is what was read before, None at the beginning; a state can be reordered by ``select(rows)``.
        """

    @property
    def support(self) -> Support:
        return "categorical"

    def outputs(self, tokens: Tensor) -> Tensor:
        """The outputs after each token of whole rows, all at once: by default, by reading them from the beginning."""
        return self.read(tokens, None)[0]

    def nats(self, outputs: Tensor, tokens: Tensor) -> Tensor:
        """The negative log-likelihood of each next token, (B, t), under the outputs before it."""
        if self.output_layer is not None:
            return self.output_layer.nats(outputs, tokens)
        logits = full(outputs)
        return cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="none").view(tokens.shape)

    def logits(self, outputs: Tensor) -> Tensor:
        """The log-probabilities of all next tokens up to a constant, (B, t, vocab), from the outputs."""
        return outputs if self.output_layer is None else self.output_layer.log_probs(outputs)

    def sequences_of(self, batch: B) -> tuple[Tensor, Tensor]:
        """The sequences that are modeled, (B, T), and their lengths, (B,)."""
        return batch.x, batch.lengths  # type: ignore[attr-defined]

    def prepare(self, data: Iterable[B]) -> None:
        """Refuse tokens that are not in the vocabulary; an output layer learns how often each occurs."""
        counts = torch.zeros(self.vocab, dtype=torch.long)
        for batch in data:
            x, lengths = self.sequences_of(batch)
            check_lengths(x, lengths)
            known = known_tokens(x, lengths, self.vocab)
            if self.output_layer is not None:
                predicted = known[:, 1:][valid_positions(known, lengths)[:, 1:]]
                counts += torch.bincount(predicted, minlength=self.vocab).cpu()
        if self.output_layer is not None:
            self.output_layer.follow(counts)

    def loss(self, batch: B) -> Terms:
        return self._terms_and_outputs(batch)[0]

    def metrics(self, batch: B) -> Terms:
        return self.evaluated(batch).metrics

    def evaluated(self, batch: B) -> Evaluated:
        terms, *known = self._terms_and_outputs(batch)
        return Evaluated(terms, self._metrics_of(*known))

    def _terms_and_outputs(self, batch: B) -> tuple[Terms, Tensor, Tensor, Tensor]:
        """The loss of a batch, and what metrics are computed from: the outputs, the sequences and their lengths."""
        x, lengths = self.sequences_of(batch)
        known = known_tokens(x, lengths, self.vocab)
        outputs = self._outputs_of(batch, known[:, :-1])
        layer = self.output_layer
        if self.training and layer is not None and layer.samples is not None:
            name, nats = "sampled_nll", self._nats(outputs, known, lengths, layer.loss)
        else:
            name, nats = "nll", self._nats(outputs, known, lengths)
        return {name: nats.sum() / (lengths - 1).sum().clamp_min(1)}, outputs, known, lengths

    def _metrics_of(self, outputs: Tensor, known: Tensor, lengths: Tensor) -> Terms:
        """Nothing more than the loss, which is the exact ``nll`` already, and what the output layer has to tell."""
        return {} if self.output_layer is None else self.output_layer.report()

    def log_prob(
        self,
        x: Tensor,
        *,
        lengths: Tensor | None = None,
        context: Context | None = None,
        samples: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        """The exact log-probability (1) of each sequence given its first token, (B,)."""
        for name, value in (("samples", samples), ("generator", generator)):
            if value is not None:
                raise UsageError(f"the log_prob of {self.name()} is exact and draws nothing; leave out {name}")
        return self.step_log_probs(x, lengths=lengths, context=context).sum(1)  # eq. (1)

    def step_log_probs(self, x: Tensor, *, lengths: Tensor | None = None, context: Context | None = None) -> Tensor:
        """The log-probability of each token given those before it, (B, T); of the first one and in the padding 0."""
        model: Self = bound(self, context, len(x))
        if lengths is not None:
            check_lengths(x, lengths)
        known = known_tokens(x, lengths, self.vocab)
        if x.shape[1] < 2:
            return torch.zeros(x.shape, device=x.device)
        nats = self._nats(model.outputs(known[:, :-1]), known, full_lengths(x) if lengths is None else lengths)
        return -pad(nats, (1, 0))

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The logits of the next token after each token, (B, T, vocab)."""
        return self.logits(self.outputs(known_tokens(x, lengths, self.vocab)))

    def generate(
        self,
        prompt: Tensor,
        steps: int,
        *,
        context: Context | None = None,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        """The prompt, (B, T), and ``steps`` sampled tokens after it, (B, T + steps)."""
        with packed_weights(self, steps):
            return generate(
                bound(self, context, len(prompt)).step, None, known_tokens(prompt, None, self.vocab), steps,
                temperature=temperature, top_k=top_k, top_p=top_p, stop=stop, generator=generator,
            )  # fmt: skip

    def beam_search(
        self,
        prompt: Tensor,
        steps: int,
        *,
        context: Context | None = None,
        beams: int = 4,
        stop: int | None = None,
        length_penalty: float = 0.0,
    ) -> Beams:
        """The most probable continuations of the prompt, (B, T), by up to ``steps`` tokens that a beam search finds."""
        with packed_weights(self, steps):
            return beam_search(
                bound(self, context, len(prompt)).step, known_tokens(prompt, None, self.vocab), steps, beams,
                stop=stop, length_penalty=length_penalty,
            )  # fmt: skip

    def exact_search(
        self,
        prompt: Tensor,
        steps: int,
        *,
        context: Context | None = None,
        top: int = 1,
        stop: int | None = None,
        length_penalty: float = 0.0,
    ) -> Beams:
        """The ``top`` most probable of all continuations of the prompt, (B, T), by up to ``steps`` tokens."""
        return exact_search(
            bound(self, context, len(prompt)).step, known_tokens(prompt, None, self.vocab), steps, top,
            stop=stop, length_penalty=length_penalty,
        )  # fmt: skip

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """The logits after each of the tokens and the state after them: one step of generation."""
        outputs, state = self.read(tokens, state)
        return self.logits(outputs), state

    def _outputs_of(self, batch: B, tokens: Tensor) -> Tensor:
        """The outputs after each token of a batch, given its context; an engine may carry a state to them."""
        model: Self = given_batch(self, batch)
        return model.outputs(model._inputs(tokens, None))

    def _inputs(self, tokens: Tensor, state: Any) -> Tensor:
        """The inputs of training after a state: true tokens, and own draws in place of some."""
        if not (self.own_inputs and self.training):
            return tokens
        first, last = self.own_inputs[0], self.own_inputs[-1]
        own = torch.rand(tokens.shape, device=tokens.device) < first + (last - first) * self.progress
        mixed = tokens.clone()
        with eval_mode(self):
            for position in range(1, tokens.shape[1]):
                logits, state = self.step(mixed[:, position - 1 : position], state)
                mixed[:, position] = torch.where(own[:, position], choose(logits[:, -1]), tokens[:, position])
        return mixed

    def _head(self, output: str, width: int) -> Any:
        """The last layer: logits for a softmax; for another output layer nothing, since that reads what comes here."""
        if output == "softmax":
            return nn.Linear(width, self.vocab)
        self.output_layer = output_layer(output, width, self.vocab)
        return nn.Identity()

    def _tied(self, h: Tensor, embedding: TiedEmbedding) -> Tensor:
        """The logits by the embedding of tokens; for another output layer nothing, since that reads what comes here."""
        return embedding.logits(h) if self.output_layer is None else h

    def _nats(
        self, outputs: Tensor, known: Tensor, lengths: Tensor, cost: Callable[[Tensor, Tensor], Tensor] | None = None
    ) -> Tensor:
        """The cost of each token but the first, by default its nats, (B, T - 1); zero in the padding."""
        nats = (cost or self.nats)(outputs, known[:, 1:])
        if not has_padding(known, lengths):
            return nats
        return nats.masked_fill(~valid_positions(known, lengths)[:, 1:], 0)

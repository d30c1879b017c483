"""Image generation from a caption."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self, cast

import torch
from torch import Generator, Tensor, nn
from torch.distributions import Categorical, Distribution, Independent, MixtureSameFamily, Normal
from torch.nn.functional import binary_cross_entropy_with_logits, pad, scaled_dot_product_attention

from deepcanon.core import Captioned, Conditional, Context, DataError, Recipe, Sampler, Terms, UsageError, given_batch
from deepcanon.core.checks import at_least
from deepcanon.core.padding import check_lengths, full_lengths, known_tokens, valid_positions
from deepcanon.models.recurrent._recurrent import fitting_precision
from deepcanon.nn.lstm import LSTMLayers
from deepcanon.nn.transposed import StridedStages


class CaptionToImage(Conditional, Sampler[Captioned]):
    r"""An LSTM that reads a caption, and a convolutional decoder that draws an image of what it says.

    Also known as: text-to-image generation.

    .. math:: s_t = \mathrm{lstm}(s_{t-1}, E_{y_t}), \qquad m = W\,[z, s_n] + w, \qquad
              p(z \mid y) = \textstyle\sum_k \pi_k N(\mu_k, \operatorname{diag} \tau_k^2), \quad
              (\log \pi, \mu, \log \tau) = P s_n + p \qquad (1)

    .. math:: \alpha_{it} = \mathrm{softmax}_t \frac{(Q m_i)^T K s_t}{\sqrt{k}}, \qquad
              x = \sigma(D(m + \textstyle\sum_t \alpha_t U s_t)) \qquad (2)

    .. math:: q(z \mid x, y) = N(\mu, \operatorname{diag} \varsigma^2), \qquad
              (\mu, \log \varsigma) = A\,[e(x), s_n] + a \qquad (3)

    .. math:: L = E_{q(z \mid x, y)} \left[ H(x, \hat x(z, y))
              + \beta \log \frac{q(z \mid x, y)}{p(z \mid y)} \right] \qquad (4)

    The caption says what is to be seen; the latent z is what it does not say, such as places and handwriting, so that
    one caption has many images. Its prior is a mixture that the caption gives, since places are few and far between: a
    single Gaussian would draw much of its noise between them. Small maps m are the layout. Each place i of them attends
    to the words, and from what it reads there the transposed convolutions D draw, by the same weights at all places.
    The strided convolutions e are those of an encoder that only the training needs: it learns as a conditional
    variational autoencoder, whose bound (4) takes gray values for the probabilities of black and white pixels, H being
    their cross-entropy. Mansimov et al. draw in many steps, by a recurrent decoder; here it is one.

    Scenes of digits in about five minutes on one core, and images of a caption of one's own::

        deepcanon train caption_to_image --data scenes
        deepcanon sample runs/caption_to_image-scenes --given "a three left of a seven" -n 16 --out scenes.png

    References:
        | Generating Images from Captions with Attention (Mansimov et al., 2016), https://arxiv.org/abs/1511.02793
        | Learning Structured Output Representation using Deep Conditional Generative Models (Sohn et al., 2015),
          https://papers.nips.cc/paper/2015/hash/8d55a249e6baa5c06772297520da2051-Abstract.html

    Arguments:
        channels: The channels of an image: 1 if it is gray, 3 if it has colors.
        height: The height of an image in pixels.
        width: The width of an image in pixels.
        target_vocab: The number of different tokens of the captions.
        latent: The dimension of z.
        hidden: The channels of the stages of the encoder, each of which halves height and width; the decoder has them
            in reverse.
        embedding: The width of the token embeddings E.
        units: The number of cells of the LSTM.
        beta: The weight :math:`\beta` of the divergence from the prior.
        components: The number of components of the prior.
    """

    conditioned_on = "a caption"
    recipe = Recipe(lr=3e-3, schedule="cosine:warmup=100", batch_size=32, epochs=15, clip="norm:100.0")

    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        target_vocab: int,
        latent: int = 8,
        hidden: tuple[int, ...] = (32, 64),
        embedding: int = 32,
        units: int = 128,
        beta: float = 1.0,
        components: int = 16,
    ) -> None:
        super().__init__()
        at_least(1, channels=channels, height=height, width=width, latent=latent, embedding=embedding, units=units)
        at_least(1, components=components)
        if not beta >= 0:
            raise UsageError(f"beta is the weight of the KL divergence, 0 or more (got {beta})")
        self.shape, self.target_vocab = (channels, height, width), target_vocab
        self.latent, self.beta = latent, beta
        stages = StridedStages(self.shape, hidden, "relu", normalized=True)
        places = stages.inner[0] * stages.inner[1] * stages.inner[2]
        self.embedding = nn.Embedding(target_vocab, embedding)  # E
        self.recurrent = LSTMLayers(embedding, units)
        self.encoder = nn.Sequential(*stages.down, nn.Flatten())  # e
        self.posterior = nn.Linear(places + units, 2 * latent)  # A, a
        self.components = nn.Linear(units, components * (1 + 2 * latent))  # P, p
        maps = stages.inner[0]
        self.layout = nn.Linear(latent + units, places)  # W, w
        self.query = nn.Linear(maps, units, bias=False)  # Q
        self.key = nn.Linear(units, units, bias=False)  # K
        self.value = nn.Linear(units, maps, bias=False)  # U
        self.decoder = nn.Sequential(
            nn.Unflatten(2, stages.inner[1:]), nn.ReLU(), nn.Conv2d(maps, maps, 3, padding=1), *stages.up
        )  # D  # fmt: skip

    @classmethod
    def example(cls) -> tuple[Self, Captioned]:
        x = torch.rand(12, 1, 4, 4, generator=torch.Generator().manual_seed(0))
        bright = x.view(12, 4, 4).mean(2) > 0.5  # a word for each row of pixels
        lengths = 2 + torch.arange(12) % 4
        y = pad(2 + bright.long(), (1, 1)).scatter(1, lengths.unsqueeze(1) - 1, 1)  # begin, some of the words, end
        return cls(1, 4, 4, 4, latent=2, hidden=(4,), embedding=3, units=5), Captioned(x, y, lengths)

    def prepare(self, data: Iterable[Captioned]) -> None:
        """Refuse images of another shape, values that are not gray values, and captions with unknown tokens."""
        for batch in data:
            self._check_context(self.context_of(batch))
            low, high = batch.x.aminmax()
            if tuple(batch.x.shape[1:]) != self.shape or low < 0 or high > 1:
                raise DataError(
                    f"{self.name()} learns from images of shape {self.shape} with values from 0 to 1; got "
                    f"{tuple(batch.x.shape[1:])} with values from {low:.3g} to {high:.3g}"
                )

    def loss(self, batch: Captioned) -> Terms:
        model = given_batch(self, batch)
        posterior = model.encode(batch.x)
        z = posterior.rsample()
        entropy = binary_cross_entropy_with_logits(model.logits(z), batch.x, reduction="none").flatten(1).sum(1)
        divergence = (posterior.log_prob(z) - model.prior(len(z)).log_prob(z)).mean()
        return {"reconstruction": entropy.mean(), "kl": self.beta * divergence}  # eq. (4)

    def weight_of(self, batch: Captioned) -> float:
        return len(batch)

    def context_of(self, batch: Captioned) -> Context:
        return batch.y, batch.y_lengths

    def encode(self, x: Tensor) -> Distribution:
        """The approximate posterior q(z | x, y) of what the caption does not say of each image."""
        numbers = self.posterior(torch.cat([self.encoder(x.view(-1, *self.shape)), self._read(len(x))[1]], 1))
        mean, log_scale = numbers.chunk(2, 1)
        return Independent(Normal(mean, log_scale.exp()), 1)  # eq. (3)

    def prior(self, rows: int) -> Distribution:
        """The prior p(z | y) of so many captions."""
        odds, numbers = (
            self.components(self._read(rows)[1]).unflatten(1, (-1, 1 + 2 * self.latent)).split((1, 2 * self.latent), -1)
        )
        mean, log_scale = numbers.chunk(2, -1)
        each = Independent(Normal(mean, log_scale.exp(), validate_args=False), 1, validate_args=False)
        choice = Categorical(logits=odds.squeeze(-1), validate_args=False)
        return MixtureSameFamily(choice, each, validate_args=False)  # eq. (1)

    def logits(self, z: Tensor) -> Tensor:
        """The logits of the gray values of an image for each z, (B, channels, height, width)."""
        words, last, known = self._read(len(z))
        maps = self.layout(torch.cat([z, last], 1)).unflatten(1, (self.value.out_features, -1))  # eq. (1)
        maps = maps.transpose(1, 2)  # (B, places, maps)
        read = scaled_dot_product_attention(self.query(maps), self.key(words), self.value(words), known.unsqueeze(1))
        drawn: Tensor = self.decoder((maps + read).transpose(1, 2))  # eq. (2)
        return drawn

    def reconstruct(self, x: Tensor) -> Tensor:
        """The images as they are drawn again from their captions and the posterior mean of z, in the shape of ``x``."""
        return self.logits(self.encode(x).mean).sigmoid().view_as(x)

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        prior = cast(MixtureSameFamily, self.prior(n))
        chosen = prior.mixture_distribution.probs.multinomial(1, generator=generator).squeeze(1)
        each, rows = prior.component_distribution, torch.arange(n, device=chosen.device)
        mean, scale = each.mean[rows, chosen], each.stddev[rows, chosen]
        noise = torch.randn(mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
        return self.logits(mean + scale * noise).sigmoid()

    def _read(self, rows: int) -> tuple[Tensor, Tensor, Tensor]:
        """The states of the LSTM after the tokens of so many captions, (B, T, units), the last, and which there are."""
        bound = self._context(rows)
        tokens, lengths = bound if isinstance(bound, tuple) else (bound, full_lengths(bound))
        known = known_tokens(tokens, lengths, self.target_vocab)
        with fitting_precision(tokens.device):
            states = self.recurrent(self.embedding(known.T))[0].transpose(0, 1)
        last = states[torch.arange(rows, device=tokens.device), lengths - 1]
        return states, last, valid_positions(tokens, lengths)

    def _check_context(self, context: Context) -> None:
        parts = context if isinstance(context, tuple) else (context,)
        if len(parts) > 2:
            raise UsageError(f"the context is a caption: tokens, and their lengths; got {len(parts)} tensors")
        tokens, lengths = parts[0], parts[1] if len(parts) == 2 else None
        if lengths is not None:
            check_lengths(tokens, lengths)
        known_tokens(tokens, lengths, self.target_vocab)

"""Image captioning (Show and Tell)."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from deepcanon.core import Captioned, Recipe, UsageError
from deepcanon.core.checks import at_least
from deepcanon.models._captioner import Captioner
from deepcanon.models.recurrent._recurrent import State, check_sizes, fitting_precision
from deepcanon.nn.lstm import lstm

KERNEL = 5


class Caption(Captioner):
    r"""A convolutional network that sees an image, and an LSTM that writes its caption word by word.

    Also known as: neural image caption (NIC), CNN-RNN, image-to-text.

    .. math:: h_0 = x, \qquad h_l = \max(0, \mathrm{norm}(\mathrm{pool}(W_l \star h_{l-1}))), \qquad
              v = A\, h_L + a \qquad (1)

    .. math:: s_1 = \mathrm{lstm}(0, v), \qquad s_{t+1} = \mathrm{lstm}(s_t, E_{y_t}), \qquad
              p(y_{t+1} \mid y_{\le t}, x) = \mathrm{softmax}(V s_{t+1} + d) \qquad (2)

    The image is the first thing that the decoder reads, as if it were a word, and it is read only once: what is said
    of it later, the state s has kept. The pooling takes the maximum of 2x2 pixels, and the normalization is that of all
    feature maps of an image, so that the images of a batch do not mix. The paper takes a network that was trained to
    classify; here both parts are learned together.

    Scenes of one to three handwritten digits, in a few minutes on one core, and the captions of other images::

        deepcanon train caption --data scenes
        deepcanon predict runs/caption-scenes --out captions.csv
        deepcanon translate runs/caption-scenes IMAGE.png --beams 3

    References:
        | Show and Tell: A Neural Image Caption Generator (Vinyals et al., 2015), https://arxiv.org/abs/1411.4555

    Arguments:
        channels: The channels of an image: 1 if it is gray, 3 if it has colors.
        height: The height of an image in pixels.
        width: The width of an image in pixels.
        target_vocab: The number of different tokens of the captions.
        begin_token: The token that every caption begins with.
        end_token: The token that every caption ends with.
        hidden: The channels of each stage of the convolutional network, which halves the sides of the image.
        embedding: The width of the token embeddings E, and of the embedding v of the image.
        units: The number of cells of a layer of the LSTM.
        layers: The number of layers of the LSTM.
        dropout: The dropout probability of the feature maps, of the embeddings and of the outputs of the LSTM.
    """

    recipe = Recipe(lr=2e-3, schedule="cosine:warmup=100", batch_size=32, epochs=14, clip="norm:1.0")

    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        target_vocab: int,
        begin_token: int,
        end_token: int,
        hidden: tuple[int, ...] = (16, 32, 64),
        embedding: int = 128,
        units: int = 128,
        layers: int = 1,
        dropout: float = 0.1,
    ) -> None:
        super().__init__(channels, height, width, target_vocab, begin_token, end_token)
        check_sizes(units, layers, dropout)
        at_least(1, hidden=min(hidden, default=1), embedding=embedding)
        if min(height, width) >> len(hidden) < 1:
            raise UsageError(f"{len(hidden)} stages halve sides of {height} and {width} pixels to none; take fewer")
        stages: list[nn.Module] = []
        for inputs, outputs in zip((channels, *hidden), hidden, strict=False):
            convolution = nn.Conv2d(inputs, outputs, KERNEL, padding=KERNEL // 2, bias=False)  # W
            stages += [convolution, nn.MaxPool2d(2), nn.GroupNorm(1, outputs), nn.ReLU()]
        self.stages = nn.Sequential(*stages)
        maps = (channels, *hidden)[-1] * (height >> len(hidden)) * (width >> len(hidden))
        self.seen = nn.Linear(maps, embedding)  # A, a
        self.embedding = nn.Embedding(target_vocab, embedding)  # E
        self.recurrent = lstm(
            embedding, units, layers, dropout=dropout, coupled=False, peepholes=False, memory=None
        )  # fmt: skip
        self.head = nn.Linear(units, target_vocab)  # V, d
        self.dropout = nn.Dropout(dropout)

    @classmethod
    def example(cls) -> tuple[Self, Captioned]:
        x = torch.rand(12, 1, 4, 4, generator=torch.Generator().manual_seed(0))
        bright = x.view(12, 4, 4).mean(2) > 0.5  # a word for each row of pixels
        lengths = 2 + torch.arange(12) % 4
        y = pad(2 + bright.long(), (1, 1)).scatter(1, lengths.unsqueeze(1) - 1, 1)  # begin, some of the words, end
        model = cls(1, 4, 4, 4, 0, 1, hidden=(4,), embedding=5, units=6, dropout=0.0)
        return model, Captioned(x, y, lengths)

    def read(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State]:
        """The logits of the next token after each of the tokens (B, t), and the state after the last."""
        with fitting_precision(tokens.device):
            values = self.embedding(tokens.T)  # (t, B, embedding)
            if state is None:
                maps: Tensor = self.stages(self.images(len(tokens)))
                image = self.seen(self.dropout(maps.flatten(1)))  # eq. (1)
                values = torch.cat([image.unsqueeze(0), values])
            values, after = self.recurrent(self.dropout(values), state)
            written = self.dropout(values[-tokens.shape[1] :])  # nothing is written after the image alone
            return self.head(written).transpose(0, 1), State(after)  # eq. (2)

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
from deepcanon.nn.lstm import LSTMLayers

FIRST_KERNEL, KERNEL = 5, 3
"""The sizes of the kernels; the first filters are few and have the larger receptive field, since strokes are wide."""


class Caption(Captioner):
    r"""A convolutional network that sees an image, and an LSTM that writes its caption word by word.

    Also known as: neural image caption (NIC), CNN-RNN, image-to-text.

    .. math:: h_0 = x, \qquad h_l = \max(0, \mathrm{norm}(\mathrm{pool}(W_l \star h_{l-1}))), \qquad
              v = A\, h_L + a \qquad (1)

    .. math:: c_0 = v, \qquad s_0 = 0, \qquad (s_t, c_t) = \mathrm{lstm}(s_{t-1}, c_{t-1}, E_{y_t}), \qquad
              p(y_{t+1} \mid y_{\le t}, x) = \mathrm{softmax}(V s_t + d) \qquad (2)

    The image is what the cells c of the LSTM hold before the first word, and it is read only once: what is said of it
    later, they have kept. That is the initial state of Xu et al.; the LSTM of Show and Tell reads v as if it were the
    first word, where it has to pass the gates. That paper's convolutional network was trained to classify;
    here both parts are learned together. The pooling takes the maximum of 2x2 pixels, and the normalization is over all
    feature maps of an image, so that the images of a batch do not mix.

    Scenes of one to three handwritten digits, in a few minutes on one core, and the captions of other images::

        deepcanon train caption --data scenes
        deepcanon predict runs/caption-scenes --out captions.csv
        deepcanon translate runs/caption-scenes IMAGE.png --beams 3

    References:
        | Show and Tell: A Neural Image Caption Generator (Vinyals et al., 2015), https://arxiv.org/abs/1411.4555
        | Show, Attend and Tell: Neural Image Caption Generation with Visual Attention (Xu et al., 2015),
          https://arxiv.org/abs/1502.03044

    Arguments:
        channels: The channels of an image: 1 if it is gray, 3 if it has colors.
        height: The height of an image in pixels.
        width: The width of an image in pixels.
        target_vocab: The number of different tokens of the captions.
        begin_token: The token that every caption begins with.
        end_token: The token that every caption ends with.
        hidden: The channels of each stage of the convolutional network, which halves the sides of the image.
        embedding: The width of the token embeddings E.
        units: The number of cells of a layer of the LSTM.
        layers: The number of layers of the LSTM.
        dropout: The dropout probability of the feature maps, of the embeddings and of the outputs of the LSTM.
    """

    recipe = Recipe(lr=1.5e-3, schedule="cosine:warmup=100", batch_size=32, epochs=9, clip="norm:1.0")

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
        for stage, (inputs, outputs) in enumerate(zip((channels, *hidden), hidden, strict=False)):
            kernel = KERNEL if stage else FIRST_KERNEL
            convolution = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)  # W
            stages += [convolution, nn.MaxPool2d(2), nn.GroupNorm(1, outputs), nn.ReLU()]
        self.stages = nn.Sequential(*stages)
        maps = (channels, *hidden)[-1] * (height >> len(hidden)) * (width >> len(hidden))
        self.seen = nn.Linear(maps, layers * units)  # A, a
        self.embedding = nn.Embedding(target_vocab, embedding)  # E
        self.recurrent = LSTMLayers(embedding, units, layers, dropout=dropout if layers > 1 else 0.0)
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
            state = self._encoded(len(tokens)) if state is None else state
            values, after = self.recurrent(self.dropout(self.embedding(tokens.T)), (state[0], state[1]))
            return self.head(self.dropout(values)).transpose(0, 1), State(after)  # eq. (2)

    def _encoded(self, rows: int) -> State:
        """The state before the first token of so many captions, from their images."""
        maps: Tensor = self.stages(self.images(rows))
        image = self.seen(self.dropout(maps.flatten(1)))  # eq. (1)
        cells = image.view(rows, self.recurrent.num_layers, -1).transpose(0, 1).contiguous()
        return State((torch.zeros_like(cells), cells))

"""Image captioning (Show, Attend and Tell)."""

from __future__ import annotations

import math
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

    .. math:: c_0 = v, \qquad s_0 = 0, \qquad (s_t, c_t) = \mathrm{lstm}(s_{t-1}, c_{t-1}, E_{y_t}) \qquad (2)

    .. math:: \alpha_{ti} = \mathrm{softmax}_i \frac{(Q s_t)^T (K m_i + r_i)}{\sqrt{n}}, \qquad
              p(y_{t+1} \mid y_{\le t}, x) = \mathrm{softmax}(V [s_t, \textstyle\sum_i \alpha_{ti} m_i] + d) \qquad (3)

    The image is what the n cells c of the LSTM hold before the first word. Before each word it is looked at again: the
    columns :math:`m_i` of the last maps :math:`h_L`, one for each place i, are averaged by soft attention. So the
    same weights name what stands at any place, which few examples suffice to learn; r are embeddings of the places.
    Xu et al. have an additive score, whose result the LSTM reads at its next step; with the output of the LSTM as the
    query (Luong et al.) all words of a caption are learned from at once. Without ``attend`` the image is seen
    only once, as in Show and Tell, where the LSTM reads v as if it were the first word. The pooling takes the maximum
    of 2x2 pixels, and the normalization is over all feature maps of an image, so that the images of a batch do not mix.

    Scenes of one to three handwritten digits, in about a minute on one core, and the captions of other images::

        deepcanon train caption --data scenes
        deepcanon predict runs/caption-scenes --out captions.csv
        deepcanon translate runs/caption-scenes IMAGE.png --beams 3

    References:
        | Show and Tell: A Neural Image Caption Generator (Vinyals et al., 2015), https://arxiv.org/abs/1411.4555
        | Show, Attend and Tell: Neural Image Caption Generation with Visual Attention (Xu et al., 2015),
          https://arxiv.org/abs/1502.03044
        | Effective Approaches to Attention-based Neural Machine Translation (Luong et al., 2015),
          https://arxiv.org/abs/1508.04025

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
        dropout: The dropout probability of the feature maps, of the embeddings and of the inputs of the softmax.
        attend: Whether the image is looked at again before each word.
        own_inputs: The share of inputs that are the model's own draws in training, one number, or that of the beginning
            and that of the end: 0,0.5 is scheduled sampling.
        output: The output layer. Where the vocabulary is large, training costs less with hierarchical, importance,
            adaptive, nce or negative, which take options: hierarchical:tree=balanced, nce:samples=128.
    """

    recipe = Recipe(
        optimizer="adamw:weight_decay=0.3",
        lr=2e-3,
        schedule="cosine:warmup=100",
        batch_size=32,
        epochs=5,
        clip="norm:1.0",
    )

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
        attend: bool = True,
        own_inputs: tuple[float, ...] = (),
        output: str = "softmax",
    ) -> None:
        super().__init__(channels, height, width, target_vocab, begin_token, end_token, own_inputs)
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
        maps, places = (channels, *hidden)[-1], (height >> len(hidden)) * (width >> len(hidden))
        self.seen = nn.Linear(maps * places, layers * units)  # A, a
        self.embedding = nn.Embedding(target_vocab, embedding)  # E
        self.recurrent = LSTMLayers(embedding, units, layers, dropout=dropout if layers > 1 else 0.0)
        self.look = Look(maps, places, units) if attend else None
        self.head = self._head(output, units + maps if attend else units)  # V, d
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
            h, c, maps = self._encoded(len(tokens)) if state is None else state
            values, after = self.recurrent(self.dropout(self.embedding(tokens.T)), (h, c))  # eq. (2)
            values = values.transpose(0, 1)
            if self.look is not None:
                values = torch.cat([values, self.look(values, maps[0])], 2)
            return self.head(self.dropout(values)), State((*after, maps))  # eq. (3)

    def _encoded(self, rows: int) -> State:
        """The state before the first token of so many captions, from their images: h, c and the maps they look at."""
        maps: Tensor = self.dropout(self.stages(self.images(rows)))
        image = self.seen(maps.flatten(1))  # eq. (1)
        cells = image.view(rows, self.recurrent.num_layers, -1).transpose(0, 1).contiguous()
        return State((torch.zeros_like(cells), cells, maps.flatten(2).transpose(1, 2).unsqueeze(0)))


class Look(nn.Module):
    """Soft attention of the states of an LSTM, (B, t, units), to the columns of feature maps, (B, places, maps)."""

    def __init__(self, maps: int, places: int, units: int) -> None:
        super().__init__()
        self.query = nn.Linear(units, units, bias=False)  # Q
        self.key = nn.Linear(maps, units, bias=False)  # K
        self.place = nn.Parameter(0.1 * torch.randn(places, units))  # r

    def forward(self, states: Tensor, maps: Tensor) -> Tensor:
        query, key = self.query(states), self.key(maps) + self.place
        weights: Tensor = (query @ key.transpose(1, 2) / math.sqrt(query.shape[2])).softmax(2)  # (B, t, places)
        return weights @ maps

"""Transfer learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

from torch import nn

from deepcanon.core import Model, Turn, UsageError, methods_of
from deepcanon.core.checks import at_least, one_of
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods._layers import weight_layers
from deepcanon.methods._method import Method, descents


class Transfer(Method[Any]):
    r"""A pretrained backbone with a new head, for feature extraction (frozen backbone) or fine-tuning.

    Also known as: fine-tuning, feature extraction, linear probing.

    .. math:: f(x) = W\, \phi_\theta(x) + b, \qquad \theta \text{ from another task}, \quad W, b \text{ new} \qquad (1)

    A frozen backbone :math:`\phi_\theta` is in eval mode: its weights stay as they are, and so do its running averages;
    nothing in it is dropped. A fine-tuned backbone is trained further from its pretrained weights. A BERT that was
    pretrained on masked tokens learns the classes of sentence pairs in this way.

    References:
        | How transferable are features in deep neural networks? (Yosinski et al., 2014),
          https://arxiv.org/abs/1411.1792
        | BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding (Devlin et al., 2019),
          https://arxiv.org/abs/1810.04805

    Arguments:
        model: The pretrained model, whose last layer is linear; on the command line, the folder of its run.
        classes: The number of classes of the new task; left out, the new head has as many outputs as the old one.
        backbone: Whether the layers below the head are frozen or fine-tuned.
        head: Whether the last layer is new, or kept with its pretrained weights.
    """

    wraps_trained: ClassVar[bool] = True
    null: ClassVar[Mapping[str, Any]] = {"backbone": "fine-tuned", "head": "kept"}

    def __init__(
        self,
        model: Model[Any],
        classes: int | None = None,
        backbone: Literal["frozen", "fine-tuned"] = "frozen",
        head: Literal["new", "kept"] = "new",
    ) -> None:
        super().__init__(model)
        if "predict" not in methods_of(model):
            raise UsageError(f"transfer wraps a model with predict; {model.name()} has no predict")
        one_of(("frozen", "fine-tuned"), backbone=backbone)
        one_of(("new", "kept"), head=head)
        self.frozen = backbone == "frozen"
        layers = weight_layers(model)
        self.head_name, old = list(layers.items())[-1] if layers else ("", None)
        if not isinstance(old, nn.Linear):
            raise UsageError(f"transfer replaces the last layer, a linear one; {model.name()} has none")
        if head == "new":
            self._replace_head(old, classes)
        elif classes not in (None, old.out_features):
            raise UsageError(
                f"the head of {model.name()} has {old.out_features} classes, not {classes}: take a new one"
            )
        if self.frozen:
            for parameter in model.parameters():
                parameter.requires_grad_(False)
            for parameter in self.head.parameters():
                parameter.requires_grad_(True)

    @classmethod
    def example(cls) -> tuple[Self, Any]:
        model, batch = ToyClassifier.example()
        return cls(model), batch

    @property
    def head(self) -> nn.Module:
        """The last layer, :math:`W` and :math:`b`."""
        return self.model.get_submodule(self.head_name)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.frozen:
            self.model.eval()
        return self

    def turns(self) -> Sequence[Turn[Any]]:
        """The wrapped model's turns on what is not frozen."""
        return [
            replace(turn, parameters=[parameter for parameter in turn.parameters if parameter.requires_grad])
            for turn in descents(self.model, self.name())
        ]

    def _replace_head(self, old: nn.Linear, classes: int | None) -> None:
        outputs = old.out_features
        if classes is not None:
            if isinstance(self.model, Method):
                raise UsageError(
                    f"{self.model.name()} is a method to train {self.model.model.name()}, not a network with a head; "
                    "'deepcanon unwrap RUN' gives the trained network alone"
                )
            hparams = self.model.hparams
            if "classes" not in hparams or hparams.get("targets") is not None:
                raise UsageError(f"{self.model.name()} does not predict classes, so it cannot learn {classes}")
            at_least(2, classes=classes)
            outputs = classes
            self.model._hparams["classes"] = classes  # the model now has so many classes, also when rebuilt
        like = {"device": old.weight.device, "dtype": old.weight.dtype}
        new = nn.Linear(old.in_features, outputs, old.bias is not None, **like)  # W and b of eq. (1)
        self.model.set_submodule(self.head_name, new)

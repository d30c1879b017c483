"""Names of weights that come from elsewhere; that the weights are in the right places, the test of ResNet shows."""

import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.interop.resnet_names import from_hugging_face

STAGE = "resnet.encoder.stages."


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("resnet.embedder.embedder.convolution.weight", "conv1.weight"),
        ("resnet.embedder.embedder.normalization.running_var", "bn1.running_var"),
        (STAGE + "3.layers.0.shortcut.convolution.weight", "layer4.0.downsample.0.weight"),
        (STAGE + "1.layers.0.shortcut.normalization.bias", "layer2.0.downsample.1.bias"),
        (STAGE + "0.layers.10.layer.2.convolution.weight", "layer1.10.conv3.weight"),
        (STAGE + "2.layers.5.layer.0.normalization.num_batches_tracked", "layer3.5.bn1.num_batches_tracked"),
        ("classifier.1.bias", "fc.bias"),
    ],
)
def test_hugging_faces_names(theirs: str, ours: str) -> None:
    value = torch.zeros(2)
    assert from_hugging_face({theirs: value}) == {ours: value}


def test_a_name_of_another_net_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'conv1.weight' is not a weight of a Hugging Face ResNet"):
        from_hugging_face({"conv1.weight": torch.zeros(1)})

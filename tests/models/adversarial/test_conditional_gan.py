"""The conditional GAN: its losses, what its discriminator is told, and samples of the asked class."""

import pytest
import torch
from sklearn.svm import SVC
from torch import Generator
from torch.nn.functional import binary_cross_entropy, one_hot

from deepcanon.core import DataError, UsageError
from deepcanon.data import load_data
from deepcanon.models.adversarial.conditional_gan import ConditionalGAN
from deepcanon.train import fit


def test_the_losses_are_cross_entropies_of_examples_with_their_classes() -> None:
    torch.manual_seed(0)
    model, batch = ConditionalGAN.example()
    torch.manual_seed(1)
    terms = model.discriminator_loss(batch)
    torch.manual_seed(1)
    fake = model.sample(len(batch), context=batch.y)
    inputs = {name: torch.cat([x, one_hot(batch.y, 3)], 1) for name, x in (("real", batch.x), ("fake", fake))}
    for name, label in (("real", 1.0), ("fake", 0.0)):
        probability = model.discriminator[1].net(inputs[name]).sigmoid()  # type: ignore[operator]
        torch.testing.assert_close(terms[name], binary_cross_entropy(probability, torch.full_like(probability, label)))
    torch.manual_seed(1)
    (generator,) = model.loss(batch).values()
    probability = model.given(batch.y).discriminate(fake).sigmoid()
    torch.testing.assert_close(generator, binary_cross_entropy(probability, torch.ones_like(probability)))


def test_the_same_noise_gives_another_sample_for_another_class() -> None:
    torch.manual_seed(0)
    model, batch = ConditionalGAN.example()
    one, other = (model.sample(5, context=label, generator=Generator().manual_seed(0)) for label in (0, 1))  # type: ignore[arg-type]
    assert not torch.equal(one, other)
    assert not torch.equal(model.given(0).discriminate(batch.x), model.given(1).discriminate(batch.x))
    assert list(model.gallery(batch.x[:4])) == ["class 0", "class 1", "class 2"]


def test_without_a_class_it_refuses_and_of_classes_it_takes_only_its_own() -> None:
    model, _ = ConditionalGAN.example()
    with pytest.raises(UsageError, match="conditional_gan is conditional: give classes"):
        model.sample(3)
    with pytest.raises(DataError, match="classes 0 to 2, got the class 3"):
        model.sample(3, context=torch.tensor([3]))
    with pytest.raises(UsageError, match="classes must be at least 1"):
        ConditionalGAN(features=2, classes=0)


@pytest.mark.slow
def test_a_classifier_that_never_saw_a_sample_finds_the_asked_class_in_95_percent() -> None:
    data = load_data("digits")
    classifier = SVC().fit(data.train.x.flatten(1).numpy(), data.train.y.numpy())
    test = data.split("test")
    assert classifier.score(test.x.flatten(1).numpy(), test.y.numpy()) > 0.97
    torch.manual_seed(0)
    model = ConditionalGAN(features=64, classes=10, hidden=(128, 128))
    fit(model, data, quiet=True, seed=0, epochs=100, evaluate=False)
    asked = torch.arange(1000) % 10
    drawn = model.eval().sample(1000, context=asked, generator=Generator().manual_seed(0))
    assert (torch.from_numpy(classifier.predict(drawn.numpy())) == asked).double().mean() > 0.95
    spread = [drawn[asked == k].std(0).mean() / test.x[test.y == k].flatten(1).std(0).mean() for k in range(10)]
    assert min(spread) > 0.5  # of each class there is more than one image

"""Faults in the code of plain PyTorch modules and loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Adam

from tests.diagnosis.cases.case import Patient, fault
from tests.diagnosis.cases.plain_settings import (
    ConvNet,
    Recurrent,
    autoencoder,
    digits_cnn,
    digits_mlp,
    one_by_one,
    regression,
    sequences,
    sureness,
    two_moons,
)  # fmt: skip

code = partial(fault, area="code", plain=True)


class Before(nn.Module):
    """A network that is given something else than its input."""

    def __init__(self, net: nn.Module, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.net, self.change = net, change

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(self.change(x))
        return out


@code(digits_mlp, "softmax before cross-entropy")
def softmax_at_the_end(patient: Patient) -> None:
    patient.model = nn.Sequential(patient.model, nn.Softmax(1))
    patient.score = sureness


@code(digits_cnn, "softmax before cross-entropy")
def softmax_in_forward(patient: Patient) -> None:
    class Softened(ConvNet):
        def forward(self, x: Tensor) -> Tensor:
            return functional.softmax(super().forward(x), dim=1)

    patient.model = Softened()
    patient.score = sureness


@code(
    two_moons, "sigmoid before cross-entropy with logits", "softmax before cross-entropy", "output cannot reach targets"
)
def two_sigmoids(patient: Patient) -> None:
    patient.model = nn.Sequential(patient.model, nn.Sigmoid())
    patient.score = lambda p: (
        float(((p.model(p.fresh[0]) > 0.5).float() == p.fresh[1]).float().mean())
        - 2 * float((p.model(p.fresh[0]).sigmoid() - p.fresh[1]).abs().mean())
    )


@code(digits_mlp, "missing log-softmax")
def scores_into_nll(patient: Patient) -> None:
    patient.loss = nn.NLLLoss()


@code(regression, "output cannot reach targets")
def relu_at_the_end(patient: Patient) -> None:
    patient.model = nn.Sequential(patient.model, nn.ReLU())


@code(regression, "output cannot reach targets")
def sigmoid_at_the_end(patient: Patient) -> None:
    patient.model = nn.Sequential(patient.model, nn.Sigmoid())


@code(regression, "wrong broadcast of targets")
def targets_of_another_shape(patient: Patient) -> None:
    x, y = patient.data.train.x, patient.data.train.labels
    patient.data = (x, y.squeeze(1))
    patient.loss = lambda output, target: (output - target).square().mean()


@code(regression, "wrong broadcast of targets")
def outputs_of_another_shape(patient: Patient) -> None:
    net = patient.model
    patient.model = nn.Sequential(net, nn.Flatten(0))
    patient.loss = lambda output, target: torch.mean((output - target) ** 2)


@code(digits_mlp, "wrong reduction")
def sum_over_the_batch(patient: Patient) -> None:
    patient.loss = nn.CrossEntropyLoss(reduction="sum")
    patient.optimizer = partial(SGD, lr=0.1)


@code(regression, "wrong reduction")
def squared_error_summed(patient: Patient) -> None:
    patient.loss = lambda output, target: (output - target).square().sum()
    patient.optimizer = partial(SGD, lr=0.05)


class Listed(nn.Module):
    """A network whose hidden layers stand in a plain list."""

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.layers = [nn.Linear(features, 4), nn.Linear(4, 4), nn.Linear(4, 4)]
        self.head = nn.Linear(4, outputs)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        out: Tensor = self.head(x)
        return out


@code(digits_mlp, "unregistered parameters")
def layers_in_a_list(patient: Patient) -> None:
    patient.model = Listed(64, 10)


@code(regression, "unregistered parameters")
def layers_in_a_dictionary(patient: Patient) -> None:
    class Kept(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = {"in": nn.Linear(6, 8), "mid": nn.Linear(8, 8)}
            self.out = nn.Linear(8, 1)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.out(self.parts["mid"](self.parts["in"](x).relu()).relu())
            return out

    patient.model = Kept()


class Cut(nn.Module):
    """A network whose graph is cut between two parts."""

    def __init__(self, body: nn.Module, head: nn.Module, how: str) -> None:
        super().__init__()
        self.body, self.head, self.how = body, head, how

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "no_grad":
            with torch.no_grad():
                h = self.body(x)
        elif self.how == "numpy":
            h = torch.from_numpy(self.body(x).detach().numpy())
        else:
            h = self.body(x).detach()
        out: Tensor = self.head(h)
        return out


@code(regression, "detached graph")
def hidden_layer_detached(patient: Patient) -> None:
    patient.model = Cut(nn.Sequential(nn.Linear(6, 8), nn.Tanh()), nn.Linear(8, 1), "detach")


@code(sequences, "detached graph")
def features_without_gradient(patient: Patient) -> None:
    class Frozen(Recurrent):
        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                h = self.gru(x)[0][:, -1]
            out: Tensor = self.head(h[:, :2])
            return out

        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(2, 3)

    patient.model = Frozen()


@code(digits_mlp, "detached graph")
def through_numpy(patient: Patient) -> None:
    patient.model = Cut(nn.Sequential(nn.Linear(64, 6), nn.Tanh(), nn.Linear(6, 6)), nn.Linear(6, 10), "numpy")


@code(autoencoder, "detached graph")
def code_is_data(patient: Patient) -> None:
    patient.model = Cut(nn.Sequential(nn.Linear(64, 12), nn.Tanh()), nn.Linear(12, 64), "detach")


@code(digits_mlp, "examples mix within a batch")
def softmax_over_the_batch(patient: Patient) -> None:
    class Attentive(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score, self.value, self.head = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.head(self.score(x).softmax(0) * self.value(x) * len(x))
            return out

    patient.model = Attentive()
    patient.score = one_by_one


@code(sequences, "examples mix within a batch")
def batch_taken_for_time(patient: Patient) -> None:
    class Turned(Recurrent):
        def __init__(self) -> None:
            super().__init__()
            self.gru = nn.GRU(3, 32)

    patient.model = Turned()
    patient.score = one_by_one


@code(sequences, "examples mix within a batch")
def view_in_place_of_transpose(patient: Patient) -> None:
    class Viewed(Recurrent):
        def forward(self, x: Tensor) -> Tensor:
            turned = x.reshape(x.shape[1], x.shape[0], x.shape[2])
            out: Tensor = self.head(nn.GRU.forward(self.gru, turned)[0][-1])
            return out

        def __init__(self) -> None:
            super().__init__()
            self.gru = nn.GRU(3, 32)

    patient.model = Viewed()
    patient.score = one_by_one


@code(digits_mlp, "train mode in evaluation")
def dropout_that_never_ends(patient: Patient) -> None:
    class Dropped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(64, 64), nn.Linear(64, 10)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.last(functional.dropout(self.first(x).relu(), 0.92))
            return out

    patient.model = Dropped()


@code(digits_cnn, "batch norm statistics are off", "train mode in evaluation")
def normalization_that_forgets(patient: Patient) -> None:
    """The running statistics hardly move, so that evaluation normalizes by those of the start."""
    for layer in patient.model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = 1e-6
    patient.model.features[0].bias.data += 10


@code(digits_mlp, "train mode in evaluation", "examples mix within a batch")
def normalization_by_the_batch_alone(patient: Patient) -> None:
    """Without running statistics, an answer depends on who else is asked; here, two are asked at a time."""
    norm = nn.BatchNorm1d(64, track_running_stats=False)
    patient.model = nn.Sequential(nn.Linear(64, 64), norm, nn.ReLU(), nn.Linear(64, 10))
    patient.score = partial(one_by_one, size=2)


@code(regression, "seed not honored", "train mode in evaluation")
def noise_at_every_call(patient: Patient) -> None:
    patient.model = Before(patient.model, lambda x: x + 1.5 * torch.randn_like(x))


@code(two_moons, "non-finite values")
def logarithm_of_zero(patient: Patient) -> None:
    """The likelihood of a batch is taken as a product, which underflows."""
    patient.model = nn.Sequential(patient.model, nn.Sigmoid())
    patient.loss = lambda p, y: -(y * p + (1 - y) * (1 - p)).prod().log() / len(y)
    patient.settings["batch_size"] = 200


@code(digits_mlp, "non-finite values")
def root_at_zero(patient: Patient) -> None:
    net = patient.model
    patient.model = Before(net, lambda x: x.sqrt() + 0 * (net[0](x).relu() * 0).sum(1, keepdim=True).sqrt())


@code(digits_cnn, "non-finite values")
def standardized_by_hand(patient: Patient) -> None:
    """Each pixel is divided by its spread over the batch, which is 0 at the edge of the images."""

    class Divided(ConvNet):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward((x - x.mean(0)) / x.std(0))

    patient.model = Divided()


@code(regression, "in-place fault")
def inputs_changed_in_place(patient: Patient) -> None:
    patient.model = Before(patient.model, lambda x: x.mul_(0.5))
    patient.settings["batch_size"] = 1600  # all examples at once, as tensors that are not copied

    def score(p: Patient) -> float:
        """How good the answer is if the same examples have been asked for before."""
        x, y = p.fresh[0].clone(), p.fresh[1]
        for _ in range(3):
            answer = p.model.eval()(x)
        return float(1 - (answer - y).square().mean() / y.var())

    patient.score = score


@code(digits_mlp, "loss with the wrong sign")
def ascent(patient: Patient) -> None:
    patient.loss = lambda output, target: -functional.cross_entropy(output, target)


@code(two_moons, "loss with the wrong sign")
def log_likelihood_minimized(patient: Patient) -> None:
    patient.loss = lambda output, y: (
        y * functional.logsigmoid(output) + (1 - y) * functional.logsigmoid(-output)
    ).mean()


@code(digits_mlp, "frozen parameters")
def new_layers_frozen(patient: Patient) -> None:
    patient.model = nn.Sequential(nn.Linear(64, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 10))
    for layer in (0, 2, 4):
        patient.model[layer].weight.requires_grad_(False)
    patient.optimizer = lambda all_: Adam([p for p in all_ if p.requires_grad], lr=3e-3)


@code(digits_mlp, "input not used")
def input_overwritten(patient: Patient) -> None:
    patient.model = Before(patient.model, lambda x: torch.zeros_like(x) + x.mean() * 0)

"""The playground: sessions of the library's own trainer, what they show, and the code that repeats them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from deepcanon.core import DataError, UsageError
from deepcanon.studio.play.asked_for import MOST_POINTS, asked_for, data_of
from deepcanon.studio.play.live_training import Live, play
from deepcanon.train import fit

MOONS = {"set": "moons"}


class Script:
    """A line whose commands are known before: each is given when the training waits, at or after its step."""

    def __init__(self, *commands: Mapping[str, Any]) -> None:
        self.commands = list(commands)
        self.sent: list[Mapping[str, Any]] = []

    def receive(self, seconds: float | None) -> Mapping[str, Any] | None:
        if seconds is not None and not (self.frames and self.frames[-1]["state"] != "running"):
            return None
        return self.commands.pop(0) if self.commands else {"do": "end"}

    def send(self, message: Mapping[str, Any]) -> None:
        self.sent.append(message)

    @property
    def frames(self) -> list[Mapping[str, Any]]:
        return [each for each in self.sent if each["kind"] == "frame"]

    @property
    def answers(self) -> list[Mapping[str, Any]]:
        return [each for each in self.sent if each["kind"] == "answer"]


def session(
    name: str, *commands: Mapping[str, Any], data: Any = MOONS, steps: int = 6, **arguments: str
) -> tuple[Live, Script]:
    line = Script(*commands)
    wanted = {"model": name, "arguments": arguments, "data": data, "settings": {"steps": steps, "seed": 3}}
    return play(asked_for(wanted, {}), line), line


def weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def repeated(code: str) -> dict[str, torch.Tensor]:
    """The weights that the code leaves, run as a stranger would run it."""
    names: dict[str, Any] = {}
    exec(compile(code.replace("dc.fit(model, data, ", "dc.fit(model, data, quiet=True, "), "played.py", "exec"), names)  # noqa: S102  (what the page shows must run)
    return weights(names["model"])


def same(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


STEP, RUN, CODE = {"do": "go", "pace": "step"}, {"do": "go", "pace": "run"}, {"do": "code"}


@pytest.mark.parametrize(
    ("model", "data", "arguments"),
    [
        ("mlp", MOONS, {"hidden": "8,8", "dropout": "0.2"}),
        ("realnvp", {"set": "eight-gaussians"}, {"hidden": "8"}),
        ("gan", MOONS, {"hidden": "8", "latent": "2"}),
        ("conditional_vae", MOONS, {"hidden": "8"}),
        ("ddpm", MOONS, {"hidden": "8", "timesteps": "20"}),
        ("score_matching", MOONS, {"hidden": "8"}),
        ("ebm", MOONS, {"hidden": "8", "langevin_steps": "3"}),
        ("gaussian_mixture", MOONS, {}),
        ("fixmatch", {"set": "moons", "labels": 6}, {"model": "mlp", "model.hidden": "8"}),
    ],
)
def test_the_code_of_a_session_repeats_it_bit_for_bit(model: str, data: Any, arguments: dict[str, Any]) -> None:
    live, line = session(model, STEP, STEP, STEP, CODE, data=data, **arguments)
    code = line.answers[3]["code"]
    assert live.trainer.step == 3
    assert same(weights(live.trainer.model), repeated(code))
    assert {frame["step"] for frame in line.frames} == {0, 1, 2, 3}


def test_watching_changes_no_bit_of_a_training() -> None:
    live, _ = session("wgan", RUN, hidden="8", data=MOONS)
    asked = asked_for(
        {"model": "wgan", "arguments": {"hidden": "8"}, "data": MOONS, "settings": {"steps": 6, "seed": 3}}, {}
    )
    alone = asked.build()
    fit(alone, asked.data, quiet=True, **asked.settings)
    assert live.trainer.step == 6
    assert same(weights(live.trainer.model), weights(alone))


def test_an_edited_weight_is_seen_at_once_and_retold() -> None:
    edit = {"do": "edit", "parameter": "net.0.weight", "index": [1, 0], "value": 3.3}
    dragged = {**edit, "value": 2.0}
    later = {"do": "edit", "parameter": "net.2.bias", "index": [0], "value": -1.25}
    live, line = session("mlp", edit, dragged, STEP, STEP, later, STEP, CODE, hidden="4")
    before, after = line.frames[0], line.frames[2]
    assert after["layers"][0]["weights"][1][0] == 2.0
    assert before["looks"]["classes"] != after["looks"]["classes"]
    assert before["layers"][0]["maps"][1] != after["layers"][0]["maps"][1]
    assert len(live.edits) == 2  # a number that was dragged counts once
    assert same(weights(live.trainer.model), repeated(line.answers[-2]["code"]))


def test_turns_are_seen_one_by_one() -> None:
    turn = {"do": "go", "pace": "turn"}
    edit = {"do": "edit", "parameter": "discriminator.1.0.weight", "index": [0, 0], "value": 0.5}
    live, line = session("gan", turn, edit, turn, turn, turn, CODE, hidden="8", latent="2")
    held = [(frame["step"], frame["turn"]) for frame in line.frames if frame["hook"] == "turn"]
    assert list(dict.fromkeys(held)) == [(1, "discriminator"), (1, "generator"), (2, "discriminator"), (2, "generator")]
    assert line.frames[-1]["terms"].keys() == {"generator"}
    assert same(weights(live.trainer.model), repeated(line.answers[-2]["code"]))


@pytest.mark.parametrize(
    ("model", "data", "looks", "movements"),
    [
        ("mlp", MOONS, {"classes"}, []),
        ("planar", MOONS, {"density", "grid", "score", "samples"}, ["langevin"]),
        ("gan", {"set": "eight-gaussians"}, {"discriminator", "fakes"}, []),
        ("conditional_gan", MOONS, {"discriminator", "fakes"}, []),
        ("ddpm", MOONS, {"density", "score", "samples"}, ["reverse", "langevin"]),
        ("pi_model", {"set": "moons", "labels": 6}, {"classes", "pseudo_labels"}, []),
        ("vae", MOONS, {"density", "reconstruction", "samples"}, []),
    ],
)
def test_what_a_model_shows_follows_from_its_methods(
    model: str, data: Any, looks: set[str], movements: list[str]
) -> None:
    _, line = session(model, data=data, steps=2)
    scene = next(each for each in line.sent if each["kind"] == "scene")
    assert {*scene["looks"]} == looks
    assert scene["movements"] == movements
    assert {*line.frames[0]["looks"]} == {*scene["shown"]} - {"network"}


def test_the_map_of_classes_is_what_the_model_predicts() -> None:
    import base64

    live, line = session("softmax_regression", RUN)
    shown = line.frames[-1]["looks"]["classes"]
    window = live.scene.window
    labels = list(base64.b64decode(shown["label"]))
    middle = torch.tensor([[window.left + 10.5 / 60 * window.side, window.bottom + (60 - 7 - 0.5) / 60 * window.side]])
    assert labels[7 * 60 + 10] == int(live.trainer.model.predict(middle))  # type: ignore[operator]


def test_arrows_on_fakes_are_the_gradient_of_the_discriminator() -> None:
    live, line = session("gan", RUN, hidden="8", latent="2")
    fakes = line.frames[-1]["looks"]["fakes"]
    point = torch.tensor([fakes["points"][0]], dtype=torch.float64)
    model = live.trainer.model.double().eval()
    step = 1e-5
    for axis in range(2):
        shift = torch.zeros(1, 2, dtype=torch.float64)
        shift[0, axis] = step
        slope = (model.discriminate(point + shift) - model.discriminate(point - shift)) / (2 * step)  # type: ignore[operator]
        assert fakes["arrows"][0][axis] == pytest.approx(slope.item(), rel=1e-2, abs=1e-4)


@pytest.mark.slow
def test_langevin_dynamics_settles_at_the_density() -> None:
    from deepcanon.studio.play.moving import LANGEVIN_FRAMES, Langevin

    live, _ = session("gaussian", RUN, data={"set": "eight-gaussians"})
    moving = Langevin(live.scene)
    settled = []
    for frame in range(LANGEVIN_FRAMES):
        moving.advance()
        if frame > LANGEVIN_FRAMES // 2:
            settled.append(moving.points)
    found = torch.cat(settled)
    truth = live.scene.train.x
    assert found.mean(0).tolist() == pytest.approx(truth.mean(0).tolist(), abs=0.25)
    assert found.std(0).tolist() == pytest.approx(truth.std(0).tolist(), rel=0.15)


def test_the_reverse_process_ends_at_the_data() -> None:
    live, line = session("ddpm", hidden="8", timesteps="30")
    from deepcanon.studio.play.moving import Reverse

    moving = Reverse(live.scene)
    said = []
    with torch.no_grad():
        while moving.t:
            moving.advance()
            said.append(moving.says())
    assert said[0] == "reverse process, timestep 29 of 30"
    assert said[-1] == "reverse process, timestep 0 of 30"
    assert line.frames[0]["moving"]["name"] == "reverse"


@pytest.mark.parametrize(
    ("wanted", "word"),
    [
        ({"model": "mlp", "data": {"set": "../digits"}}, "no points"),
        ({"model": "mlp", "data": {"set": "digits"}}, "no points"),
        ({"model": "runs/vae", "data": MOONS}, "no model"),
        ({"model": "mine.py:Net", "data": MOONS}, "no model"),
        ({"model": "bagging", "arguments": {"model": "/etc"}, "data": MOONS}, "no model"),
        ({"model": "bagging", "arguments": {"model": "mine.py:Net"}, "data": MOONS}, "no model"),
        ({"model": "mlp", "arguments": {"hidden": "100000"}, "data": MOONS}, "too large"),
        ({"model": "mlp", "arguments": {"hiden": "8"}, "data": MOONS}, "hidden"),
        ({"model": "mlp", "data": {"set": "eight-gaussians"}}, "labels"),
        ({"model": "mlp", "data": {"file": "/etc/passwd", "columns": ["a", "b"]}}, "no file"),
        ({"model": "mlp", "data": MOONS, "settings": {"device": "cuda"}}, "device"),
        ({"model": "mlp", "data": MOONS, "settings": {"seed": "-1"}}, "seed"),
        ({"model": "mlp", "data": MOONS, "out": "/tmp"}, "out"),
        ([], "asked for"),
    ],
)
def test_nothing_but_names_and_bounded_values_is_taken(wanted: Any, word: str) -> None:
    with pytest.raises((UsageError, DataError), match=word):
        asked_for(wanted, {})


@pytest.mark.parametrize(
    "points",
    [
        [[0, 0]] * (MOST_POINTS + 1),
        [[0, 0], [1, 1]],
        [[0, 0, 0], [1, 1], [2, 2], [3, 3]],
        [[0, 0, 0], [1, 1, 0], [2, 2, 0], [3, 3, 0]],
        [[0, 0, 0], [1, 1, 7], [2, 2, 0], [3, 3, 0]],
        [[0, float("nan")], [1, 1], [2, 2], [3, 3]],
        [[0, 1], [1, 1], [2, 1], [3, 1]],
        "moons",
    ],
)
def test_drawn_points_are_bounded(points: Any) -> None:
    with pytest.raises(DataError):
        data_of({"points": points}, {})


def test_drawn_points_train_and_are_retold() -> None:
    points = [[i / 7, (i * i % 11) / 5, i % 2] for i in range(24)]
    live, line = session("logistic_regression", STEP, CODE, data={"points": points, "labels": 6})
    assert "few_labels" in line.answers[1]["code"]
    assert same(weights(live.trainer.model), repeated(line.answers[1]["code"]))


def test_two_columns_of_a_file_train_and_are_retold(tmp_path: Path) -> None:
    path = tmp_path / "patients.csv"
    rows = [f"{i % 13},{(i * 7) % 17},{i % 5},{'ill' if i % 3 else 'well'}" for i in range(80)]
    path.write_text("\n".join(["age,pulse,ward,state", *rows]))
    source = {"file": "patients", "columns": ["age", "pulse"], "target": "state"}
    line = Script(STEP, STEP, CODE)
    wanted = {"model": "mlp", "arguments": {"hidden": "4"}, "data": source, "settings": {"steps": 4}}
    live = play(asked_for(wanted, {"patients": path}), line)
    scene = line.sent[0]
    assert scene["axes"][0] == "age (standard deviations from its mean)"
    assert scene["names"] == ["ill", "well"]
    assert same(weights(live.trainer.model), repeated(line.answers[2]["code"]))


@pytest.mark.parametrize(
    "command",
    [
        {"do": "edit", "parameter": "net.9.weight", "index": [0, 0], "value": 1.0},
        {"do": "edit", "parameter": "net.0.weight", "index": [0], "value": 1.0},
        {"do": "edit", "parameter": "net.0.weight", "index": [0, 5], "value": 1.0},
        {"do": "edit", "parameter": "net.0.weight", "index": [0, -1], "value": 1.0},
        {"do": "edit", "parameter": "net.0.weight", "index": [0, 0], "value": float("inf")},
        {"do": "edit", "parameter": "net.0.weight", "index": [0, 0], "value": "1"},
        {"do": "show", "looks": ["density"]},
        {"do": "show", "moving": "langevin"},
        {"do": "show", "given": 5},
        {"do": "go", "pace": "fly"},
        {"do": "__class__"},
        {},
    ],
)
def test_a_wrong_command_gets_a_sentence_and_changes_nothing(command: dict[str, Any]) -> None:
    live, line = session("mlp", command, hidden="4")
    assert line.answers[0]["error"]
    assert not live.edits
    assert live.trainer.step == 0

"""Code that a user names: what runs is what is in the file now, and nothing hides anything."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pytest

from deepcanon.core import UsageError
from deepcanon.core.named_code import load_named, names_code, origin_of

SOURCE = "class Net:\n    width = 1\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("mine.py:Net", True),
        ("/some/where/mine.py:Net", True),
        ("package.nets:Net", True),
        ("vae:latent=4", False),
        ("mlp", False),
        ("mine.py", False),
        ("mine.py:", False),
        ("mine.py:not a name", False),
    ],
)
def test_code_is_told_from_names_with_options(text: str, names: bool) -> None:
    assert names_code(text) == names


def test_a_file_is_what_it_says_now_and_is_remembered_by_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    first = load_named(f"{path}:Net")
    assert load_named(f"{path}:Net") is first  # the same content is the same module
    assert origin_of(first) == {"file": str(path), "sha256": hashlib.sha256(SOURCE.encode()).hexdigest()}
    path.write_text(SOURCE.replace("1", "2"))  # as long as before, in the same second: nothing compiled may be used
    second = load_named(f"{path}:Net")
    assert (first.width, second.width) == (1, 2)
    assert origin_of(first)["sha256"] == hashlib.sha256(SOURCE.encode()).hexdigest() != origin_of(second)["sha256"]
    assert list(tmp_path.iterdir()) == [path]


def test_files_of_one_name_are_two_modules(tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "mine.py").write_text(SOURCE)
    one, other = (load_named(f"{tmp_path / place}/mine.py:Net") for place in ("a", "b"))
    assert one is not other
    assert origin_of(one)["file"] != origin_of(other)["file"]


def test_a_module_of_the_current_folder_is_found_and_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets_of_a_test.py").write_text(SOURCE)
    (tmp_path / "json.py").write_text(SOURCE)
    searched = list(sys.path)
    net = load_named("nets_of_a_test:Net")
    assert origin_of(net)["module"] == "nets_of_a_test"
    assert origin_of(net)["sha256"] == hashlib.sha256(SOURCE.encode()).hexdigest()
    assert load_named("json:JSONEncoder") is json.JSONEncoder
    assert sys.path == searched
    with pytest.raises(UsageError, match="there is no module 'nets_that_are_not_there'"):
        load_named("nets_that_are_not_there:Net")
    (tmp_path / "broken_nets.py").write_text("import does_not_exist_anywhere")
    with pytest.raises(UsageError, match="broken_nets cannot be imported: ModuleNotFoundError"):
        load_named("broken_nets:Net")


def test_nothing_is_known_of_a_class_that_no_one_could_name() -> None:
    class Local:
        pass

    assert origin_of(Local) == {}

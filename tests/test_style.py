"""The whole project is clean under ruff and mypy, and its text keeps to the words and the spelling of the field."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "deepcanon"

PRODUCT = ("src/", "docs/", "README.md")
EVERYWHERE = ("src/", "docs/", "benchmarks/", "tests/", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")


@dataclass(frozen=True)
class Ban:
    """Words that the field does not use: their pattern, what to write instead, and a text with and without them."""

    pattern: str
    instead: str
    caught: str
    permitted: str
    where: tuple[str, ...] = EVERYWHERE

    def hits(self, text: str) -> list[tuple[int, str]]:
        """The words that are found, each with the number of its line; a phrase may go on in the next line."""
        pattern, text = self.pattern.replace(" ", r"\s+(?:# )?"), text.lower()
        if re.search(re.sub(r"^(?:\(\?<!.*?\)|\\b)+", "", pattern), text) is None:
            return []  # without its left boundary a pattern finds no less, and where it finds nothing it is much faster
        found = re.finditer(pattern, text)
        return [(text.count("\n", 0, hit.start()) + 1, " ".join(hit[0].split())) for hit in found]


def word(words: str) -> str:
    """The pattern of a whole word or of a piece of a name in snake case."""
    return rf"(?<![a-z])(?:{words})(?![a-z])"


BANS = (
    Ban(word("symbols?"), "token", "the symbol_table", "the symbolic derivative"),
    Ban(word("foretells?|foretelling|foretold"), "predict", "Foretells the next token", "predicts the next token"),
    Ban(word("contenders?"), "candidate", "all CONTENDERS", "content"),
    Ban(word("rivals?"), "baseline, runner-up", "its strongest_rival", "arrivals"),
    Ban(word("verbs?"), "method", "the verbs of a model", "verbose=True, verbatim"),
    Ban(word("vertex|vertices"), "node", "a vertex of the graph", "convertexpression"),
    Ban(word("carved"), "validation split", "data.carved(0.1)", "curved"),
    Ban(word("parting"), "mismatch", "the parting of two files", "imparting, departing"),
    Ban(word("surroundings"), "process, environment", "the surroundings of a run", "the surrounding code"),
    Ban(word("eats"), "batch type", "what a model eats", "repeats, heats"),
    Ban(word("coins"), "Bernoulli samples", "def _coins(p)", "coincides"),
    Ban(word("at_rest"), "eval mode", "with at_rest(model)", "at_restart"),
    Ban(word("thought_norm"), "mlp_norm", "self.thought_norm", "self.mlp_norm"),
    Ban(
        r"(?:initial|normal|token|regular|standard|general|minim|maxim|quant|binar|penal|parametr|parameter|factor"
        r"|summar|organ|recogn|visual|vector|memor|optim|random|serial|final|local|special|real|symbol|discret|diagonal"
        r"|orthogonal|equal|synchron|character|categor|emphas|util|crystall|linear)is(?=e|a|i)\w*",
        "-ize, -ization",
        "reparametrise, Optimiser, quantisation and minimising",
        "optimistic, organism, generalist, exercise, noise, raise, realism, equalist",
    ),
    Ban(
        r"(?:col|neighb|behavi|fav|hon|flav|lab|rig|hum)our\w*",
        "-or",
        "the colours of neighbouring cells, their behaviour",
        "four hours of velour, color",
    ),
    Ban(
        word(
            "centre[sd]?|centring|(?:un|re|mis)?labell(?:ed|ing)|modell(?:ed|ing)|signall(?:ed|ing)|travell(?:ed|ing)"
            "|grey|greyscale|licences?|defences?|artefacts?|programmes?|metres?|analys(?:e|ed|ing)|fulfil|whilst|ageing"
        ),
        "American spelling",
        "an unlabelled, grey_level centre under a licence",
        "a labeled, gray center under a license; analyses, parameters, program",
    ),
    Ban(
        r"\bminus(?:-| )(?:the )?log(?:-|arithm of the )(?=prob|likel|dens)",
        "negative log-likelihood",
        "the loss is minus the log-likelihood",
        "minus the energy, minus log Z; the negative log-likelihood",
        PRODUCT,
    ),
    Ban(
        r"(?<!there\s)\b(?:is|are) no (?!(?:more|less|longer|fewer|such|matter|need|other|better|worse)\b)\w+",
        "is not a",
        "the folder is no run",
        "there is no run; it is no longer one, and is no better; it has no run.json",
        PRODUCT,
    ),
    Ban(
        r"\bby itself\b",
        "by default, alone, on its own",
        "by itself, the run's own data",
        "by default, the run's own data",
        ("src/deepcanon/cli/", "docs/"),
    ),
    Ban(r"\bbehind the\b", "after the", "the state behind the last step", "the state after the last step", PRODUCT),
    Ban(
        r"\btells? (?:the )?classes\b(?! apart)",
        "predicts",
        "a network that tells classes",
        "a network that predicts classes, or tells classes apart",
        PRODUCT,
    ),
    Ban(
        r"\bbeside\b",
        "compared with, next to",
        "our tensor beside PyTorch",
        "besides; our tensor compared with PyTorch",
        (*PRODUCT, "benchmarks/", "CONTRIBUTING.md", "CHANGELOG.md"),
    ),
    Ban(
        r"\b(?:training|validation|test) parts?\b",
        "split",
        "the test part of the data",
        "the test split; a part of the model",
    ),
    Ban(r"\blooks at\b", "measures, uses", "the insight looks at a model", "the insight measures a model", PRODUCT),
    Ban(r"\bby chance\b", "at random", "what is estimated by chance", "above chance", PRODUCT),
    Ban(
        r"\b(?:is|are) told\b(?! apart)",
        "is conditioned on",
        "a model that is told classes",
        "a model that is conditioned on classes; two that are told apart",
        PRODUCT,
    ),
)


def texts() -> Iterator[tuple[str, str]]:
    """The text files of the project, as path and text; this one holds the words that it bans."""
    folders = {"src": "*.py", "docs": "*.md", "benchmarks": "*.py", "tests": "*.py"}
    files = [path for folder, ending in folders.items() for path in sorted((ROOT / folder).rglob(ending))]
    for path in (*files, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))):
        if path != Path(__file__):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def banned(path: str, text: str) -> list[str]:
    """The banned words in the name and the text of a file; addresses and titles of references keep their own words."""
    own = r".*://.*|\s*\| \S.*" if path.endswith(".py") else r".*://.*"
    kept = "\n".join("" if re.fullmatch(own, line) else line for line in (path, *text.splitlines()))
    return [
        f"{path}:{number - 1}: {hit!r}; write {ban.instead}"
        for ban in BANS
        if path.startswith(ban.where)
        for number, hit in ban.hits(kept)
    ]


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """A node and the statements in it, without their expressions, which hold no docstrings."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from statements(child)


def questions(source: str) -> list[str]:
    """The docstrings of a file that begin blank, and those of modules and classes that begin with a question word."""
    found = []
    for node in statements(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node, clean=False)
        name = "module" if isinstance(node, ast.Module) else node.name
        if text is not None and not text.partition("\n")[0].strip():
            found.append(f"{name}: no first line")
        if isinstance(node, ast.Module) and text is None:
            found.append(f"{name}: no docstring")
        if isinstance(node, ast.Module | ast.ClassDef) and re.match(r"(What|How|Whether|Why)\b", text or ""):
            found.append(f"{name}: {(text or '').splitlines()[0]}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("command", [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]])
def test_clean(command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


USER = """
import deepcanon as dc
from deepcanon.methods import LoRA

flow = dc.models.RealNVP(features=2, couplings=4)
reveal_type(flow)
reveal_type(dc.Run("runs/mlp").predict("new.csv"))
reveal_type(dc.compare)
reveal_type(dc.check(flow))
reveal_type(LoRA)
reveal_type(dc.nn.GraphConv)
dc.models.RealNVP(features="two")
dc.fit(flow, dc.load_data("moons"), epochs="many")
"""


@pytest.mark.slow
def test_mypy_in_a_users_project_sees_the_types(tmp_path: Path) -> None:
    """Strict as ours and after it, so that mypy has read torch already, which takes most of its time."""
    (tmp_path / "user.py").write_text(USER)
    known = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *known, "user.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    lines = [line.partition(": ")[2] for line in done.stdout.splitlines()]
    revealed = [line for line in lines if line.startswith("note: Revealed")]
    assert len(revealed) == 6
    for line, kind in zip(revealed, ("RealNVP", "list[", "def (models", "Outcome", "LoRA", "GraphConv"), strict=True):
        assert kind in line, line
    errors = [line for line in lines if line.startswith("error")]
    assert len(errors) == 2, done.stdout
    assert '"features" to "RealNVP" has incompatible type "str"' in errors[0]
    assert '"epochs" to "fit" has incompatible type "str"' in errors[1]


def test_the_readme_begins_with_the_two_commands() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    demo, tests = blocks[:2]
    for block in (demo, tests):
        assert len(block.strip().splitlines()) == 1
        assert "-c constraints.txt" in block
    assert demo.strip().endswith("deepcanon demo")
    assert "pytest" in tests


@pytest.mark.parametrize("ban", BANS, ids=lambda ban: ban.instead)
def test_a_banned_word_is_caught_and_a_permitted_one_is_not(ban: Ban) -> None:
    assert ban.hits(ban.caught)
    assert [(other.instead, other.hits(ban.permitted)) for other in BANS if other.hits(ban.permitted)] == []


def test_a_hit_is_named_with_its_file_and_line() -> None:
    assert banned("src/x.py", "a = 1\n# the colour\n") == ["src/x.py:2: 'colour'; write -or"]
    assert banned("docs/colours.md", "Text.\n") == ["docs/colours.md:0: 'colours'; write -or"]
    assert banned("src/x.py", "    # the folder is\n    # no run\n") == ["src/x.py:1: 'is # no run'; write is not a"]
    assert banned("tests/test_x.py", "# the folder is no run\n") == []


def test_addresses_and_titles_keep_their_words() -> None:
    assert (
        banned("src/x.py", "    # https://example.org/colour\n        | Optimisation in colour (Smith, 1970)\n") == []
    )
    assert len(banned("docs/x.md", "| colour | optimisation |\n")) == 2


@pytest.mark.slow
def test_all_text_keeps_to_the_words_of_the_field() -> None:
    found = [hit for path, text in texts() for hit in banned(path, text)]
    assert found == [], "\n".join(found)


def test_a_docstring_that_begins_with_a_question_or_a_blank_line_is_caught() -> None:
    source = '''"""{}"""\n\nclass Thing:\n    """{}"""\n\n    def part(self):\n        """{}"""\n'''
    assert questions(source.format("A thing.", "Whatever it is.", "What is returned.")) == []
    assert questions(source.format("How it is.", "What it is.", "A part.")) == [
        "module: How it is.",
        "Thing: What it is.",
    ]
    assert questions(source.format("Whether it is.", "Why.", "\nA part.")) == [
        "module: Whether it is.",
        "Thing: Why.",
        "part: no first line",
    ]
    assert questions("x = 1\n") == ["module: no docstring"]


@pytest.mark.slow
def test_every_docstring_begins_with_what_the_thing_is() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {fault}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for fault in questions(path.read_text(encoding="utf-8"))
    ]
    assert found == [], "\n".join(found)

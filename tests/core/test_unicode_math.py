r"""Equations of LaTeX read in a terminal as they read on paper, without a backslash left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deepcanon import catalogue
from deepcanon.core.docstrings import Docstring, read_docstring
from deepcanon.core.unicode_math import KNOWN, commands_in, in_unicode


def documented() -> Iterator[tuple[str, Docstring]]:
    """All models, methods, insights and studies with what their docstrings say."""
    for entry in catalogue.entries():
        yield entry.name, read_docstring(catalogue.find(entry.name))
    for kind in catalogue.FOLDERS:
        for entry in catalogue.questions(kind):
            yield entry.name, read_docstring(catalogue.find_question(kind, entry.name))


def test_no_entry_of_the_catalogue_shows_a_backslash() -> None:
    seen = 0
    for name, text in documented():
        for equation in text.equations:
            seen += 1
            assert commands_in(equation) <= KNOWN, f"{name}: {commands_in(equation) - KNOWN}"
            shown = in_unicode(equation)
            assert not set(shown) & set("\\{}\x01\x02\x03\x04\x05\x06") - set("{}" if r"\{" in equation else ""), name
            assert shown.count("(") == shown.count(")"), name
        for words in (text.summary, *text.references, *text.arguments.values()):
            assert "\\" not in words, f"{name}: {words}"
    assert seen > 150


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"\frac{a + b}{c}", "(a + b)/c"),  # what a bar holds together, brackets must
        (r"\frac{1}{D - q} \sum_{j > q} \lambda_j", "1/(D - q) ∑_(j > q) λⱼ"),
        (r"\tfrac12 x", "½ x"),
        (r"\frac\alpha r B", "α/r B"),
        (r"\frac{1}{HW} \sum", "1/(HW) ∑"),
        (r"\frac{\partial y_c}{\partial A^k_{ij}}", "∂y_c/∂Aᵏᵢⱼ"),
        (r"\frac{-a}{|K|}", "-a/|K|"),
        (r"x_{t+1}^2", "xₜ₊₁²"),
        (r"x_{<t}, x_{ijc}", "x_(<t), x_(ijc)"),
        (r"e^{-(w^\top x + b)}", "e^(-(wᵀ x + b))"),
        (r"\hat x, \bar{f}, \tilde A", "x̂, f̄, Ã"),
        (r"\log p(x), \log\left( 1 - x \right)", "log p(x), log(1 - x)"),
        (r"\cos\theta", "cos θ"),
        (r"\lVert \theta \rVert_\infty", "‖θ‖_∞"),
        (r"\mathbb R^{r \times d_\text{in}}", "ℝ^(r × dᵢₙ)"),
        (r"\mathcal L, \mathbb 1[a]", "ℒ, 𝟙[a]"),
        (r"\sqrt{1 - \bar\alpha_t}\, x", "√(1 - ᾱₜ) x"),
        (r"\begin{pmatrix} a & b \\ 0 & c \end{pmatrix}", "(a b; 0 c)"),
        (r"\theta_{\text{teacher}}", "θ_teacher"),
        ("x = y \\qquad\n(1)", "x = y    (1)"),
        (r"\binom{n}{j}", "C(n, j)"),
        (r"[j \le n] \lor [j \le i], \varsigma^2", "[j ≤ n] ∨ [j ≤ i], ς²"),
        (r"\nosuch x", "nosuch x"),
    ],
)
def test_what_place_says_in_latex_brackets_say_in_text(latex: str, text: str) -> None:
    assert in_unicode(latex) == text

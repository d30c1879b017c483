"""Equations in LaTeX as plain Unicode text, for the terminal.

What the notation of LaTeX says by place, the text says by brackets: a fraction of sums is ``(a + b)/c``, and an index
that has no letters of its own in Unicode is ``x_(t, i)``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping

SIGNS: Mapping[str, str] = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ϵ", "varepsilon": "ε", "zeta": "ζ", "eta": "η",
    "theta": "θ", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ",
    "varsigma": "ς", "tau": "τ", "phi": "φ", "varphi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω", "Gamma": "Γ",
    "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π", "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω",
    "sum": "∑", "prod": "∏", "int": "∫", "partial": "∂", "nabla": "∇", "infty": "∞", "ell": "ℓ", "top": "⊤",
    "varnothing": "∅", "star": "⋆", "ast": "∗", "cdot": "·", "times": "×", "circ": "∘", "odot": "⊙", "oplus": "⊕",
    "otimes": "⊗", "pm": "±", "in": "∈", "notin": "∉", "subset": "⊂", "cup": "∪", "cap": "∩", "forall": "∀", "mid": "|",
    "land": "∧", "lor": "∨", "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "ne": "≠", "neq": "≠", "ll": "≪", "gg": "≫",
    "sim": "∼", "approx": "≈", "propto": "∝", "equiv": "≡", "to": "→", "rightarrow": "→", "leftarrow": "←",
    "mapsto": "↦", "Rightarrow": "⇒", "Leftrightarrow": "⇔", "dots": "…", "ldots": "…", "cdots": "⋯", "Vert": "‖",
    "|": "‖", "prime": "′", "%": "%", "_": "_", "#": "#", "&": "&",
}  # fmt: skip

FUNCTIONS = frozenset({
    "arccos", "arcsin", "arctan", "arg", "argmax", "argmin", "cos", "cosh", "coth", "det", "deg", "diag", "exp", "inf",
    "lim", "ln", "log", "max", "min", "sin", "sinh", "sup", "tanh", "tr",
})  # fmt: skip
"""Functions that are written as their name."""

OPENING: Mapping[str, str] = {"lVert": "‖", "lvert": "|", "langle": "⟨", "lfloor": "⌊", "lceil": "⌈", "{": "{"}
CLOSING: Mapping[str, str] = {"rVert": "‖", "rvert": "|", "rangle": "⟩", "rfloor": "⌋", "rceil": "⌉", "}": "}"}

ACCENTS: Mapping[str, str] = {
    "hat": "\u0302", "widehat": "\u0302", "bar": "\u0304", "overline": "\u0304", "tilde": "\u0303", "dot": "\u0307",
    "overrightarrow": "\u20d7", "vec": "\u20d7", "overleftarrow": "\u20d6",
}  # fmt: skip
"""What stands above a letter: characters that combine with the one before them."""

ALPHABETS: Mapping[str, str] = {"mathbb": "DOUBLE-STRUCK", "mathcal": "SCRIPT"}
"""Letters of their own, and what Unicode calls them."""

NAMED = frozenset({"text", "textrm", "mathrm", "operatorname", "mathbf", "mathit", "mathsf"})
"""What writes its argument in another font, which a terminal does not have."""

SIZES = frozenset({
    "left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr", "biggl", "biggr", "textstyle", "displaystyle",
    "limits",
})  # fmt: skip
"""What changes the size of what comes next, or where it stands."""

AFTER_NAME, AFTER_FRACTION, AFTER_OPENING, BEFORE_CLOSING, QUAD, ROW = "\x01\x02\x03\x04\x05\x06"
"""Places in the text where space is made or taken once all of it is there, and the end of a row."""

SPACES: Mapping[str, str] = {
    "qquad": QUAD + QUAD, "quad": QUAD, ",": " ", ";": " ", ":": " ", " ": " ", "!": "", "\\": ROW,
}  # fmt: skip

KNOWN = frozenset({
    *SIGNS, *FUNCTIONS, *OPENING, *CLOSING, *ACCENTS, *ALPHABETS, *NAMED, *SIZES, *SPACES,
    "frac", "tfrac", "dfrac", "sqrt", "binom", "underbrace", "begin", "end",
})  # fmt: skip
"""All commands of LaTeX that are rendered; of any other the name is written."""

BELOW = dict(zip("0123456789+-=()aehijklmnoprstuvxβγρφχ", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓᵦᵧᵨᵩᵪ", strict=True))
ABOVE = dict(
    zip(
        "0123456789+-=()abcdefghijklmnoprstuvwxyzABDEGHIJKLMNOPRTUVWβγδθφχ⊤′",
        "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂᵝᵞᵟᶿᵠᵡᵀ′",
        strict=True,
    )
)
"""The letters that Unicode has below and above the line."""

VULGAR = {("1", "2"): "½", ("1", "3"): "⅓", ("1", "4"): "¼", ("3", "4"): "¾"}

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\s+|.", re.DOTALL)
_MARKS = "".join({*BELOW.values(), *ABOVE.values(), *ACCENTS.values(), "′"})
_SINGLE = re.compile(rf"([d∂]?\w|\([^()]*\)|\|[^|]*\||‖[^‖]*‖)[{_MARKS}]*|\d+")
"""A single thing: a number, or a letter or a bracket with what stands above and below it; a differential."""


def in_unicode(latex: str) -> str:
    r"""An equation of LaTeX as plain text; of a command that is not known, the name is written.

    >>> in_unicode(r"\frac{\partial y}{\partial x_{ij}} \le \tfrac12 \sum_{k=1}^K \lVert \hat w_k \rVert^2")
    '∂y/∂xᵢⱼ ≤ ½ ∑ₖ₌₁ᴷ ‖ŵₖ‖²'
    >>> in_unicode(r"p(x_{<t}) = \frac{1}{1 + e^{-\beta x}}")
    'p(x_(<t)) = 1/(1 + e^(-β x))'
    """
    return _spaced(_text(iter(_TOKEN.findall(latex)), ""))


def commands_in(latex: str) -> set[str]:
    r"""The names of the commands in an equation.

    >>> sorted(commands_in(r"\alpha \, \frac12"))
    [',', 'alpha', 'frac']
    """
    return {token[1:] for token in _TOKEN.findall(latex) if token.startswith("\\")}


def _text(tokens: Iterator[str], end: str) -> str:
    """The text of all tokens up to the one that is ``end``."""
    text = ""
    for token in tokens:
        if token == end:
            break
        if token in "_^":
            space = AFTER_NAME if text.endswith(AFTER_NAME) else ""
            text = text.removesuffix(space) + _script(token, _spaced(_argument(tokens))) + space
        else:
            text += _piece(token, tokens)
    return text


def _piece(token: str, tokens: Iterator[str]) -> str:
    """The text of one token, and of what belongs to it."""
    if token == "{":
        return _text(tokens, "}")
    if not token.startswith("\\"):
        return {"'": "′", "~": " ", "&": " "}.get(token) or ("\n" if "\n" in token else token)
    name = token[1:]
    if name in ("frac", "tfrac", "dfrac"):
        return _fraction(_spaced(_argument(tokens)), _spaced(_argument(tokens)))
    if name in ACCENTS:
        return "".join(letter + ACCENTS[name] for letter in _argument(tokens))
    if name in ALPHABETS:
        return "".join(_letter(ALPHABETS[name], letter) for letter in _argument(tokens))
    if name in NAMED:
        words = _argument(tokens, spaces=name.startswith("text"))
        return words if len(words) < 2 or name.startswith("text") else words + AFTER_NAME
    if name == "sqrt":
        return f"√{_bracketed(_spaced(_argument(tokens)))}{AFTER_FRACTION}"
    if name == "binom":
        return f"C({_argument(tokens)}, {_argument(tokens)})"
    if name == "underbrace":
        return _bracketed(_argument(tokens))
    if name == "begin":
        return _environment(_argument(tokens), tokens)
    if name in OPENING:
        return OPENING[name] + AFTER_OPENING
    if name in CLOSING:
        return BEFORE_CLOSING + CLOSING[name]
    if name in SIZES:
        return ""
    return SIGNS.get(name) or (SPACES[name] if name in SPACES else name + AFTER_NAME)


def _argument(tokens: Iterator[str], spaces: bool = False) -> str:
    """What a command takes next: the group in braces, or a single token."""
    token = next(tokens, "")
    while token.isspace():
        token = next(tokens, "")
    text = _piece(token, tokens)
    return text if spaces else text.strip()


def _environment(name: str, tokens: Iterator[str]) -> str:
    """A matrix row by row, or the lines of another environment."""
    body = _text(tokens, r"\end")
    _argument(tokens)
    if "matrix" not in name:
        return body
    return f"({'; '.join(' '.join(row.split()) for row in body.split(ROW))})"


def _fraction(above: str, below: str) -> str:
    if (above, below) in VULGAR:
        return VULGAR[above, below]
    sums = re.search(r"[ +=]|.-", re.sub(r"\([^()]*\)", "", above))  # outside of brackets
    return f"{f'({above})' if sums else above}/{_bracketed(below)}{AFTER_FRACTION}"


def _bracketed(text: str) -> str:
    """The text, in brackets unless it is a single thing."""
    return text if _SINGLE.fullmatch(text) else f"({text})"


def _script(mark: str, text: str) -> str:
    """An index or an exponent, in letters below or above the line where Unicode has them."""
    letters = BELOW if mark == "_" else ABOVE
    if re.fullmatch(r"[A-Za-z]{4,}", text):
        return f"{mark}{text}"
    if all(letter in letters for letter in text):
        return "".join(letters[letter] for letter in text)
    return f"{mark}{text}" if len(text) == 1 else f"{mark}({text})"


def _letter(alphabet: str, letter: str) -> str:
    """A letter or a digit of an alphabet of its own; some are older than the block of the others."""
    plain = unicodedata.name(letter).replace("LATIN ", "").replace(" LETTER", "")
    for name in (f"MATHEMATICAL {alphabet} {plain}", f"{alphabet} {plain}"):
        try:
            return unicodedata.lookup(name)
        except KeyError:
            continue
    return letter


def _spaced(text: str) -> str:
    """The text with the spaces that read well."""
    text = re.sub(rf"{AFTER_NAME}(?=[^\W_]|[∑∏∫‖√])|{AFTER_FRACTION}(?=[^\W_]|[(∑∏∫‖√])", " ", text)
    text = re.sub(rf"{AFTER_OPENING} *| *{BEFORE_CLOSING}|[{AFTER_NAME}{AFTER_FRACTION}]|(?<=[(\[∂∇±]) +", "", text)
    text = re.sub(r" +(?=[)\]])", "", re.sub(r" {2,}", " ", text))
    text = re.sub(rf" *({QUAD}+) *", lambda found: "  " * len(found[1]), text)
    lines = re.sub(rf"{ROW}\s*", "\n", text).split("\n")
    joined = re.sub(
        r"\n(?=\(\d+\)$)", "    ", "\n".join(line.strip() for line in lines)
    )  # a number stands on no line of its own
    return unicodedata.normalize("NFC", joined).strip()

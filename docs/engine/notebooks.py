"""Notebooks as pages: a tutorial is one file, which Jupyter opens as it is and the site shows with its outputs."""

from __future__ import annotations

import json
from typing import Any

OPENING = """
You can open this page as a notebook: {{download}}`{name}`.
"""


def markdown(text: str, name: str) -> str:
    """A notebook as a page of Markdown: its code as cells, whose metadata are their options.

    >>> made = {"cells": [{"cell_type": "code", "source": ["1 + 1"], "metadata": {}}], "metadata": {"budget": 3}}
    >>> print(markdown(json.dumps(made), "sum.ipynb"))
    ---
    budget: 3
    ---
    ```{code-cell}
    1 + 1
    ```
    <BLANKLINE>
    You can open this page as a notebook: {download}`sum.ipynb`.
    <BLANKLINE>
    """
    notebook = json.loads(text)
    budget = notebook["metadata"].get("budget")
    matter = f"---\nbudget: {budget}\n---\n" if budget else ""
    return matter + "\n\n".join(_cell(cell) for cell in notebook["cells"]) + "\n" + OPENING.format(name=name)


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    options = "".join(f":{name}: {value}\n" for name, value in cell["metadata"].items() if name in ("alt", "caption"))
    return f"```{{code-cell}}\n{options}{source}\n```"

"""The Sphinx extension of the book: mathematics by KaTeX, and answers that are folded until they are asked for."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from docs.engine import katex


class Answer(SphinxDirective):
    """The directive ``{answer}``: what it holds is shown when a reader opens it."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        title = self.arguments[0] if self.arguments else "Answer"
        begin = nodes.raw("", f'<details class="answer"><summary>{title}</summary>', format="html")
        end = nodes.raw("", "</details>", format="html")
        return [begin, *self.parse_content_to_nodes(), end]


def _inline(visitor: Any, node: nodes.math) -> None:
    visitor.body.append(katex.inline(node.astext()))
    raise nodes.SkipNode


def _displayed(visitor: Any, node: nodes.math_block) -> None:
    visitor.body.append(katex.displayed(node.astext()))
    raise nodes.SkipNode


def _check(_: Sphinx) -> None:
    if changed := katex.changed_files():
        raise ExtensionError(f"these files of KaTeX are not as published: {', '.join(changed)}; restore them")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("answer", Answer)
    app.add_html_math_renderer("katex", inline_renderers=(_inline, None), block_renderers=(_displayed, None))
    app.add_css_file("katex/katex.min.css")
    app.add_css_file("book.css")
    app.connect("builder-inited", _check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

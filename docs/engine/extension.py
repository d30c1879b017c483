"""The Sphinx extension of the book: mathematics by KaTeX, and answers that are folded until they are asked for."""

from __future__ import annotations

import posixpath
import re
from functools import cache, partial
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.search.en import SearchEnglish
from sphinx.util.docutils import SphinxDirective

from docs.engine import katex

PUNCTUATION = re.compile(r"[.,;:!?)]+")
PATH = re.compile(r"~(?:\w+\.)+")
"""What stands before the name of a type that is to be shown in short."""


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
    visitor.body.append(katex.inline(node.astext(), node.get("after", "")))
    raise nodes.SkipNode


def _displayed(visitor: Any, node: nodes.math_block) -> None:
    visitor.body.append(katex.displayed(node.astext()))
    raise nodes.SkipNode


def _keep_punctuation(_: Sphinx, doctree: nodes.document, page: str) -> None:
    """Give to each formula the punctuation that follows it, so that no line begins with it."""
    for node in doctree.findall(nodes.math):
        place = node.parent.index(node) + 1
        after = node.parent[place] if place < len(node.parent) else None
        if isinstance(after, nodes.Text) and (found := PUNCTUATION.match(after)):
            node["after"], node.parent[place] = found[0], nodes.Text(after[found.end() :])


def _share_the_tree(
    drawn: dict[str, str], app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document
) -> None:
    """Draw the tree of contents once for all pages of a folder that are not in it: it is the same for each of them."""
    if "orphan" in app.env.metadata.get(page, {}) and "toctree" in context:
        draw, folder = context["toctree"], posixpath.dirname(page)

        def tree(**how: Any) -> str:
            key = f"{folder} {sorted(how.items())}"
            if key not in drawn:
                drawn[key] = draw(**how)
            return drawn[key]

        context["toctree"] = tree


def _in_short(*given: Any) -> tuple[str | None, str | None]:
    """Signatures with the names of types alone, also where a default keeps Sphinx from reading them."""
    signature, returned = (each and PATH.sub("", each) for each in given[-2:])
    return signature, returned


class English(SearchEnglish):
    """English words for the search box, the stem of each found once: pages repeat them by the hundred thousand."""

    stem = cache(SearchEnglish.stem)


def _check(_: Sphinx) -> None:
    if changed := katex.changed_files():
        raise ExtensionError(f"these files of KaTeX are not as published: {', '.join(changed)}; restore them")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("answer", Answer)
    app.add_search_language(English)
    app.add_html_math_renderer("katex", inline_renderers=(_inline, None), block_renderers=(_displayed, None))
    app.add_css_file("katex/katex.min.css")
    app.add_css_file("book.css")
    app.connect("builder-inited", _check)
    app.connect("doctree-resolved", _keep_punctuation)
    app.connect("autodoc-process-signature", _in_short)
    app.connect("html-page-context", partial(_share_the_tree, {}), priority=100)  # before the theme asks for the tree
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""The settings of Sphinx; ``docs/build`` gives it the pages."""

from pathlib import Path

from deepcanon import __version__

project = "deepcanon"
author = "The deepcanon developers"
copyright = "The deepcanon developers, MIT license"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "docs.engine.extension"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_custom_sections = [("Arguments", "params_style")]

html_theme = "furo"
html_title = "deepcanon"
html_math_renderer = "katex"
html_static_path = ["static"]
exclude_patterns = ["**/katex.min.js", "**/SHA256SUMS"]  # what the reader's browser has no use for
html_search_scorer = str(Path(__file__).parent / "engine" / "search.js")
html_show_search_summary = False  # which would fetch pages, and a file cannot
html_show_sphinx = False
html_copy_source = False
copybutton_selector = "div.highlight-python pre, div.highlight-sh pre"
pygments_style, pygments_dark_style = "friendly", "github-dark"

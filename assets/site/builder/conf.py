"""Settings of Sphinx for the documentation site; ``python -m builder.build`` stages the pages and runs it."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

from creditflow import __version__

SITE = Path(__file__).resolve().parents[1]
project = "creditflow"
author = "the creditflow authors"
project_copyright = f"{author}, Apache-2.0"
release = version = __version__
language = "en"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
source_suffix = {".md": "myst-nb"}
exclude_patterns = ["*.ipynb"]  # the tutorial, for download
nitpicky = False  # types of other packages are not documented here; MyST warns of links between pages
keep_warnings = False

# Pages: Markdown with fences for directives; every heading is an anchor that a link can name.
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 5
myst_links_external_new_tab = False

# Notebooks are text; they are executed at every build, and an error in one is an error of the build.
nb_execution_mode = "force"
nb_execution_timeout = 600  # seconds for a cell, also on a busy machine
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

# The reference: signatures and docstrings of what the packages name in ``__all__``. What an extra brings is not imported.
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 100  # characters; a longer signature has a line for each argument
python_use_unqualified_type_names = True
autodoc_mock_imports = [
    *("torch", "transformers", "tokenizers", "safetensors", "peft"),
    *("trl", "accelerate", "datasets", "verl", "tensordict"),
]
napoleon_numpy_docstring = False
napoleon_use_ivar = True

# Nothing is loaded from elsewhere: the theme's fonts are the reader's own.
html_math_renderer = "mathml"
html_theme = "furo"
pygments_style, pygments_dark_style = "friendly", "github-dark"
html_title = f"creditflow {release}"
html_static_path = [str(SITE / "static")]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_favicon = str(SITE / "images" / "favicon.svg")
html_use_index = html_domain_indices = False  # the search finds names
html_search_scorer = str(SITE / "search_scorer.js")
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

_SECTION = re.compile(r"^(?:Args|Attributes|Raises|Returns|Yields|Examples?):$", re.MULTILINE)
_NAMES = re.compile(r"^ {4}(\w+(?:, \w+)+): (.*(?:\n {5,}.*)*)$", re.MULTILINE)


def docstring(*event: Any) -> None:
    """Change a docstring to what Napoleon reads: marks for formulas, and an entry for each name.

    Formulas are indented blocks and norms are |x| in docstrings; reStructuredText wants a mark for both. Names with a common text share a line.
    """
    lines: list[str] = event[-1]
    text = "\n".join(lines)
    section = _SECTION.search(text)
    at = section.start() if section else len(text)
    blocks: list[str] = []
    for block in re.split(r"\n{2,}", text[:at]):
        if re.match(r" {4,}(?!>>>)", block) and not (blocks and blocks[-1].startswith("    ")):
            blocks.append("::")
        blocks.append(block)
    literal, changed = False, []
    entries = _NAMES.sub(lambda names: "\n".join(f"    {name}: {names[2]}" for name in names[1].split(", ")), text[at:])
    for line in ("\n\n".join(blocks) + entries).split("\n"):
        literal = line == "::" or (literal and line[:1] in ("", " "))
        changed.append(line if literal else re.sub(r"\|(?=(?:[^`]|``[^`]*``)*$)", r"\\|", line))
    lines[:] = changed


def signature(*event: Any) -> tuple[str, str] | None:
    """A default that a dataclass makes is "…", as Sphinx takes a signature apart only if it is Python's."""
    *_, arguments, returned = event
    return (arguments.replace("<factory>", "..."), returned) if arguments else None


def visit_math(translator: Any, node: Any) -> None:
    """Write a formula within a line as MathML, which browsers draw without a script."""
    translator.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def visit_displayed_math(translator: Any, node: Any) -> None:
    """Write a displayed formula as MathML."""
    translator.body.append(f'<div class="formula">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def describe(*event: Any) -> None:
    """Give a page its description for search engines and previews: its first paragraph."""
    *_, context, tree = event
    paragraphs = [] if tree is None else [node.astext() for node in tree.findall(nodes.paragraph)]
    text = " ".join(paragraphs[0].split()) if paragraphs else "Credit assignment for language-model agents."
    short = text if len(text) <= 160 else text[:159].rpartition(" ")[0] + "…"
    quoted = html.escape(short, quote=True)
    context["metatags"] = context.get("metatags", "") + f'<meta name="description" content="{quoted}">\n'


def setup(app: Any) -> None:
    """Register the descriptions, the changes of docstrings, before Napoleon's, and of signatures, and the writer of formulas."""
    app.connect("html-page-context", describe)
    app.connect("autodoc-process-docstring", docstring, priority=400)
    app.connect("autodoc-process-signature", signature)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displayed_math, None))

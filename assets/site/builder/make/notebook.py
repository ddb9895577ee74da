"""The tutorial as a Jupyter notebook without outputs, made from its page."""

from __future__ import annotations

import re
from typing import Final

from builder.repository import WRITTEN, read

__all__ = ["NOTEBOOK", "notebook"]

NOTEBOOK: Final = "tutorial.ipynb"  # beside the staged pages, where the tutorial offers it for download


def notebook() -> str:
    """The notebook as JSON; links to other pages are their text, as a downloaded notebook has no pages beside it."""
    import nbformat
    from myst_nb.core.read import read_myst_markdown_notebook

    text = re.sub(r" This page is a notebook[^\n]*", "", read(f"{WRITTEN}start/tutorial.md"))
    document = read_myst_markdown_notebook(text)
    for number, cell in enumerate(document.cells):
        cell["id"] = f"cell-{number}"
        if cell["cell_type"] == "markdown":
            cell["source"] = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell["source"])
    return str(nbformat.writes(document)) + "\n"

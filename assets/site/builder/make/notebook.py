"""The tutorial as a Jupyter notebook without outputs, made from its page."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from builder.repository import WRITTEN, read

__all__ = ["NOTEBOOK", "PAGE", "notebook"]

PAGE: Final = f"{WRITTEN}start/tutorial.md"
NOTEBOOK: Final = "tutorial.ipynb"  # beside the staged pages, where the tutorial offers it for download
_CELL: Final = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.M | re.S)


def notebook() -> str:
    """The notebook as JSON: a cell of Markdown for the text between two cells of code."""
    _, _, text = read(PAGE).split("---\n", 2)
    text = re.sub(r" This page is a notebook[^\n]*", "", text)
    cells, at = [], 0
    for code in _CELL.finditer(text):
        cells += [_cell("markdown", _without_links(text[at : code.start()])), _cell("code", code[1])]
        at = code.end()
    cells.append(_cell("markdown", _without_links(text[at:])))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    document = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _without_links(text: str) -> str:
    """Links to other pages as their text: a downloaded notebook has no pages beside it."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def _cell(kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": text.strip("\n").splitlines(keepends=True)}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})

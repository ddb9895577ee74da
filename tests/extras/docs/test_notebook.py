"""The tutorial's notebook is small, has no outputs or links to pages, and runs from its first cell to its last."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.shared_data import ROOT

from builder.make.notebook import notebook

pytestmark = pytest.mark.docs


def test_the_tutorial_runs_as_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="notebooks need the 'docs' extra")
    nbclient = pytest.importorskip("nbclient", reason="notebooks need the 'docs' extra")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    text = notebook()
    assert len(text.encode()) < 100_000
    assert ".md)" not in text
    document = nbformat.reads(text, as_version=4)
    nbformat.validate(document)
    assert not any(cell.get("outputs") for cell in document.cells)
    page = (ROOT / "assets/site/pages/start/tutorial.md").read_text(encoding="utf-8")
    assert sum(cell.cell_type == "code" for cell in document.cells) == page.count("{code-cell}") > 3
    nbclient.NotebookClient(document, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in document.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error"]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2

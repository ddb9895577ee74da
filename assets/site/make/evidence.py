"""The index of stored evidence: every study with its question, its results and its scripts."""

from __future__ import annotations

from pathlib import Path

from creditflow.assets.site.markdown import table
from creditflow.assets.site.repository import ROOT

__all__ = ["pages", "studies"]

FOLDER = ROOT / "tests" / "evidence"
RESULTS = (".json", ".jsonl", ".gz")
HEAD = """# Evidence

Every number on this site comes from a stored file that a command wrote. The page of a study has the question, the result and the command.
`python tests/evidence/reproduce.py` computes samples of stored results again and compares them.
"""


def studies() -> list[Path]:
    """The folders of the studies, by name."""
    return sorted(page.parent for page in FOLDER.glob("*/README.md"))


def pages() -> dict[str, tuple[str, str]]:
    """The index; the pages of the folder are those of the repository."""
    rows = [["study", "results"]]
    for folder in studies():
        title = (folder / "README.md").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        files = sorted(path for path in folder.iterdir() if path.suffix in RESULTS)
        names = ", ".join(f"`{path.relative_to(ROOT).as_posix()}`" for path in files)
        rows.append([f"[{title}](/evidence/{folder.name}.md)", names or "not run yet: only its predictions are stored"])
    listed = "\n".join(folder.name for folder in studies())
    tree = f"```{{toctree}}\n:hidden:\n{listed}\n```\n"
    return {"evidence/index": ("", f"{HEAD}\n{table(rows)}\n{tree}")}

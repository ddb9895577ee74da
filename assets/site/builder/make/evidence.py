"""The table of stored studies: each with its question and its results."""

from __future__ import annotations

from pathlib import Path

from builder.markdown import table
from builder.repository import ROOT

__all__ = ["pages", "studies"]

FOLDER = ROOT / "tests" / "evidence"
RESULTS = (".json", ".jsonl", ".gz")
HEAD = """# Studies

Every number on this site comes from a stored file that a command wrote. Each study has a page in the repository, next to its results, with the question, a
picture of the answer and the command. Tests compute samples of stored results again and compare them.
"""


def studies() -> list[Path]:
    """The folders of the studies, by name."""
    return sorted(page.parent for page in FOLDER.glob("*/README.md"))


def pages() -> dict[str, tuple[str, str]]:
    """The table of studies, with links to their pages in the repository."""
    rows = [["study", "results"]]
    for folder in studies():
        title = (folder / "README.md").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        files = sorted(path for path in folder.iterdir() if path.suffix in RESULTS)
        names = ", ".join(f"`{path.name}`" for path in files)
        page = (folder / "README.md").relative_to(ROOT).as_posix()
        rows.append([f"[{title}]({page})", names or "not run yet: only its predictions are stored"])
    return {"benchmark/studies": ("", f"{HEAD}\n{table(rows)}")}

"""A broken link fails the build, and staging never removes other files."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.build import build, stage
from creditflow.envs.errors import ConfigError

pytestmark = pytest.mark.docs


@pytest.fixture(autouse=True)
def two_pages(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[str, str]]]:
    """A site of two pages, which tests change."""
    pytest.importorskip("myst_nb", reason="the site needs the 'docs' extra")
    for name in ("PATH", "PYTHONPATH", "IPYTHONDIR"):
        monkeypatch.setenv(name, "")  # what the build sets ends with the test
    monkeypatch.setattr("builder.build.markup", str)
    index = "# A page\n\n## A part\n\n[a part](#a-part) and [its](/b.md#more)\n\n```{toctree}\nb\n```\n"
    site = {"index": [("", index)], "b": [("", "# Another page\n\n## More\n")]}
    monkeypatch.setattr("builder.build.pages", lambda: site)
    return site


@pytest.mark.parametrize(
    "text",
    ["", "[x](/nowhere.md)", "[x](#nowhere)", "[x](/index.md#nowhere)", "![x](/nowhere.png)", "[x](/nowhere.ipynb)"],
)
def test_a_broken_link_fails_the_build(two_pages: dict[str, list[tuple[str, str]]], tmp_path: Path, text: str) -> None:
    two_pages["b"] += [("", text)]
    if text:
        with pytest.raises(SystemExit):
            build(tmp_path / "site")
    else:
        assert build(tmp_path / "site") == []


def test_a_page_that_no_table_of_contents_lists_fails_the_build(
    two_pages: dict[str, list[tuple[str, str]]], tmp_path: Path
) -> None:
    two_pages["c"] = [("", "# A third page\n")]
    with pytest.raises(SystemExit):
        build(tmp_path / "site")


def test_staging_removes_its_own_old_pages_and_never_other_files(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    stage(own)
    (own / "old.md").write_text("old", encoding="utf-8")
    stage(own)
    assert (own / "index.md").is_file() and not (own / "old.md").exists()
    other.mkdir()
    (other / "thesis.tex").write_text("years", encoding="utf-8")
    with pytest.raises(ConfigError, match="would lose them"):
        stage(other)
    assert [path.name for path in other.iterdir()] == ["thesis.tex"]

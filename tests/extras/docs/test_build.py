"""A broken link fails the build, and staging never removes other files."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.build import build, stage
from creditflow.envs.errors import ConfigError

# a release of Sphinx warns in Python of what its extensions call; that is no fault of a page
pytestmark = [pytest.mark.docs, pytest.mark.filterwarnings("default")]
Site = dict[str, list[tuple[str, str]]]


@pytest.fixture(autouse=True)
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    """A site of two pages, which tests change."""
    pytest.importorskip("myst_nb", reason="the site needs the 'docs' extra")
    for name in ("PATH", "PYTHONPATH", "IPYTHONDIR"):
        monkeypatch.setenv(name, "")  # what the build sets ends with the test
    monkeypatch.setattr("builder.build.markup", str)
    index = "# A page\n\n## A part\n\n[a part](#a-part) and [its](/b.md#more)\n\n```{toctree}\nb\n```\n"
    two_pages = {"index": [("", index)], "b": [("", "# Another page\n\n## More\n")]}
    monkeypatch.setattr("builder.build.pages", lambda: two_pages)
    return two_pages


def test_a_site_without_faults_is_built(tmp_path: Path) -> None:
    assert build(tmp_path / "site") == []
    assert (tmp_path / "site" / "html" / "b.html").is_file()


@pytest.mark.parametrize(
    ("page", "text", "warning"),
    [
        ("b", "[x](/nowhere.md)", "myst.xref_missing"),
        ("b", "[x](#nowhere)", "myst.xref_missing"),
        ("b", "[x](/index.md#nowhere)", "myst.xref_missing"),
        ("b", "![x](/nowhere.png)", "image.not_readable"),
        ("b", "{download}`x </nowhere.ipynb>`", "download.not_readable"),
        ("c", "# A page that no table of contents lists", "toc.not_included"),
    ],
)
def test_a_broken_link_or_a_page_that_cannot_be_reached_fails_the_build(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str], page: str, text: str, warning: str
) -> None:
    site.setdefault(page, []).append(("", text))
    with pytest.raises(SystemExit):
        build(tmp_path / "site")
    assert f"[{warning}]" in capsys.readouterr().err


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

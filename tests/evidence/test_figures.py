"""Pages quote only figures that the stored results give, and every stored document is sound."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from evidence.figures import DRAWN, STUDIES, draw_study, figures, picture, shown
from evidence.pictures import MARKS
from helpers.shared_data import ROOT

from creditflow.train.bench.document import read_results
from creditflow.train.bench.report.sanity import require_sane

HERE = Path(__file__).parent
SITE = ROOT / "assets" / "site" / "pages"
QUOTE = re.compile(r"([+−-]?\d+\.\d) \[([+−-]?\d+\.\d), ([+−-]?\d+\.\d)\]")


def quoted(page: Path) -> set[tuple[float, ...]]:
    """The means with their intervals on a page, as numbers."""
    text = page.read_text("utf-8").replace("−", "-")
    return {tuple(map(float, found)) for found in QUOTE.findall(text)}


def computed(*studies: str) -> set[tuple[float, ...]]:
    """The figures of some studies, with one decimal place."""
    texts = [figure.text(1) for study in studies for panel in figures(study).values() for figure in panel.values()]
    return {tuple(map(float, QUOTE.fullmatch(text).groups())) for text in texts}  # type: ignore[union-attr]  # known at run time


@pytest.mark.parametrize("study", STUDIES)
def test_a_page_quotes_figures_of_its_results(study: str) -> None:
    page = picture(study).with_name("README.md")
    found = quoted(page)
    assert len(found) >= 4
    assert found - computed(*(name for name in STUDIES if picture(name).parent == page.parent)) == set()


def test_the_leaderboard_quotes_figures_of_the_studies() -> None:
    found = quoted(SITE / "benchmark" / "leaderboard.md")
    assert len(found) >= 25
    assert found - computed(*STUDIES) == set()


def test_the_leads_that_the_page_on_methods_states_are_means_of_the_studies() -> None:
    text = (SITE / "benchmark" / "verdict.md").read_text("utf-8")
    stated = {float(number) for number in re.findall(r"\b\d+\.\d\b(?!\s+(?:to 60 )?million)", text)}
    assert len(stated) >= 10
    assert stated <= {abs(mean) for mean, *_ in computed(*STUDIES)}


@pytest.mark.parametrize("run", ["first", "second"])
def test_no_factor_reverses_the_lead_of_credit_from_graphs(run: str) -> None:
    """The claim of the README; only at the largest rate are leads level."""
    for title, panel in figures("protocol").items():
        if title.startswith(run):
            for scheme in ("grouptd", "graphgpo", "rewardflow"):
                assert panel[f"{scheme} − grpo"].mean > 0.0
                assert panel[f"{scheme} − grpo"].low > 0.0 or "Adam 0.3" in title


def test_credit_from_graphs_is_ahead_of_grpo_in_three_environments_under_every_optimiser() -> None:
    for panel in figures("families").values():
        assert min(panel[f"{scheme} − grpo"].low for scheme in ("grouptd", "graphgpo", "rewardflow")) > 0.0


@pytest.mark.parametrize("path", sorted(HERE.glob("*/*.json.gz")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_stored_documents_pass_the_checks_of_the_benchmark(path: Path) -> None:
    document = read_results(path)
    require_sane(document)
    assert "dirty" not in document["provenance"]["commit"]


def test_every_study_has_a_picture_that_can_be_drawn_again(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the 'bench' extra")
    assert set(DRAWN) == set(STUDIES)
    for study in STUDIES:
        assert picture(study).is_file()
        assert all(0 < len(shown(title, figures(study)[title]).rows) <= MARKS for title in DRAWN[study])
    draw_study("protocol", tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")

"""The built site in a browser: its search, its widths and what it says of itself; ``make docs`` builds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from helpers.servers.browser import Browser, driven
from helpers.shared_data import ROOT

pytestmark = pytest.mark.browser

HTML = ROOT / "build" / "site" / "html"
FIRST = {
    "GRPO": "schemes/grpo",
    "GiGPO": "schemes/gigpo",
    "grouptd": "schemes/grouptd",
    "dense reward": "how_to/dense_rewards",
    "verl": "integrations/verl",
    "TRL": "integrations/trl",
    "verifiers": "integrations/verifiers",
    "WebShop": "environments/webshop",
    "install": "start/install",
    "tutorial": "start/tutorial",
    "leaderboard": "benchmark/leaderboard",
    "glossary": "reference/glossary",
    "own log": "start/own_log",
    "PPO": "schemes/ppo_gae",
    "settings": "reference/settings",
    "audit": "how_to/audit",
    "playground": "concepts/playground",
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert (HTML / "search.html").is_file(), "the site is not built: make docs"
    with driven(tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.mark.parametrize("typed", FIRST)
def test_the_first_hit_is_the_page_on_what_is_typed(browser: Browser, typed: str) -> None:
    browser.do("POST", "/url", {"url": f"{(HTML / 'search.html').as_uri()}?q={quote(typed)}"})
    browser.find("//ul[contains(@class, 'search')]/li//a")
    address = browser.run("return document.querySelector('ul.search li a').getAttribute('href')")
    assert Path(address.partition("#")[0].partition("?")[0]).with_suffix("").as_posix() == FIRST[typed]


def test_a_click_on_the_head_of_a_column_sorts_the_leaderboard_and_a_second_one_turns_it_round(
    browser: Browser,
) -> None:
    browser.open(HTML / "benchmark" / "leaderboard.html")
    script = """
        const table = document.querySelector("table.sortable"), button = table.querySelectorAll("th button")[6];
        const first = () => table.tBodies[0].rows[0].cells[0].textContent.trim();
        button.click(); const up = first(); button.click(); return [up, first()];
    """
    assert browser.run(script) == ["perfect credit", "hgpo"]  # where states never repeat


def test_no_page_is_wider_than_a_telephone(tmp_path: Path) -> None:
    wide = []
    with driven(tmp_path, width=400) as telephone:
        for page in sorted(HTML.rglob("*.html")):
            telephone.open(page)
            if telephone.run("return document.documentElement.scrollWidth > window.innerWidth"):
                wide.append(page.relative_to(HTML).as_posix())
    assert wide == []


@pytest.mark.parametrize("page", ["index", "concepts/credit", "how_to/dense_rewards", "integrations/verl_scaling"])
def test_lines_of_text_have_46_em_at_most(browser: Browser, page: str) -> None:
    browser.open(HTML / f"{page}.html")
    script = """
        return Math.max(...[...document.querySelectorAll("article p")].map((p) =>
            p.getBoundingClientRect().width / parseFloat(getComputedStyle(p).fontSize)));
    """
    assert 30 < browser.run(script) <= 46.01


def test_the_site_has_few_pages() -> None:
    assert len(list((HTML.parent / "source").rglob("*.md"))) < 60


def test_every_page_has_a_description_and_an_icon() -> None:
    for page in HTML.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert '<link rel="icon"' in text or 'rel="shortcut icon"' in text, page
        assert page.name == "search.html" or len(text.partition('<meta name="description" content="')[2]) > 20, page

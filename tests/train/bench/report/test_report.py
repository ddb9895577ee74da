"""The page: self-contained, inert, complete."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from helpers.servers.browser import driven, rendered_dom

from creditflow.train.bench.report.conclusions import conclusions
from creditflow.train.bench.report.page import headline, write_report
from creditflow.train.bench.report.text import document_text
from creditflow.train.bench.results import read_results, write_results
from creditflow.train.bench.studies import Study

HOSTILE = "</style><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.tags, self.attributes, self.text = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.links += [value for name, value in attrs if name in ("src", "href", "srcset", "action", "data")]

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def hostile(document):
    """A document with hostile text in every place that takes text from elsewhere."""
    document["provenance"]["command"] = HOSTILE
    document["suites"][0]["name"] = HOSTILE
    document["suites"][0]["undefined"][HOSTILE] = HOSTILE
    return document


def test_the_page_loads_nothing_and_runs_nothing(out):
    page = Page((out / "report.html").read_text())
    assert all(link.startswith("#") for link in page.links)
    assert not {"script", "img", "image", "use"} & set(page.tags)
    assert "style" not in page.attributes
    assert not [name for name in page.attributes if name.startswith("on")]


def test_the_content_security_policy_allows_only_the_own_style(out):
    text = (out / "report.html").read_text()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert re.fullmatch(r"default-src 'none'; style-src 'sha256-[A-Za-z0-9+/=]{44}'; base-uri 'none'", policy)


def test_the_page_shows_conclusions_tables_checks_terms_and_provenance(out):
    text = Page((out / "report.html").read_text()).text
    for part in ("sanity checks passed", "Improvement by one step (M2)", "Which scheme when", "Schemes against grpo", "Which metric predicts learning", "flipped(oracle_adv)",
                 "Sanity checks", "natural gradient", "Provenance", "creditflow"):  # fmt: skip
        assert part in text


def test_the_conclusions_come_before_the_tables(out):
    text = (out / "report.html").read_text()
    assert text.index('class="headline"') < text.index("<table")
    assert text.index("works as it should") < text.index("<table")


def test_the_page_escapes_what_it_shows(hostile, tmp_path):
    write_report(hostile, tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_text())
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert HOSTILE in page.text


def played(lead, tasks=12):
    """Three seeds; the lead of "mine" differs from task to task by ±.02."""
    base = [[0.5, 0.4, 0.6, 0.5] * (tasks // 4)] * 3
    mine = [[area + lead + 0.02 * (-1) ** task for task, area in enumerate(base[0])]] * 3

    def row(areas):
        return {"area": [float(np.mean(areas)), 0.0, 1.0], "gain": [0.0, 0.0, 0.0], "area_by_seed": areas, "first": 0.4, "curve": [0.4]}  # fmt: skip

    rows = {"grpo": row(base), "mine": row(mine)}
    return {"suites": [{"name": "shop", "schemes": ["grpo", "mine"], "rows": rows}]}


def test_a_played_suite_has_a_sentence_and_few_tasks_no_verdict():
    assert re.fullmatch(
        r"shop: mine learned faster than grpo, by \+10.0 \[\+8.\d, \+11.\d\] percentage points.",
        conclusions(played(0.1))[1],
    )
    assert conclusions(played(0.005))[1] == "shop: no scheme learned clearly faster than grpo."
    assert conclusions(played(0.1, tasks=4))[1] == "shop: 4 tasks are too few for a verdict."


def test_the_report_of_played_suites_opens_with_a_sentence_for_each():
    document = played(0.005)
    document["suites"].append(document["suites"][0] | {"name": "house"})
    shown = headline(document)
    assert shown.sentence == (
        "shop: no scheme learned clearly faster than grpo. house: no scheme learned clearly faster than grpo."
    )
    assert "for all 2 comparisons" in shown.trust


def test_a_suite_of_studies_is_on_the_page_and_in_the_text(document, tmp_path):
    areas = {"grpo": [[0.5], [0.52], [0.49]], "gigpo": [[0.6], [0.63], [0.58]], "flipped(gigpo)": [[0.2], [0.1], [0.2]]}
    study = Study("shared policy", "pits", "fresh", 16, 8, "", {"area": areas})
    facts = {name: value for name, value in document["suites"][0].items() if name not in ("cells", "correlations")}
    suite = facts | {"name": "shared", "schemes": ["grpo", "gigpo"], "controls": ["flipped(gigpo)"], "undefined": {}}
    document["suites"].append(suite | {"studies": [study.to_json()]})
    write_results(document, tmp_path / "results.json")
    again = read_results(tmp_path / "results.json")
    write_report(again, tmp_path / "report.html")
    page, text = Page((tmp_path / "report.html").read_text()).text, document_text(again)
    for shown in (page, text):
        assert "shared policy, pits, fresh keys, 16 tasks × 8 rollouts: mean success" in shown
        assert "number of studies: 1" in shown
        assert "flipped(gigpo) learns less than gigpo" in shown


@pytest.mark.browser
def test_in_a_browser_the_style_applies_and_hostile_text_is_not_executed(hostile, tmp_path):
    write_report(hostile, tmp_path / "report.html")
    dom = rendered_dom(tmp_path / "report.html", tmp_path / "profile")
    assert "<title>creditflow bench</title>" in dom
    assert "owned" not in re.sub(r"(?s)<(td|dd|dt|h2|p|li|a|summary)[^>]*>.*?</\1>", "", dom)


OPENED = "return [...document.querySelectorAll('[popover]')].filter((e) => e.matches(':popover-open')).map((e) => e.innerText)"


@pytest.mark.browser
def test_a_word_is_explained_on_hover_and_by_the_keyboard(out, tmp_path):
    with driven(tmp_path) as browser:
        browser.open(out / "report.html")
        title = browser.run("return document.querySelector('button.term').title")
        assert "assign credit" in title
        assert browser.run(OPENED) == []
        browser.press("Tab", "Tab", "Enter")  # the first is the link to the verdict
        (shown,) = browser.run(OPENED)
        assert title in shown
        browser.press("Escape")
        assert browser.run(OPENED) == []


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 0])
def test_the_page_is_as_wide_as_the_screen_and_follows_its_colours(out, tmp_path, width):
    colours = set()
    for dark in (False, True):
        with driven(tmp_path, width=width, dark=dark) as browser:
            browser.open(out / "report.html")
            browser.run("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
            inside, screen = browser.run("return [document.documentElement.scrollWidth, window.innerWidth]")
            assert inside <= screen
            style = "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor].join()"
            colours.add(browser.run(style))
    assert len(colours) == 2


@pytest.mark.browser
def test_hostile_text_opens_as_text_in_an_explanation_too(hostile, tmp_path):
    hostile["suites"][0]["schemes"][0] = HOSTILE
    for cell in hostile["suites"][0]["cells"]:
        for part in ("offline", "curves"):
            if cell[part]:
                cell[part] = {HOSTILE if name == "grpo" else name: row for name, row in cell[part].items()}
    write_report(hostile, tmp_path / "report.html")
    with driven(tmp_path) as browser:
        browser.open(tmp_path / "report.html")
        assert browser.run("return document.title") == "creditflow bench"
        assert browser.run("return document.querySelectorAll('script, img[onerror]').length") == 0
        assert HOSTILE in browser.run("return document.body.textContent")

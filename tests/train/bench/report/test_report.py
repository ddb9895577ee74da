"""The page: self-contained, inert, complete."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from helpers.servers.browser import driven, rendered_dom

from creditflow.train.bench.report.page import headline, write_report
from creditflow.train.bench.report.tables import suite_tables
from creditflow.train.bench.report.terms import CONTROLS, about_method

NUMBER = re.compile(r"[-+−]?\d*\.\d+")
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


def test_the_page_shows_the_verdict_tables_checks_terms_and_provenance(out):
    text = Page((out / "report.html").read_text()).text
    for part in ("sanity checks passed", "Which scheme when", "Learning", "One step", "flipped(oracle_adv)",
                 "Sanity checks", "detectable", "Provenance", "creditflow"):  # fmt: skip
        assert part in text


def test_the_verdict_comes_before_the_tables(out):
    text = (out / "report.html").read_text()
    assert text.index('class="headline"') < text.index("<table")
    assert text.index("sanity checks passed") < text.index("<table")


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
    clear = r"shop: mine learned faster than grpo, by \+10.0 \[\+8.\d, \+11.\d\] percentage points."
    assert re.fullmatch(clear, headline(played(0.1)).sentence)
    assert headline(played(0.005)).sentence == "shop: no scheme learned clearly faster than grpo."
    assert headline(played(0.1, tasks=4)).sentence == "shop: 4 tasks are too few for a verdict."


def test_the_report_of_played_suites_opens_with_a_sentence_for_each():
    document = played(0.005)
    document["suites"].append(document["suites"][0] | {"name": "house"})
    shown = headline(document)
    assert shown.sentence == (
        "shop: no scheme learned clearly faster than grpo. house: no scheme learned clearly faster than grpo."
    )
    assert "adjustment for 2 comparisons" in shown.trust


def test_failed_checks_are_the_whole_verdict(document):
    for study in document["suites"][0]["studies"]:
        gain = study["endpoints"]["gain"]
        gain["oracle_adv"], gain["flipped(oracle_adv)"] = gain["flipped(oracle_adv)"], gain["oracle_adv"]
    shown = headline(document)
    assert (shown.sentence, shown.sound) == ("Do not use these results.", False)
    assert "FAILED" in shown.trust


def test_every_column_of_numbers_has_intervals_or_its_table_says_that_it_has_none(document):
    exempt = {"p", "detectable"}  # which are about the test
    for suite in document["suites"]:
        for table in suite_tables(suite):
            for column, head in enumerate(table.rows[0]):
                cells = [row[column] for row in table.rows[1 : (table.controls or 0) + 1]]
                bare = [cell for cell in cells if NUMBER.fullmatch(cell)]
                assert not bare or head in exempt or "without an interval" in table.note, (table.title, head)


def test_methods_are_explained():
    assert "Source" in about_method("grpo")
    assert about_method("oracle_adv") == CONTROLS["oracle_adv"]
    assert about_method("shuffled(gigpo)") == CONTROLS["shuffled(X)"]
    assert CONTROLS["X[fitted]"] in about_method("pica[fitted]")
    assert about_method("nothing_such") == about_method("a{b") == ""


@pytest.mark.browser
def test_in_a_browser_the_style_applies_and_hostile_text_is_not_executed(hostile, tmp_path):
    write_report(hostile, tmp_path / "report.html")
    dom = rendered_dom(tmp_path / "report.html", tmp_path / "profile")
    assert "<title>creditflow bench</title>" in dom
    assert "owned" not in re.sub(r"(?s)<(td|th|dd|dt|h2|p|li|a|summary)[^>]*>.*?</\1>", "", dom)


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

"""The plots of the report: one for every regime, with intervals, in the page's colours, told apart by anyone, and inert."""

from __future__ import annotations

import itertools
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.servers.browser import driven
from hypothesis import given
from hypothesis import strategies as st

from creditflow.train.bench.report.chart import HEIGHT, MARKS, WIDTH, drawn_plot
from creditflow.train.bench.report.page import write_report
from creditflow.train.bench.report.plots import (
    BASELINE_STYLE,
    SCHEME_STYLES,
    Line,
    Panel,
    Plot,
    document_plots,
    draw_plots,
    line_styles,
)
from creditflow.train.bench.report.tables import suite_tables

HOSTILE = "</svg></style><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
STYLES = [*(f"s{i}" for i in range(SCHEME_STYLES)), "c0", "c1", "c2", "c3"]


def style_sheet() -> str:
    return str((files("creditflow.assets") / "report" / "bench.css").read_text(encoding="ascii"))


def page_of(document: dict[str, Any], folder: Path) -> str:
    write_report(document, folder / "report.html")
    return (folder / "report.html").read_text()


def test_every_learning_table_has_a_plot(document) -> None:
    tables = [table for suite in document["suites"] for table in suite_tables(suite)]
    about = {plot.about for plot in document_plots(document)}
    learning = {table.title for table in tables if "during training" in table.title}
    assert learning
    assert learning <= about <= {table.title for table in tables}


def test_at_most_eight_schemes_have_a_line_the_best_and_the_baseline_always() -> None:
    suite = {"controls": ["oracle_adv", "flipped(oracle_adv)", "flipped(gigpo)", "shuffled(gigpo)"]}
    order = ["mine", "gigpo", "graphgpo", "rewardflow", "hgpo", "gagpo", "rtmc", "ecpo", "rloo", "grpo"]
    styles = line_styles(suite, order, "grpo")
    assert len([style for style in styles.values() if style.startswith("s")]) == SCHEME_STYLES
    assert styles["mine"] == "s0"  # a variant, because it is the best
    assert styles["grpo"] == BASELINE_STYLE == line_styles(suite, order[::-1], "grpo")["grpo"]
    assert styles["oracle_adv"] == "c0" and styles["shuffled(gigpo)"] == "c3"
    assert len(set(styles.values())) == len(styles)


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(1e-3, 1e3), st.floats(0, 0.5)), min_size=1, max_size=6),
    st.booleans(),
    st.booleans(),
)
def test_all_that_is_drawn_lies_within_the_panel(points, log_y, marked) -> None:
    x, y, half = map(list, zip(*points, strict=True))
    low, high = [b * (1 - h) for b, h in zip(y, half, strict=True)], [b * (1 + h) for b, h in zip(y, half, strict=True)]
    line = Line("n", "s0", x, y, low, high)
    plot = Plot(
        "s", "p", "c", "a", [Panel("t", "x", "y", [line], level=y[0])] * 2, log_y=log_y, marked=marked, same_y=True
    )
    (panel, again) = drawn_plot(plot).panels
    assert panel == again
    (drawn,) = panel.lines
    corners = [tuple(map(float, pair.split(","))) for pair in drawn.path.split()]
    corners += [(a, b) for a, *ends in drawn.bars for b in ends] + [(a, b) for a, b, _ in drawn.points]
    assert all(0 <= a <= WIDTH and 0 <= b <= HEIGHT for a, b in corners)
    assert bool(drawn.bars) == bool(drawn.points) == marked
    assert all(0 <= at <= WIDTH for _, at in panel.x_ticks)
    assert all(0 <= at <= HEIGHT for _, at in panel.y_ticks)


def test_the_same_plots_are_written_as_pictures(document, tmp_path) -> None:
    plots = document_plots(document)
    pictures = draw_plots(plots, tmp_path)
    assert [path.name for path in pictures] == [f"{plot.stem}.png" for plot in plots]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)


def colours(dark: bool) -> dict[str, str]:
    """The variables of the style sheet in light or in dark colours."""
    light, *other = re.findall(r":root \{(.*?)\}", style_sheet(), re.S)
    found = dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]{6});", light))
    return found | (dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]{6});", other[0])) if dark else {})


# Machado, Oliveira and Fernandes (2009): linear RGB as seen without one kind of cone
VISIONS = {
    "normal": np.eye(3),
    "protan": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deutan": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "tritan": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
}  # fmt: skip


def linear(colour: str) -> np.ndarray:
    """Linear RGB of "#rrggbb" (sRGB)."""
    part = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIELAB of linear RGB, white D65."""
    matrix = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = matrix @ np.clip(rgb, 0, 1) / [0.95047, 1.0, 1.08883]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("vision", VISIONS)
def test_the_colours_of_lines_are_told_apart_by_everyone_and_stand_out_from_the_page(dark: bool, vision: str) -> None:
    used = colours(dark)
    lines = [used[f"s{i}"] for i in range(SCHEME_STYLES)]
    seen = [lab(VISIONS[vision] @ linear(colour)) for colour in lines]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 15  # about 2 is just noticeable
    for colour in (*lines, used["control"], used["soft"], used["ink"]):
        one, other = sorted(float([0.2126, 0.7152, 0.0722] @ linear(c)) + 0.05 for c in (colour, used["paper"]))
        assert other / one > 3.0  # WCAG 2.2, 1.4.11


def test_every_style_has_a_colour_a_mark_and_a_rule_for_its_name_in_the_legend() -> None:
    sheet = style_sheet()
    for style in STYLES:
        assert (
            f".plot:has(.legend .{style}:is(:hover, :focus-within)) .panel :is(.line, .bar, .mark):not(.{style})"
            in sheet
        )
        assert re.search(rf"\.{style}\b[^{{}}]*\{{ --own: ", sheet)
    assert list(MARKS) == STYLES
    assert len(set(MARKS.values())) == len(STYLES)


def escaped(text: str) -> str:
    """The text as the page shows it."""
    return text.replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#39;").replace('"', "&#34;")


def renamed(document: dict[str, Any], name: str) -> dict[str, Any]:
    """The document with other names in place of the schemes that are better than grpo, one of which is the best."""
    text = json.dumps(document).replace('"graphgpo"', json.dumps(name)).replace('"grouptd"', json.dumps("my_" + name))
    found: dict[str, Any] = json.loads(text)
    return found


def test_hostile_names_stay_text_in_plots_too_and_no_two_elements_share_an_id(document, tmp_path) -> None:
    page = page_of(renamed(document, HOSTILE), tmp_path)
    figure, *_ = re.findall(r'(?s)<figure class="plot">.*?</figure>', page)
    assert escaped(HOSTILE) in figure
    assert "<script" not in page and "<img" not in page
    ids = re.findall(r'\bid="([^"]*)"', page_of(document, tmp_path))
    assert len(ids) == len(set(ids))
    assert " id=" not in figure and "style=" not in figure


def test_a_long_name_may_go_on_in_the_next_line_and_is_searched_as_one(document, tmp_path) -> None:
    long = "graphgpo{distance_discount=0.1}"
    page = page_of(renamed(document, long), tmp_path)
    assert "graphgpo{<wbr>distance_<wbr>discount=<wbr>0.1}" in page
    assert long in re.sub("<wbr>", "", page)


@pytest.mark.browser
def test_plots_have_the_colours_of_the_page(document, tmp_path) -> None:
    write_report(document, tmp_path / "report.html")
    script = (
        "const of = (s) => getComputedStyle(document.querySelector(s));"
        "return [of('.plot polyline.s0').stroke, of('.plot text').fill, of('.panel').backgroundColor, of('.panel svg').backgroundColor]"
    )
    found = []
    for dark in (False, True):
        with driven(tmp_path, dark=dark) as browser:
            browser.open(tmp_path / "report.html")
            stroke, text, *grounds = browser.run(script)
            assert grounds == ["rgba(0, 0, 0, 0)"] * 2
            expected = colours(dark)
            assert [stroke, text] == [f"rgb{tuple(bytes.fromhex(expected[name][1:]))}" for name in ("s0", "soft")]
            found.append(stroke)
    assert found[0] != found[1]


@pytest.mark.browser
def test_a_name_in_the_legend_makes_the_other_lines_faint_by_the_keyboard(document, tmp_path) -> None:
    write_report(document, tmp_path / "report.html")
    with driven(tmp_path) as browser:
        browser.open(tmp_path / "report.html")
        style = browser.run("return document.querySelector('.plot .line').classList[1]")
        faint = f"return getComputedStyle(document.querySelector('.panel .line:not(.{style})')).opacity"
        before = browser.run(faint)
        browser.run(f"document.querySelector('.legend .{style} button').focus()")
        assert browser.run(faint) == "0.12" != before


@pytest.mark.browser
def test_hostile_names_in_plots_are_not_executed(document, tmp_path) -> None:
    write_report(renamed(document, HOSTILE), tmp_path / "report.html")
    with driven(tmp_path) as browser:
        browser.open(tmp_path / "report.html")
        assert browser.run("return document.title") == "creditflow bench"
        assert browser.run("return document.querySelectorAll('script, img').length") == 0
        assert HOSTILE in browser.run("return document.querySelector('.plot .legend').textContent")

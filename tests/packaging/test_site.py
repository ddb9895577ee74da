"""The documentation site's sources: blocks are marked, evidence is listed, equations are where the paper index says."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from helpers.page_blocks import console_steps, run_page, same
from helpers.shared_data import ROOT

from builder.build import loaded_from_elsewhere, pages
from builder.make import evidence
from builder.make import recipes as make_recipes
from builder.make.paper_index import pages as paper_pages
from builder.make.paper_index import papers, places
from builder.make.recipes import PUBLISHED, recipes
from builder.markdown import RUNNABLE, blocks_of, deeper, prose, staged_text
from builder.repository import ADDRESS, APPENDED, MADE, NOT_RUN, PAGES, RUN
from creditflow import __version__
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers import credit

SITE = ROOT / "assets" / "site" / "pages"
MARKS = ("run=", "file=", "not-run: ")
# what a newcomer wants to do -> the page of the site that shows it, and what stands there to be typed or read
TASKS = {
    "install": ("start/install", "pip install '.[bench]'"),
    "bring an environment": ("environments/own", "creditflow new env corridor --out ."),
    "bring a scheme": ("how_to/own_scheme", "creditflow new scheme mine"),
    "score a log": ("start/own_log", "creditflow data import messages mine.jsonl --out my_log.jsonl"),
    "use TRL": ("integrations/trl", "pip install -e '.[trl]'"),
    "use verl": ("integrations/verl", "--engine verl --dry-run"),
    "train": ("how_to/train", "creditflow train train/configs/quickstart.yaml"),
    "evaluate": ("how_to/train", "creditflow eval --agent hf:runs/first/model"),
    "choose a scheme": ("benchmark/verdict", "**Use [`grouptd`]"),
    "reproduce a paper": ("how_to/reproduce", "creditflow train train/configs/gigpo_alfworld.yaml --dry-run"),
}


@pytest.mark.parametrize("page", sorted(SITE.rglob("*.md")), ids=lambda path: path.relative_to(SITE).as_posix())
def test_a_block_runs_or_its_mark_says_why_not(page: Path) -> None:
    for language, mark, _ in blocks_of(page.read_text(encoding="utf-8")):
        if language in RUNNABLE:
            assert not mark or mark.startswith(MARKS), mark
            assert not mark.startswith("not-run") or len(mark) > len("not-run: ")
        else:
            assert language in ("text", "json", "yaml") or mark.startswith("{"), "what runs has its language"


def test_a_page_of_the_repository_runs_its_blocks_or_says_below_them_why_not() -> None:
    shown = [path for path in MADE if path.endswith(".md") and not (ROOT / path).is_relative_to(SITE)]
    plain = {
        path
        for path in shown
        for language, mark, _ in blocks_of((ROOT / path).read_text(encoding="utf-8"))
        if language in RUNNABLE and not mark
    }
    assert plain == {*RUN, *NOT_RUN}
    assert not set(RUN) & set(NOT_RUN)


def test_pages_of_the_repository_that_the_site_shows_exist() -> None:
    shown = [*PAGES.values(), *(path for paths in APPENDED.values() for path in paths)]
    assert not [path for path in shown if not (ROOT / path).is_file()]
    assert len(set(shown)) == len(shown)


def test_every_study_has_a_page_with_a_question_and_stored_results_or_says_that_it_has_not_run() -> None:
    rows = evidence.pages()["benchmark/studies"][1].splitlines()
    for folder in evidence.studies():
        [row] = [row for row in rows if f"](tests/evidence/{folder.name}/README.md)" in row]
        waiting = "No run is stored yet." in (folder / "README.md").read_text(encoding="utf-8")
        assert ("not run yet" in row) == waiting
        assert waiting or ".json" in row


def test_marks_links_and_pictures_are_staged() -> None:
    text = "See [it](DATA.md#a).\n\n![x](../../assets/images/a.png)\n\n```python run=trl\n`DATA.md`\n```\n"
    shown, pictures = staged_text(text, "train/adapters/README.md")
    assert "See [it](/reference/import_export.md#a)." in shown
    assert pictures == {"assets/images/a.png"} and "![x](/assets/images/a.png)" in shown
    assert "```python run=trl\n`DATA.md`\n```\n\n{.mark}\nTested by `.ci/run trl`." in shown


def test_a_picture_with_a_dark_drawing_is_staged_with_it() -> None:
    shown, pictures = staged_text("![x](assets/images/credit-light.svg)")
    assert pictures == {"assets/images/credit-light.svg", "assets/images/credit-dark.svg"}
    assert shown == (
        "![x](/assets/images/credit-light.svg){.only-light}\n![x](/assets/images/credit-dark.svg){.only-dark}"
    )


@pytest.mark.parametrize(
    ("link", "staged"),
    [
        (
            "../../tests/evidence/gpu/README.md#a",
            f"{ADDRESS}/tests/evidence/gpu/README.md#a",
        ),  # stays in the repository
        ("OPENENV.md", "/integrations/loops.md#openenv-any-environment-as-a-server"),  # a part of a page
        ("OPENENV.md#limits", "/integrations/loops.md#limits"),
        ("../../assets/site/pages/how_to/audit.md#x", "/how_to/audit.md#x"),
    ],
)
def test_a_link_of_the_repository_leads_to_the_page_or_to_the_published_file(link: str, staged: str) -> None:
    shown, _ = staged_text(f"[a]({link})", "train/adapters/README.md")
    assert shown == f"[a]({staged})"


def test_a_page_that_follows_on_another_has_its_headings_one_level_deeper_and_its_code_as_it_is() -> None:
    assert deeper("# A\n\n```sh\n# b\n```\n\n## C\n") == "## A\n\n```sh\n# b\n```\n\n### C\n"


def test_the_front_page_cites_the_present_version() -> None:
    assert f"{{Version {__version__}}}" in (SITE / "index.md").read_text(encoding="utf-8")


def test_every_picture_of_the_site_says_what_it_shows() -> None:
    shown = {*SITE.rglob("*.md"), *(ROOT / path for path in MADE if (ROOT / path).is_file())}
    for page in shown:
        for text, picture in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            assert len(text.split()) >= 3, f"{page}: {picture}"


@pytest.fixture(scope="module")
def staged() -> dict[str, str]:
    """The pages without those of schemes, evidence and the API, which take a minute to make."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builder.build.GENERATORS", (make_recipes,))
        return {name: "".join(staged_text(text, path)[0] for path, text in parts) for name, parts in pages().items()}


@pytest.mark.parametrize("task", TASKS)
def test_a_newcomers_task_is_two_clicks_from_home_and_its_page_has_the_line_to_type(
    staged: dict[str, str], task: str
) -> None:
    def linked(names: Iterable[str]) -> set[str]:
        links = {(name, link) for name in names for link in re.findall(r"\]\(([\w/.]+)\.md[#)]", staged.get(name, ""))}
        return {posixpath.normpath(posixpath.join("/", posixpath.dirname(name), link))[1:] for name, link in links}

    page, line = TASKS[task]
    first = linked(["index"])
    assert page in first | linked(first)
    assert line in staged[page]


def test_a_link_to_a_file_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ValueError, match="no such file"):
        staged_text("[a](../nowhere.md)", "envs/alfworld/README.md")


def test_marks_of_markdown_in_docstrings_are_escaped_and_formulas_are_not() -> None:
    assert prose("a_b <c> ``d_e``") == r"a\_b \<c> `d_e`"
    assert prose("    a_b * c") == "    a_b * c"


@pytest.mark.parametrize(
    "text",
    [
        '<a href="http://example.org/">x</a>',
        '<script src="https://cdn.example.org/x.js"></script>',
        '<link rel="stylesheet" href="//cdn.example.org/x.css">',
        '<img srcset="https://cdn.example.org/x.png 2x">',
        '<object data="//cdn.example.org/x.svg"></object>',
        "<style>a { src: url( 'https://cdn.example.org/x') }</style>",
        '<style>@import "//cdn.example.org/x.css"</style>',
    ],
)
def test_what_is_loaded_from_elsewhere_is_found_and_links_are_not(tmp_path: Path, text: str) -> None:
    links = (
        """<a href="https://arxiv.org/">x</a><img src="x.png"> url(data:image/svg+xml;x='http://www.w3.org/2000/svg')"""
    )
    (tmp_path / "a.html").write_text(links, encoding="utf-8")
    assert loaded_from_elsewhere(tmp_path) == []
    (tmp_path / "b.html").write_text(text, encoding="utf-8")
    [line] = loaded_from_elsewhere(tmp_path)
    assert line.startswith("b.html: ")


def test_the_runner_fails_on_a_block_that_fails_or_prints_something_else(tmp_path: Path) -> None:
    assert run_page("```sh\ntrue\n```\n\n```sh not-run: x\nfalse\n```\n", tmp_path) == 1
    for block in ("sh\nfalse\n", "console\n$ echo 1\n2\n", "python\nassert 0\n", "pycon\n>>> 1\n2\n"):
        with pytest.raises(AssertionError):
            run_page(f"```{block}```\n", tmp_path)
    same("in 0.3 s", "in … s\n", "x")
    assert console_steps("$ a\nb\nc\n$ d\n") == [("a", "b\nc\n"), ("d", "")]


def definitions(path: Path) -> set[str]:
    """Qualified names of what a module defines."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return names


def test_places_of_the_paper_index_exist() -> None:
    for paper, file, name in places():
        path = ROOT / file
        if path.suffix == ".py":
            assert name in definitions(path), f"{paper}: {file} has no {name}"
        else:
            assert f"## {name}" in path.read_text(encoding="utf-8"), f"{paper}: {file} has no section {name}"


def test_every_part_of_a_paper_is_here_as_published_or_says_why_it_differs() -> None:
    parts = [part for paper in papers() for part in paper.get("parts", ())]
    assert len(parts) > 80
    for part, state, where in parts:
        assert state in ("as published", "differs"), part
        assert len(where) > 5, part
        for recipe in re.findall(r"\w+\.yaml", where):
            assert (ROOT / "train" / "configs" / recipe).exists(), f"{part}: there is no {recipe}"


def test_one_table_has_all_that_differs_from_the_papers_with_its_reason() -> None:
    page = paper_pages()["reference/paper_index"][1]
    *_, last = page.split("## What differs, and why")
    parts = [part for paper in papers() for part in paper.get("parts", ())]
    assert {here for _, here, _ in parts} == {"as published", "differs"}
    assert last.count("\n| ") == 2 + sum(here == "differs" for _, here, _ in parts)
    assert all(why.strip() for _, _, why in parts)


def test_every_scheme_with_a_paper_is_in_the_paper_index() -> None:
    indexed = {name for paper in papers() for name in paper.get("schemes", ())}
    assert indexed == set(credit.names()) - {"blend", "grouptd", "stateless", "step_to_go", "turn_loo"}


@pytest.mark.parametrize("paper", papers(), ids=lambda paper: paper["arxiv"])
def test_a_scheme_names_the_arxiv_number_of_its_paper(paper: dict[str, Any]) -> None:
    for name in paper.get("schemes", ()):
        text = credit.make(name).source + str(type(credit.make(name)).__doc__)
        assert paper["arxiv"] in text or name in ("mt_ppo", "ppo_gae"), name


def test_a_recipe_is_described_in_whole_sentences_and_its_groups_with_their_branches() -> None:
    page = make_recipes.pages()["how_to/reproduce"][1]
    rows, hours = (
        [row.split(" | ") for row in part.splitlines() if row.startswith("| `")] for part in page.split("## Hardware")
    )
    shown = {row[0].strip("| `"): row for row in rows}
    assert set(shown) == set(recipes())
    assert (
        "128\u00a0×\u00a016\u00a0×\u00a0156" in shown["arpo_wikisearch"]
    )  # group_size 8, filled up to max_trajectories
    for name, text in recipes().items():
        head = " ".join(re.findall(r"^# (?! )(.*)", text, re.M))
        assert head.startswith(shown[name][1] + "."), name
    without_rollouts = {"pica_success_model", "sft_wikisearch"}
    assert {row[0].strip("| `") for row in hours} == set(recipes()) - without_rollouts
    assert "**Every recipe of a paper is unverified.**" in page
    assert all(
        re.fullmatch(r"(?:[\d.,]+ to [\d.,]+|under 0\.1) \([AH]100\) \|", row[-1])
        for row in hours
        if "quickstart" not in row[0]
    )


def test_the_page_of_settings_has_every_section() -> None:
    page = (SITE / "reference" / "settings.md").read_text(encoding="utf-8")
    waiting: list[type] = [TrainConfig]
    for kind in waiting:
        assert f".. autoclass:: {kind.__module__}.{kind.__qualname__}\n" in page
        parts = [part for hint in get_type_hints(kind).values() for part in (hint, *get_args(hint))]
        waiting += [part for part in parts if isinstance(part, type) and is_dataclass(part) and part not in waiting]
    assert page.count("autoclass") == len(waiting) > 20


def test_published_figures_belong_to_recipes() -> None:
    assert set(PUBLISHED) <= set(recipes())

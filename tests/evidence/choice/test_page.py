"""The tables follow from the stored settings, and the audit and the page of options quote them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from evidence.choice.rules import ChoiceCell
from evidence.choice.run import main
from evidence.settings.tables import close, leads_of, level_table

from creditflow.envs.reading.json_text import read_json
from creditflow.train.analyses.audit import Keys
from creditflow.train.analyses.audit_advice import EVIDENCE, RARELY, cautions
from creditflow.train.bench.report.design import design_of, pairs_of
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.tidy import study_results
from creditflow.train.bench.results import read_results
from creditflow.train.bench.studies import Study

FOLDER = Path(__file__).parent
SETTINGS, PROTOCOL = FOLDER.with_name("settings"), FOLDER.with_name("protocol")
CELLS = [ChoiceCell.from_json(row) for row in read_json(FOLDER / "cells.json")["cells"]]
OPTIONS = json.loads((FOLDER / "options.json").read_text(encoding="ascii"))
STUDIES = {study.kind: study for study in map(Study.from_json, OPTIONS["studies"])}
COLUMNS = (
    ("area", "grouptd", "grpo"),
    ("area", "grouptd_relative_8", "grouptd"),
    ("held_out_area", "grouptd_relative_8", "grouptd"),
    ("area", "grouptd_relative_det", "grouptd"),
    ("area", "grouptd_relative_share", "grouptd"),
)


@pytest.mark.slow
def test_tables_are_made_from_the_stored_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path)]) == 0
    capsys.readouterr()
    assert (tmp_path / "choice.txt").read_text("utf-8") == (FOLDER / "choice.txt").read_text("utf-8")


def test_every_number_that_the_audit_quotes_is_one_of_the_verdict() -> None:
    verdict = (FOLDER / "choice.txt").read_text("utf-8")
    runs = [leads_of(SETTINGS / name) for name in ("results.jsonl", "second.jsonl")]
    [suite] = read_results(PROTOCOL / "first.json.gz")["suites"]
    design = design_of(suite)
    assert design is not None
    [pair] = [p for p in pairs_of(design, design.methods) if {p.better, p.worse} == {"grouptd", "graphgpo"}]
    steps = pair.levels["optimiser"]["KL steps"].times(100).mean
    near = [close(leads, "grouptd", lambda _: True) for leads in runs]
    numbers = [near[0][1], 2, near[0][0], near[1][0], round(steps, 1), len(CELLS), len({cell.suite for cell in CELLS})]
    assert [float(number) for number in re.findall(r"\d+(?:\.\d+)?", " ".join(EVIDENCE))] == numbers
    assert "No rule" in verdict
    assert not any(level.low > 0.0 for name, level in pair.levels["optimiser"].items() if name != "KL steps")
    for leads in runs:
        rivals = [close(leads, name, lambda _: True)[0] for name in ("graphgpo", "rewardflow", "g2po", "gigpo", "hgpo")]
        assert max(rivals) < min(near[0][0], near[1][0]) / 2


def test_the_caution_has_the_leads_of_keys_that_never_recur() -> None:
    rows = level_table([leads_of(SETTINGS / name) for name in ("results.jsonl", "second.jsonl")]).splitlines()
    heads = rows[0].strip("| ").split(" | ")
    [cells] = [row.strip("| ").split(" | ") for row in rows if row.startswith("| keys that never recur")]
    leads = {name: cell.split(" ±")[0] for name, cell in zip(heads, cells, strict=True)}
    [caution] = cautions(Keys(10, 0.99, 0.0, 0.0, 0.0, 1.0))
    text = "gained {stateless} points (blend {blend}, grouptd {grouptd}, graphgpo {graphgpo})".format(**leads)
    assert text.replace("+", "") in caution


def test_states_that_hardly_recur_call_for_caution_as_in_the_two_settings_that_were_measured() -> None:
    rare = [cell for cell in CELLS if cell.features.repeated < RARELY]
    ahead = {cell.areas["grouptd_relative"] > cell.areas["grpo"] for cell in rare}
    assert (len(rare), ahead) == (2, {True, False})
    assert min(cell.features.repeated for cell in CELLS if cell not in rare) > 0.3


def test_keys_that_never_repeat_and_aliased_keys_show_in_the_features() -> None:
    cells = [cell for cell in CELLS if "shared" in cell.suite]
    fresh = [cell.features for cell in cells if "fresh keys" in cell.title]
    aliased = [cell.features for cell in cells if "aliased keys" in cell.title]
    random = ("slip", "trapdoors")  # one action has several results there, whatever the keys
    certain = [cell for cell in cells if not any(kind in cell.title for kind in random)]
    distinct = [cell.features for cell in certain if "keys" not in cell.title]
    assert max(f.repeated for f in fresh) < 0.35 < min(f.repeated for f in distinct)
    assert min(f.conflicted for f in aliased) > 0.0 == max(f.conflicted for f in distinct)


def test_controls_and_annotated_schemes_are_no_candidates() -> None:
    names = {name for cell in CELLS for name in cell.areas}
    assert not [name for name in names if "(" in name or "[" in name or name in ("oracle_adv", "stateless")]


@pytest.mark.parametrize("kind", STUDIES)
def test_the_page_repeats_every_difference_between_options(kind: str) -> None:
    cells = []
    for endpoint, method, rival in COLUMNS:
        lead = Estimate.of(study_results([STUDIES[kind]]).mean(endpoint, method, rival))
        cells.append(Estimate(100 * lead.mean, 100 * lead.low, 100 * lead.high).text(1, "+").replace("-", "−"))
    assert f"| {kind} | {' | '.join(cells)} |" in (FOLDER / "README.md").read_text(encoding="utf-8")

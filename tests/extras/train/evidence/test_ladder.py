"""The ladder of sizes: its page has the table of its stored rows, and one of them is measured again."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from evidence.ladder import run

from creditflow.train.bench.language_model.suite.run import learn, warm_up
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.statistics import crossed_mean

STUDY = Path(run.__file__).parent
ROWS = [json.loads(line) for line in (STUDY / "results.jsonl").read_text("utf-8").splitlines()]


def leads(family: str, size: str, method: str, other: str = "grpo") -> list[float]:
    first, second = (run.areas(ROWS, family, size, name) for name in (method, other))
    return [first[seed] - second[seed] for seed in second if seed in first]


def lead(family: str, size: str, method: str, other: str = "grpo") -> float:
    return float(np.mean(leads(family, size, method, other)))


CELLS = list(product(run.FAMILIES, run.SIZES))
SCHEMES = [name for name in run.METHODS[1:] if name not in ("stateless", "oracle_adv")]


def test_the_page_has_the_tables_of_the_stored_rows() -> None:
    page = (STUDY / "README.md").read_text("utf-8")
    for text in (
        run.table(ROWS),
        run.pooled(ROWS),
        run.trends(ROWS),
        run.by_rate(ROWS),
        run.by_setting(ROWS),
        run.by_setting(ROWS, "stateless"),
    ):
        assert text in page


def test_every_setting_is_another_one_with_the_same_tasks() -> None:
    works = {name: run.work_of("0.1", 400, setting=name) for name in run.SETTINGS}
    assert len({(work.form, work.learning) for work in works.values()}) == len(works)
    assert len({(work.task_seed, work.pool, work.size) for work in works.values()}) == 1


def test_rows_at_another_rate_or_in_another_setting_are_not_in_the_tables_of_sizes() -> None:
    for change in ({"rate": 3.0}, {"setting": "plan"}):
        other = [row | {"held_out": [0.0] * 5} | change for row in ROWS]
        assert run.table([*ROWS, *other]) == run.table(ROWS)


def test_an_unfinished_last_line_is_removed_and_its_job_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, whole = tmp_path / "results.jsonl", (STUDY / "results.jsonl").read_text("utf-8")
    file.write_text(whole + '{"job":["0.1","pi', encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["run.py", "--out", str(file), "--table"])
    assert run.main() == 0
    assert run.table(ROWS) in capsys.readouterr().out
    assert file.read_text("utf-8") == whole


@pytest.mark.parametrize(
    ("option", "known"), [("sizes", "0.1, 0.4"), ("settings", "standard, letters"), ("methods", "grpo, g")]
)
def test_a_name_that_does_not_exist_gets_the_list_of_those_that_do(
    option: str, known: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["run.py", "--out", str(tmp_path / "results.jsonl"), f"--{option}", "nothing"])
    with pytest.raises(SystemExit):
        run.main()
    assert f"argument --{option}: expected names of {known}" in capsys.readouterr().err


def test_outcomes_of_the_predictions_are_those_of_the_stored_rows() -> None:
    assert all(lead("pits", size, "grouptd") > 0.0 for size in run.SIZES)  # L1
    assert lead("pits", "0.4", "grouptd") > lead("pits", "0.1", "grouptd") / 2  # L2
    assert lead("sokoban", "0.4", "grouptd") < lead("sokoban", "0.1", "grouptd") / 2
    apart = [cell for cell in CELLS if abs(lead(*cell, "grouptd", "graphgpo")) > 3.0]
    assert apart == [("pits", "1.6"), ("pits", "20"), ("sokoban", "20")]  # L3
    assert [cell for cell in CELLS if lead(*cell, "stateless") <= 0.0] == [("pits", "6")]  # L4
    assert sum(lead(*cell, "stateless", "grouptd") > 0.0 for cell in CELLS) == 4
    assert lead("sokoban", "1.6", "grouptd") < lead("sokoban", "0.1", "grouptd")  # L5
    assert lead("pits", "1.6", "grouptd") > lead("pits", "0.1", "grouptd")
    assert [cell for cell in CELLS if lead(*cell, "g2po") <= 0.0] == [("pits", "6")]  # L6
    assert all(abs(lead(*cell, "g2po", "graphgpo")) < 4.0 for cell in CELLS)
    assert all(lead(family, size, "grouptd") > 0.0 for family in run.FAMILIES for size in run.LARGE)  # L8
    for size, scheme in product(("1.6", *run.LARGE), SCHEMES):  # L7, L9
        pairs = [leads(family, size, scheme, "stateless") for family in run.FAMILIES]
        assert not all(Estimate.of(crossed_mean(np.array(pair)[:, None])).low > 0.0 for pair in pairs)
    assert sum(lead(*cell, "blend", "grouptd") > 0.0 for cell in CELLS) == 6  # L10
    apart = [cell for cell in CELLS if abs(lead(*cell, "blend", "grouptd")) > 2.0]
    assert apart == [("pits", "60"), ("sokoban", "20"), ("sokoban", "60")]
    assert all(lead(*cell, "oracle_adv") > lead(*cell, name) for cell in CELLS for name in run.METHODS[1:-1])  # L12


def test_leads_at_other_rates_are_those_that_the_page_says() -> None:
    methods, rates = ("grpo", "grouptd", "stateless"), (0.3333, 1.0, 3.0)
    areas = {
        (family, method, rate): run.areas(ROWS, family, "1.6", method, rate=rate)
        for family, method, rate in product(run.FAMILIES, methods, rates)
    }
    mean = {cell: np.mean([*of_cell.values()]) for cell, of_cell in areas.items()}
    for family, rate in product(run.FAMILIES, rates):
        first, control = areas[family, "grouptd", rate], areas[family, "stateless", rate]
        assert len(areas[family, "grpo", rate]) == len(first) == len(control) == 5
        assert mean[family, "grpo", rate] < min(mean[family, "grouptd", rate], mean[family, "stateless", rate])  # L13
        apart = Estimate.of(crossed_mean(np.array([first[seed] - control[seed] for seed in first])[:, None]))
        assert apart.low < 0.0 < apart.high
    for family in run.FAMILIES:
        starts = [row["held_out"][0] for row in ROWS if row["job"][:2] == ["1.6", family] and row["job"][3] == "grpo"]
        start = 100.0 * np.mean(starts)
        assert mean[family, "grpo", 3.0] < start < min(mean[family, "grouptd", 3.0], mean[family, "stateless", 3.0])
        for method, rate in product(("grpo", "grouptd"), (0.3333, 3.0)):
            assert mean[family, method, rate] < mean[family, method, 1.0]


def over_families(setting: str, method: str, other: str = "grpo") -> Estimate:
    """A method's area minus another's in a setting at the smallest size, mean of both families, over seeds."""
    by_family = [
        {name: run.areas(ROWS, family, "0.1", name, setting) for name in (method, other)} for family in run.FAMILIES
    ]
    seeds = sorted(by_family[0][method])
    leads = [np.mean([of[method][seed] - of[other][seed] for of in by_family]) for seed in seeds]
    return Estimate.of(crossed_mean(np.array(leads)[:, None]))


def test_outcomes_of_the_predictions_about_settings_are_those_of_the_stored_rows() -> None:
    forms, others = ("letters", "plan", "history"), tuple(run.SETTINGS)[1:]
    assert all(over_families(setting, "grouptd").low > 0.0 for setting in others)  # N1
    ahead = [setting for setting in forms if over_families(setting, "grouptd", "stateless").low > 0.0]  # N2
    assert ahead == ["letters", "plan"]
    assert all(over_families(setting, "grouptd", "stateless").mean > 0.0 for setting in forms)
    assert all(over_families("fresh keys", scheme, "stateless").low < 0.0 for scheme in SCHEMES)  # N3
    lead = {setting: over_families(setting, "grouptd").mean for setting in run.SETTINGS}
    assert lead["merged keys"] < lead[run.STANDARD]  # N4, unpaired
    assert lead["wrong outcomes"] < lead[run.STANDARD]  # N5
    for setting in forms:  # N6
        assert over_families(setting, "grouptd", "graphgpo").mean > 0.0 < over_families(setting, "graphgpo").mean
    apart = {setting: over_families(setting, "blend", "grouptd").mean for setting in others}  # N7
    assert [setting for setting, mean in apart.items() if abs(mean) > 2.0] == ["wrong outcomes"]
    assert apart["fresh keys"] > 0.0
    for setting, method in product(run.SETTINGS, run.METHODS[1:-1]):  # N8
        assert over_families(setting, "oracle_adv", method).mean > 0.0
    assert over_families("plan", "oracle_adv").mean > over_families(run.STANDARD, "oracle_adv").mean  # N9


def test_the_verdict_quotes_the_leads_of_the_forms_of_a_turn() -> None:
    page = STUDY.parents[2] / "assets" / "site" / "pages" / "benchmark" / "verdict.md"
    verdict = " ".join(page.read_text("utf-8").split())
    rows = {"plan": "plan two moves first", "letters": "spell their actions", "history": "see their last action"}
    for setting, title in rows.items():
        leads = [over_families(setting, method).text(1) for method in ("graphgpo", "grouptd", "stateless")]
        assert f"| language models that {title} | +{' | +'.join(leads)} |" in verdict
    ahead = {name: cells for name, *cells in (line.strip("| ").split(" | ") for line in run.pooled(ROWS).splitlines())}
    text = (
        "over all sizes `grouptd` is {} points ahead of this control and `blend` {}, and from 7.4 million on no scheme"
    )
    assert text.format(*(ahead[name][2].replace("+", "") for name in ("grouptd", "blend"))) in verdict
    assert f"The exact advantage is ahead of it by {ahead['oracle_adv'][3].replace('+', '')} points there" in verdict


def test_methods_that_read_no_keys_do_not_depend_on_them() -> None:
    for family, method, seed in product(run.FAMILIES, ("grpo", "stateless", "oracle_adv"), range(400, 405)):
        rows = [
            row
            for row in ROWS
            if row["job"] == ["0.1", family, seed, method] and row.get("setting", "").endswith("keys")
        ]
        assert len(rows) == 2
        assert rows[0]["held_out"] == rows[1]["held_out"]


def test_a_job_measured_again_equals_its_stored_row() -> None:
    """The start to four digits. Updates amplify the last bits, in which processors differ."""
    row = next(row for row in ROWS if row["job"] == ["0.1", "pits", 400, "stateless"])
    work = run.work_of("0.1", 400)
    curve = learn("pits", 400, "stateless", work, "cpu", warm_up("pits", 400, work, "cpu")["parameters"])
    for name in ("train", "held_out"):
        again = [float(np.mean(point[name]["sampled"])) for point in curve]
        assert again[0] == pytest.approx(row[name][0], abs=1e-4), name
        assert again == pytest.approx(row[name], abs=2e-3), name

"""Cells of stored runs, and the rules that the package ships: made by the committed command from the committed cells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.shared_data import ROOT

from creditflow.envs.errors import DataError
from creditflow.envs.reading.json_text import read_json
from creditflow.train.bench.results import read_results
from creditflow.train.choice.cell import ChoiceCell
from creditflow.train.choice.fit import main
from creditflow.train.choice.runs import cells_of_run

FOLDER = ROOT / "tests" / "evidence" / "choice"
TABLES = ROOT / "tests" / "evidence" / "schemes" / "tables.json.gz"
SHARED = ROOT / "tests" / "evidence" / "schemes" / "shared.json.gz"


def stored() -> list[ChoiceCell]:
    return [ChoiceCell.from_json(row) for row in read_json(FOLDER / "cells.json")["cells"]]


def one_part(path: Path, key: str, *places: int) -> dict[str, Any]:
    """A run with some of its cells or studies."""
    document = read_results(path)
    [suite] = document["suites"]
    return document | {"suites": [suite | {key: [suite[key][i] for i in places]}]}


def test_shipped_rules_and_tables_are_made_from_the_stored_cells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asset = tmp_path / "choice.json"
    main(["--cells", str(FOLDER / "cells.json"), "--out", str(tmp_path), "--asset", str(asset)])
    capsys.readouterr()
    assert (tmp_path / "choice.txt").read_text("utf-8") == (FOLDER / "choice.txt").read_text("utf-8")
    assert asset.read_text("utf-8") == (ROOT / "assets" / "schemes" / "choice.json").read_text("utf-8")
    assert (tmp_path / "cells.json").read_text("utf-8") == (FOLDER / "cells.json").read_text("utf-8")


def test_a_table_cell_is_sampled_again_as_it_is_stored() -> None:
    [made] = cells_of_run(one_part(TABLES, "cells", 0), suite="tables")
    known = {(cell.suite, cell.title): cell for cell in stored()}
    assert made.to_json() == known[made.suite, made.title].to_json()
    assert "grouptd_base" in made.areas
    assert "grouptd" not in made.areas


def test_a_shared_cell_is_sampled_again_as_it_is_stored() -> None:
    [made] = cells_of_run(one_part(SHARED, "studies", 0), suite="shared")
    known = {(cell.suite, cell.title): cell for cell in stored()}
    assert made.to_json() == known[made.suite, made.title].to_json()
    assert made.features.success == pytest.approx(0.25, abs=0.1)


def test_keys_that_never_repeat_and_aliased_keys_show_in_the_features() -> None:
    cells = [cell for cell in stored() if "shared" in cell.suite]
    fresh = [cell.features for cell in cells if "fresh keys" in cell.title]
    aliased = [cell.features for cell in cells if "aliased keys" in cell.title]
    random = ("slip", "trapdoors")  # one action has several results there, whatever the keys
    certain = [cell for cell in cells if not any(kind in cell.title for kind in random)]
    distinct = [cell.features for cell in certain if "keys" not in cell.title]
    assert max(f.repeated for f in fresh) < 0.35 < min(f.repeated for f in distinct)
    assert min(f.conflicted for f in aliased) > 0.0 == max(f.conflicted for f in distinct)


def test_a_run_whose_preset_changed_is_refused() -> None:
    document = one_part(SHARED, "studies", 0)
    document["suites"][0]["studies"][0] = document["suites"][0]["studies"][0] | {"size": 5}
    with pytest.raises(DataError, match="has no cell"):
        cells_of_run(document, suite="shared")


def test_controls_and_annotated_schemes_are_no_candidates() -> None:
    names = {name for cell in stored() for name in cell.areas}
    assert not [name for name in names if "(" in name or "[" in name or name in ("oracle_adv", "stateless")]
    assert json.dumps(sorted(names))

"""A credit set can contain turns of a neural language model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from creditflow.train.cli import main


def test_turns_of_a_trained_model_are_recorded_with_its_responses(tmp_path: Path, config: dict[str, Any]) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config | {"update": {"iterations": 0}, "checkpoint": {"every": 1, "keep": 0}}))
    assert main(["train", str(path)]) == 0
    model, out = f"hf:{config['out']}/model", tmp_path / "set.jsonl"
    command = ["data", "build", "credit-set", "--envs", "sokoban", "--turns", "8", "--agent", model, "--workers", "1"]
    assert main([*command, "--out", str(out)]) == 0
    first, *records = [json.loads(line) for line in out.read_text().splitlines()]
    assert first["settings"]["agents"][0]["model"].startswith("blake2b:")
    turns = [record for record in records if record["policy"] == model]
    assert len(turns) == 2
    for turn in turns:
        assert turn["response"]
        assert turn["kind"] == "exact"
        assert turn["valid"] == (turn["action"] in ("up", "down", "left", "right"))
    again = tmp_path / "again.jsonl"
    assert main([*command, "--out", str(again)]) == 0
    assert again.read_bytes() == out.read_bytes()

"""Tokenizers without end or padding tokens, or with one token for both: training is that of the same tokenizer with all of them.

The chat template ends a turn with a token of its own, and a plain chat with a line break, so nothing else is needed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.models.pretrained import pretrained_folder
from helpers.models.training_runs import Make, metrics, same, weights

FILES = ("tokenizer_config.json", "config.json", "generation_config.json")
TEMPLATE_END = "<|end|>"
VARIANTS: dict[str, dict[str, Any]] = {
    "no end token": {"eos_token": None, "eos_token_id": None},
    "no padding token": {"pad_token": None, "pad_token_id": None},
    "neither": {"eos_token": None, "eos_token_id": None, "pad_token": None, "pad_token_id": None},
    # of the tokenizer alone: the embedding of the token that a model's config names as padding has no gradient in transformers
    "padding is the end": {"pad_token": TEMPLATE_END},
}


def altered(folder: Path, changes: dict[str, Any]) -> Path:
    """A model folder whose files name other special tokens, or none."""
    pretrained_folder(folder)
    for name in FILES:
        path = folder / name
        settings = json.loads(path.read_text("utf-8"))
        for key, value in changes.items():
            if key in settings and value is None:
                del settings[key]
            elif key in settings:
                settings[key] = value
        path.write_text(json.dumps(settings), encoding="utf-8")
    return folder


def trained(trainer_of: Make, config: dict[str, Any], folder: Path, chat: str) -> tuple[Any, Any]:
    """Weights and metrics after imitation and two updates."""
    prompting = config["prompting"] | {"chat": chat}
    data = config | {
        "out": str(folder.with_name(f"{folder.name}-run")),
        "model": {"path": str(folder)},
        "prompting": prompting,
    }
    run = trainer_of(data, "update.iterations=2", "update.loss.entropy_weight=0.5")
    run.run()
    return weights(run), metrics(run)


@pytest.mark.parametrize("chat", ["template", "plain"])
def test_training_needs_no_special_token_of_the_tokenizer(
    chat: str, trainer_of: Make, config: dict[str, Any], tmp_path: Path
) -> None:
    reference = trained(trainer_of, config, altered(tmp_path / "reference", {}), chat)
    for name, changes in VARIANTS.items():
        if chat == "plain" and "eos_token" in changes:
            continue  # with an end token a plain completion may end by it too, so that other texts are sampled
        found = trained(trainer_of, config, altered(tmp_path / name.replace(" ", "-"), changes), chat)
        assert same(found[0], reference[0]), name
        assert found[1] == reference[1], name


def test_a_plain_chat_without_an_end_token_ends_at_the_line_break_or_the_limit(
    trainer_of: Make, config: dict[str, Any], tmp_path: Path
) -> None:
    found, records = trained(trainer_of, config, altered(tmp_path / "neither", VARIANTS["neither"]), "plain")
    assert all(bool(tensor.isfinite().all()) for tensor in found.values())
    assert len(records) >= 2

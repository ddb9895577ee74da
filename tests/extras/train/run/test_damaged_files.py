"""Model folders, checkpoints, settings: a damaged file is read or rejected with one of our errors, never with another exception."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.hostile_files import refusals, worse_file

from creditflow.agents.language_model.pretrained import open_pretrained, open_tokenizer
from creditflow.envs.errors import CreditflowError, DataError
from creditflow.train.policy.checkpoint import latest_checkpoint, load_checkpoint
from creditflow.train.policy.critic import Critic, open_critic, save_critic
from creditflow.train.run.metrics_log import read_metrics
from creditflow.train.settings.overrides import apply_overrides
from creditflow.train.settings.reading import load_mapping
from creditflow.train.settings.schema import CriticConfig
from creditflow.train.trainer import Trainer

Make = Callable[..., Trainer]
SETTINGS = """\
out: runs/x
seed: 3
env: {name: sokoban, options: {levels: l.txt, max_steps: 5}}
update:
  iterations: 3
  optimizer: {lr: 1e-3, betas: [0.9, 0.99]}
"""


def worse_folders(good: Path, read: Callable[[Path], object], tries: int, seed: int) -> int:
    """Number of copies of a folder with one damaged file that are rejected; an exception other than our errors propagates."""
    names, refused = sorted(path.name for path in good.iterdir()), 0
    for number in range(tries):
        rng = np.random.default_rng([seed, number])
        folder = good.with_name(f"worse-{seed}")
        shutil.copytree(good, folder)
        path = folder / names[number % len(names)]
        path.write_bytes(worse_file(path.read_bytes(), rng))
        try:
            read(folder)
        except CreditflowError as error:
            assert str(folder) in str(error)
            refused += 1
        except Exception as error:
            error.add_note(f"seed {seed}, number {number}: {path.name}")
            raise
        finally:
            shutil.rmtree(folder)
    return refused


def test_a_damaged_adapter_is_opened_or_rejected_by_name(
    trainer_of: Make, config: dict[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("peft", reason="needs the extra [lora]")
    from helpers.models.pretrained import pretrained_folder

    base = pretrained_folder(tmp_path / "base")
    data = config | {"model": {"path": str(base), "lora": {"rank": 2}}, "sft": {"episodes": 0}}
    run = trainer_of(data, "update.iterations=0")
    run.run()
    assert worse_folders(run.folder / "adapter", lambda path: open_pretrained(str(path), device="cpu"), 45, seed=5)


@pytest.mark.parametrize("classes", [{"AutoConfig": "own.Config"}, {"AutoTokenizer": ["own.Tokenizer", None]}])
def test_code_in_a_model_folder_is_never_run_whatever_is_answered(
    classes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from helpers.models.pretrained import pretrained_folder

    monkeypatch.setattr("builtins.input", lambda *_: "y")  # transformers asks at a terminal
    folder = Path(pretrained_folder(tmp_path / "model"))
    (folder / "own.py").write_text("raise SystemExit('code of the folder has run')", encoding="ascii")
    for name, more in (("config.json", {"model_type": "own"}), ("tokenizer_config.json", {"tokenizer_class": "Own"})):
        if ("Config" in str(classes)) == (name == "config.json"):
            file = folder / name
            file.write_text(json.dumps(json.loads(file.read_text()) | more | {"auto_map": classes}), encoding="ascii")
    with contextlib.suppress(DataError):  # SystemExit is none; a tokenizer may be opened without its class
        open_pretrained(str(folder), device="cpu")


def test_damaged_models_and_checkpoints_are_opened_or_rejected_by_name(
    trainer_of: Make, config: dict[str, Any], tmp_path: Path
) -> None:
    trainer = trainer_of(config, "update.iterations=1")
    trainer.run()
    folder = trainer.folder
    assert worse_folders(folder / "model", lambda path: open_pretrained(str(path), device="cpu"), 60, seed=1)

    model, _ = open_pretrained(str(folder / "model"), device="cpu")
    optimizer = torch.optim.AdamW(model.parameters())
    last = latest_checkpoint(folder / "checkpoints")
    assert last is not None
    assert worse_folders(last, lambda path: load_checkpoint(path, model, optimizer), 60, seed=2)

    save_critic(Critic(CriticConfig(kind="separate"), model.get_decoder()), tmp_path / "critic")
    assert worse_folders(tmp_path / "critic", lambda path: open_critic(path, torch.device("cpu")), 30, seed=3)

    metrics = tmp_path / "metrics.jsonl"
    shutil.copy(trainer.logger.path, metrics)
    assert refusals(metrics, metrics.read_bytes(), lambda: read_metrics(metrics), 200, seed=4)


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_damaged_settings_are_read_or_rejected_by_name(tmp_path: Path, suffix: str) -> None:
    good = {
        "yaml": SETTINGS,
        "json": '{"out": "x", "seed": 3, "env": {"name": "sokoban", "options": {"max_steps": 5}}}',
    }[suffix]
    path = tmp_path / f"c.{suffix}"

    def read() -> None:
        apply_overrides(load_mapping(path), ["a=1"])

    path.write_text(good)
    read()
    assert refusals(path, good.encode(), read, 400, seed=5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2", "the key 'a' already occurs in line 1"),
        ("a: &x [1]\nb: *x", r"aliases \(\*x\) are not supported"),
        ("a: !!set {x, y}", "is not supported"),
        ("a: !!binary aGk=", "is not supported"),
        ("a: !!timestamp 2024-01-01", "is not supported"),
        ("a: !!python/object:os.system x", "is not supported"),
        ("a: " + "9" * 5_000, "limit"),
        ("a: 0b" + "1" * 900, "more than 100 digits"),
        ("a: .inf", "non-finite"),
        ("a: " + "[" * 40 + "]" * 40, "nested deeper than 32 levels"),
        ("? [a]\n: 1", "expected a string as key"),
        ("1: 2", "expected strings as keys"),
        ("[a, b]", "expected a mapping of settings"),
        ("a: [", "not YAML"),
        ("a: " + "x" * 2**18, "more than 262,144 bytes"),
    ],
)
def test_yaml_beyond_what_settings_need_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        load_mapping(tmp_path / "c.yaml")
    assert str(caught.value).startswith(str(tmp_path / "c.yaml"))


def test_a_date_without_tag_is_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("name: 2024-01-01\ntimes: [1e-6, 12, 0x1f, yes, null, 'a', &b x]")
    assert load_mapping(tmp_path / "c.yaml") == {"name": "2024-01-01", "times": ["1e-6", 12, 31, True, None, "a", "x"]}


@pytest.mark.parametrize("number", [2**32, -1, 10**30, "7", None])
def test_a_token_id_that_no_library_can_tabulate_is_rejected(
    trainer_of: Make, config: dict[str, Any], tmp_path: Path, number: object
) -> None:
    folder = trainer_of(config).folder / "tokenizer"
    data = json.loads((folder / "tokenizer.json").read_text())
    data["model"]["vocab"][next(iter(data["model"]["vocab"]))] = number
    (folder / "tokenizer.json").write_text(json.dumps(data))
    with pytest.raises(DataError, match=r"tokenizer\.json: a token id must be an integer from 0"):
        open_tokenizer(folder)


def test_a_tokenizer_larger_than_the_embedding_is_refused_unless_no_text_has_the_token(tmp_path: Path) -> None:
    from helpers.models.pretrained import pretrained_folder

    folder = str(pretrained_folder(tmp_path / "model"))
    model, tokenizer = open_pretrained(folder, device="cpu")
    while len(tokenizer) <= model.get_input_embeddings().weight.shape[0]:
        tokenizer.add_tokens([f"<|{len(tokenizer)}|>"])
    tokenizer.save_pretrained(folder)
    open_pretrained(folder, device="cpu")  # an added token that no template writes
    beyond = tokenizer.convert_ids_to_tokens(len(tokenizer) - 1)
    for name, value, before in (
        ("chat_template", f"{{{{ messages[0].content }}}}{beyond}", None),
        ("pad_token", beyond, tokenizer.pad_token),
    ):
        setattr(tokenizer, name, value)
        tokenizer.save_pretrained(folder)
        with pytest.raises(CreditflowError, match="1 tokens of its tokenizer lie beyond"):
            open_pretrained(folder, device="cpu")
        setattr(tokenizer, name, before)
    model.resize_token_embeddings(8)
    model.save_pretrained(folder)
    with pytest.raises(CreditflowError, match="embedding has 8 rows"):
        open_pretrained(folder, device="cpu")

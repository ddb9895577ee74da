"""Every shipped recipe passes a dry run without network, and every line of a published one names its source."""

from __future__ import annotations

import argparse
import re
import socket
import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError
from creditflow.train.commands import train
from creditflow.train.dry_run import describe
from creditflow.train.rollout.tasks import needs_texts
from creditflow.train.settings.reading import load_mapping
from creditflow.train.settings.schema import load_settings
from creditflow.wrappers import credit
from creditflow.wrappers.canonical import sentence_embedder

FOLDER = Path(__file__).parents[4] / "train" / "configs"
RECIPES = sorted(FOLDER.glob("*.yaml"))
PUBLISHED = [path for path in RECIPES if path.stem not in ("quickstart", "instruct") and "smollm2" not in path.stem]


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a dry run opened a connection")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_passes_a_dry_run_without_network(
    path: Path, no_network: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    out = tmp_path / "run"
    assert train.run(parser.parse_args([str(path), "--dry-run", "--set", f"out={out}"])) == 0
    printed = capsys.readouterr()
    assert f"out: {out}" in printed.out
    if load_mapping(path).get("kind", "policy") == "policy":
        estimated = "hours are estimated for GPUs only" if "device: cpu" in printed.out else "# GPU hours: "
        assert "iterations of" in printed.err
        assert estimated in printed.err
    assert not out.exists()


# by recipe, settings that a comment changes together
COMMENTED: dict[str, list[tuple[str, ...]]] = {
    "egrpo_wikisearch": [("model.path=Qwen/Qwen3-30B-A3B-Instruct-2507", "update.loss.aggregation=token_mean")],
    "graphgpo_alfworld": [("credit.parameters.merge=hf:intfloat/e5-base-v2",)],
    "graphgpo_webshop": [("credit.parameters.merge=hf:intfloat/e5-base-v2",)],
    "instruct": [("model.path=DIR_OR_NAME",)],
    "pica_success_model": [("loss.kind=paper", "text.read=result")],
    "pica_wikisearch": [
        ("model.path=Qwen/Qwen3-4B",),
        ("model.path=meta-llama/Llama-3.1-8B-Instruct",),
        ("credit.semantics=paper", "credit.parameters.step_baseline=0", "credit.parameters.final=outcome"),
    ],
    "rewardflow_wikisearch": [
        ("credit.parameters.key=text", "credit.parameters.merge_text=observation",
         "credit.parameters.merge=hf:intfloat/e5-base-v2"),
    ],
    "sapo_wikisearch": [("model.path=Qwen/Qwen3-30B-A3B-Thinking-2507",)],
    "smollm2_sokoban": [
        ("model.autocast=bfloat16", "rollout.dtype=bfloat16", "update.batch_tokens=65536", "rollout.tasks=32",
         "update.iterations=48"),
    ],
}  # fmt: skip


class LetterCounts:
    """An encoder of texts that needs no model."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        counts = np.array([[1 + text.count(letter) for letter in string.ascii_lowercase] for text in texts], np.float32)
        normed: NDArray[np.float32] = counts / np.linalg.norm(counts, axis=1, keepdims=True)
        return normed


@pytest.mark.parametrize(
    ("name", "overrides"), [(name, overrides) for name, several in COMMENTED.items() for overrides in several]
)
def test_a_recipe_passes_a_dry_run_with_what_its_comments_change(
    name: str, overrides: tuple[str, ...], no_network: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the encoders that recipes name are not on this machine
    monkeypatch.setattr(sentence_embedder, "SentenceEmbedder", lambda _: LetterCounts())
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    changes = [word for override in (*overrides, f"out={tmp_path / 'run'}") for word in ("--set", override)]
    assert train.run(parser.parse_args([str(FOLDER / f"{name}.yaml"), "--dry-run", *changes])) == 0


def test_the_comment_about_vllm_is_read_as_it_is_written() -> None:
    overrides = ("generation.backend=vllm", "generation.vllm={memory: 0.3, sleep: true}")
    settings = load_settings(FOLDER / "ragen_sokoban.yaml", overrides)
    assert (settings.generation.backend, settings.generation.vllm.memory) == ("vllm", 0.3)


def test_every_change_that_a_comment_writes_is_one_of_those_that_are_run() -> None:
    run = {override.partition("=")[0] for several in COMMENTED.values() for one in several for override in one}
    run |= {"generation.backend", "generation.vllm"}
    for path in RECIPES:
        comments = " ".join(re.findall(r"#(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE))
        written = set(re.findall(r'--set "?([\w.]+)=', comments))
        written -= {"verl.gpus", "released"}  # of verl's engine, and of the annotator that reads the model
        assert written <= run, path.name


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_every_line_of_a_published_recipe_names_its_source(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if not line.strip() or line.lstrip().startswith("#") or re.fullmatch(r"\s*\w+:", line):
            continue  # nothing, a comment, or the head of a section
        below = lines[number + 1].lstrip() if number + 1 < len(lines) else ""
        assert "  # " in line or below.startswith("# ^ "), f"{path.name}:{number + 1} names no source: {line}"


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_whose_base_has_16_bits_computes_under_autocast(path: Path) -> None:
    """Otherwise peft computes the adapter, and the layers that it adds to, in float32."""
    model = load_mapping(path).get("model", {})
    if model.get("lora", {}).get("base_dtype") == "bfloat16":
        assert model["autocast"] == "bfloat16"


def test_the_two_recipes_of_pica_are_one_chain() -> None:
    """The second reads the model that the first writes, in the released form that it is trained for."""
    model, policy = load_mapping(FOLDER / "pica_success_model.yaml"), load_mapping(FOLDER / "pica_wikisearch.yaml")
    assert policy["credit"]["annotators"] == [f"success:{model['out']}/model"]
    assert (policy["credit"]["semantics"], model["loss"]["kind"]) == ("release", "hazard")
    assert policy["env"]["options"]["max_result_tokens"] == model["text"]["observation_tokens"] == 800
    commands = (FOLDER / "pica_success_model.yaml").read_text(encoding="utf-8")
    for file in (model["data"]["log"], model["data"]["labels"]):
        assert f"--out {file}" in commands


def test_there_is_a_recipe_for_every_method_on_the_environments_of_its_paper() -> None:
    interactive = {
        f"{scheme}_{env}"
        for scheme in ("gigpo", "graphgpo", "rewardflow")
        for env in ("alfworld", "webshop", "sokoban")
    }
    search = {f"{name}_wikisearch" for name in
              ("gigpo", "rewardflow", "sapo", "egrpo", "stepsearch", "search_r1_grpo", "search_r1_ppo", "pica",
               "gspo", "dapo", "dr_grpo", "arpo", "r1_instruct")}  # fmt: skip
    interactive |= {"steppo_alfworld", "ppo_alfworld", "ppo_webshop"}
    assert interactive | search <= {path.stem for path in RECIPES}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("prompting.prompt=thnik-v1",), "did you mean 'think-v1'"),
        (("prompting.dialect=thnk",), "did you mean 'think'"),
        (("model.path=no such/name/at all",), "neither a folder nor the name"),
        (("model.path=Some/Name", "prompting.chat=tmplate"), "did you mean 'template'"),
        (("credit.annotators=[likelyhood:DIR]",), "did you mean 'likelihood'"),
        (("credit.annotators=[likelihood]",), "write likelihood:"),
        (("credit.annotators=[oracle:x]",), "annotator 'oracle' takes no argument, got 'x'"),
        (("credit.scheme=egrpo",), "cannot score 'sokoban' tasks"),
        (("env.options.obs_mode=grid",), "shows a text, but this environment's observations are ndarray"),
    ],
)
def test_a_dry_run_finds_errors_that_would_stop_a_rollout(
    config: dict[str, Any], settings_of: Callable[..., Any], overrides: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        describe(settings_of(config, *overrides))


@pytest.mark.parametrize(
    ("scheme", "history", "kept"), [("gigpo", "append", False), ("gigpo", "window", True), ("egrpo", "append", True)]
)
def test_rollouts_keep_their_texts_where_prompts_or_the_scheme_read_them(
    config: dict[str, Any], settings_of: Callable[..., Any], scheme: str, history: str, kept: bool
) -> None:
    assert needs_texts(settings_of(config, f"prompting.history={history}"), credit.make(scheme)) is kept

"""Text encoders as embedders: mean pooling, no download, an error that names the near model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.adapters.verl.credit import CreditSettings
from creditflow.train.annotate.scheme import make_scheme
from creditflow.train.rollout.tasks import needs_texts
from creditflow.train.run.metrics_log import read_metrics
from creditflow.train.settings.reading import read_dataclass
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers import credit
from creditflow.wrappers.canonical.merge import merged_group, similar_states
from creditflow.wrappers.canonical.sentence_embedder import SentenceEmbedder, model_folder
from creditflow.wrappers.credit.merged import MergedByModel
from creditflow.wrappers.trajectory import Group, StopReason, Trajectory, Turn

WORDS = ["[PAD]", "[UNK]", "a", "red", "blue", "mug", "lamp", "on", "the", "shelf", "today"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random encoder of eight dimensions with eleven words."""
    torch.manual_seed(0)
    where = tmp_path_factory.mktemp("models") / "tiny-encoder"
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, WORDS[1]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = dict(zip(("pad_token", "unk_token"), WORDS[:2], strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=12, **special).save_pretrained(where)
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=12,
    )  # fmt: skip
    BertModel(config).save_pretrained(where)
    return where


def test_a_text_is_the_mean_of_its_tokens_states_whatever_is_padded_beside_it(folder: Path) -> None:
    texts = ["a red mug", "the lamp on the shelf today", "mug"]
    together = SentenceEmbedder(str(folder)).embed(texts)
    network = BertModel.from_pretrained(folder).eval()
    for row, text in zip(together, texts, strict=True):
        ids = torch.tensor([[WORDS.index(word) for word in text.split()]])
        with torch.no_grad():
            mean = network(input_ids=ids).last_hidden_state[0].mean(dim=0).numpy()
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=1e-5)
    alone = SentenceEmbedder(str(folder), batch=1).embed(texts)
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_long_texts_are_cut_and_no_texts_are_no_rows(folder: Path) -> None:
    embedder = SentenceEmbedder(str(folder))
    cut, whole = embedder.embed(["mug " * 12 + "lamp " * 40, "mug " * 12])
    np.testing.assert_allclose(cut, whole, atol=1e-5)
    assert embedder.embed([]).shape == (0, 8)


def test_a_prefix_stands_before_every_text(folder: Path) -> None:
    with_prefix = SentenceEmbedder(str(folder), prefix="the ").embed(["mug"])
    np.testing.assert_allclose(with_prefix, SentenceEmbedder(str(folder)).embed(["the mug"]), atol=1e-5)


def test_the_folders_own_pooling_and_length_are_used_but_not_its_prompts(folder: Path, tmp_path: Path) -> None:
    """A folder of sentence-transformers says them in files of its own; vectors have length 1 whether it normalises or not."""
    copy = shutil.copytree(folder, tmp_path / "copy")
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    (copy / "modules.json").write_text(
        json.dumps([{"path": path, "type": f"st.{kind}"} for path, kind in kinds.items()])
    )
    (copy / "1_Pooling").mkdir()
    (copy / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    (copy / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 3}))
    (copy / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"passage": "lamp "}}))
    with torch.no_grad():
        states = BertModel.from_pretrained(folder).eval()(torch.tensor([[WORDS.index(w) for w in ("a", "red", "mug")]]))
    first = states.last_hidden_state[0, 0].numpy()
    [found] = SentenceEmbedder(str(copy)).embed(["a red mug on the shelf"])
    np.testing.assert_allclose(found, first / np.linalg.norm(first), atol=1e-5)


def test_an_unknown_model_is_an_error_with_the_nearest_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    (tmp_path / "models--someone--e5-small").mkdir()
    with pytest.raises(ConfigError, match=r"did you mean 'someone/e5-small'.*Nothing is downloaded"):
        model_folder("someone/e5-smal")
    with pytest.raises(ConfigError, match=r"did you mean '.*tiny-encoder'"):
        model_folder(str(folder.with_name("tiny-encodr")))
    with pytest.raises(DataError, match=r"no config\.json"):
        model_folder(str(tmp_path))


def test_a_folder_without_an_encoder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(DataError, match="as a text encoder"):
        SentenceEmbedder(str(tmp_path))


def rollout(name: str, *texts: str, won: bool = False) -> Trajectory:
    """An episode whose states have different keys and these texts."""
    keys = [f"{name}{t}" for t in range(len(texts) + 1)]
    turns = tuple(
        Turn(keys[t], "go", keys[t + 1], text_key=text, reward=float(won and t + 1 == len(texts)))
        for t, text in enumerate(texts)
    )
    end: StopReason = "success" if won else "failed"
    return Trajectory(name, "g", "task", turns, won, float(won), end, keys[-1], final_text_key="end")


def scheme_of(folder: Path, name: str, threshold: float) -> MergedByModel:
    parameters = {"key": "text", "merge": f"hf:{folder}", "merge_threshold": threshold}
    made = make_scheme(
        read_dataclass(TrainConfig, {"out": "run", "credit": {"scheme": name, "parameters": parameters}})
    )
    assert isinstance(made, MergedByModel)
    return made


@pytest.mark.parametrize(("name", "threshold"), [("rewardflow", 0.9), ("graphgpo", 0.95), ("gigpo", 0.9)])
def test_in_training_an_encoder_merges_states_as_in_a_log(folder: Path, name: str, threshold: float) -> None:
    group = Group(
        (rollout("a", "a red mug", "the lamp", won=True), rollout("b", "a  red mug"), rollout("c", "blue mug"))
    )
    merged = merged_group(group, similar_states(group, SentenceEmbedder(str(folder)), threshold))
    ours = scheme_of(folder, name, threshold).assign(group)
    expected = credit.make(name, key="text", merge_threshold=threshold).assign(merged)
    np.testing.assert_array_equal(ours.flat_step_advantages, expected.flat_step_advantages)
    unmerged = credit.make(name, key="text").assign(group)
    assert not np.array_equal(ours.flat_step_advantages, unmerged.flat_step_advantages)


def test_the_same_scheme_is_made_for_a_log_for_training_and_by_verls_workers(folder: Path) -> None:
    group = Group((rollout("a", "a red mug", "the lamp", won=True), rollout("b", "a  red mug")))
    parameters: dict[str, Any] = {"key": "text", "merge": f"hf:{folder}", "merge_threshold": 0.9}
    expected = scheme_of(folder, "graphgpo", 0.9).assign(group).flat_step_advantages
    assert expected.any()
    for made in (
        credit.make("graphgpo", **parameters),
        CreditSettings(scheme="graphgpo", parameters=parameters).make(),
        credit.make("graphgpo", centre="none", **parameters),
    ):
        np.testing.assert_array_equal(made.assign(group).flat_step_advantages, expected)
    scored = credit.make("graphgpo", outcome="score", **parameters)
    assert isinstance(scored, MergedByModel)
    assert scored.outcome == "score"
    with pytest.raises(ConfigError, match="unknown parameter of grpo 'merge'"):
        credit.make("grpo", merge=f"hf:{folder}")


def test_a_text_is_embedded_once_and_new_texts_of_a_batch_together(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []
    embed = SentenceEmbedder.embed

    def counting(self: SentenceEmbedder, texts: Sequence[str]) -> Any:
        batches.append(len(texts))
        return embed(self, texts)

    monkeypatch.setattr(SentenceEmbedder, "embed", counting)
    scheme = scheme_of(folder, "gigpo", 0.9)
    groups = [Group((rollout("a", "a red mug", "the lamp"), rollout("b", text))) for text in ("mug", "a red mug")]
    scheme.assign_batch(groups)
    assert batches == [len({"a red mug", "the lamp", "mug", "end"})]
    scheme.assign_batch(groups)
    assert len(batches) == 1


def test_a_run_merges_the_states_of_its_rollouts(
    folder: Path, trainer_of: Callable[..., Any], config: dict[str, Any]
) -> None:
    parameters = {"key": "text", "merge": f"hf:{folder}", "merge_text": "observation"}
    changed = {**config, "credit": {"scheme": "gigpo", "parameters": parameters}}
    run = trainer_of(changed, "update.iterations=1")
    run.run()
    record = next(r for r in read_metrics(run.logger.path) if r["kind"] == "iteration")
    assert run.scheme.embedder.embedded > 1
    assert record["step_credit_fraction"] > 0.0


def test_observations_that_are_compared_are_recorded(folder: Path) -> None:
    parameters = {"key": "text", "merge": f"hf:{folder}", "merge_text": "observation"}
    section = {"scheme": "gigpo", "parameters": parameters}
    settings = read_dataclass(TrainConfig, {"out": "run", "credit": section})
    assert make_scheme(settings).texts == ("observation",)
    assert needs_texts(settings, make_scheme(settings))
    with pytest.raises(ConfigError, match="use key='text' with it"):
        make_scheme(
            read_dataclass(
                TrainConfig, {"out": "run", "credit": {"scheme": "gigpo", "parameters": {"merge": f"hf:{folder}"}}}
            )
        )

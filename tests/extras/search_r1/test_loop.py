"""Search-R1's own generation loop: its released manager asks our search server, ours plays our environment; the rows are the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.models.tiny_tokenizer import byte_tokenizer
from helpers.servers.http_server import served
from helpers.worlds.wikisearch_small import WORLD, small_env

from creditflow import credit
from creditflow.envs.errors import ConfigError, DataError, TrajectoryError
from creditflow.envs.tasks import Task
from creditflow.envs.wikisearch.retrieval.server import create_app
from creditflow.train.adapters.search_r1_loop import ROW, playing

pytestmark = pytest.mark.search_r1
TURNS = 3
PREFIX = "Answer the question. For example, <answer> Beijing </answer>. Question: "
Policy = Callable[[str, int], str]


class Actor:
    """The loop's worker group: writes what a policy says for each prompt, as token ids on the right."""

    def __init__(self, tokenizer: Any, policy: Policy) -> None:
        self._tokenizer, self._policy, self._turn = tokenizer, policy, 0

    def generate_sequences(self, batch: Any) -> Any:
        from verl import DataProto

        prompts = self._tokenizer.batch_decode(batch.batch["input_ids"], skip_special_tokens=True)
        texts = [self._policy(prompt, 100 * self._turn + i) for i, prompt in enumerate(prompts)]
        self._turn += 1
        ids = self._tokenizer(texts, add_special_tokens=False, return_tensors="pt", padding="longest")["input_ids"]
        return DataProto.from_dict({"responses": ids})


def policy(prompt: str, number: int) -> str:
    """Searches, answers, and what is neither, with text after the call; by the number alone."""
    question = prompt.rpartition("Question: ")[2].splitlines()[0]
    words = ("<think>I look.</think> <search> {} </search>", "no call", "<search>{} river</search> tail <answer>x</answer>",
             "<think></think><answer>{}</answer>", "<SEARCH>a</SEARCH>", "<search> the \n capital </search>")  # fmt: skip
    return words[int(np.random.default_rng([7, number]).integers(len(words)))].format(question)


def tasks(count: int, size: int) -> list[Task]:
    source = small_env().tasks
    return [source.get(name) for name in source.task_ids()[:count] for _ in range(size)]


def run(manager: type[Any], batch: list[Task], policy: Policy, **settings: Any) -> tuple[Any, Any]:
    """The manager, and what its loop returns for prompts that ask these tasks."""
    from search_r1.llm_agent.generation import GenerationConfig
    from verl import DataProto

    tokenizer = byte_tokenizer()
    tokenizer.padding_side = "left"
    prompts = [f"{PREFIX}{str(task.content['text']).rstrip('?')}?\n" for task in batch]
    ids = tokenizer(prompts, return_tensors="pt", padding="longest")["input_ids"]
    tokenizer.padding_side = "right"
    mask = (ids != tokenizer.pad_token_id).long()
    given = DataProto.from_dict({"input_ids": ids, "attention_mask": mask, "position_ids": mask.cumsum(1) * mask})
    lengths = {"max_start_length": 512, "max_prompt_length": 9000, "max_response_length": 500, "max_obs_length": 4000}
    config = GenerationConfig(max_turns=TURNS, **{**lengths, "num_gpus": 1, **settings})
    made = manager(tokenizer, Actor(tokenizer, policy), config)
    return made, made.run_llm_loop(given, ids[:, -config.max_start_length :].clone().long())


def trained(output: Any, order: list[int]) -> Any:
    """The batch as the trainer has it before ``compute_advantage``: long columns, rows reordered, rewards."""
    import torch

    batch = output
    for key in list(batch.batch.keys()):
        batch.batch[key] = batch.batch[key].long()
    batch.reorder(torch.tensor(order))
    batch.batch["token_level_scores"] = torch.zeros(batch.batch["responses"].shape)
    batch.batch["token_level_rewards"] = batch.batch["token_level_scores"].clone()
    return batch


@pytest.mark.parametrize("settings", [{}, {"num_gpus": 4}, {"max_obs_length": 60}, {"max_prompt_length": 700}])
def test_rows_masks_and_statistics_are_those_of_the_released_loop_over_our_server(settings: dict[str, Any]) -> None:
    from search_r1.llm_agent.generation import LLMGenerationManager

    batch = tasks(3, 4)
    app = create_app(small_env().library.retriever, topk=3)
    with served(app) as url:
        _, released = run(LLMGenerationManager, batch, policy, search_url=f"{url}/retrieve", topk=3, **settings)
    _, ours = run(playing(LLMGenerationManager, world=WORLD), batch, policy, topk=3, **settings)
    assert set(ours.batch.keys()) == {*released.batch.keys(), ROW}
    for name in list(released.batch.keys()):
        assert ours.batch[name].tolist() == released.batch[name].tolist(), name
    assert ours.meta_info == released.meta_info
    assert sum(released.meta_info["valid_search_stats"]) > 5
    assert 0 < sum(released.meta_info["active_mask"]) < len(batch)


@pytest.mark.parametrize("settings", [{}, {"max_prompt_length": 700}])  # the latter cuts rows
@pytest.mark.parametrize("scheme", ["grpo", "gigpo", "graphgpo", "gdcr"])
def test_credit_stands_on_the_tokens_of_its_turn_after_the_trainer_reordered_the_batch(
    scheme: str, settings: dict[str, Any]
) -> None:
    from search_r1.llm_agent.generation import LLMGenerationManager

    batch = tasks(3, 4)
    answers = {str(task.content["text"]): str(task.content["answers"][0]) for task in batch}

    def solves(prompt: str, number: int) -> str:
        text = policy(prompt, number)
        question = prompt.rpartition("Question: ")[2].splitlines()[0]
        return f"<answer>{answers[question]}</answer>" if "<answer>" in text and number % 2 else text

    manager, output = run(playing(LLMGenerationManager, world=WORLD, scheme=scheme), batch, solves, topk=3, **settings)
    order = np.random.default_rng(0).permutation(len(batch)).tolist()
    done = manager.compute_advantage(trained(output, order), adv_estimator="grpo", gamma=1.0, lam=1.0, num_repeat=1)
    numbers = done.batch["advantages"].numpy()
    assert (numbers == done.batch["returns"].numpy()).all()
    assert numbers.any()
    wanted = credit.make(scheme).assign_batch(manager._played.groups)
    tokenizer = byte_tokenizer()
    for i, row in enumerate(order):
        group, member = manager._played.places[row]
        turns = manager._played.groups[group].trajectories[member].turns
        ids, sampled = done.batch["responses"][i], done.batch["info_mask"][i, -numbers.shape[1] :].numpy() != 0
        found = [
            (float(value), tokenizer.decode([token]))
            for value, token, own in zip(numbers[i], ids.tolist(), sampled, strict=True)
            if own
        ]
        expected = [(float(np.float32(value)), letter) for value, turn in zip(wanted[group].advantages[member], turns, strict=True)
                    for letter in turn.response]  # fmt: skip
        assert found == expected[: len(found)]
        assert settings or len(found) == len(expected)
        assert not numbers[i][~sampled].any()


def test_the_loops_own_server_is_asked_where_only_questions_are_given(tmp_path: Any) -> None:
    import json

    from search_r1.llm_agent.generation import LLMGenerationManager

    batch = tasks(2, 3)
    path = tmp_path / "questions.jsonl"
    rows = [{"question": task.content["text"], "golden_answers": list(task.content["answers"])} for task in batch[::3]]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    app = create_app(small_env().library.retriever, topk=3)
    with served(app) as url:
        where = {"search_url": f"{url}/retrieve", "topk": 3}
        _, released = run(LLMGenerationManager, batch, policy, **where)
        manager, ours = run(playing(LLMGenerationManager, questions=str(path), threads=4), batch, policy, **where)
    assert ours.batch["responses"].tolist() == released.batch["responses"].tolist()
    assert any(turn.doc_ids for group in manager._played.groups for turn in group.turns)


def test_wrong_settings_and_batches_are_rejected() -> None:
    from search_r1.llm_agent.generation import LLMGenerationManager

    for wrong, message in (
        ({"scheme": "pica"}, "annotators write"),
        ({"max_steps": 3}, "max_steps cannot be given"),
        ({"dialect": "plain"}, "dialect cannot be given"),
    ):
        with pytest.raises(ConfigError, match=message):
            playing(LLMGenerationManager, **wrong)
    batch = tasks(2, 3)
    other = Task("x", "x", {"text": "Who is not there?"})
    mine = playing(LLMGenerationManager, world=WORLD)
    with pytest.raises(DataError, match="row 1: the question 'Who is not there"):
        run(mine, [batch[0], other], policy, topk=3)
    manager, output = run(mine, batch, policy, topk=3)
    data = trained(output, list(range(6)))
    data.batch["token_level_rewards"] += 1.0
    with pytest.raises(ConfigError, match="use_kl_loss"):
        manager.compute_advantage(data)
    data.batch["token_level_rewards"] -= 1.0
    data.batch[ROW][:, 0] = 9
    with pytest.raises(TrajectoryError, match="earlier rollout"):
        manager.compute_advantage(data)
    del data.batch[ROW]
    with pytest.raises(TrajectoryError, match=re.escape(repr(ROW))):
        manager.compute_advantage(data)

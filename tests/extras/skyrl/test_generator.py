"""SkyRL's own generator plays our environments by token ids; its output carries the credit of our own log of the same episodes."""

from __future__ import annotations

import asyncio
import json
import typing
from dataclasses import asdict
from itertools import groupby
from typing import Any

import numpy as np
import pytest
import typing_extensions
from helpers.models.tiny_tokenizer import byte_tokenizer
from helpers.servers.chat_server import random_player
from helpers.trainers.replayed import assert_same_credit, replayed
from helpers.trainers.skyrl_groups import groups_of

from creditflow import credit
from creditflow.train.adapters.skyrl.credit import credit_output, credited, spread_over_turns
from creditflow.train.adapters.skyrl.env import NAME, register_env
from creditflow.train.adapters.text_episode import EpisodeConfig, panel_tasks
from creditflow.wrappers.credit.base import Scheme

pytestmark = pytest.mark.skyrl

SIZE = 6


@pytest.fixture(scope="module")
def skyrl() -> Any:
    """Its modules; in Python 3.11 pydantic asks for the ``TypedDict`` of typing_extensions in their types."""
    pytest.importorskip("skyrl", reason="SkyRL is not installed: pip install --no-deps skyrl==0.3.0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typing, "TypedDict", typing_extensions.TypedDict)
        from skyrl.train import config
        from skyrl.train.generators import skyrl_gym_generator, utils
    return config, skyrl_gym_generator.SkyRLGymGenerator, utils.prepare_generator_input


class Engine:
    """An inference engine of SkyRL's interface; the model writes anything at all."""

    model_name = "toy"

    def __init__(self, tokenizer: Any, seed: int) -> None:
        self.tokenizer, self.model = tokenizer, random_player(seed)

    async def generate(self, engine_input: Any, **_: Any) -> dict[str, Any]:
        shown = self.tokenizer.decode(engine_input["prompt_token_ids"][0]).rsplit("<|im_start|>user", 1)[1]
        text = self.model([{"role": "user", "content": shown.split("<|im_end|>")[0]}])
        ids = [*self.tokenizer.encode(text, add_special_tokens=False), self.tokenizer.eos_token_id]
        # episodes are played side by side, so what is cut depends on the prompt, not on the order of calls
        cut = sum(engine_input["prompt_token_ids"][0]) % 4 == 0
        return {
            "responses": [text],
            "response_ids": [ids],
            "stop_reasons": ["length" if cut else "stop"],
            "response_logprobs": [[-0.5] * len(ids)],
        }

    async def finish_session(self, *_: Any, **__: Any) -> None:
        """Nothing is held."""


def generate(skyrl: Any, config: EpisodeConfig, scheme: Scheme | None, phase: str = "train", **settings: Any) -> Any:
    """One batch by SkyRL's own preparation and generator, and the tokenizer."""
    parts, kind, prepare = skyrl
    register_env()
    ours, tokenizer = parts.SkyRLGymConfig(), byte_tokenizer()
    ours.creditflow = {"env": asdict(config.env)}
    generator_config = parts.GeneratorConfig()
    for name, value in {"max_turns": 8, "max_input_length": 50_000, **settings}.items():
        setattr(generator_config, name, value)
    rows = [
        {
            "prompt": [{"role": "user", "content": "of the data set"}], "env_class": NAME, "uid": f"row {i}",
            "env_extras": {"extra_info": {"task_id": task.task_id, "task": json.dumps(dict(task.content))}},
        }
        for i, task in enumerate(panel_tasks(config.env))
    ]  # fmt: skip
    batch, _ = prepare(rows, SIZE, None, NAME, phase, 0)
    generator = (kind if scheme is None else credited(kind, scheme))(
        generator_config, ours, Engine(tokenizer, 1), tokenizer
    )
    output = asyncio.run(generator.generate(batch, disable_tqdm=True))
    return batch, output, tokenizer


def spans(mask: list[int]) -> list[tuple[int, int]]:
    """Begin and end of every run of sampled tokens."""
    found, at = [], 0
    for value, run in groupby(mask):
        begin, at = at, at + len(list(run))
        if value:
            found.append((begin, at))
    return found


@pytest.mark.parametrize("scheme", ["grpo", "gigpo", "graphgpo", "rewardflow", "grouptd"])
def test_its_output_carries_the_credit_of_our_own_log_of_the_same_episodes(
    skyrl: Any, config: EpisodeConfig, scheme: str
) -> None:
    batch, plain, tokenizer = generate(skyrl, config, None)
    assert plain["trajectory_ids"] is None  # which is why the batch's names are used
    named = {**plain, "trajectory_ids": batch["trajectory_ids"]}
    output, groups = credit_output(named, credit.make(scheme)), groups_of(named)
    assert {one.success for group in groups for one in group.trajectories} == {True, False}
    for g, (task, group) in enumerate(zip(panel_tasks(config.env), groups, strict=True)):
        rows = range(SIZE * g, SIZE * g + SIZE)
        texts = [
            [tokenizer.decode(plain["response_ids"][row][a : b - 1]) for a, b in spans(plain["loss_masks"][row])]
            for row in rows
        ]
        ours = replayed(config, task.content, texts)
        assert_same_credit(ours, group, credit.make(scheme))
        expected = credit.make(scheme).assign(ours)
        for row, numbers, kept in zip(rows, expected.advantages, expected.loss_mask, strict=True):
            wanted = [0.0] * len(plain["loss_masks"][row])
            for (_, end), number in zip(
                spans(plain["loss_masks"][row]), np.where(kept, numbers, 0.0).tolist(), strict=True
            ):
                wanted[end - 1] = number
            assert output["rewards"][row] == wanted


def test_a_credited_generator_credits_training_alone_and_changes_nothing_else(
    skyrl: Any, config: EpisodeConfig
) -> None:
    _, output, _ = generate(skyrl, config, credit.make("gigpo"))
    assert any(any(row) for row in output["rewards"])
    assert output["trajectory_ids"] is None
    assert all("creditflow" not in one for one in output["env_metrics"])
    assert [len(row) for row in output["rewards"]] == [len(row) for row in output["response_ids"]]
    _, evaluated, _ = generate(skyrl, config, credit.make("gigpo"), phase="eval")
    assert all("creditflow" in one for one in evaluated["env_metrics"])


def test_rows_that_its_filter_of_overlong_episodes_leaves_out_have_no_credit(skyrl: Any, config: EpisodeConfig) -> None:
    _, output, _ = generate(skyrl, config, credit.make("gigpo"), apply_overlong_filtering=True)
    left_out = [not any(mask) for mask in output["loss_masks"]]
    assert any(left_out)
    assert not any(any(row) for row, gone in zip(output["rewards"], left_out, strict=True) if gone)
    assert any(any(row) for row in output["rewards"])


@pytest.mark.parametrize("scheme", ["grpo", "gigpo"])
@pytest.mark.parametrize("limits", [{}, {"max_input_length": 900}], ids=["", "cut by length"])
def test_a_row_per_step_carries_the_number_of_its_turn(
    skyrl: Any, config: EpisodeConfig, scheme: str, limits: dict[str, int]
) -> None:
    class Kept(skyrl[1]):  # keeps its own output for the comparison
        async def generate(self, *args: Any, **others: Any) -> Any:
            self.made = await super().generate(*args, **others)
            return self.made

    kept = list[Any]()

    class Remembered(Kept):
        def __init__(self, *args: Any, **others: Any) -> None:
            super().__init__(*args, **others)
            kept.append(self)

    parts, _, prepare = skyrl
    settings: dict[str, Any] = {"step_wise_trajectories": True, **limits}
    _, output, _ = generate((parts, Remembered, prepare), config, credit.make(scheme), **settings)
    [generator] = kept
    plain = generator.made
    last = [row for row, ends in enumerate(plain["is_last_step"]) if ends]
    ends_of = {name: [plain[name][row] for row in last] for name in ("trajectory_ids", "env_metrics")}
    groups = groups_of(ends_of)
    assert ("token_limit" in {one.stop_reason for group in groups for one in group.trajectories}) == bool(limits)
    expected = [
        number
        for group in groups
        for numbers, kept_turns in zip(*_assigned(group, scheme), strict=True)
        for number in np.where(kept_turns, numbers, 0.0).tolist()
    ]
    written = [[x for x in row if x] for row in output["rewards"]]
    assert written == [[number] if number else [] for number in expected]
    assert len({one.to_string() for one in output["trajectory_ids"]}) == len(expected)
    assert [one.instance_id for one in output["trajectory_ids"]] == [one.instance_id for one in plain["trajectory_ids"]]
    assert all("creditflow" not in one for one in output["env_metrics"])


def _assigned(group: Any, scheme: str) -> tuple[list[Any], list[Any]]:
    assigned = credit.make(scheme).assign(group)
    return assigned.advantages, assigned.loss_mask


def test_the_trainer_gives_every_step_its_own_number(skyrl: Any, config: EpisodeConfig) -> None:
    """Its trainer estimates over the last row of each episode, under a mask of ones, and copies to the episode's rows."""
    import torch

    _, output, _ = generate(skyrl, config, credit.make("gigpo"), step_wise_trajectories=True)
    rows = len(output["response_ids"])
    width = max(map(len, output["rewards"]))
    rewards, mask = (
        torch.tensor([[*row, *[0] * (width - len(row))] for row in output[name]], dtype=torch.float64)
        for name in ("rewards", "loss_masks")
    )
    last = torch.tensor(output["is_last_step"])
    advantages, _ = spread_over_turns(rewards[last], torch.ones_like(mask[last]))
    episode = torch.cat([torch.zeros(1, dtype=torch.bool), last[:-1]]).long().cumsum(0)
    got = advantages[episode] * mask
    assert got.shape == (rows, width)
    for row, sampled in enumerate(mask.bool()):
        assert set(got[row][sampled].tolist()) == {sum(output["rewards"][row])}


def test_new_names_on_its_command_line_are_refused(skyrl: Any) -> None:
    from skyrl.train.config.config import build_nested_dataclass

    with pytest.raises(ValueError, match="creditflow"):  # so the section is set as an attribute: README.md
        build_nested_dataclass(skyrl[0].SkyRLGymConfig, {"creditflow": {}})

"""SkyRL-gym makes and steps our environments as its generator does; the credit in the generator's output is our own log's."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.servers.chat_server import Model, random_player
from helpers.trainers.failing import fail_every_third_step
from helpers.trainers.replayed import assert_same_credit, replayed
from helpers.trainers.skyrl_groups import groups_of

from creditflow import credit
from creditflow.envs.errors import ConfigError, DataError, EpisodeError, TrajectoryError
from creditflow.train.adapters.skyrl.credit import credit_output, credited
from creditflow.train.adapters.text_episode import EpisodeConfig, panel_tasks

pytestmark = pytest.mark.skyrl


@dataclass
class TrajectoryID:
    """The fields of SkyRL's own class (``skyrl/train/generators/base.py``); ``test_generator.py`` has that one."""

    instance_id: str
    repetition_id: int

    def to_string(self) -> str:
        return f"{self.instance_id}_{self.repetition_id}"


def make(config: EpisodeConfig, task: Any, **extras: Any) -> Any:
    import skyrl_gym

    from creditflow.train.adapters.skyrl.env import NAME, register_env

    register_env()
    row = {"extra_info": {"task_id": task.task_id, "task": json.dumps(dict(task.content))}, **extras}
    return skyrl_gym.make(NAME, env_config={"env": asdict(config.env)}, extras=row)


def generated(
    config: EpisodeConfig, model: Model, *, size: int = 6, **extras: Any
) -> tuple[dict[str, Any], list[list[str]]]:
    """What SkyRL's generator makes of whole groups, by its loop of init, step and get_metrics; and the completions.

    A completion has three sampled tokens, an observation two of the environment's; the last observation is cut off.
    """
    names = ("response_ids", "loss_masks", "rewards", "env_metrics", "trajectory_ids")
    output: dict[str, Any] = {name: [] for name in names}
    written = []
    for task in panel_tasks(config.env):
        for repetition in range(size):
            env = make(config, task, **extras)
            messages, _ = env.init([{"role": "user", "content": task.task_id}])
            texts, mask, done = list[str](), list[int](), False
            while not done:
                texts.append(model(messages))
                step = env.step(texts[-1])
                done = step["done"]
                messages = [*messages, {"role": "assistant", "content": texts[-1]}, *step["observations"]]
                mask += [1, 1, 1] + ([] if done else [0, 0])
            output["env_metrics"].append(env.get_metrics())
            env.close()
            output["loss_masks"].append(mask)
            output["response_ids"].append(list(range(len(mask))))
            output["rewards"].append([0.0] * len(mask))
            output["trajectory_ids"].append(TrajectoryID(task.task_id, repetition))
            written.append(texts)
    return output, written


@pytest.mark.parametrize("scheme", ["grpo", "gigpo", "graphgpo", "rewardflow", "grouptd"])
def test_credit_in_the_output_is_that_of_our_own_log_of_the_same_episodes(config: EpisodeConfig, scheme: str) -> None:
    output, written = generated(config, random_player(1))
    assert {one["success"] for one in output["env_metrics"]} == {0.0, 1.0}
    done, groups = credit_output(output, credit.make(scheme)), groups_of(output)
    assert "creditflow" not in done["env_metrics"][0]
    for g, (task, group) in enumerate(zip(panel_tasks(config.env), groups, strict=True)):
        ours = replayed(config, task.content, written[6 * g : 6 * g + 6])
        assert_same_credit(ours, group, credit.make(scheme))
        expected = credit.make(scheme).assign(ours)
        for i, (numbers, kept) in enumerate(zip(expected.advantages, expected.loss_mask, strict=True)):
            wanted = [[0.0, 0.0, x, 0.0, 0.0] for x in np.where(kept, numbers, 0.0).tolist()]
            assert done["rewards"][6 * g + i] == [x for turn in wanted for x in turn][:-2]


def test_a_subclass_of_a_generator_credits_training_and_leaves_evaluation_alone(config: EpisodeConfig) -> None:
    made, _ = generated(config, random_player(2))
    output = {**made, "trajectory_ids": None}  # as SkyRL's generator, whose trainer names the rows in the batch

    class Generator:
        async def generate(self, _batch: Any) -> Any:
            return output

    generator = credited(Generator, credit.make("gigpo"))()

    def run(phase: str) -> Any:
        names = {"trajectory_ids": made["trajectory_ids"]}
        return asyncio.run(generator.generate({"batch_metadata": SimpleNamespace(training_phase=phase), **names}))

    assert run("eval") is output
    done = run("train")
    assert any(any(row) for row in done["rewards"])
    assert done["rewards"] == credit_output(made, credit.make("gigpo"))["rewards"]
    assert done["trajectory_ids"] is None


def test_its_own_limit_of_turns_ends_an_episode(config: EpisodeConfig) -> None:
    output, written = generated(config, lambda _messages: "?", size=2, max_turns=2)
    assert {len(texts) for texts in written} == {2}
    assert {one.stop_reason for group in groups_of(output) for one in group.trajectories} == {"env_limit"}


def test_a_rows_number_in_its_group_seeds_the_environments_own_noise(config: EpisodeConfig) -> None:
    task, seeds = panel_tasks(config.env)[0], set()
    for replica in range(2):
        row = {"task_id": "g", "task": json.dumps(dict(task.content)), "replica": replica}
        env = make(config, task, extra_info=row)
        env.init([])
        seeds.add(json.loads(env.get_metrics()["creditflow"])["seed"])
    assert len(seeds) == 2


def test_a_generators_limit_of_length_ends_the_record_as_truncated(config: EpisodeConfig) -> None:
    env = make(config, panel_tasks(config.env)[0])
    env.init([])
    env.step("?")
    metrics = env.get_metrics()
    assert (metrics["turns"], metrics["success"]) == (1, 0.0)
    assert '"stop_reason":"token_limit"' in metrics["creditflow"]


def test_a_completion_at_which_the_environment_failed_has_zero_credit_and_the_batch_its_own(
    config: EpisodeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_every_third_step(monkeypatch)
    output, _ = generated(config, random_player(1))
    done = credit_output(output, credit.make("gigpo"))
    played = [one for group in groups_of(output) for one in group.trajectories]
    failed = [row for row, one in zip(done["rewards"], played, strict=True) if one.stop_reason == "env_error"]
    assert failed
    assert not any(row[-1] for row in failed)
    assert any(any(row) for row in done["rewards"])


def test_a_row_that_the_generator_left_out_of_the_loss_has_no_credit_and_the_others_theirs(
    config: EpisodeConfig,
) -> None:
    output, _ = generated(config, random_player(1))
    masks = [[0] * len(output["loss_masks"][0]), *output["loss_masks"][1:]]  # apply_overlong_filtering
    done = credit_output({**output, "loss_masks": masks}, credit.make("gigpo"))
    whole = credit_output(output, credit.make("gigpo"))
    assert done["rewards"] == [[0.0] * len(masks[0]), *whole["rewards"][1:]]


def test_metrics_are_aggregated_by_skyrl_without_the_record(config: EpisodeConfig) -> None:
    from creditflow.train.adapters.skyrl.env import CreditTextEnv

    output, _ = generated(config, random_player(3), size=2)
    found = CreditTextEnv.aggregate_metrics(output["env_metrics"])
    assert "creditflow" not in " ".join(found)
    assert any("success" in name for name in found)


def test_incomplete_and_unfitting_outputs_are_refused(config: EpisodeConfig) -> None:
    output, _ = generated(config, random_player(4), size=2)

    def refused(error: type[Exception], match: str, **changes: Any) -> None:
        with pytest.raises(error, match=match):
            credit_output({**output, **changes}, credit.make("grpo"))

    rows = output["env_metrics"]
    refused(TrajectoryError, "has no record under 'creditflow'", env_metrics=[{}, *rows[1:]])
    cut = [[1, 1] if one != [1, 1, 1] else [], *output["loss_masks"][1:]] if (one := output["loss_masks"][0]) else []
    refused(TrajectoryError, "turns and . sampled completions", loss_masks=cut)
    ids = [TrajectoryID("alone", 0), *output["trajectory_ids"][1:]]
    refused(TrajectoryError, "group '.*' has 1 episode: credit compares", trajectory_ids=ids)
    refused(ConfigError, "is_last_step has 1 entries", is_last_step=[True])
    refused(TrajectoryError, "does not end", is_last_step=[False] * len(rows))
    refused(TrajectoryError, "does not end", is_last_step=[True] * (len(rows) - 1) + [False])
    twice = [*output["trajectory_ids"][1:], output["trajectory_ids"][1]]
    refused(TrajectoryError, "a second time", is_last_step=[True] * len(rows), trajectory_ids=twice)
    refused(ConfigError, "needs trajectory_ids", trajectory_ids=None)
    with pytest.raises(ConfigError, match="annotators"):
        credit_output(output, credit.make("ppo_gae"))


def test_rows_and_calls_that_cannot_be_are_named(config: EpisodeConfig) -> None:
    from creditflow.train.adapters.skyrl.env import CreditTextEnv

    with pytest.raises(DataError, match="must be the task as JSON text"):
        CreditTextEnv({}, {"extra_info": {"index": 1}})
    with pytest.raises(ConfigError, match="unknown"):
        CreditTextEnv({"envs": {}}, {})
    with pytest.raises(EpisodeError, match=r"call init\(\) first"):
        make(config, panel_tasks(config.env)[0]).step("up")

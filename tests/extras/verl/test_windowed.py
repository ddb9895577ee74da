"""Windowed histories: verl's queue takes a row per turn, with the rows and advantages of our own trainer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.servers.verl_parts import Server, listed_server
from helpers.trainers.verl_batches import columns, trainer

from creditflow import credit
from creditflow.agents.backends.base import Completion, GenerationRequest, Sampling
from creditflow.agents.language_model.pretrained import PromptingConfig
from creditflow.envs.errors import ConfigError
from creditflow.train.adapters.verl.record import FIELD, TurnRow, decode_row
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.records.group import Group

pytestmark = pytest.mark.verl
SIZE = 4
WINDOW: dict[str, Any] = {
    "prompt": "think-v1",
    "dialect": "bare",
    "history": "window",
    "window": 2,
}  # as train/configs/gigpo_*.yaml
LONG = ("actor_rollout_ref.rollout.prompt_length=4096", "actor_rollout_ref.rollout.response_length=8")
Episodes = dict[tuple[str, int], list[tuple[list[int], list[int], list[float]]]]


@pytest.fixture
def config(config_of: Callable[..., Any]) -> Callable[..., Any]:
    def make(*overrides: str, **loop: Any) -> Any:
        return config_of(*LONG, *overrides, **{"prompting": WINDOW, **loop})

    return make


def sampled(queue: Any, batch: Any) -> Episodes:
    """By group and replica, in the order of turns: prompt, completion and log-probabilities of every real row."""
    got = columns(queue, batch, "prompts", "responses", "rollout_log_probs")
    out: Episodes = {}
    rows = sorted((key.rsplit("_", 2), i) for i, key in enumerate(batch.keys) if not batch.tags[i].get("is_padding"))
    for (uid, session, _), i in sorted(rows, key=lambda row: (row[0][0], int(row[0][1]), int(row[0][2]))):
        out.setdefault((uid, int(session)), []).append(
            (got["prompts"][i].tolist(), got["responses"][i].tolist(), got["rollout_log_probs"][i].tolist())
        )
    return out


class Replay:
    """A backend that repeats what verl's server sampled, and checks that it is asked with the same prompts."""

    version, context = "", 0

    def __init__(self, episodes: Episodes, names: Sequence[str]) -> None:
        self.left = {name: list(turns) for name, turns in episodes.items()}
        self.names, self.groups = names, list[Any]()

    def generate(
        self, requests: Sequence[GenerationRequest], sampling: Sampling, end_ids: frozenset[int]
    ) -> list[Completion]:
        out = []
        for request in requests:
            [name] = [
                (self.names[g], i)
                for g, group in enumerate(self.groups)
                for i, member in enumerate(group.members)
                if member.base is request.key
            ]
            prompt, ids, logprobs = self.left[name].pop(0)
            assert request.ids.tolist() == prompt
            out.append(Completion(np.array(ids, np.int32), np.array(logprobs, np.float32)))
        return out


def ours(episodes: Episodes, names: Sequence[str], env: Any, prompting: dict[str, Any], tokenizer: Any) -> list[Group]:
    """The same episodes played by our own engine and agent."""
    from creditflow.train.rollout.engine import RolloutEngine
    from creditflow.train.rollout.tasks import group_env_factory, training_tasks
    from creditflow.train.settings.schema import TaskConfig

    backend, factory = Replay(episodes, names), group_env_factory(env, SIZE, texts=True)

    def make() -> Any:
        backend.groups.append(factory())
        return backend.groups[-1]

    agent = PromptingConfig(**prompting).agent(backend, tokenizer, Sampling(max_new_tokens=64), end_ids=())
    tasks = training_tasks(env, TaskConfig(), seed=0)[: len(names)]
    groups = RolloutEngine(make).play(agent, tasks, seed=0)
    assert not any(backend.left.values())
    return groups


def assert_same_rows(queue: Any, batch: Any, names: Sequence[str], groups: list[Group], scheme: Scheme) -> None:
    """The batch's rows, masks and advantages are those that our own trainer makes of the groups."""
    from creditflow.train.policy.samples import make_rows

    wanted = {}
    for row in make_rows(groups, scheme.assign_batch(groups)):
        group, replica = divmod(row.trajectory, SIZE)
        wanted[f"{names[group]}_{replica}_{row.turn_index}"] = row
    got = columns(queue, batch, "prompts", "responses", "advantages", "returns", "response_mask", "loss_mask")
    for i, key in enumerate(batch.keys):
        if batch.tags[i].get("is_padding"):
            assert not got["advantages"][i].any()
            continue
        row = wanted.pop(key)
        prompt = got["prompts"][i].tolist()
        assert row.ids.tolist() == [*prompt, *got["responses"][i].tolist()]
        assert (len(prompt) + np.flatnonzero(got["response_mask"][i])).tolist() == row.target.tolist()
        assert got["advantages"][i].tolist() == got["returns"][i].tolist() == row.advantage.astype(np.float32).tolist()
        assert got["loss_mask"][i].tolist() == got["response_mask"][i].tolist()
    assert not wanted
    assert any(advantages.any() for advantages in got["advantages"])


@pytest.mark.parametrize("scheme", ["grpo", "gigpo", "graphgpo", "grouptd"])
def test_rows_and_advantages_are_those_of_our_own_trainer(
    scheme: str, played: Callable[..., Any], queue: Any, config: Callable[..., Any], options: dict[str, Any],
    model_folder: Any,
) -> None:  # fmt: skip
    from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
    from verl.utils import hf_tokenizer

    from creditflow.train.settings.schema import EnvConfig

    settings = config(f"+algorithm.creditflow.scheme={scheme}", "+algorithm.creditflow.averaging=verl")
    names = [f"w{scheme}A", f"w{scheme}B", f"w{scheme}C"]
    batch = played(settings, names)
    episodes = sampled(queue, batch)
    assert len(episodes) == 12 < sum(map(len, episodes.values())) == len(batch.keys)
    assert {len(turns) for turns in episodes.values()} > {5}

    batch = upsample_batch_to_divisible_size(batch, 32, eos_token_id=1)
    assert len(batch.keys) % 32 == 0 < sum(bool(tag.get("is_padding")) for tag in batch.tags)
    batch.reorder(np.random.default_rng(0).permutation(len(batch.keys)).tolist())
    metrics: dict[str, float] = {}
    trainer(settings)._compute_advantage(batch, metrics)
    env = EnvConfig(name="sokoban", options=options)
    groups = ours(episodes, names, env, WINDOW, hf_tokenizer(str(model_folder)))
    assert_same_rows(queue, batch, names, groups, credit.make(scheme))
    assert metrics["creditflow/turns"] == np.mean([len(turns) for turns in episodes.values()])


def test_the_recipe_of_gigpo_on_alfworld_has_the_rows_of_our_own_trainer(
    played: Callable[..., Any], queue: Any, config: Callable[..., Any], model_folder: Any
) -> None:
    from verl.utils import hf_tokenizer

    import creditflow.train.configs
    from creditflow.agents.language_model.parsing import make_dialect
    from creditflow.train.settings.reading import load_mapping
    from creditflow.train.settings.schema import EnvConfig

    recipe = load_mapping(Path(creditflow.train.configs.__file__).parent / "gigpo_alfworld.yaml")
    env = EnvConfig(name="alfworld", options={**recipe["env"]["options"], "max_steps": 5})
    prompting = {name: recipe["prompting"][name] for name in ("prompt", "dialect", "history", "window")}
    parameters = recipe["credit"]["parameters"]
    settings = config(
        "+algorithm.creditflow.scheme=gigpo", f"+algorithm.creditflow.parameters={parameters}".replace("'", ""),
        "actor_rollout_ref.rollout.response_length=64", max_new_tokens=64, prompting=prompting,
        env={"name": "alfworld", "options": dict(env.options)},
    )  # fmt: skip
    tokenizer, dialect = hf_tokenizer(str(model_folder)), make_dialect(prompting["dialect"])
    server = listed_server(tokenizer, lambda action: dialect.write(action, "so"))
    batch = played(settings, names := ["alfA", "alfB"], env=env, server=server)
    trainer(settings)._compute_advantage(batch, {})
    episodes = sampled(queue, batch)
    assert sum(map(len, episodes.values())) == len(batch.keys) == 2 * SIZE * 5
    groups = ours(episodes, names, env, prompting, tokenizer)
    assert 0 < sum(not turn.parsed for group in groups for turn in group.turns) < len(batch.keys)
    assert_same_rows(queue, batch, names, groups, credit.make("gigpo", **parameters))


def test_the_last_row_of_an_episode_alone_carries_its_record_and_no_prompt_texts(
    played: Callable[..., Any], queue: Any, config: Callable[..., Any]
) -> None:
    batch = played(config(), ["recordA"])
    fields = [getattr(value, "data", value) for value in list(columns(queue, batch, "extra_fields")["extra_fields"])]
    rows = {key: decode_row(value[FIELD]) for key, value in zip(batch.keys, fields, strict=True)}
    for key, row in rows.items():
        assert isinstance(row, TurnRow)
        _, session, index = key.rsplit("_", 2)
        assert (row.trajectory_id, row.turn) == (f"recordA/{session}", int(index))
        last = f"recordA_{session}_{row.turn + 1}" not in rows
        assert (row.record is not None) == last
        if row.record is not None:
            assert row.record.trajectory.group_id == "recordA"
            assert len(row.record.turn_offsets) == row.turn + 2
            assert not any(turn.observation or turn.response for turn in row.record.trajectory.turns)
    assert all(value["min_global_steps"] == value["max_global_steps"] for value in fields)  # each turn has its own


def test_an_episode_ends_where_its_window_no_longer_fits(
    played: Callable[..., Any], queue: Any, config: Callable[..., Any], model_folder: Any
) -> None:
    first = len(sampled(queue, played(config(), ["longA"]))["longA", 0][0][0])
    settings = config(f"actor_rollout_ref.rollout.prompt_length={first + 10}")
    assert {len(turns) for turns in sampled(queue, played(settings, ["longB"])).values()} == {1}
    settings = config("actor_rollout_ref.rollout.prompt_length=8")
    batch = played(settings, ["longC"])
    assert len(batch.keys) == SIZE
    assert not any(mask.any() for mask in columns(queue, batch, "response_mask")["response_mask"])


def test_means_over_rows_are_not_taken_for_means_over_episodes(
    played: Callable[..., Any], config: Callable[..., Any]
) -> None:
    mode = "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean"
    batch = played(config(mode), ["meanA"])
    with pytest.raises(ConfigError, match=r"trajectory_mean.*over rows of one turn; verl has none that fits"):
        trainer(config(mode, "+algorithm.creditflow.scheme=grpo"))._compute_advantage(batch, {})
    trainer(config(mode, "+algorithm.creditflow.averaging=verl"))._compute_advantage(batch, {})


@pytest.mark.parametrize(
    ("override", "message"),
    [("trainer.use_v1=false", "legacy trainer does not take"), ("distillation.enabled=true", "only an episode's last")],
)
def test_trainers_that_do_not_take_a_row_per_turn_are_rejected(
    override: str, message: str, config: Callable[..., Any], play: Callable[..., Any]
) -> None:
    from creditflow.train.adapters.verl.credit import check_windowed

    with pytest.raises(ConfigError, match=message):
        check_windowed(config(override))
    if "use_v1" in override:
        from hydra.errors import InstantiationException

        with pytest.raises(InstantiationException, match=message):
            play(Server(lambda *_: ([], None)), config=config(override))

"""Credit and rewards in TorchRL are those of the same episodes recorded by our own wrapper, and its losses take them."""

from __future__ import annotations

import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.episodes.masking import successes_alone
from helpers.servers.env_server import LEVELS
from helpers.shared_data import ROOT

import creditflow
from creditflow import credit
from creditflow.envs.errors import ConfigError
from creditflow.train.adapters.contract import ContractCase, OnTokens, check_end
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.recorder import Recorder
from creditflow.wrappers.records.group import Group

pytestmark = pytest.mark.torchrl

OPTIONS: dict[str, Any] = {"level": LEVELS[0], "max_steps": 6, "obs_mode": "planes", "action_mode": "discrete"}
PANEL: dict[str, Any] = {"panel": "small-v1:train", "max_steps": 6, "obs_mode": "planes", "action_mode": "discrete"}


def _float_module() -> Any:
    import torch

    class Float(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.float()

    return Float()


def rollouts(episodes: int, steps: int, seed: int = 0, repeat: int = 4, **options: Any) -> Any:
    """One row of time with several episodes, by random actions that often solve the level."""
    import torch

    from creditflow.train.adapters.torchrl import make_env

    torch.manual_seed(seed)
    weights = torch.tensor([0.15, 0.1, 0.15, 0.6])

    def policy(tensordict: Any) -> Any:
        return tensordict.set("action", torch.nn.functional.one_hot(torch.multinomial(weights, 1)[0], 4))

    env = make_env("sokoban", seed=3, repeat=repeat, **(options or OPTIONS))
    parts = [env.rollout(steps, policy, break_when_any_done=True) for _ in range(episodes)]
    return torch.cat(parts)


def recorded(rows: Any, repeat: int, **options: Any) -> list[Group]:
    """The same actions played by our own recorder."""
    groups: dict[str, list[Any]] = {}
    env = Recorder(creditflow.make("sokoban", **(options or OPTIONS)))
    actions, done = rows["action"].argmax(-1).tolist(), rows["next", "done"].reshape(-1).tolist()
    episode = 0
    env.reset(seed=3)
    for action, over in zip(actions, done, strict=True):
        env.step(action)
        if over:
            trajectory = replace(env.trajectory, trajectory_id=f"e{episode}", group_id="g")
            groups.setdefault(trajectory.task_id, []).append(trajectory)
            episode += 1
            env.reset(seed=3 + episode // repeat)
    return [Group(tuple(members)) for members in groups.values()]


@pytest.mark.parametrize("name", ["grpo", "gigpo", "graphgpo", "rewardflow", "grouptd"])
@pytest.mark.parametrize("options", [OPTIONS, PANEL])
def test_the_advantage_of_every_turn_is_that_of_the_recorded_episodes(name: str, options: dict[str, Any]) -> None:
    from creditflow.train.adapters.torchrl import CreditAdvantage

    rows = rollouts(8, 6, **options)
    scheme = credit.make(name)
    CreditAdvantage(scheme)(rows)
    expected = np.concatenate(
        [np.concatenate(scheme.assign(group).advantages) for group in recorded(rows, 4, **options)]
    )
    assert rows["credited"].all()
    np.testing.assert_array_equal(rows["advantage"].reshape(-1).numpy(), expected.astype(np.float32))
    assert options is PANEL or np.unique(expected).size >= 2


def test_turns_are_those_of_the_recorded_episodes() -> None:
    from creditflow.train.adapters.torchrl import columns_of

    rows = rollouts(8, 6, **PANEL)

    def turns(groups: list[Group]) -> list[tuple[Any, ...]]:
        return [(t.state_key, t.next_state_key, t.reward, t.valid, t.effective) for g in groups for t in g.turns]

    found = turns(list(columns_of(rows)[0].grouped().groups))
    assert found == turns(recorded(rows, 4, **PANEL))
    assert {effective for *_, effective in found} == {True, False}


def test_the_end_passes_the_contract() -> None:
    import torch
    from tensordict import TensorDict

    from creditflow.train.adapters.torchrl import KEY_BYTES, CreditAdvantage

    def text(value: str) -> Any:
        return torch.frombuffer(bytearray(value.encode().ljust(KEY_BYTES, b"\0")), dtype=torch.uint8)

    def step(episode: Any, t: int) -> Any:
        turn, last = episode.turns[t], t == len(episode.turns) - 1
        task = text(episode.task_id)
        cut = last and episode.stop_reason not in ("success", "failed")
        after = {
            "reward": [turn.reward], "done": [last], "truncated": [cut], "state_key": text(turn.next_state_key), "task_id": task,
            "success": [last and episode.success], "action_valid": [True], "action_effective": [True],
            "score": [float(episode.success)],
        }  # fmt: skip
        fields = {"action": torch.tensor([t]), "elapsed_steps": [t], "state_key": text(turn.state_key), "task_id": task}
        return TensorDict({**fields, "next": TensorDict(after, [])}, [])

    def end(case: ContractCase, scheme: Scheme) -> OnTokens:
        rows = torch.stack([step(episode, t) for episode in case.episodes for t in range(len(episode.turns))])
        numbers = CreditAdvantage(scheme)(rows)["advantage"].reshape(-1).tolist()
        counts = [sampled for episode in case.episodes for _, sampled in case.counts(episode)]
        return case.by_episode([[number] * sampled for number, sampled in zip(numbers, counts, strict=True)])

    check_end(end)


def test_the_environment_passes_torchrls_own_check_of_specs() -> None:
    from torchrl.envs.utils import check_env_specs

    from creditflow.train.adapters.torchrl import make_env

    check_env_specs(make_env("sokoban", seed=0, **PANEL))


def test_an_episode_that_the_end_of_its_row_cuts_is_not_credited() -> None:
    from creditflow.train.adapters.torchrl import CreditAdvantage

    rows = rollouts(4, 6)
    last = int(rows["next", "done"].reshape(-1).nonzero()[-2]) + 1
    cut = rows[: last + 1]  # three episodes and one step of the fourth
    CreditAdvantage(credit.make("gigpo"))(cut)
    assert cut["credited"].reshape(-1).tolist() == [True] * last + [False]
    assert float(cut["advantage"][-1]) == 0.0


def test_an_episode_that_began_before_its_row_is_not_credited_and_changes_no_other() -> None:
    from creditflow.train.adapters.torchrl import CreditAdvantage, columns_of

    rows = rollouts(4, 6, seed=2)
    ends = [int(i) + 1 for i in rows["next", "done"].reshape(-1).nonzero().reshape(-1)]
    assert ends[0] > 1
    tail, whole = rows[1:], rows[ends[0] :].clone()  # a collector goes on with the episode that its last batch cut
    CreditAdvantage(credit.make("gigpo"))(tail)
    CreditAdvantage(credit.make("gigpo"))(whole)
    assert tail["credited"].reshape(-1).tolist() == [False] * (ends[0] - 1) + [True] * len(whole)
    assert not tail["advantage"][: ends[0] - 1].any()
    assert tail["advantage"][ends[0] - 1 :].equal(whole["advantage"])
    assert sum(map(len, columns_of(tail)[0].grouped().groups)) == 3


def test_rollouts_without_a_whole_episode_have_no_credit() -> None:
    from creditflow.train.adapters.torchrl import CreditAdvantage

    rows = rollouts(1, 6)[:1]
    rows["next", "done"][:] = False
    CreditAdvantage(credit.make("gigpo"))(rows)
    assert not rows["credited"].any()
    assert not rows["advantage"].any()


def test_turns_that_the_scheme_leaves_out_of_the_loss_are_not_credited() -> None:
    from creditflow.train.adapters.torchrl import CreditAdvantage

    rows = rollouts(8, 6)
    solved: list[bool] = []
    whole = CreditAdvantage(credit.make("gigpo"))(rows.clone())["advantage"]
    CreditAdvantage(successes_alone())(rows)
    for last in rows["next", "done"].reshape(-1).nonzero().reshape(-1).tolist():
        solved += [bool(rows["next", "success"][last])] * (last + 1 - len(solved))
    assert rows["credited"].reshape(-1).tolist() == solved
    assert not all(solved)
    assert rows["advantage"].equal(whole * rows["credited"])


def test_workers_of_one_seed_form_groups_and_the_loss_takes_the_advantage() -> None:
    import torch
    from tensordict.nn import (
        InteractionType,
        ProbabilisticTensorDictModule,
        ProbabilisticTensorDictSequential,
        TensorDictModule,
    )
    from torchrl.envs import SerialEnv
    from torchrl.modules import OneHotCategorical
    from torchrl.objectives import ClipPPOLoss

    from creditflow.train.adapters.torchrl import CreditAdvantage, columns_of, make_env

    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Flatten(-3), torch.nn.Linear(4 * 4 * 7, 4))
    to_float = torch.nn.Sequential(_float_module(), net)
    actor = ProbabilisticTensorDictSequential(
        TensorDictModule(to_float, ["observation"], ["logits"]),
        ProbabilisticTensorDictModule(
            ["logits"],
            ["action"],
            distribution_class=OneHotCategorical,
            return_log_prob=True,
            default_interaction_type=InteractionType.RANDOM,
        ),
    )
    env = SerialEnv(4, lambda: make_env("sokoban", seed=3, **OPTIONS))
    with torch.no_grad():
        rows = env.rollout(12, actor, break_when_any_done=False)
    assert rows.shape == (4, 12)
    groups = columns_of(rows)[0].grouped().groups
    assert [len(group) for group in groups] == [sum(map(len, groups))]  # one level: one task
    rows = CreditAdvantage(credit.make("gigpo"))(rows)
    rows = rows[rows["credited"].squeeze(-1)]
    assert rows["advantage"].unique().numel() > 2
    loss = ClipPPOLoss(actor, critic_network=None, entropy_bonus=False, critic_coeff=None)
    objective = loss(rows)["loss_objective"]
    objective.backward()
    found = [parameter.grad.clone() for parameter in net.parameters() if parameter.grad is not None]
    net.zero_grad()
    logits = to_float(rows["observation"])
    chosen = logits.log_softmax(-1).gather(-1, rows["action"].argmax(-1, keepdim=True))
    (-(chosen * rows["advantage"]).mean()).backward()
    for ours, theirs in zip([p.grad for p in net.parameters()], found, strict=True):
        torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*inherits from WeightUpdaterBase")  # TorchRL warns of its own classes
def test_the_example_of_the_page_trains(tmp_path: Path) -> None:
    page = (ROOT / "train" / "adapters" / "TORCHRL.md").read_text(encoding="utf-8")
    [example], script = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S), tmp_path / "example.py"
    script.write_text(example, encoding="utf-8")
    found = runpy.run_path(str(script))
    assert any(float(parameter.grad.abs().sum()) > 0 for parameter in found["actor"].parameters())


def test_what_cannot_travel_is_refused() -> None:
    import torch
    from tensordict import TensorDict

    from creditflow.train.adapters.torchrl import CreditAdvantage, make_env

    with pytest.raises(ConfigError, match="TorchRL needs arrays and numbers"):
        make_env("sokoban", seed=0)
    with pytest.raises(ConfigError, match="repeat must be"):
        make_env("sokoban", seed=0, repeat=0, **OPTIONS)
    for name in ("pica", "ppo_gae"):  # annotations of turns, of tokens
        with pytest.raises(ConfigError, match="which annotators write"):
            CreditAdvantage(credit.make(name))
    with pytest.raises(ConfigError, match="make_env"):
        CreditAdvantage(credit.make("grpo"))(TensorDict({"action": torch.zeros(3)}, [3]))

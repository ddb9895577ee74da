"""Do learned dense rewards help?  PPO on Sokoban from planes, and tabular Q-learning in all four environments.

Every part (learner, environment, arm, learning rate, seed) is appended to ``results.jsonl`` when it is done, so that a run goes on
where it stopped.  Each arm is reported at its own best of three to five learning rates, chosen on other tasks and seeds; PPO's arms then
at their own best of three entropy bonuses, chosen in the same way (not on the larger levels).  Environments of Q-learning run one after the other.

  python tests/evidence/dense_rewards/run.py --out DIR [--minutes 8] [--only q:WebShop] [--arms sparse grouptd]
  python tests/evidence/dense_rewards/run.py --out DIR --summary       draws results.png
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from evidence.pictures import MARKS, Shown, draw

import creditflow
from creditflow.agents.base import View
from creditflow.agents.scripted import NoisyExpert
from creditflow.envs.files.appended import read_appended
from creditflow.envs.sokoban.levels.xsb import parse_level
from creditflow.envs.tasks import parse_panel_spec
from creditflow.train.bench.exact.tasks import sokoban_mdp
from creditflow.train.bench.report.tidy import Estimate
from creditflow.wrappers import DenseReward, Potentials, Recorder, VectorDenseReward, relabel
from creditflow.wrappers.dense_reward import make_store

GAMMA = 0.97
LEARNERS = {"q": "Q-learning", "ppo": "PPO", "sb3": "PPO (SB3)"}
DRAWN = ("grouptd", "graphgpo", "rewardflow", "gigpo", "replay", "features")  # the first of them that were measured
ENTROPIES = (0.003, 0.01, 0.03)  # of PPO; rates are chosen with the second
RATES = {"q": (0.1, 0.2, 0.5, 1.0), "ppo": (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)}
CHOOSING_SEEDS = {"q": (1000, 1001, 1002), "ppo": (1000, 1001)}
SEEDS = {"q": range(10), "ppo": range(10), "sb3": range(10)}
Q_TASKS, Q_EPISODES, EPSILON = 6, 60, 0.1  # tasks a seed, episodes a task, exploration
WARMUP, NOISE = 4, 0.6  # episodes a task that a noisy expert plays first: without a success no arm learns anything
PPO_ENVS, PPO_STEPS, PPO_POINTS = 64, 61_440, 6
PPO_PANELS = {
    "Sokoban": {"choose": ("paper-6x6-v1:train", "paper-6x6-v1:valid"), "measure": ("small-v1:train", "small-v1:test")},
    "Sokoban 8x8": {
        "choose": ("paper-8x8-v1:valid", "paper-8x8-v1:valid"), "measure": ("paper-8x8-v1:train", "paper-8x8-v1:test")
    },
}  # fmt: skip
ENVS: dict[str, dict[str, Any]] = {
    "Sokoban": {"panel": "small-v1:train", "max_steps": 30},
    "ALFWorld": {"panel": "standard-v3:train", "max_steps": 20},
    "WebShop": {"panel": "standard-v1:train", "max_steps": 10},
    "WikiSearch": {"panel": "standard-v1:train", "max_steps": 8},
}
LEARNED = ("grouptd", "grouptd-none", "gigpo", "hgpo", "rewardflow", "graphgpo")
RIVALS = ("count", "replay", "count-replay")  # exploration by counts, and learning again from the last episodes
# episodes of a task from which a potential is learned; 10 without a number
WINDOWS = ("graphgpo-window3", "graphgpo-window30")
PLAIN = ("sparse-undiscounted", "sparse-gamma0.9", "sparse-twice")  # other discounts alone, and twice the steps
ARMS = ("sparse", *LEARNED, "oracle", "shuffled", "random", *RIVALS, "graphgpo-replay", "graphgpo-hindsight", *PLAIN)
OWN_ARMS = {
    "Sokoban": ("exact-value",),
    "WikiSearch": ("gdcr", "pica"),
}  # where states can be listed; where tasks have entities
PPO_ARMS = (
    "sparse", "grouptd", "gigpo", "rewardflow", "graphgpo", "features", "rewardflow-paper", "shuffled", "count", *PLAIN
)  # fmt: skip
LARGER_ARMS = ("sparse", "grouptd", "graphgpo", "features")  # of PPO on larger levels
LARGER_RATES = RATES["ppo"][1:4]
REPLAYED = 8  # episodes of a task that are learned again, newest first, after each episode


def shaping_of(arm: str) -> tuple[str, dict[str, Any]]:
    """Scheme and options of ``DenseReward`` for an arm."""
    if arm == "grouptd-none":
        return "grouptd", {"prior": "none", "prior_weight": 0.0}
    if arm == "rewardflow-paper":  # the published potential: not anchored, dead ends worth 0
        return "rewardflow", {"anchored": False, "dead_ends": "zero"}
    scheme, _, window = arm.partition("-window")
    if window:
        return scheme, {"window": int(window)}
    return arm.partition("-")[0], {}


def discount_of(arm: str) -> float:
    """The learner's discount."""
    return {"sparse-undiscounted": 1.0, "sparse-gamma0.9": 0.9}.get(arm, GAMMA)


# ---- tabular Q-learning ----


class Step(NamedTuple):
    """A transition: the action in a state of a task, its reward, and the actions of the next state (none after a goal)."""

    key: tuple[str, str]
    action: str
    reward: float
    next_key: tuple[str, str]
    next_actions: tuple[str, ...]


Values = dict[tuple[str, str], dict[str, float]]


class ExactValues:
    """V^π of the ε-greedy policy of a table on Sokoban's levels, solved exactly: Φ of the value of the present policy."""

    def __init__(self, env: Any) -> None:
        self._env, self._mdps = env, dict[str, Any]()

    def of(self, task: str, values: Values) -> Potentials:
        """The version for an episode of a task."""
        if task not in self._mdps:
            level = parse_level(str(self._env.tasks.get(task).content["xsb"]))
            self._mdps[task] = sokoban_mdp(level, self._env.max_steps)
        mdp = self._mdps[task]
        states, successors = np.arange(mdp.size), mdp.next_states[:, :, 0]
        worth = np.array(
            [[values[task, key].get(action, 0.0) for action in mdp.actions] for key in mdp.keys[: mdp.size]]
        )
        best = worth == worth.max(axis=1, keepdims=True)
        policy = EPSILON / len(mdp.actions) + (1 - EPSILON) * best / best.sum(axis=1, keepdims=True)
        moves = np.zeros((mdp.size, len(mdp.keys)))
        for action in range(len(mdp.actions)):
            np.add.at(moves, (states, successors[:, action]), policy[:, action])
        earned = moves[:, mdp.size :] @ mdp.terminal_score
        exact = np.linalg.solve(np.eye(mdp.size) - GAMMA * moves[:, : mdp.size], earned)
        return Potentials(1, {task: dict(zip(mdp.keys[: mdp.size], exact.tolist(), strict=True))})


class SuccessTable:
    """A success model for PiCA: of the episodes that saw an observation, (successes + 1) / (episodes + 2)."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [1, 2])
        self._seen: set[tuple[str, str]] = set()

    def __call__(self, task: Mapping[str, Any], turns: list[dict[str, str]]) -> float:
        """Probability of success after the last observation."""
        state = str(task["text"]), turns[-1]["observation"] if turns else ""
        self._seen.add(state)
        successes, episodes = self._counts[state]
        return successes / episodes

    def learn(self, success: bool) -> None:
        """Count the episode that is over."""
        for state in self._seen:
            self._counts[state][0] += success
            self._counts[state][1] += 1
        self._seen.clear()


def _update(values: Values, step: Step, rate: float, gamma: float) -> None:
    following = values[step.next_key]
    target = step.reward + gamma * max((following.get(action, 0.0) for action in step.next_actions), default=0.0)
    old = values[step.key].get(step.action, 0.0)
    values[step.key][step.action] = old + rate * (target - old)


def q_learning(name: str, arm: str, rate: float, seed: int) -> dict[str, float]:
    """Success while exploring (mean over episodes) and of the greedy policy at the end (over the seed's tasks).

    Arms that end in "-replay" learn the task's last episodes again after each episode. "graphgpo-hindsight" learns an
    episode once, after its end, from the rewards of a potential that has seen it.
    """
    recorder = Recorder(creditflow.make(name.lower(), **ENVS[name]))
    inner: Any = recorder
    scheme, options = shaping_of(arm)
    exact, model = ExactValues(inner.unwrapped), SuccessTable()
    if arm == "exact-value":
        scheme, options = "grouptd", {"store": Potentials()}
    elif arm == "pica":
        options = {"model": model}
    shaped = scheme in (*LEARNED, "oracle", "shuffled", "random", "gdcr", "pica") and not arm.endswith("hindsight")
    gamma, episodes = discount_of(arm), Q_EPISODES * (2 if arm == "sparse-twice" else 1)
    env: Any = DenseReward(inner, scheme, gamma=GAMMA, truncation="bootstrap", **options) if shaped else inner
    store = make_store("graphgpo", gamma=GAMMA)
    rng = np.random.default_rng([seed, 7])
    tasks = [str(task) for task in rng.choice(inner.unwrapped.tasks.task_ids(), Q_TASKS, replace=False)]
    values: Values = defaultdict(dict)
    visits: dict[tuple[str, str], int] = defaultdict(int)
    memory: dict[str, deque[list[Step]]] = defaultdict(lambda: deque(maxlen=REPLAYED))
    explored, expert = [], NoisyExpert(NOISE)
    for episode in range(Q_TASKS * (WARMUP + episodes)):
        task, guided = tasks[episode % Q_TASKS], episode < Q_TASKS * WARMUP
        if arm == "exact-value":
            env.store = exact.of(task, values)
        _, info = env.reset(seed=seed, options={"task_id": task})
        steps, over = list[Step](), False
        while not over:
            key, actions = (task, info["state_key"]), info["admissible_actions"]
            if guided:
                action = expert.act([View("", info, (), inner.unwrapped, rng)])[0].action
            else:
                action = _choose(values[key], actions, rng, EPSILON)
            _, reward, terminated, truncated, info = env.step(action)
            next_key = (task, info["state_key"])
            if scheme == "count":
                visits[next_key] += 1
                reward = float(reward) + 0.02 / visits[next_key] ** 0.5
            steps.append(Step(key, action, float(reward), next_key, () if terminated else info["admissible_actions"]))
            if not arm.endswith("hindsight"):
                _update(values, steps[-1], rate, gamma)
            over = terminated or truncated
        model.learn(bool(info["success"]))
        if arm.endswith("hindsight"):
            rewards = relabel([recorder.trajectory], "graphgpo", gamma=GAMMA, truncation="bootstrap", store=store)[0]
            for step, reward in zip(steps, rewards, strict=True):
                _update(values, step._replace(reward=float(reward)), rate, gamma)
        if arm.endswith("replay"):
            memory[task].append(steps)
            for remembered in reversed(memory[task]):
                for step in reversed(remembered):
                    _update(values, step, rate, gamma)
        if not guided:
            explored.append(bool(info["success"]))
    greedy = [_greedy_success(inner, task, values, seed) for task in tasks]
    return {"area": float(np.mean(explored)), "final": float(np.mean(greedy))}


def _choose(row: dict[str, float], actions: tuple[str, ...], rng: np.random.Generator, epsilon: float) -> str:
    if rng.random() < epsilon:
        return str(actions[rng.integers(len(actions))])
    worth = np.array([row.get(action, 0.0) for action in actions])
    best = np.flatnonzero(worth == worth.max())
    return str(actions[best[rng.integers(len(best))]])


def _greedy_success(env: Any, task: str, values: Values, seed: int) -> bool:
    rng = np.random.default_rng([seed, 8])
    _, info = env.reset(seed=seed, options={"task_id": task})
    while True:
        action = _choose(values[task, info["state_key"]], info["admissible_actions"], rng, 0.0)
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return bool(info["success"])


# ---- PPO from planes ----


def ppo(part: Mapping[str, Any], rate: float, entropy: float) -> dict[str, float]:
    """Success with sampled actions on trained and held-out levels: mean over the curve, and at its end."""
    import torch
    from evidence.dense_rewards.ppo_dense import Options, learn
    from helpers.worlds.sokoban_vector import sokoban_vector

    torch.set_num_threads(1)
    arm, seed = part["arm"], part["seed"]
    trained, held_out = PPO_PANELS[part["env"]][part["use"]]
    steps = PPO_STEPS // (2 if part["use"] == "choose" else 1) * (2 if arm == "sparse-twice" else 1)
    kwargs: dict[str, Any] = {
        "autoreset_mode": "SameStep",
        "obs_mode": "planes",
        "action_mode": "discrete",
        "grid_shape": [8, 8] if part["env"].endswith("8x8") else [6, 6],
    }
    envs: Any = sokoban_vector(PPO_ENVS, panel=trained, **kwargs)
    if arm == "count":
        envs = _CountBonus(envs, 0.02)
    elif not arm.startswith("sparse"):
        scheme, options = shaping_of(arm)
        envs = VectorDenseReward(envs, scheme, gamma=GAMMA, truncation="bootstrap", publish_every=PPO_ENVS, **options)
    ids = [(panel, [row.task_id for row in parse_panel_spec("sokoban", panel)]) for panel in (trained, held_out)]
    rng, curve = np.random.default_rng([seed, 1]), list[list[float]]()
    due = [round((point + 1) * steps / PPO_POINTS / 2048) * 2048 for point in range(PPO_POINTS)]

    def measure(done: int, act: Any) -> None:
        if len(curve) < PPO_POINTS and done >= due[len(curve)]:
            curve.append([_success(act, panel, tasks, kwargs) for panel, tasks in ids])

    if part["learner"] == "sb3":
        _learn_sb3(envs, Options(learning_rate=rate, gamma=discount_of(arm), entropy=entropy), due[-1], seed, measure)
    else:
        settings = Options(learning_rate=rate, gamma=discount_of(arm), entropy=entropy)
        learn(envs, settings, steps=due[-1], seed=seed,
              after_batch=lambda done, policy: measure(done, lambda obs: policy.act(obs, rng)))  # fmt: skip
    points = np.array(curve)
    area, final = points.mean(axis=0), points[-1]
    return {"area": area[0], "final": final[0], "area_held_out": area[1], "final_held_out": final[1]}


def _learn_sb3(envs: Any, options: Any, steps: int, seed: int, measure: Any) -> None:
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback

    from creditflow.train.adapters.sb3 import VectorEnvAdapter

    class Measure(BaseCallback):
        """Measures before every rollout, which is after an update."""

        def _on_rollout_start(self) -> None:
            if self.num_timesteps:
                measure(self.num_timesteps, lambda obs: self.model.predict(obs)[0])

        def _on_step(self) -> bool:
            return True

    model = PPO(
        "MlpPolicy", VectorEnvAdapter(envs), seed=seed, device="cpu", n_steps=32, n_epochs=4, batch_size=512,
        learning_rate=options.learning_rate, gamma=options.gamma, gae_lambda=0.95, clip_range=0.2, ent_coef=options.entropy, vf_coef=0.5, max_grad_norm=0.5,
        policy_kwargs={"net_arch": {"pi": [128, 128], "vf": [128, 128]}},
    )  # fmt: skip
    model.learn(steps, callback=Measure())
    measure(steps, lambda obs: model.predict(obs)[0])


def _success(act: Any, panel: str, tasks: list[str], kwargs: dict[str, Any]) -> float:
    from helpers.worlds.sokoban_vector import sokoban_vector

    envs: Any = sokoban_vector(len(tasks), panel=panel, **kwargs)
    obs = np.stack([env.reset(options={"task_id": task})[0] for env, task in zip(envs.envs, tasks, strict=True)])
    solved = np.zeros(len(tasks), dtype=np.bool_)
    for _ in range(envs.get_attr("max_steps")[0]):
        obs, _, terminations, _, _ = envs.step(act(obs))
        solved |= terminations  # an episode that is not solved lasts as long as this loop
        if solved.all():
            break
    return float(solved.mean())


class _CountBonus:
    """β / √n of the state that is reached, added to the rewards of a vector environment."""

    def __init__(self, envs: Any, beta: float) -> None:
        self._envs, self._beta = envs, beta
        self._visits: dict[tuple[str, str], int] = defaultdict(int)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._envs, name)

    def step(self, actions: Any) -> Any:
        """Take one step in every environment."""
        obs, rewards, terminations, truncations, infos = self._envs.step(actions)
        bonus = np.zeros(len(rewards))
        for number, state in enumerate(zip(infos["task_id"], infos["state_key"], strict=True)):
            self._visits[state] += 1
            bonus[number] = self._beta / self._visits[state] ** 0.5
        return obs, rewards + bonus, terminations, truncations, infos


# ---- the design, its parts and their table ----


def parts() -> Iterator[dict[str, Any]]:
    """All parts: in every setting those that choose first, then those that are reported, by seed, so that arms stay paired."""
    for name in ENVS:
        arms = (*ARMS, *OWN_ARMS.get(name, ()))
        for seed, arm, rate in product(CHOOSING_SEEDS["q"], arms, RATES["q"]):
            yield {"learner": "q", "env": name, "arm": arm, "rate": rate, "seed": seed, "use": "choose"}
        for seed, arm in product(SEEDS["q"], arms):
            yield {"learner": "q", "env": name, "arm": arm, "rate": None, "seed": seed, "use": "measure"}
    for name in ENVS:
        for seed, arm, rate in product(CHOOSING_SEEDS["q"], WINDOWS, RATES["q"]):
            yield {"learner": "q", "env": name, "arm": arm, "rate": rate, "seed": seed, "use": "choose"}
        for seed, arm in product(SEEDS["q"], WINDOWS):
            yield {"learner": "q", "env": name, "arm": arm, "rate": None, "seed": seed, "use": "measure"}
    of_ppo = {"learner": "ppo", "env": "Sokoban"}
    for seed, arm, rate in product(CHOOSING_SEEDS["ppo"], PPO_ARMS, RATES["ppo"]):
        yield {**of_ppo, "arm": arm, "rate": rate, "seed": seed, "use": "choose"}
    for seed, arm, entropy in product(CHOOSING_SEEDS["ppo"], PPO_ARMS, ENTROPIES):
        if entropy != ENTROPIES[1]:
            yield {**of_ppo, "arm": arm, "rate": None, "entropy": entropy, "seed": seed, "use": "choose"}
    for learner in ("ppo", "sb3"):
        for seed, arm in product(SEEDS["ppo"], PPO_ARMS):
            yield {"learner": learner, "env": "Sokoban", "arm": arm, "rate": None, "seed": seed, "use": "measure"}
    for seed, arm, rate in product(CHOOSING_SEEDS["ppo"], LARGER_ARMS, LARGER_RATES):
        yield {"learner": "ppo", "env": "Sokoban 8x8", "arm": arm, "rate": rate, "seed": seed, "use": "choose"}
    for seed, arm in product(SEEDS["ppo"], LARGER_ARMS):
        yield {"learner": "ppo", "env": "Sokoban 8x8", "arm": arm, "rate": None, "seed": seed, "use": "measure"}


def play(part: dict[str, Any], rate: float, entropy: float) -> dict[str, float]:
    """Run one part."""
    if part["learner"] == "q":
        return q_learning(part["env"], part["arm"], rate, part["seed"])
    return ppo(part, rate, entropy)


def name_of(part: dict[str, Any]) -> str:
    """What identifies a part."""
    return json.dumps([part.get(key) for key in ("learner", "env", "arm", "seed", "use", "rate", "entropy")])


def chosen(rows: list[dict[str, Any]], part: dict[str, Any]) -> tuple[float, float] | None:
    """The part's rate and entropy bonus: its own, else those with the largest mean area where they are chosen; None before these ran."""
    learner = "ppo" if part["learner"] == "sb3" else part["learner"]

    def best(name: str, values: tuple[float, ...], **others: Any) -> float | None:
        wanted = {"learner": learner, "env": part["env"], "arm": part["arm"], "use": "choose", **others}
        means = {}
        for value in values:
            alike = wanted | {name: value}
            areas = [row["area"] for row in rows if all(row.get(key) == alike[key] for key in alike)]
            if len(areas) < len(CHOOSING_SEEDS[learner]):
                return None
            means[value] = np.mean(areas)
        return max(means, key=lambda value: means[value])

    usual, larger = ENTROPIES[1], part["env"] == "Sokoban 8x8"
    rate = part["rate"] or best("rate", LARGER_RATES if larger else RATES[learner])
    if rate is None or learner != "ppo" or part["rate"] or larger:
        return None if rate is None else (rate, usual)
    entropy = part.get("entropy") or best("used_entropy", ENTROPIES, used_rate=rate)
    return None if entropy is None else (rate, entropy)


def interval(values: np.ndarray[Any, Any]) -> list[float]:
    """Mean and 95 % interval by Student's t."""
    from scipy.stats import t

    mean = float(values.mean())
    half = (
        float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5)
        if len(values) > 1
        else float("nan")
    )
    return [round(x, 4) for x in (mean, mean - half, mean + half)]


def table_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each arm, and its difference from sparse paired by seed."""
    measured: dict[tuple[str, str, str], dict[int, dict[str, float]]] = defaultdict(dict)
    for row in rows:
        if row["use"] == "measure":
            measured[row["learner"], row["env"], row["arm"]][row["seed"]] = row
    table = []
    for (learner, env, arm), by_seed in measured.items():
        base = measured.get((learner, env, "sparse"), {})
        seeds = sorted(set(by_seed) & set(base))
        if not seeds:
            continue
        line: dict[str, Any] = {
            "learner": learner,
            "env": env,
            "arm": arm,
            "seeds": len(seeds),
            "rate": by_seed[seeds[0]]["used_rate"],
        }
        for measure in ("area", "final", "area_held_out", "final_held_out"):
            if measure in by_seed[seeds[0]]:
                line[measure] = interval(np.array([by_seed[seed][measure] for seed in seeds]))
                if arm != "sparse":
                    paired = np.array([by_seed[seed][measure] - base[seed][measure] for seed in seeds])
                    line[f"{measure}_minus_sparse"] = interval(paired)
        table.append(line)
    return table


def plot(table: list[dict[str, Any]], path: Path) -> None:
    """Differences from the sparse reward, a panel for each learner and environment: the potentials that are compared most."""
    panels = []
    for learner, env in dict.fromkeys((line["learner"], line["env"]) for line in table):
        lines = {line["arm"]: line for line in table if (line["learner"], line["env"]) == (learner, env)}
        gains = {arm: Estimate(*line["area_minus_sparse"]) for arm, line in lines.items() if arm != "sparse"}
        names = [arm for arm in DRAWN if arm in gains][:MARKS]
        perfect = gains["oracle"].mean if "oracle" in gains else None
        panels.append(
            Shown(f"{LEARNERS[learner]}, {env}", {arm: gains[arm] for arm in names}, gains.get("shuffled"), perfect)
        )
    label = "success while learning, more than with the sparse reward"
    draw(panels, path, label, control="shuffled potential", perfect="the oracle's potential", alike=False)


def main() -> None:
    """Run the parts that are missing, or summarize."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of results.jsonl and the summary")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no part after this time")
    parser.add_argument("--only", default="", help="LEARNER or LEARNER:ENVIRONMENT, such as q:WebShop")
    parser.add_argument("--arms", nargs="*", default=[], help="only these arms")
    parser.add_argument("--summary", action="store_true", help="draw what has run")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    path, start = args.out / "results.jsonl", time.monotonic()
    rows = list[dict[str, Any]]()
    if path.exists():
        rows = [row for _, row in read_appended(path, '{"learner": "', "results of this study")]
    if args.summary:
        plot(table_of(rows), args.out / "results.png")
        return
    finished = {(name_of(row), row["used_rate"]) for row in rows}
    for part in parts():
        wanted = not args.only or args.only in (part["learner"], f"{part['learner']}:{part['env']}")
        if not wanted or (args.arms and part["arm"] not in args.arms):
            continue
        if time.monotonic() - start > 60 * args.minutes:
            print("time is up; run the command again to go on")
            return
        settled = chosen(rows, part)
        if settled is None or (name_of(part), settled[0]) in finished:
            continue  # or its rate has not been chosen yet
        rate, entropy = settled
        began = time.process_time()
        row = {**part, "used_rate": rate, **{k: round(float(v), 6) for k, v in play(part, rate, entropy).items()}}
        if part["learner"] in ("ppo", "sb3"):
            row["used_entropy"] = entropy
        row["seconds"] = round(time.process_time() - began, 2)
        rows.append(row)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(
            part["learner"],
            part["env"],
            part["arm"],
            rate,
            part["seed"],
            part["use"],
            row["area"],
            row["final"],
            row["seconds"],
            flush=True,
        )


if __name__ == "__main__":
    main()

"""Schemes, judges and a model's own numbers against replayed advantages, in several logs; README.md has the predictions.

  python tests/evidence/replay/run.py --out results.jsonl [--logs sokoban,webshop] [--work FOLDER] [--workers N]
      [--model NAME=FOLDER] [--base FOLDER]

A log is played and replayed (``creditflow audit --replay``), and gets the numbers of its judges; then a line is appended. Called again,
the command does the logs that are missing, and continues a replay that was interrupted.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from creditflow.train.analyses.replayed import Replay, replayed
from creditflow.train.cli import main as creditflow
from creditflow.train.statistics import ClusteredMean
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import read_groups
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["LOGS", "Log", "judged", "noisy_oracle", "play", "row_of"]


class Log(NamedTuple):
    """What is played, and how often from every state.

    Attributes:
        env, panel, agent, turns: environment, tasks, agent and limit; "" is the model that ``--model`` names as the log.
        tasks: number of tasks, four episodes each.
        continuations: K.
        more: other options of ``creditflow rollout``.
    """

    env: str
    panel: str
    agent: str
    turns: int
    tasks: int = 12
    continuations: int = 16
    more: tuple[str, ...] = ()


ASCII: Final = ("--env-set", "symbols=ascii")
LOGS: Final = {
    "sokoban": Log("sokoban", "small-v1:valid", "noisy:0.5", 12),
    "alfworld": Log("alfworld", "standard-v3:valid", "noisy:0.7", 14),
    "webshop": Log("webshop", "standard-v1:valid", "noisy:0.4", 10),
    "wikisearch": Log("wikisearch", "standard-v1:valid", "noisy:0.5", 8),
    "small": Log("sokoban", "small-v1:valid", "", 12, more=(*ASCII, "--env-set", "separator=")),
    "imitated": Log("sokoban", "easy-v1:valid", "", 8, 16, 8, ASCII),
    "trained": Log("sokoban", "easy-v1:valid", "", 8, 16, 8, ASCII),
    "base": Log("sokoban", "easy-v1:valid", "", 8, 4, 4, ASCII),
}
JUDGED: Final = "State:\n{state}\n\nAction: {action}\n\nDoes this action help to solve the task? Answer yes or no."
LONGEST: Final = 800  # characters of an observation that the judge reads
LARGEST: Final = 64  # texts that the judge reads at a time


def noisy_oracle(turn: Turn, rng: np.random.Generator) -> float:
    """By how much a turn shortens the way to the goal, within [−1, 1], plus standard normal noise: no judge, but a known one's measure."""
    before, after = (
        math.inf if d < 0.0 else d for d in (turn.values["distance.oracle"], turn.values["distance.oracle.next"])
    )
    gain = 0.0 if before == after else float(np.clip(before - after, -1.0, 1.0))
    return gain + float(rng.normal())


def with_values(groups: Sequence[Group], name: str, value: Callable[[Trajectory, int], float]) -> list[Group]:
    """The groups with one more number in every turn."""
    return [
        replace(
            group,
            trajectories=tuple(
                replace(
                    member,
                    turns=tuple(
                        replace(turn, values={**turn.values, name: value(member, t)})
                        for t, turn in enumerate(member.turns)
                    ),
                )
                for member in group.trajectories
            ),
        )
        for group in groups
    ]


def judge(groups: Sequence[Group], folder: str) -> list[Group]:
    """``judge.model``: how likely a chat model finds "yes" rather than "no" after a turn's state and action; equal questions are asked once."""
    import torch

    from creditflow.agents.language_model.pretrained import open_pretrained

    model, tokenizer = open_pretrained(folder, device="cpu")
    yes, no = (tokenizer.encode(word, add_special_tokens=False)[0] for word in ("Yes", "No"))

    def question(member: Trajectory, t: int) -> str:
        turn = member.turns[t]
        content = JUDGED.format(state=turn.observation[-LONGEST:], action=turn.action)
        return str(
            tokenizer.apply_chat_template(
                [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
            )
        )

    asked = sorted(
        {question(m, t) for group in groups for m in group.trajectories for t in range(len(m.turns))}, key=len
    )
    answers: dict[str, float] = {}
    tokenizer.padding_side = "left"
    with torch.no_grad():
        for start in range(0, len(asked), LARGEST):
            texts = asked[start : start + LARGEST]
            logits = model(**tokenizer(texts, return_tensors="pt", padding=True), logits_to_keep=1).logits[:, -1]
            answers |= dict(zip(texts, torch.sigmoid(logits[:, yes] - logits[:, no]).tolist(), strict=True))
    return with_values(groups, "judge.model", lambda member, t: answers[question(member, t)])


def own_numbers(groups: Sequence[Group], policy: str, reference: str) -> list[Group]:
    """``entropy`` of the policy, the mean over a turn's tokens, and ``ratio``, their log-probability minus that under a reference."""
    import torch

    from creditflow.agents.language_model.pretrained import open_pretrained

    models = [open_pretrained(folder, device="cpu")[0] for folder in (policy, reference) if folder]

    def numbers(history: Any, sampled: Any) -> tuple[float, float]:
        ids = torch.tensor(np.concatenate([history, sampled])[None].astype(np.int64))
        with torch.no_grad():
            kept = [model(ids, logits_to_keep=len(sampled) + 1).logits[0, :-1].log_softmax(-1) for model in models]
        entropy = -(kept[0].exp() * kept[0]).sum(-1).mean()
        chosen = [of_model.gather(1, ids[0, -len(sampled) :, None]).sum() for of_model in kept]
        return float(entropy), float(chosen[0] - chosen[-1])

    found: dict[str, list[tuple[float, float]]] = {}
    for group in groups:
        for member in group.trajectories:
            tokens = member.tokens
            assert tokens is not None
            histories = tokens.prompts or [tokens.ids[: of_turn[0]] for of_turn in tokens.written()]
            parts = zip(tokens.turn_offsets[:-1], tokens.turn_offsets[1:], strict=True)
            found[member.trajectory_id] = [
                numbers(histories[t], tokens.ids[a:b][tokens.mask[a:b]]) for t, (a, b) in enumerate(parts)
            ]
    named = with_values(groups, "entropy", lambda member, t: found[member.trajectory_id][t][0])
    return with_values(named, "ratio", lambda member, t: found[member.trajectory_id][t][1]) if reference else named


def play(name: str, log: Log, work: Path, model: str, workers: int) -> Path:
    """Play a log and replay it; what is there already is kept."""
    played, out = work / f"{name}-played.jsonl", work / f"{name}-replayed.jsonl"
    if not played.exists():
        place = ["--env", log.env, "--panel", log.panel, "--max-turns", str(log.turns), *log.more]
        size = ["--limit", str(log.tasks), "--group-size", "4", "--seed", "1", "--oracle", "--resume"]
        _run(["rollout", *place, "--agent", log.agent or f"hf:{model}", *size, "--out", str(played)])
    if not out.exists():
        speed = (["--workers", str(workers)] if workers else []) + (["--threads", "1"] if model else [])
        command = ["audit", str(played), "--replay", str(log.continuations), "--out", str(out), "--resume"]
        _run([*command, *speed])
    return out


def judged(replays: Path, model: str, base: str, *, differs: bool) -> list[Group]:
    """The replayed log with the numbers of its judges and of its model.

    Args:
        replays: the log.
        model: folder of the model that played it; "" for none.
        base: folder of the chat model that judges; "" for none.
        differs: whether the model was trained from ``base``, so that there is a ratio of the two.
    """
    rng = np.random.default_rng(0)
    groups = with_values(
        read_groups(replays), "judge.noisy_oracle", lambda member, t: noisy_oracle(member.turns[t], rng)
    )
    if base:
        groups = judge(groups, base)
    return own_numbers(groups, model, base if differs else "") if model else groups


def _run(arguments: list[str]) -> None:
    if code := creditflow(arguments):
        raise SystemExit(code)


def row_of(name: str, found: Replay) -> dict[str, Any]:
    """What is stored of a replayed log."""
    counts = ("tasks", "turns", "continuations", "gains", "losses", "reliability", "sufficient", "episodes", "played_turns", "tokens")  # fmt: skip
    return {
        "log": name,
        **{count: getattr(found, count) for count in counts},
        "measurable": _numbers(found.measurable),
        "signals": {
            signal: {
                "rank": _numbers(a.rank),
                "lead": _numbers(a.lead),
                "auroc": _numbers(a.auroc),
                "false_credit": a.false_credit.mean,
            }
            for signal, a in found.signals.items()
        },
    }


def _numbers(x: ClusteredMean) -> list[float]:
    """Mean, standard error and degrees of freedom."""
    return [x.mean, x.standard_error, x.degrees_of_freedom]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="results, one line per log")
    parser.add_argument("--work", type=Path, default=Path("runs/replay"), help="folder of the logs")
    parser.add_argument("--logs", default=",".join(name for name, log in LOGS.items() if log.agent))
    parser.add_argument(
        "--model", action="append", default=[], metavar="NAME=FOLDER", help="the language model of a log"
    )
    parser.add_argument("--base", default="", help="chat model that judges, and the reference of ratios")
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in options.out.read_text("utf-8").splitlines()] if options.out.exists() else []
    models = dict(entry.split("=", 1) for entry in options.model)
    for name in options.logs.split(","):
        if name in {row["log"] for row in done}:
            continue
        model = models.get(name, "")
        replays = play(name, LOGS[name], options.work, model, options.workers)
        found = replayed(judged(replays, model, options.base, differs=name in ("imitated", "trained")))
        with options.out.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row_of(name, found)) + "\n")


if __name__ == "__main__":
    main()

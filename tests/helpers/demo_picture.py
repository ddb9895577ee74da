"""Make the example of ``creditflow demo`` and README's picture of it.

    PYTHONPATH=src python tests/helpers/demo_picture.py

Plays eight rollouts of one WebShop task, measures by replay what each turn of one of them changed, and writes
``assets/examples/webshop.jsonl.gz``, ``assets/examples/webshop_replay.json`` and ``assets/images/credit-{light,dark}.svg``.
"""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any, Final

import numpy as np

import creditflow
from creditflow import credit
from creditflow.agents import NoisyExpert
from creditflow.train.commands.demo import SHOWN, example_group, replayed_changes
from creditflow.train.rollout import play_group
from creditflow.wrappers import Group, GroupEnv
from creditflow.wrappers.records.jsonl import write_jsonl

ASSETS: Final = Path(__file__).resolve().parents[2] / "assets"
PANEL, TASK, NOISE = "standard-v1:train", "webshop1:1a9db13cc161d0c59c9d98c455e2629c", 0.3
REPLAYS: Final = 2_000  # from before and after each turn
COLUMNS: Final = (("grpo", "GRPO"), ("grouptd", "grouptd"), ("replay", "measured by replay"))


def played_group() -> Group:
    """Eight rollouts of an expert whose actions are random with probability ``NOISE``."""
    env = GroupEnv("webshop", size=8, panel=PANEL)
    return play_group(env, NoisyExpert(NOISE), env.tasks.get(TASK))


def replay(group: Group, replays: int, rng: np.random.Generator) -> dict[str, Any]:
    """Mean final score when the same expert plays on from before the first turn and after each turn of the shown rollout.

    Returns:
        ``values`` float (T + 1) in [0, 1], their standard errors ``errors``, and the number of ``replays`` behind each.
    """
    env: Any = creditflow.make("webshop", panel=PANEL).unwrapped
    actions = [turn.action for turn in group.trajectories[SHOWN].turns]
    scores = np.array([[_final_score(env, actions[:t], rng) for _ in range(replays)] for t in range(len(actions) + 1)])
    errors = scores.std(axis=1) / np.sqrt(replays)
    return {"values": scores.mean(axis=1).round(4).tolist(), "errors": errors.round(4).tolist(), "replays": replays}


def _final_score(env: Any, actions: list[str], rng: np.random.Generator) -> float:
    _, info = env.reset(options={"task_id": TASK})
    done = False
    for action in actions:
        _, _, terminated, truncated, info = env.step(action)
        done = terminated or truncated
    while not done:
        best = () if rng.random() < NOISE else env.oracle.optimal_actions(env.get_state())
        choices = best or info["admissible_actions"]
        _, _, terminated, truncated, info = env.step(choices[rng.integers(len(choices))])
        done = terminated or truncated
    return float(info["score"])


def columns(group: Group) -> dict[str, np.ndarray]:
    """The numbers of each turn of the shown rollout, float64 (T,), by column of the picture."""
    return {
        "grpo": credit.make("grpo").assign(group).advantages[SHOWN],
        "grouptd": credit.make("grouptd").assign(group).advantages[SHOWN],
        "replay": replayed_changes(),
    }


def picture(group: Group, *, dark: bool) -> str:
    """The shown rollout as an SVG: a row per turn, a bar per column, each column in units of its largest bar."""
    ink, soft, line, paper = (
        ("#e6edf3", "#9198a1", "#30363d", "#0d1117") if dark else ("#1f2328", "#59636e", "#d1d9e0", "#ffffff")
    )
    good, bad = ("#58a6ff", "#ff9e64") if dark else ("#0969da", "#bc4c00")
    width, height, left, step = 880, 276, 400, 160
    turns, values = group.trajectories[SHOWN].turns, columns(group)
    worst = int(np.argmin(values["replay"]))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="DejaVu Sans, Helvetica, Arial, sans-serif">',
        f'<rect width="{width}" height="{height}" fill="{paper}"/>',
    ]

    def text(
        x: float, y: float, words: str, *, size: int = 14, fill: str = ink, anchor: str = "start", bold: bool = False
    ) -> None:
        weight = ' font-weight="bold"' if bold else ""
        parts.append(
            f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}"{weight}>{html.escape(words)}</text>'
        )

    text(8, 24, "Task: buy a lip balm, scent almond, size 30 ml.", size=15, bold=True)
    text(
        8,
        46,
        "The agent bought it before it had chosen the scent. Its score, 0.83, is above its group's mean, 0.81.",
        size=13,
        fill=soft,
    )
    for c, (name, title) in enumerate(COLUMNS):
        text(left + c * step + step / 2, 78, title, anchor="middle", bold=name == "grouptd")
    for t, turn in enumerate(turns):
        y = 90 + 42 * t
        outline, thickness = (bad, 2) if t == worst else (line, 1)
        parts.append(
            f'<rect x="8" y="{y}" width="372" height="34" rx="6" fill="none" stroke="{outline}" stroke-width="{thickness}"/>'
        )
        action = turn.action if len(turn.action) <= 38 else f"{turn.action[:36]}…"
        text(18, y + 22, f"{t + 1}   {action}", bold=t == worst)
        for c, (name, _) in enumerate(COLUMNS):
            value, largest = float(values[name][t]), float(np.abs(values[name]).max())
            middle = left + c * step + step / 2
            length = 50 * abs(value) / max(largest, 0.1)
            start = middle if value > 0 else middle - length
            parts.append(f'<line x1="{middle:.0f}" x2="{middle:.0f}" y1="{y}" y2="{y + 34}" stroke="{line}"/>')
            parts.append(
                f'<rect x="{start:.1f}" y="{y + 9}" width="{length:.1f}" height="16" rx="2" fill="{good if value > 0 else bad}"/>'
            )
            beside, anchor = (middle + max(length, 2) + 6, "start") if value > 0 else (middle + 6, "start")
            text(beside, y + 22, f"{value:+.2f}".replace("-", "−"), size=13, anchor=anchor, bold=t == worst and c > 0)
    text(left + step / 2, 266, "praises every turn", size=13, fill=soft, anchor="middle")
    text(left + 1.5 * step, 266, "blames the purchase", size=13, fill=soft, anchor="middle", bold=True)
    text(left + 2.5 * step, 266, "the truth", size=13, fill=soft, anchor="middle")
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    write_jsonl(ASSETS / "examples" / "webshop.jsonl.gz", [played_group()])
    measured = replay(example_group(), REPLAYS, np.random.default_rng(0))
    (ASSETS / "examples" / "webshop_replay.json").write_text(json.dumps(measured) + "\n", encoding="ascii")
    for name, dark in (("light", False), ("dark", True)):
        (ASSETS / "images" / f"credit-{name}.svg").write_text(picture(example_group(), dark=dark), encoding="utf-8")

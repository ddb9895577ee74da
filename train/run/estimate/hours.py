"""GPU hours of a training run, estimated from its settings, the sizes of its model and the prompts that its environment shows.

A forward pass is 2 FLOP per weight and token and 2 · layers · heads · head size · length per token of a causal sequence; a backward
pass is two forward passes, through an adapter one. Tokens are sampled one at a time: a step takes as long as its arithmetic, as
reading all weights and the key-value cache once, or as starting its kernels, whichever is longest. How long prompts and
episodes are is measured on a few episodes of the environment's expert.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from creditflow.agents.base import Decision, View
from creditflow.agents.language_model.parsing import make_dialect
from creditflow.agents.prompts import make_prompt, slots_of
from creditflow.agents.prompts.template import PICTURE
from creditflow.agents.scripted import ExpertAgent
from creditflow.envs.registration import maker
from creditflow.envs.tasks import Task
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.run.estimate.memory import BYTES, ModelSizes
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.pictures import picture_in

__all__ = [
    *("EPISODES", "GPUS", "Gpu", "Prompts", "forward_flops", "hours_of", "hours_text"),
    *("measured_prompts", "passes", "range_text", "rough_tokens"),
]

EPISODES: Final = 8  # of the expert; tasks at equal distances in the list
PIXELS: Final = 28 * 28  # that one token of a picture stands for in the Qwen-VL families
_PIECE: Final = re.compile(r"[^\W\d_]+|\d|[^\w\s]|_")


class Gpu(NamedTuple):
    """Peak speeds of a GPU: FLOP/s of dense matrix products in bfloat16, and bytes/s of its memory."""

    flops: float
    bandwidth: float


# NVIDIA's data sheets, SXM boards of 80 GB; an A800 computes as an A100
GPUS: Final[Mapping[str, Gpu]] = MappingProxyType({"A100": Gpu(312e12, 2.04e12), "H100": Gpu(989e12, 3.35e12)})
ARITHMETIC: Final = (
    0.4  # of the peak FLOP/s, which leaves room for padding; 0.58 were measured on an H200 with packed rows
)
BANDWIDTH: Final = 0.5  # of the peak bytes/s while sampling, assumed
# seconds of a layer in a step of sampling: measured on an H200 with vLLM (tests/evidence/gpu); without graphs of kernels 1.5 times
CAPTURED: Final = 4e-4
STARTED: Final = 6e-4
SPREAD: Final = 2.0  # how far a measured run may lie above or below: a range within a factor of four
MEASURED: Final = (
    "one iteration on an H200 took 1.6 times the middle of its range, and RewardFlow's ALFWorld run 1.2 times"
)


@dataclass(frozen=True, slots=True)
class Prompts:
    """Lengths in tokens, means over the expert's episodes.

    Attributes:
        turns: turns of an episode.
        limit: most turns that the environment, or the run's own budget, allows.
        first: the first prompt with the system message.
        later: what every later turn adds: a prompt of its own (history "window"), or a message ("append").
        action: a completion that writes an action without a thought.
        pictures: tokens of pictures in a prompt; they are counted in ``first`` and ``later`` too.
        longest: tokens of the longest prompt with its completion, in an episode of ``limit`` turns.
    """

    turns: float
    limit: int
    first: float
    later: float
    action: float
    pictures: float = 0.0
    longest: int = 0


def rough_tokens(text: str) -> int:
    """Tokens of a text without a tokenizer: one per word, digit and mark.

    >>> rough_tokens("You see a drawer 12.")
    7
    """
    return len(_PIECE.findall(text))


def measured_prompts(
    settings: TrainConfig, tasks: Sequence[Task], count: Callable[[str], int] = rough_tokens
) -> Prompts:
    """Play the expert on a few tasks, and fill the run's prompts on the way.

    Args:
        settings: settings of the run.
        tasks: the run's tasks.
        count: number of tokens of a text.

    Raises:
        CreditflowError: the environment has no oracle, or the prompt does not fit it.
    """
    env = settings.env
    agent = _Reader(settings, count)
    engine = RolloutEngine(
        lambda: GroupEnv(
            maker(env.name, env.options), size=1, invalid_actions=env.invalid_actions, texts=True, policy="lm"
        )
    )
    step = max(1, len(tasks) // EPISODES)
    engine.play(agent, list(tasks[::step][:EPISODES]), seed=settings.seed)
    limit = min(filter(None, (agent.limit, settings.rollout.max_turns)))
    first = float(np.mean(agent.first))
    if settings.prompting.history == "window":
        longest = max(agent.first + agent.later) + settings.rollout.max_new_tokens
    else:
        longest = max(agent.first) + (limit - 1) * max(agent.later, default=0) + limit * settings.rollout.max_new_tokens
    return Prompts(
        turns=min(float(limit), 1.0 + len(agent.later) / len(agent.first)),
        limit=limit,
        first=first,
        later=float(np.mean(agent.later)) if agent.later else first,
        action=float(np.mean(agent.actions)),
        pictures=float(np.mean(agent.pictures)),
        longest=longest,
    )


@dataclass
class _Reader(ExpertAgent):
    """The expert, which counts every prompt that a model would be shown, and the text of its own action."""

    settings: TrainConfig
    count: Callable[[str], int]
    limit: int = 0
    first: list[int] = field(default_factory=list)
    later: list[int] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    pictures: list[int] = field(default_factory=list)

    def act(self, views: Sequence[View]) -> list[Decision]:
        """One decision per view."""
        prompting = self.settings.prompting
        prompt, dialect = make_prompt(prompting.prompt), make_dialect(prompting.dialect)
        windowed = prompting.history == "window"
        for view in views:
            self.limit = view.env.max_steps
            slots = slots_of(prompt, view, prompting.window)
            part = "windowed" if windowed else "later"
            if not view.turns:
                part = "first"
            whole = windowed or not view.turns
            text = (prompt.fill("system", slots) if whole else "") + prompt.fill(part, slots)
            shown = prompt.pictures(part) * _picture_tokens(view.observation)
            length = self.count(text.replace(PICTURE, "")) + shown
            (self.later if view.turns else self.first).append(length)
            self.pictures.append(shown)
        decisions = super().act(views)
        for decision in decisions:
            if isinstance(decision.action, str):
                self.actions.append(self.count(dialect.write(decision.action)))
        return decisions


def _picture_tokens(observation: Any) -> int:
    pixels = picture_in(observation)
    return 0 if pixels is None else pixels.shape[0] * pixels.shape[1] // PIXELS


def hours_of(
    sizes: ModelSizes, settings: TrainConfig, prompts: Prompts, gpu: Gpu, panels: tuple[int, int] = (0, 0)
) -> float:
    """GPU hours of a run, with every turn that is allowed and completions half as long as allowed.

    The environments' own time, annotators and checkpoints are not counted. All groups are trained on, and prefixes that
    rows share are counted in each, unless rows are whole episodes or packed.

    Args:
        sizes: sizes of the model.
        settings: settings of the run.
        prompts: lengths of prompts and episodes.
        gpu: the GPU.
        panels: tasks of the panel that is evaluated again and again, and of the final one.
    """
    update, rollout, evaluation = settings.update, settings.rollout, settings.evaluation
    context = settings.prompting.max_context or math.inf
    turns, completion = float(prompts.limit), max(prompts.action, rollout.max_new_tokens / 2)
    first, later = prompts.first, prompts.later
    if settings.prompting.history == "window":
        first, later = (min(length, max(0.0, context - completion)) for length in (first, later))
        read = first + (turns - 1) * later
        rows = read + turns * completion
        length = rows / turns
    else:
        read = first + (turns - 1) * later
        fits = min(1.0, context / (read + turns * completion))  # a conversation that fills the context ends
        turns, read = fits * turns, fits * read
        length = read + turns * completion
        unrepeated = update.row_layout == "trajectory" or update.packing == "packed"
        rows = length * (1.0 if unrepeated else (1 + turns) / 2)
    pictures = turns * prompts.pictures

    captured = settings.generation.backend == "vllm" and not settings.generation.vllm.eager
    weights = settings.model.lora.base_dtype if settings.model.lora.rank else "float32"
    number = BYTES[weights if rollout.dtype == "same" else rollout.dtype]
    cache = sizes.layers * sizes.kv_heads * sizes.head_dim * length  # keys and values, half full on average

    def sampling(episodes: int) -> float:
        """Seconds in which episodes take their turns together; a turn lasts as long as its longest completion."""
        step = max(
            sizes.layers * (CAPTURED if captured else STARTED),
            number * (sizes.parameters + episodes * cache) / (gpu.bandwidth * BANDWIDTH),
            episodes * forward_flops(sizes, 1.0, length) / (gpu.flops * ARITHMETIC),
        )
        reading = episodes * forward_flops(sizes, read, length, pictures) / (gpu.flops * ARITHMETIC)
        return reading + turns * rollout.max_new_tokens * step

    def panel(tasks: int) -> float:
        """Seconds of the greedy and the sampled rounds on a panel."""
        together = min(tasks, settings.concurrent_evaluations)
        return -(-tasks // together) * (1 + evaluation.samples) * sampling(together) if tasks else 0.0

    episodes = rollout.tasks * max(rollout.group_size, rollout.branching.max_trajectories)
    together = rollout.concurrent_episodes
    sampled = -(-episodes // together) * sampling(together)
    trained = passes(settings) * episodes * forward_flops(sizes, rows, length, pictures)
    imitated = (
        3.0 * settings.sft.steps * forward_flops(sizes, settings.sft.batch_tokens, length)
        if settings.sft.episodes
        else 0.0
    )
    times = 1 + -(-update.iterations // evaluation.every) if evaluation.every else 2
    seconds = update.iterations * (sampled + trained / (gpu.flops * ARITHMETIC)) + imitated / (gpu.flops * ARITHMETIC)
    return (seconds + times * panel(panels[0]) + panel(panels[1])) / 3600.0


def passes(settings: TrainConfig) -> float:
    """Forward passes over all training rows that an iteration's arithmetic is worth; a critic's count as the policy's."""
    update, critic = settings.update, settings.critic
    again = float(settings.model.gradient_checkpointing)
    gradient = 1.0 + again + (1.0 if settings.model.lora.rank else 2.0)
    in_reward = update.loss.kl_weight > 0.0 and update.loss.kl_in == "reward"
    old = update.old_logprobs == "trainer" and (in_reward or not update.one_step)
    passes_of_policy = (
        update.epochs * gradient + float(old) + float(update.loss.kl_weight > 0.0) + float(critic.kind != "none")
    )
    return passes_of_policy + (update.epochs * gradient if critic.kind == "separate" else 0.0)


def forward_flops(sizes: ModelSizes, tokens: float, length: float, pictures: float = 0.0) -> float:
    """FLOP of a forward pass over sequences of this length, and over the pictures in them."""
    weights = (
        sizes.layers * sizes.block + sizes.vocabulary * sizes.hidden
    )  # the output layer; looking up embeddings is free
    attention = 2.0 * sizes.layers * sizes.heads * sizes.head_dim * length
    tower = 0.0 if sizes.vision is None else 2.0 * sizes.vision.parameters * sizes.vision.patches * pictures
    return tokens * (2.0 * weights + attention) + tower


def hours_text(
    sizes: ModelSizes, settings: TrainConfig, prompts: Prompts, panels: tuple[int, int] = (0, 0), gpus: int = 1
) -> str:
    """One line: the range of GPU hours on each kind of GPU, and how far such estimates were from measured runs.

    Args:
        sizes, settings, prompts, panels: as in ``hours_of``.
        gpus: GPUs that share the work.
    """
    middles = {name: hours_of(sizes, settings, prompts, gpu, panels) for name, gpu in GPUS.items()}
    ranges = ", ".join(f"{name} {range_text(hours)}" for name, hours in middles.items())
    clock = f", on the clock at least a {gpus}th of that" if gpus > 1 else ""
    return f"GPU hours: {ranges}{clock}, without the environments' own time; {MEASURED}"


def range_text(middle: float) -> str:
    """The range around an estimate in hours, with two significant digits, but no more than two decimal places.

    >>> range_text(62.0), range_text(0.1), range_text(0.01)
    ('31 to 120', '0.05 to 0.2', 'under 0.1')
    """
    low, high = middle / SPREAD, middle * SPREAD
    return f"{_rounded(low)} to {_rounded(high)}" if high >= 0.1 else "under 0.1"


def _rounded(x: float) -> str:
    digits = 2 if x < 0.1 else 1 - math.floor(math.log10(x))
    text = f"{round(x, digits):,.{max(0, min(2, digits))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text

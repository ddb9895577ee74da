"""The table of GPU hours that a dry run prints, an order of magnitude (``tests/evidence/gpu`` has one iteration).

Its parts are the arithmetic of a run, in floating-point operations (FLOP), and the time that a GPU takes for it.

A forward pass is 2 FLOP per weight and token and 2 · layers · heads · head size · length per token of a causal sequence; a backward
pass is two forward passes, through an adapter one. Tokens are sampled one at a time: a step takes as long as its arithmetic, as
reading all weights and the key-value cache once, or as starting its kernels, whichever is longest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from creditflow.envs.errors import CreditflowError
from creditflow.envs.tasks import Task
from creditflow.train.run.estimate.prompts import Prompts, measured_prompts, rough_tokens
from creditflow.train.run.estimate.sizes import BYTES, ModelSizes
from creditflow.train.settings.schema import TrainConfig
from creditflow.train.text_table import text_table

__all__ = [
    "GPUS",
    "HIGH",
    "LOW",
    "Episode",
    "Gpu",
    "Hours",
    "Pace",
    "Panels",
    "episode_of",
    "forward_flops",
    "hours_of",
    "hours_table",
    "passes",
    "range_text",
]


class Gpu(NamedTuple):
    """Peak speeds of a GPU: FLOP/s of dense matrix products in bfloat16, and bytes/s of its memory."""

    flops: float
    bandwidth: float


# NVIDIA's data sheets, SXM boards of 80 GB; an A800 computes as an A100
GPUS: Final[Mapping[str, Gpu]] = MappingProxyType({"A100": Gpu(312e12, 2.04e12), "H100": Gpu(989e12, 3.35e12)})


@dataclass(frozen=True, slots=True)
class Pace:
    """What is not known before a run; ``LOW`` and ``HIGH`` bound it, by assumption.

    Attributes:
        longest: whether episodes have as many turns as allowed, instead of the expert's.
        completion: tokens of a completion, as a fraction of the longest.
        slowest: tokens of the longest completion among those that are sampled together, as a fraction of the longest.
        arithmetic: fraction of the peak FLOP/s in passes over many tokens.
        bandwidth: fraction of the peak bytes/s while sampling.
        launch: seconds that a layer takes in a step of sampling, however little it computes.
        captured: the same where kernels are captured as graphs, by vLLM or ``rollout.compile``.
        attempts: whether dynamic sampling takes all its rounds, instead of one.
    """

    longest: bool
    completion: float
    slowest: float
    arithmetic: float
    bandwidth: float
    launch: float
    captured: float
    attempts: bool

    def launch_of(self, settings: TrainConfig) -> float:
        """Seconds that a layer of the run's sampler takes in a step."""
        vllm = settings.generation.backend == "vllm"
        return (
            self.captured if settings.rollout.compile or (vllm and not settings.generation.vllm.eager) else self.launch
        )


# a layer of transformers starts 39 kernels in a step, each of which takes a CPU 5 µs or more
LOW: Final = Pace(
    longest=False, completion=1 / 8, slowest=1 / 4, arithmetic=0.4, bandwidth=0.7, launch=39 * 5e-6, captured=2e-5,
    attempts=False,
)  # fmt: skip
HIGH: Final = Pace(
    longest=True, completion=1 / 2, slowest=1.0, arithmetic=0.15, bandwidth=0.3, launch=1e-3, captured=39 * 5e-6,
    attempts=True,
)  # fmt: skip


class Panels(NamedTuple):
    """Number of evaluated tasks: of the panel that is evaluated again and again, and of the final one."""

    valid: int = 0
    final: int = 0


class Episode(NamedTuple):
    """Tokens of one episode.

    Attributes:
        turns: its turns.
        prompts: tokens that the sampler reads anew.
        completions: sampled tokens.
        rows: tokens of its training rows.
        length: of a row.
        pictures: tokens of pictures among ``prompts``.
    """

    turns: float
    prompts: float
    completions: float
    rows: float
    length: float
    pictures: float


class Hours(NamedTuple):
    """GPU hours of the parts of a run."""

    rollout: float
    update: float
    evaluation: float

    @property
    def total(self) -> float:
        """Their sum."""
        return sum(self)


def episode_of(prompts: Prompts, settings: TrainConfig, pace: Pace) -> Episode:
    """The tokens of an episode at this pace; no prompt with its completion is longer than the context."""
    context = settings.prompting.max_context or float("inf")
    turns = float(prompts.limit) if pace.longest else prompts.turns
    completion = max(prompts.action, pace.completion * settings.rollout.max_new_tokens)
    if settings.prompting.history == "window":
        first, later = (min(length, max(0.0, context - completion)) for length in (prompts.first, prompts.later))
        read = first + (turns - 1) * later
        rows = read + turns * completion
        return Episode(turns, read, turns * completion, rows, rows / turns, turns * prompts.pictures)
    read = prompts.first + (turns - 1) * prompts.later
    cut = min(1.0, context / (read + turns * completion))  # a conversation that fills the context ends
    turns, read = cut * turns, cut * read
    whole = read + turns * completion
    prefixes = (
        1.0 if settings.update.row_layout == "trajectory" or settings.update.packing == "packed" else (1 + turns) / 2
    )
    return Episode(turns, read, turns * completion, prefixes * whole, whole, turns * prompts.pictures)


def hours_of(sizes: ModelSizes, settings: TrainConfig, prompts: Prompts, gpu: Gpu, pace: Pace, panels: Panels) -> Hours:
    """GPU hours of a run on one GPU, without the environments' own time, annotators and checkpoints.

    All groups are counted as trained on; those whose outcomes are equal cost less. Prefixes that rows share are counted in each.

    Args:
        sizes: sizes of the model.
        settings: settings of the run.
        prompts: lengths of prompts and episodes.
        gpu: the GPU.
        pace: what is assumed.
        panels: number of evaluated tasks.
    """
    update, rollout, evaluation = settings.update, settings.rollout, settings.evaluation
    one = episode_of(prompts, settings, pace)
    group = max(rollout.group_size, rollout.branching.max_trajectories)
    rounds = rollout.attempts if rollout.dynamic_sampling and pace.attempts else 1
    at_once = rollout.concurrent_episodes
    sampled = -(-rollout.tasks * group // at_once) * _sampling(sizes, settings, one, at_once, gpu, pace)
    forward = forward_flops(sizes, one.rows, one.length, one.pictures) * rollout.tasks * group
    demonstrations = 3.0 * forward_flops(sizes, settings.sft.batch_tokens, one.length) if settings.sft.episodes else 0.0
    trained = update.iterations * passes(settings) * forward + settings.sft.steps * demonstrations

    def panel(tasks: int) -> float:
        """Seconds of the greedy and the sampled rounds on a panel."""
        rows = min(tasks, settings.concurrent_evaluations)
        waves = -(-tasks // max(rows, 1)) * (1 + evaluation.samples)
        return waves * _sampling(sizes, settings, one, rows, gpu, pace)

    times = 1 + -(-update.iterations // evaluation.every) if evaluation.every else 2
    judged = times * panel(panels.valid) + panel(panels.final)
    seconds = update.iterations * rounds * sampled, trained / (gpu.flops * pace.arithmetic), judged
    return Hours(*(part / 3600.0 for part in seconds))


def passes(settings: TrainConfig) -> float:
    """Forward passes over all training rows that an iteration's arithmetic is worth; a critic's count as the policy's."""
    update, critic = settings.update, settings.critic
    again = float(settings.model.gradient_checkpointing)
    gradient = 1.0 + again + (1.0 if settings.model.lora.rank else 2.0)
    in_reward = update.loss.kl_weight > 0.0 and update.loss.kl_in == "reward"
    old = update.old_logprobs == "trainer" and (in_reward or not update.one_step)
    found = update.epochs * gradient + float(old) + float(update.loss.kl_weight > 0.0) + float(critic.kind != "none")
    return found + (update.epochs * critic.epochs * gradient if critic.kind == "separate" else 0.0)


def forward_flops(sizes: ModelSizes, tokens: float, length: float, pictures: float = 0.0) -> float:
    """FLOP of a forward pass over sequences of this length, and over the pictures in them."""
    weights = (
        sizes.layers * sizes.block + sizes.vocabulary * sizes.hidden
    )  # the output layer; looking up embeddings is free
    attention = 2.0 * sizes.layers * sizes.heads * sizes.head_dim * length
    tower = 0.0 if sizes.vision is None else 2.0 * sizes.vision.parameters * sizes.vision.patches * pictures
    return tokens * (2.0 * weights + attention) + tower


def _sampling(sizes: ModelSizes, settings: TrainConfig, one: Episode, rows: int, gpu: Gpu, pace: Pace) -> float:
    """Seconds in which ``rows`` episodes take their turns together."""
    name = settings.rollout.dtype
    kept = settings.model.lora.base_dtype if settings.model.lora.rank else "float32"
    number = BYTES[kept if name == "same" else name]
    cache = 2.0 * sizes.layers * sizes.kv_heads * sizes.head_dim * one.length / 2.0  # numbers; half full on average
    step_bytes = number * (sizes.parameters + rows * cache)
    step = max(
        sizes.layers * pace.launch_of(settings),
        step_bytes / (gpu.bandwidth * pace.bandwidth),
        rows * forward_flops(sizes, 1.0, one.length) / (gpu.flops * pace.arithmetic),
    )
    longest = max(one.completions / one.turns, pace.slowest * settings.rollout.max_new_tokens)
    read = rows * forward_flops(sizes, one.prompts, one.length, one.pictures) / (gpu.flops * pace.arithmetic)
    return read + (one.turns * longest * step if rows else 0.0)


def hours_table(
    sizes: ModelSizes,
    settings: TrainConfig,
    tasks: Sequence[Task],
    panels: Panels,
    count: Callable[[str], int] = rough_tokens,
) -> str:
    """GPU hours by part of the run and kind of GPU, and what they were computed from.

    Args:
        sizes: sizes of the model.
        settings: settings of the run.
        tasks: its tasks, of which the expert plays a few.
        panels: number of evaluated tasks.
        count: number of tokens of a text.
    """
    try:
        prompts = measured_prompts(settings, tasks, count)
    except CreditflowError as error:  # an environment without an oracle has no expert; the run itself needs none
        return f"no estimate of GPU hours, for which the environment's expert plays a few episodes: {error}"
    least = {name: hours_of(sizes, settings, prompts, gpu, LOW, panels) for name, gpu in GPUS.items()}
    most = {name: hours_of(sizes, settings, prompts, gpu, HIGH, panels) for name, gpu in GPUS.items()}

    def cells(part: str) -> list[str]:
        return [range_text(getattr(least[name], part), getattr(most[name], part)) for name in GPUS]

    rows = [["GPU hours, estimated", *GPUS], *([part, *cells(part)] for part in (*Hours._fields, "total"))]
    return f"{text_table(rows, len(rows) - 2)}\n{_assumed(prompts, settings)}"


def _assumed(prompts: Prompts, settings: TrainConfig) -> str:
    low, high = (episode_of(prompts, settings, pace) for pace in (LOW, HIGH))
    turns, completion = (
        range_text(*pair)
        for pair in ((low.turns, high.turns), (low.completions / low.turns, high.completions / high.turns))
    )
    return (
        f"unverified: counted with episodes of {turns} turns and completions of {completion} tokens (the expert's prompts have about "
        f"{prompts.first:.0f}, later turns add {prompts.later:.0f}); assumed: {HIGH.arithmetic:.0%} to {LOW.arithmetic:.0%} of the peak FLOP/s, "
        f"{HIGH.bandwidth:.0%} to {LOW.bandwidth:.0%} of the memory's speed and {1000 * LOW.launch_of(settings):.2g} to {1000 * HIGH.launch_of(settings):.2g} ms a layer while sampling; without the environments' own time"
    )


def range_text(low: float, high: float) -> str:
    """Two numbers with two significant digits, but no more than two decimal places.

    >>> range_text(3.14159, 1234.5), range_text(0.0, 0.004), range_text(0.042, 5.0)
    ('3.1 to 1,200', '0', '0.04 to 5')
    """
    shown = [_rounded(x) for x in (low, high)]
    return shown[0] if shown[0] == shown[1] else " to ".join(shown)


def _rounded(x: float) -> str:
    digits = 2 if x < 0.1 else 1 - math.floor(math.log10(x))
    shown = f"{round(x, digits):,.{max(0, min(2, digits))}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown

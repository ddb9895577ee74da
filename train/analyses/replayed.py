"""Credit against replay: how well every scheme and recorded signal of a log agrees with the advantage that continuations measured.

``annotate --with forks:K`` plays K continuations from before and after every turn. The difference of their mean scores is an unbiased
estimate of the advantage Q − V of the turn's action for the agent that plays on. In an environment that draws at random, Q is that of
the state that was reached. Everything is computed over all turns of the log; intervals are over its tasks, by jackknife.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError, short_repr
from creditflow.train.analyses.audit import credits_of
from creditflow.train.annotate.base import Provenance
from creditflow.train.rollout.forks import half_widths
from creditflow.train.statistics import (
    ALPHA,
    ClusteredMean,
    auroc,
    below_false_discovery_rate,
    contrasts_of,
    jackknife,
    spearman,
)
from creditflow.train.text_table import counted, decimals, percent, text_table
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import PARENT

__all__ = ["Agreement", "Effect", "Replay", "is_replayed", "replayed", "replayed_text"]

Floats = NDArray[np.float64]
RELIABLE: Final = 0.8
CONTROL: Final = "stateless"
SHOWN: Final = 3  # turns with the largest effects
PREFIX: Final = "fork."


@dataclass(frozen=True)
class Agreement:
    """How one signal agrees with the replayed advantage; every number has its error over tasks.

    Attributes:
        rank: Spearman's correlation; 0 for a signal that is the same in all turns.
        lead: ``rank`` minus that of ``stateless``, the control that reads no states, paired by task.
        auroc: the probability that a turn with a measurable gain scores above one with a measurable loss; 0.5 is chance.
        false_credit: fraction of the signal's absolute size that is on turns without a measurable effect.
        differs: whether ``rank`` differs from 0, with Holm's adjustment over all signals.
        against_others: Spearman's correlation with the advantage over the mean of the other actions; None if they were not played.
    """

    rank: ClusteredMean
    lead: ClusteredMean
    auroc: ClusteredMean
    false_credit: ClusteredMean
    differs: bool
    against_others: ClusteredMean | None = None


@dataclass(frozen=True)
class Effect:
    """A turn with a measurable effect: where it is, its action, its measured advantage and half the 95 % interval."""

    trajectory: str
    turn: int
    action: str
    advantage: float
    half_width: float


@dataclass(frozen=True)
class Replay:
    """What the continuations of a log show.

    Attributes:
        tasks, turns: numbers of each.
        continuations: K, of every state.
        agent: the agent that played them.
        measurable: fraction of turns whose action had a measurable effect, at a false discovery rate of 5 %.
        gains, losses: fractions of turns with a measurable gain, and loss.
        largest: the turns with the largest measurable effects.
        over_mean, over_best: mean value of the turns' actions over the mean and the best of the other actions that the environment
            lists; None if they were not played.
        reliability: fraction of the variance of the measured advantages that is not noise; nan if they are all equal.
        sufficient: the K at which that fraction would be 0.8; None if the noise explains all of the variance.
        episodes, played_turns, tokens: what the continuations cost.
        signals: agreement by name.
        undefined: why the other schemes have no credit on this log, by name.
    """

    tasks: int
    turns: int
    continuations: int
    agent: str
    measurable: ClusteredMean
    gains: float
    losses: float
    largest: tuple[Effect, ...]
    over_mean: ClusteredMean | None
    over_best: ClusteredMean | None
    reliability: float
    sufficient: int | None
    episodes: int
    played_turns: int
    tokens: int
    signals: Mapping[str, Agreement]
    undefined: Mapping[str, str]


def is_replayed(groups: Sequence[Group]) -> bool:
    """Whether every turn of a log has been replayed."""
    turns = [turn for group in groups for turn in group.turns]
    return bool(turns) and all("fork.p" in turn.values for turn in turns)


def replayed(groups: Sequence[Group]) -> Replay:
    """Compare all credit of a log with its replayed advantages.

    Args:
        groups: groups of a log with the annotations of ``forks``.

    Raises:
        DataError: the log was replayed in several ways, or not at all.
    """
    if not is_replayed(groups):
        raise DataError("the log has turns without replayed values; write them with creditflow audit LOG --replay K")
    provenance = _provenance(groups)
    turns = [turn for group in groups for turn in group.turns]

    def column(name: str) -> Floats:
        return np.array([turn.values[name] for turn in turns])

    value, after, error, p = map(column, ("fork.value", "fork.q", "fork.error", "fork.p"))
    advantage = after - value
    names = sorted({group.task_id for group in groups})
    task = np.repeat([names.index(group.task_id) for group in groups], [len(group.turns) for group in groups])
    effect = below_false_discovery_rate(p) & (advantage != 0.0)
    variance, noise = float(advantage.var()), float((error**2).mean())
    continuations = int(provenance.parameters["continuations"])
    annotations = {name for turn in turns for name in turn.values if not name.startswith(PREFIX)}
    signals, undefined = dict[str, Floats](), dict[str, str]()
    for name, scored, reason in credits_of(groups, annotations):
        if reason:
            undefined[name] = reason
        else:
            signals[name] = np.concatenate([c.flat_advantages for c in scored])
    signals |= _recorded(groups)
    rank = {name: partial(_spearman, signal, advantage) for name, signal in signals.items()}
    ranks = {name: jackknife(of_signal, task) for name, of_signal in rank.items()}
    control = rank[CONTROL]
    leads = {name: jackknife(partial(_difference, of_signal, control), task) for name, of_signal in rank.items()}
    over = {name: after - column(name) for name in ("fork.mean", "fork.best") if name in turns[0].values}
    contrasts = contrasts_of(ranks)
    members = [member for group in groups for member in group.trajectories]
    return Replay(
        tasks=len(names),
        turns=len(turns),
        continuations=continuations,
        agent=str(provenance.parameters["agent"]),
        measurable=jackknife(lambda used: float(effect[used].mean()), task),
        gains=float((effect & (advantage > 0.0)).mean()),
        losses=float((effect & (advantage < 0.0)).mean()),
        largest=_largest(groups, advantage, effect, half_widths(error, continuations)),
        over_mean=_mean(over["fork.mean"], task) if over else None,
        over_best=_mean(over["fork.best"], task) if over else None,
        reliability=max(1.0 - noise / variance, 0.0) if variance > 0.0 else math.nan,
        # the reliability at K is τ² / (τ² + σ² / K), with τ² = variance − noise and σ² = K · noise
        sufficient=_sufficient(variance, noise, continuations),
        episodes=int(sum(member.values["fork.episodes"] for member in members)),
        played_turns=int(sum(member.values["fork.turns"] for member in members)),
        tokens=int(sum(member.values["fork.tokens"] for member in members)),
        signals={
            name: Agreement(
                ranks[name],
                leads[name],
                jackknife(partial(_auroc, signal, advantage, effect), task),
                jackknife(partial(_false_credit, signal, effect), task),
                contrasts[name].separates,
                jackknife(partial(_spearman, signal, over["fork.mean"]), task) if over else None,
            )
            for name, signal in signals.items()
        },
        undefined=undefined,
    )


def _provenance(groups: Sequence[Group]) -> Provenance:
    texts = {member.provenance.get("fork.p", "") for group in groups for member in group.trajectories}
    if len(texts) != 1 or "" in texts:
        raise DataError(
            f"the log was replayed in {len(texts)} ways, by different agents or numbers of continuations; replay it in one way"
        )
    return Provenance.read(texts.pop())


def _sufficient(variance: float, noise: float, continuations: int) -> int | None:
    signal = variance - noise
    if not signal > 1e-12:
        return None
    return max(2, math.ceil(continuations * noise / signal * RELIABLE / (1.0 - RELIABLE) - 1e-9))


def _mean(values: Floats, task: NDArray[Any]) -> ClusteredMean:
    return jackknife(lambda used: float(values[used].mean()), task)


def _largest(groups: Sequence[Group], advantage: Floats, effect: NDArray[np.bool_], half: Floats) -> tuple[Effect, ...]:
    """The ``SHOWN`` turns with the largest of the measurable effects."""
    places = [
        (member.trajectory_id, t, turn.action)
        for group in groups
        for member in group.trajectories
        for t, turn in enumerate(member.turns)
    ]
    order = np.argsort(-np.abs(np.where(effect, advantage, 0.0)), kind="stable")[: min(SHOWN, int(effect.sum()))]
    return tuple(
        Effect(trajectory, t, action, float(advantage[i]), float(half[i]))
        for i in order
        for trajectory, t, action in [places[i]]
    )


def _spearman(signal: Floats, advantage: Floats, used: NDArray[np.bool_]) -> float:
    """Rank correlation, 0 where the signal is the same in all turns; turns without the signal are left out."""
    chosen = used & np.isfinite(signal)
    if chosen.sum() > 1 and np.ptp(signal[chosen]) == 0.0 and np.ptp(advantage[chosen]) > 0.0:
        return 0.0
    return spearman(signal[chosen], advantage[chosen])


def _difference(
    signal: Callable[[NDArray[np.bool_]], float], control: Callable[[NDArray[np.bool_]], float], used: NDArray[np.bool_]
) -> float:
    return signal(used) - control(used)


def _auroc(signal: Floats, advantage: Floats, effect: NDArray[np.bool_], used: NDArray[np.bool_]) -> float:
    chosen = used & effect & np.isfinite(signal)
    return auroc(signal[chosen], advantage[chosen] > 0.0)


def _false_credit(signal: Floats, effect: NDArray[np.bool_], used: NDArray[np.bool_]) -> float:
    size = np.abs(np.where(used & np.isfinite(signal), signal, 0.0))
    total = float(size.sum())
    return float(size[~effect].sum()) / total if total > 0.0 else math.nan


def _recorded(groups: Sequence[Group]) -> dict[str, Floats]:
    """The numbers that a log has in its turns, each (N,), nan where a turn lacks it.

    A value of the states before and after a turn counts as its change. Sampled tokens give their mean log-probability, the
    model's confidence.
    """
    turns = [turn for group in groups for turn in group.turns]
    names = sorted({name for turn in turns for name in turn.values if not name.startswith(PREFIX)} - {PARENT})
    columns = {name: np.array([turn.values.get(name, math.nan) for turn in turns]) for name in names}
    signals = {}
    for name in names:
        if name.endswith(".next") and name.removesuffix(".next") in columns:
            continue
        following = columns.get(f"{name}.next")
        signals[name if following is None else f"change of {name}"] = (
            columns[name] if following is None else following - columns[name]
        )
    confidence = np.array(list(_confidence(groups)))
    if np.isfinite(confidence).any():
        signals["log-probability"] = confidence
    return signals


def _confidence(groups: Sequence[Group]) -> Iterator[float]:
    """Mean log-probability of the sampled tokens of every turn; nan without any."""
    for group in groups:
        for member in group.trajectories:
            tokens = member.tokens
            for t in range(len(member.turns)):
                if tokens is None or not tokens.logprobs.any():
                    yield math.nan
                    continue
                positions = slice(tokens.turn_offsets[t], tokens.turn_offsets[t + 1])
                sampled = tokens.logprobs[positions][tokens.mask[positions]]
                yield float(sampled.mean(dtype=np.float64)) if len(sampled) else math.nan


def replayed_text(found: Replay) -> str:
    """The comparison as text: what was measured, a row for each signal, how to read it."""
    head = ["signal", "Spearman", "95 %", f"minus {CONTROL}", "95 %", "AUROC", "95 %", "false credit", "against chance"]
    rows = [head if found.over_mean is None else [*head, "against others"]]
    order = sorted(found.signals, key=lambda name: -np.nan_to_num(found.signals[name].rank.mean, nan=-2.0))
    for name in order:
        a = found.signals[name]
        verdict = "better" if a.rank.mean > 0.0 else "worse"
        rows.append(
            [
                name,
                decimals(a.rank.mean, 2),
                _interval(a.rank, -1.0),
                decimals(a.lead.mean, 2),
                _interval(a.lead, -2.0, 2.0),
                decimals(a.auroc.mean, 2),
                _interval(a.auroc, 0.0),
                percent(a.false_credit.mean, 0),
                verdict if a.differs else "not separable",
                *([] if a.against_others is None else [decimals(a.against_others.mean, 2)]),
            ]
        )
    return "\n\n".join([_measured(found), text_table(rows), _reading(found)])


def _measured(found: Replay) -> str:
    low, high = np.clip(found.measurable.interval, 0.0, 1.0)
    tokens = f" and {counted(found.tokens, 'token')}" if found.tokens else ""
    lines = [
        f"replayed advantage: {counted(found.turns, 'turn')} of {counted(found.tasks, 'task')}, {found.continuations} continuations of {found.agent} "
        f"from every state ({counted(found.episodes, 'episode')}, {counted(found.played_turns, 'turn')}{tokens})",
        f"turns with a measurable effect: {percent(found.measurable.mean)} [{percent(low)}, {percent(high)}], "
        f"{percent(found.gains)} gains and {percent(found.losses)} losses",
    ]
    lines += [
        f"largest: {effect.advantage:+.2f} ± {effect.half_width:.2f} by {short_repr(effect.action, 40)}, {effect.trajectory}:{effect.turn}"
        for effect in found.largest
    ]
    if found.over_mean is not None and found.over_best is not None:
        lines.append(
            f"value of the turns' actions over the mean of the other actions: {decimals(found.over_mean.mean, 2)} {_interval(found.over_mean, -1.0)}; "
            f"over the best of them: {decimals(found.over_best.mean, 2)} {_interval(found.over_best, -1.0)}"
        )
    if found.sufficient is None:
        lines.append(
            "the measured advantages differ no more than their noise, so no K can be named: replay with a larger one"
        )
    else:
        enough = "suffices" if found.sufficient <= found.continuations else "would suffice"
        lines.append(
            f"reliability of the measured advantages: {found.reliability:.2f}; K = {found.sufficient} {enough} for {RELIABLE}"
        )
    return "\n".join(lines)


def _reading(found: Replay) -> str:
    fewest = 2.0 / math.comb(2 * found.continuations, found.continuations)
    lines = [
        "Spearman: rank correlation with the replayed advantage over all turns; noise in it makes them smaller, by about "
        f"the square root of the reliability ({decimals(math.sqrt(found.reliability), 2)})",
        f"minus {CONTROL}: the difference to the control that reads no states, paired by task, without an adjustment",
        "AUROC: how often a turn with a measurable gain is ranked above one with a measurable loss; 0.5 is chance",
        "false credit: share of the absolute credit on turns without a measurable effect; credit that ignores effects has "
        f"{percent(1.0 - found.measurable.mean, 0)}",
        "a measurable effect: p of a permutation test, at a false discovery rate of 5 %"
        + (f"; K = {found.continuations} cannot show one, because p ≥ {fewest:.2f}" if fewest > ALPHA else ""),
        "against chance: Spearman's correlation differs from 0 after Holm's adjustment over all signals; intervals are over tasks",
    ]
    if found.over_mean is not None:
        lines.append(
            "against others: Spearman's correlation with the value of the action over the mean of the other actions; the best of them is chosen "
            "by one half of its continuations and valued by the other"
        )
    if found.undefined:
        lines.append(f"without credit on this log: {', '.join(found.undefined)}")
    return "\n".join(f"- {line}" for line in lines)


def _interval(x: ClusteredMean, smallest: float, largest: float = 1.0) -> str:
    """The interval, without what a correlation or an area cannot be."""
    low, high = x.interval
    return f"[{decimals(max(low, smallest), 2)}, {decimals(min(high, largest), 2)}]" if not math.isnan(low) else "–"

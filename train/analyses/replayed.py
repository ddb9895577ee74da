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

from creditflow.envs.errors import DataError
from creditflow.train.analyses.finding import decimals, percent
from creditflow.train.annotate.base import Provenance
from creditflow.train.statistics import (
    ALPHA,
    ClusteredMean,
    auroc,
    below_false_discovery_rate,
    contrasts_of,
    jackknife,
    kendall,
    spearman,
)
from creditflow.train.text_table import counted, text_table
from creditflow.wrappers import credit
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.records.group import Group

__all__ = ["Agreement", "Replay", "is_replayed", "replayed", "replayed_text"]

Floats = NDArray[np.float64]
RELIABLE: Final = 0.8
PREFIX: Final = "fork."


@dataclass(frozen=True)
class Agreement:
    """How one signal agrees with the replayed advantage; every number has its error over tasks.

    Attributes:
        rank: Spearman's correlation; 0 for a signal that is the same in all turns.
        kendall: Kendall's τ-b; likewise.
        auroc: the probability that a turn with a measurable gain scores above one with a measurable loss; 0.5 is chance.
        false_credit: fraction of the signal's absolute size that is on turns without a measurable effect.
        differs: whether ``rank`` differs from 0, with Holm's adjustment over all signals.
    """

    rank: ClusteredMean
    kendall: ClusteredMean
    auroc: ClusteredMean
    false_credit: ClusteredMean
    differs: bool


@dataclass(frozen=True)
class Replay:
    """What the continuations of a log show.

    Attributes:
        tasks, turns: numbers of each.
        continuations: K, of every state.
        agent: the agent that played them.
        measurable: fraction of turns whose action had a measurable effect, at a false discovery rate of 5 %.
        gains, losses: fractions of turns with a measurable gain, and loss.
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
    value, after, error, p = (
        np.array([turn.values[name] for turn in turns]) for name in ("fork.value", "fork.q", "fork.error", "fork.p")
    )
    advantage = after - value
    names = sorted({group.task_id for group in groups})
    task = np.repeat([names.index(group.task_id) for group in groups], [len(group.turns) for group in groups])
    effect = below_false_discovery_rate(p) & (advantage != 0.0)
    variance, noise = float(advantage.var()), float((error**2).mean())
    continuations = int(provenance.parameters["continuations"])
    signals, undefined = _credits(groups)
    signals |= _recorded(groups)
    ranks = {name: _of(signal, advantage, task, spearman) for name, signal in signals.items()}
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
        reliability=max(1.0 - noise / variance, 0.0) if variance > 0.0 else math.nan,
        # the reliability at K is τ² / (τ² + σ² / K), with τ² = variance − noise and σ² = K · noise
        sufficient=_sufficient(variance, noise, continuations),
        episodes=int(sum(member.values["fork.episodes"] for member in members)),
        played_turns=int(sum(member.values["fork.turns"] for member in members)),
        tokens=int(sum(member.values["fork.tokens"] for member in members)),
        signals={
            name: Agreement(
                ranks[name],
                _of(signal, advantage, task, kendall),
                jackknife(partial(_auroc, signal, advantage, effect), task),
                jackknife(partial(_false_credit, signal, effect), task),
                contrasts[name].separates,
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


def _of(signal: Floats, advantage: Floats, task: NDArray[Any], agreement: Callable[[Any, Any], float]) -> ClusteredMean:
    """A rank correlation, 0 where the signal is the same in all turns; turns without the signal are left out."""
    present = np.isfinite(signal)

    def statistic(used: NDArray[np.bool_]) -> float:
        chosen = used & present
        if chosen.sum() > 1 and np.ptp(signal[chosen]) == 0.0 and np.ptp(advantage[chosen]) > 0.0:
            return 0.0
        return agreement(signal[chosen], advantage[chosen])

    return jackknife(statistic, task)


def _auroc(signal: Floats, advantage: Floats, effect: NDArray[np.bool_], used: NDArray[np.bool_]) -> float:
    chosen = used & effect & np.isfinite(signal)
    return auroc(signal[chosen], advantage[chosen] > 0.0)


def _false_credit(signal: Floats, effect: NDArray[np.bool_], used: NDArray[np.bool_]) -> float:
    size = np.abs(np.where(used & np.isfinite(signal), signal, 0.0))
    total = float(size.sum())
    return float(size[~effect].sum()) / total if total > 0.0 else math.nan


def _credits(groups: Sequence[Group]) -> tuple[dict[str, Floats], dict[str, str]]:
    """The advantages of every scheme that has them on this log, each (N,), and why the others have none."""
    present = {name for group in groups for turn in group.turns for name in turn.values if not name.startswith(PREFIX)}
    signals, undefined = dict[str, Floats](), dict[str, str]()
    for name in credit.names():
        missing = [need for need in lookup(name).requires if need not in present]
        if missing:
            undefined[name] = f"needs the annotations {', '.join(missing)}"
            continue
        try:
            signals[name] = np.concatenate([c.flat_advantages for c in credit.make(name).assign_batch(groups)])
        except credit.CreditError as error:
            undefined[name] = str(error)
    return signals, undefined


def _recorded(groups: Sequence[Group]) -> dict[str, Floats]:
    """The numbers that a log has in its turns, each (N,), nan where a turn lacks it.

    A value of the states before and after a turn counts as its change. Sampled tokens give their mean log-probability, the
    model's confidence.
    """
    turns = [turn for group in groups for turn in group.turns]
    names = sorted({name for turn in turns for name in turn.values if not name.startswith(PREFIX)})
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
    rows = [["signal", "Spearman", "95 %", "Kendall", "AUROC", "95 %", "false credit", "against chance"]]
    order = sorted(found.signals, key=lambda name: -np.nan_to_num(found.signals[name].rank.mean, nan=-2.0))
    for name in order:
        a = found.signals[name]
        verdict = "better" if a.rank.mean > 0.0 else "worse"
        rows.append(
            [
                name,
                decimals(a.rank.mean, 2),
                _interval(a.rank, -1.0),
                decimals(a.kendall.mean, 2),
                decimals(a.auroc.mean, 2),
                _interval(a.auroc, 0.0),
                percent(a.false_credit.mean, 0),
                verdict if a.differs else "not separable",
            ]
        )
    return "\n\n".join([_measured(found), text_table(rows), _reading(found)])


def _measured(found: Replay) -> str:
    low, high = found.measurable.interval
    tokens = f" and {counted(found.tokens, 'token')}" if found.tokens else ""
    lines = [
        f"replayed advantage: {counted(found.turns, 'turn')} of {counted(found.tasks, 'task')}, {found.continuations} continuations of {found.agent} "
        f"from every state ({counted(found.episodes, 'episode')}, {counted(found.played_turns, 'turn')}{tokens})",
        f"turns with a measurable effect: {percent(found.measurable.mean)} [{percent(low)}, {percent(high)}], "
        f"{percent(found.gains)} gains and {percent(found.losses)} losses",
    ]
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
        "Spearman, Kendall: rank correlation with the replayed advantage over all turns; noise in it makes them smaller, by about "
        f"the square root of the reliability ({decimals(math.sqrt(found.reliability), 2)})",
        "AUROC: how often a turn with a measurable gain is ranked above one with a measurable loss; 0.5 is chance",
        "false credit: share of the absolute credit on turns without a measurable effect; credit that ignores effects has "
        f"{percent(1.0 - found.measurable.mean, 0)}",
        "a measurable effect: p of a permutation test, at a false discovery rate of 5 %"
        + (f"; K = {found.continuations} cannot show one, because p ≥ {fewest:.2f}" if fewest > ALPHA else ""),
        "against chance: Spearman's correlation differs from 0 after Holm's adjustment over all signals; intervals are over tasks",
    ]
    if found.undefined:
        lines.append(f"without credit on this log: {', '.join(found.undefined)}")
    return "\n".join(f"- {line}" for line in lines)


def _interval(x: ClusteredMean, smallest: float) -> str:
    """The interval, without what a correlation or an area cannot be."""
    low, high = x.interval
    return f"[{decimals(max(low, smallest), 2)}, {decimals(min(high, 1.0), 2)}]" if not math.isnan(low) else "–"

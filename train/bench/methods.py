"""The compared methods by name: every scheme with the settings under which it is compared, and the controls.

A scheme that reads annotations becomes a method only together with an annotation source (see ``annotation_sources``):
``pica[fitted]``, ``pica[exact]``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal

import numpy as np

from creditflow.envs.errors import ConfigError, unknown_name_error
from creditflow.train.bench.controls import (
    CreditFunction,
    ExactEvaluator,
    flipped,
    oracle_adv,
    oracle_progress,
    recorded_progress,
    shuffled,
)
from creditflow.train.bench.variants.entry import SchemeEntry
from creditflow.train.bench.variants.names import MethodName
from creditflow.wrappers import credit
from creditflow.wrappers.credit.base import is_sum
from creditflow.wrappers.credit.registry import known, lookup
from creditflow.wrappers.credit.states.grouptd import VARIANTS

__all__ = [
    "ANNOTATION_SOURCES",
    "NAMED",
    "ORACLES",
    "base_method",
    "can_be_annotated",
    "default_schemes",
    "is_control",
    "make_methods",
    "noise_of",
    "played_method",
    "reads_texts",
    "scheme_entry",
    "settings_of",
    "with_annotation_sources",
    "with_corruption",
]

NAMED: Mapping[str, SchemeEntry] = MappingProxyType(
    {
        "grpo": SchemeEntry("grpo"),
        "rloo": SchemeEntry("rloo"),
        "gigpo": SchemeEntry("gigpo"),
        "gigpo_mean": SchemeEntry("gigpo", {"step_scale": "none"}, step_only=True),
        "graphgpo": SchemeEntry("graphgpo", {"distance_discount": 0.8}),
        "graphgpo_paper": SchemeEntry("graphgpo"),
        "rewardflow": SchemeEntry("rewardflow"),
        "rewardflow_raw": SchemeEntry("rewardflow", {"step_scale": "none", "trajectory_weight": 0.0}),
        **{name: SchemeEntry("grouptd", values) for name, values in VARIANTS.items()},
        # its penalty grows by half with each turn, which suits episodes of five turns; there is no critic of its shaped
        # rewards, so the group mean is the baseline
        "pica": SchemeEntry("pica", {"penalty": 0.0, "baseline": "group"}),
    }
)

ANY_NOISE: Final = "noise=S"
ANNOTATION_SOURCES: Mapping[str, str] = MappingProxyType(
    {
        "fitted": "annotations are means over earlier rollouts (8 additional groups for the one-step metrics, none while learning)",
        "linear": "annotations are a logistic regression's on features of states, fitted to earlier rollouts",
        "network": "annotations are a small network's on features of states, fitted to earlier rollouts",
        "exact": "annotations are the exact V^π, which no method has in practice",
        ANY_NOISE: "annotations are the exact V^π with a lasting normal error of its log odds, of standard deviation S",
    }
)
PROVIDED_ANNOTATIONS: Final = frozenset(
    {"value.critic", "value.pica", "logp.answer", "logp.answer.mean", "judge.score"}
)
# how annotations are defined without a language model
TABULAR_MEANING: Mapping[str, str] = MappingProxyType(
    {
        "tips": "success stands for the golden answer",
        "igpo": "success stands for the golden answer",
        "trace": "success stands for the golden answer",
        "prm": "the turn score is the change of the probability of success",
        "ppo_gae": "one token per turn, which makes it equal to mt_ppo",
    }
)


def default_schemes(variants: bool) -> tuple[str, ...]:
    """The schemes compared when none are named: every registered one and, on request, the variants in ``NAMED``."""
    # grouptd_relative is left out: it equals grouptd with its present defaults
    named = [name for name in NAMED if name != "grouptd_relative"] if variants else []
    names = tuple(dict.fromkeys([*named, *credit.names()]))
    # with one token per turn ppo_gae equals mt_ppo: it is included only when named
    return (
        tuple(name if name == "ppo_gae" else with_annotation_sources([name])[0] for name in names)
        if variants
        else names
    )


def can_be_annotated(name: str) -> bool:
    """Whether a scheme reads annotations, and an annotation source provides all of them."""
    scheme = scheme_entry(name).scheme_for(1, "state")
    read = {*scheme.needs, *scheme.requires_tokens}
    return bool(read) and read <= PROVIDED_ANNOTATIONS


def with_annotation_sources(names: Sequence[str]) -> tuple[str, ...]:
    """The names with ``[fitted]`` added to each scheme that reads annotations and names no source."""
    return tuple(dict.fromkeys(f"{n}[fitted]" if "[" not in n and can_be_annotated(n) else n for n in names))


def noise_of(source: str) -> float | None:
    """Standard deviation of the error of an annotation source that computes exact values; None for one that is fitted.

    >>> noise_of("exact"), noise_of("noise=0.5"), noise_of("fitted")
    (0.0, 0.5, None)
    """
    if source == "exact":
        return 0.0
    try:
        noise = float(source.removeprefix("noise=")) if source.startswith("noise=") else -1.0
    except ValueError:
        return None
    return noise if 0.0 <= noise < float("inf") else None


def base_method(name: str) -> str:
    """The method that a negative control corrupts; any other name is returned as it is.

    >>> base_method("shuffled(pica[fitted])")
    'pica[fitted]'
    """
    return str(replace(MethodName.parse(name), corruptions=()))


def scheme_entry(name: str) -> SchemeEntry:
    """A scheme by name: one of ``NAMED``, or a registered scheme or a sum of them in paper semantics.

    The first two may have values of parameters, such as ``graphgpo{distance_discount=0.3}``, and an annotation source.

    Raises:
        ConfigError: a name or value is unknown (the message suggests the nearest one), or the scheme reads no annotations.
    """
    if is_sum(name) and "{" not in name:
        credit.make(name)  # its errors
        return SchemeEntry(name)
    parsed = MethodName.parse(name)
    if parsed.source:
        base = str(replace(parsed, source=""))
        if parsed.source not in ANNOTATION_SOURCES and noise_of(parsed.source) is None:
            raise unknown_name_error("annotation source", name, [f"{base}[{source}]" for source in ANNOTATION_SOURCES])
        if not can_be_annotated(base):
            raise ConfigError(
                f"method {name!r}: {base} reads no annotations that the benchmark provides; write {base!r}"
            )
        return replace(scheme_entry(base), annotation_source=parsed.source)
    if parsed.values and not parsed.corruptions:
        entry = scheme_entry(parsed.scheme)
        return replace(entry, parameters={**entry.parameters, **parsed.typed(lookup(entry.scheme))})
    if name in NAMED:
        if name in credit.names() and NAMED[name].scheme != name:
            raise ConfigError(f"{name!r} is already the name of a method of the benchmark; rename your scheme")
        return NAMED[name]
    if known(name):
        return SchemeEntry(name)
    raise unknown_name_error("credit scheme", name, {*NAMED, *credit.names()})


def settings_of(names: Sequence[str]) -> dict[str, str]:
    """Descriptions of the schemes that differ from their paper's preset, by name."""
    described = {}
    for name in names:
        entry = scheme_entry(name)
        preset = lookup(entry.scheme).preset("paper") if entry.parameters else {}
        differences = [f"{key}={value}" for key, value in entry.parameters.items() if value != preset[key]]
        if entry.step_only:
            differences.append("step advantage only")
        clauses = [f"{entry.scheme} with {', '.join(differences)}"] if differences else []
        if entry.annotation_source:
            clauses.append(ANNOTATION_SOURCES.get(entry.annotation_source, ANNOTATION_SOURCES[ANY_NOISE]))
            if entry.scheme in TABULAR_MEANING:
                clauses.append(TABULAR_MEANING[entry.scheme])
        if clauses:
            described[name] = "; ".join(clauses)
    return described


def make_methods(
    names: Sequence[str],
    evaluator: ExactEvaluator,
    seed: Sequence[int],
    *,
    key: Literal["state", "text"] = "state",
) -> dict[str, CreditFunction]:
    """Credit functions by method name, for rollouts of a task with exact values.

    Args:
        names: names of schemes or oracles, or ``shuffled(X)`` or ``flipped(X)`` of one.
        evaluator: exact values of the policy that sampled the rollouts.
        seed: non-negative integers, which together with a control's name seed its shuffling, whatever else is compared.
        key: the key by which schemes compare states.

    Raises:
        ConfigError: a name is unknown.
    """

    def uncorrupted(name: str) -> CreditFunction:
        oracle = ORACLES.get(name)
        return oracle(evaluator) if oracle else _bound(name, evaluator.mdp.horizon, key)

    return {name: with_corruption(name, uncorrupted, seed) for name in names}


def played_method(name: str, horizon: int, seed: Sequence[int]) -> CreditFunction:
    """The credit function of a method on recorded rollouts: distances are in the log, exact advantages are unknown.

    Args:
        name: name of a scheme or ``oracle_progress``, or ``shuffled(X)`` or ``flipped(X)`` of one.
        horizon: turn limit.
        seed: non-negative integers, which together with a control's name seed its shuffling.
    """

    def uncorrupted(name: str) -> CreditFunction:
        return recorded_progress if name == "oracle_progress" else _bound(name, horizon, "state")

    return with_corruption(name, uncorrupted, seed)


def reads_texts(name: str, horizon: int) -> bool:
    """Whether a method, or the one it corrupts, reads the texts of turns, so that rollouts must record them."""
    name = base_method(name)
    return not is_control(name) and bool(scheme_entry(name).scheme_for(horizon, "state").texts)


ORACLES: Mapping[str, Callable[[ExactEvaluator], CreditFunction]] = MappingProxyType(
    {"oracle_adv": oracle_adv, "oracle_progress": oracle_progress}
)


def is_control(name: str) -> bool:
    """Whether a name is that of an uncorrupted control that is no scheme: an oracle."""
    return name in ORACLES


def with_corruption(name: str, uncorrupted: Callable[[str], CreditFunction], seed: Sequence[int]) -> CreditFunction:
    """The method of a name, given the methods of names without ``shuffled`` and ``flipped``."""
    parsed = MethodName.parse(name)
    if not parsed.corruptions:
        return uncorrupted(name)
    inner = with_corruption(str(replace(parsed, corruptions=parsed.corruptions[1:])), uncorrupted, seed)
    if parsed.corruptions[0] == "flipped":
        return flipped(inner)
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()  # not hash(): equal in every process
    return shuffled(inner, np.random.default_rng([*seed, int.from_bytes(digest, "big")]))


@lru_cache(maxsize=256)
def _bound(name: str, horizon: int, key: Literal["state", "text"]) -> CreditFunction:
    """The bound scheme, cached: construction validates it, and a learning curve would construct thousands."""
    return scheme_entry(name).bind(horizon, key)

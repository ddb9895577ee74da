"""Which schemes and controls are compared on a suite, and why the others are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from creditflow.train.bench.annotation_sources import StateFeatures, annotated_log
from creditflow.train.bench.methods import bound_scheme, can_be_annotated, scheme_entry, settings_of
from creditflow.train.bench.names import MethodName
from creditflow.wrappers import credit
from creditflow.wrappers.records.group import Group

__all__ = ["MethodSelection", "select_methods"]

STATE_FREE: Final = "stateless"  # the scheme that reads no states, in every comparison


class MethodSelection(NamedTuple):
    """The methods in every table of a suite.

    Attributes:
        schemes: names of the schemes that are defined on the suite.
        controls: names of the controls.
        undefined: the reason by method, if one is missing.
    """

    schemes: tuple[str, ...]
    controls: tuple[str, ...]
    undefined: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all methods, schemes first."""
        return (*self.schemes, *self.controls)

    def defined(self, undefined: Mapping[str, str]) -> dict[str, list[str]]:
        """Names of the "schemes" and "controls" that turned out to be defined."""
        return {
            "schemes": [name for name in self.schemes if name not in undefined],
            "controls": [name for name in self.controls if name not in undefined],
        }

    def settings(self) -> dict[str, str]:
        """Descriptions of the methods that differ from their paper's preset, by name."""
        return settings_of([*self.schemes, *(name for name in self.controls if name.endswith("]"))])


def select_methods(
    names: Sequence[str],
    groups: Sequence[Group],
    *,
    horizon: int,
    exact: bool,
    earlier: Sequence[Group] = (),
    features: StateFeatures | None = None,
) -> MethodSelection:
    """Select the schemes that can score a recorded log, and their controls.

    Every scheme whose credit differs between the turns of a rollout gets a control ``shuffled(X)``, of one with several values the
    first. One scheme, ``grouptd`` if it is included, gets a control ``flipped(X)``. A scheme with fitted annotations is also
    included with exact ones, as a control.

    Args:
        names: names of the requested schemes.
        groups: recorded log of the suite.
        horizon: turn limit.
        exact: whether A^π is known.
        earlier: for each group of the log another one, on which annotations are fitted.
        features: what fitted critics see of a state.

    Raises:
        ConfigError: a method reads a critic, and the suite has no features.
    """
    undefined: dict[str, str] = {}
    turn_level = {}
    with_exact_values: list[str] = []
    for name in names:
        entry = scheme_entry(name)
        scheme = bound_scheme(name, horizon, "state")
        if entry.annotation_source == "exact":
            with_exact_values.append(name)
            continue
        annotated = annotated_log(name, horizon, groups, earlier, features)
        reason = next(filter(None, map(scheme.undefined_on, annotated)), "")
        if reason and not entry.annotation_source and can_be_annotated(name):
            reason += f"; with --schemes {name} the benchmark provides them"
        if not reason:
            try:
                credits_ = [scheme.assign(group) for group in annotated]
                turn_level[name] = any(_varies(c) for c in credits_)
            except credit.CreditError as error:
                reason = str(error)
        if reason:
            undefined[name] = reason
    with_exact_values += [
        f"{n.partition('[')[0]}[exact]" for n in names if n.endswith("[fitted]") and n not in undefined
    ]
    with_exact_values = list(dict.fromkeys(with_exact_values))
    if not exact:
        undefined |= dict.fromkeys((n for n in with_exact_values if n in names), "exact values are unknown here")
        with_exact_values = []
    schemes = tuple(name for name in names if name not in undefined and name not in with_exact_values)
    controls, without = _controls(schemes, turn_level, with_exact_values, exact=exact)
    return MethodSelection(schemes, tuple(controls), undefined | without)


def _controls(
    schemes: Sequence[str], turn_level: Mapping[str, bool], with_exact_values: Sequence[str], *, exact: bool
) -> tuple[list[str], dict[str, str]]:
    """The controls of the selected schemes, and of those that would be equal to their scheme the reason.

    Args:
        schemes: the selected schemes.
        turn_level: of each, whether its credit differs between the turns of a rollout.
        with_exact_values: schemes with exact annotations, which are controls themselves.
        exact: whether A^π is known.
    """
    bases = [name for name in schemes if name.partition("[")[0] in credit.names()]
    if not bases:  # of a scheme with several values the first only
        bases = list({MethodName.parse(name).scheme: name for name in reversed(schemes)}.values())[::-1]
    oracles = ["oracle_adv"] if exact else []
    controls = [*oracles, *(f"{kind}({o})" for o in oracles for kind in ("shuffled", "flipped"))]
    controls += [*([STATE_FREE] if STATE_FREE not in schemes else []), *with_exact_values]
    without: dict[str, str] = {}
    for name in bases:
        if turn_level[name]:
            controls.append(f"shuffled({name})")
        else:
            without[f"shuffled({name})"] = "equal to the scheme, which gives all turns of a rollout the same credit"
    flipped = next((n for n in ("grouptd", *bases) if turn_level.get(n)), None)
    if flipped:
        controls.append(f"flipped({flipped})")
    return controls, without


def _varies(given: credit.Credit) -> bool:
    return any(len(turns) and bool((turns != turns[0]).any()) for turns in given.advantages)

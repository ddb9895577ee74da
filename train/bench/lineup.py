"""Who takes part on a suite: the schemes that are defined there, the controls, and why the others are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from creditflow.train.bench.columns import feedable, scheme_column
from creditflow.train.bench.feeds import feed_log
from creditflow.wrappers import credit
from creditflow.wrappers.records.group import Group

__all__ = ["Lineup", "line_up"]


class Lineup(NamedTuple):
    """What stands in every table of a suite.

    Attributes:
        schemes: names of schemes that are defined on the suite.
        controls: names of controls.
        undefined: why a name is missing, by name.
    """

    schemes: tuple[str, ...]
    controls: tuple[str, ...]
    undefined: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, schemes first."""
        return (*self.schemes, *self.controls)


def line_up(
    names: Sequence[str], groups: Sequence[Group], *, horizon: int, exact: bool, earlier: Sequence[Group] = ()
) -> Lineup:
    """Ask every scheme to score a recorded log, and choose the controls.

    Every registered scheme that tells the turns of a rollout apart gets its ``shuffled(X)``; variants do not. One
    scheme, ``grouptd`` where it is there, is flipped too. A scheme that is fed what was fitted stands beside itself
    fed exactly, as a control.

    Args:
        names: of the schemes asked for.
        groups: a log of the suite.
        horizon: its turn limit.
        exact: whether A^π is known.
        earlier: for each group of the log another one, from which numbers are fitted.
    """
    undefined: dict[str, str] = {}
    told_apart = {}
    best: list[str] = []  # fed exactly
    for name in names:
        column = scheme_column(name)
        scheme = column.made(horizon, "state")
        if column.feed == "exact":
            best.append(name)
            continue
        fed = feed_log(name, horizon, groups, earlier)
        reason = next(filter(None, map(scheme.undefined_on, fed)), "")
        if reason and not column.feed and feedable(name):
            reason += f"; asked for by name, --schemes {name}, it is fed by the bench"
        if not reason:
            try:
                given = [column.bind(horizon, "state")(group) for group in fed]
                told_apart[name] = any(_varies(c) for c in given)
            except credit.CreditError as error:
                reason = str(error)
        if reason:
            undefined[name] = reason
    best += [f"{n.partition('[')[0]}[exact]" for n in names if n.endswith("[fitted]") and n not in undefined]
    best = list(dict.fromkeys(best))
    if not exact:
        undefined |= dict.fromkeys((n for n in best if n in names), "exact values are unknown here")
        best = []
    schemes = tuple(name for name in names if name not in undefined and name not in best)
    bases = [name for name in schemes if name.partition("[")[0] in credit.names()] or list(schemes)
    oracles = ["oracle_adv"] if exact else []
    controls = [*oracles, "oracle_progress", *(f"{kind}({o})" for o in oracles for kind in ("shuffled", "flipped"))]
    controls += best
    for name in bases:
        if told_apart[name]:
            controls.append(f"shuffled({name})")
        else:
            undefined[f"shuffled({name})"] = "the same as the scheme: one number for all turns of each recorded rollout"
    turned = next((n for n in ("grouptd", *bases) if told_apart.get(n)), None)
    if turned:
        controls.append(f"flipped({turned})")
    return Lineup(schemes, tuple(controls), undefined)


def _varies(given: credit.Credit) -> bool:
    return any(len(turns) and bool((turns != turns[0]).any()) for turns in given.advantages)

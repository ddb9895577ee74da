"""Credit schemes: pure functions from a group of trajectories to one number per turn.

>>> from creditflow import credit
>>> "graphgpo" in credit.names(given=())
True
>>> credit.make("graphgpo", distance_discount=0.2).exponent
'next+cost'
>>> credit.make("graphgpo", distance=0.2)
Traceback (most recent call last):
    ...
creditflow.envs.errors.ConfigError: unknown parameter of graphgpo 'distance'; did you mean 'distance_discount'? ...

A scheme's class is an attribute of this package too. Its module is imported when it is first used:

>>> credit.GraphGPO.name
'graphgpo'
"""

from typing import TYPE_CHECKING, Any

from creditflow.wrappers.credit.annotations.gae import gae, whiten
from creditflow.wrappers.credit.base import Aggregation, Credit, CreditError, Scheme, Semantics, ValueTargets
from creditflow.wrappers.credit.bridge import Advantages, TurnColumns, advantages
from creditflow.wrappers.credit.check_batch import BatchReport, Finding, check_batch
from creditflow.wrappers.credit.combined import Sum
from creditflow.wrappers.credit.explanation import Explanation, explain
from creditflow.wrappers.credit.filter import filter_groups
from creditflow.wrappers.credit.normalize import normalize
from creditflow.wrappers.credit.registry import SCHEMES, describe, load, make, names, register

if TYPE_CHECKING:  # properties and random groups: only a test of a scheme needs them
    from creditflow.wrappers.credit.check import CheckReport, check_credit

__all__ = [
    "Advantages",
    "Aggregation",
    "BatchReport",
    "CheckReport",
    "Credit",
    "CreditError",
    "Explanation",
    "Finding",
    "Scheme",
    "Semantics",
    "Sum",
    "TurnColumns",
    "ValueTargets",
    "advantages",
    "check_batch",
    "check_credit",
    "describe",
    "explain",
    "filter_groups",
    "gae",
    "load",
    "make",
    "names",
    "normalize",
    "register",
    "whiten",
]


def __getattr__(name: str) -> Any:
    """Return the class of a shipped scheme by its Python name, or what tests a scheme."""
    if name in ("CheckReport", "check_credit"):
        from creditflow.wrappers.credit import check

        return getattr(check, name)
    if name[0].isupper():  # not modules of this package, which Python looks up here before it imports them
        for scheme in SCHEMES.entries().values():
            if scheme.__name__ == name and scheme.__module__.startswith(f"{__name__}."):
                return scheme
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Credit schemes: pure functions from a group of trajectories to one number per turn.

>>> from creditflow import credit
>>> credit.names()
('gigpo', 'graphgpo', 'grouptd', 'grpo', 'pica', 'rewardflow', 'rloo')
>>> credit.make("graphgpo", distance_discount=0.2).exponent
'next+cost'
>>> credit.make("graphgpo", distance=0.2)
Traceback (most recent call last):
    ...
creditflow.envs.errors.ConfigError: unknown parameter of graphgpo 'distance'; did you mean 'distance_discount'? ...
"""

from creditflow.wrappers.credit.base import Aggregation, Credit, CreditError, Scheme, Semantics
from creditflow.wrappers.credit.check import CheckReport, check_credit
from creditflow.wrappers.credit.filter import filter_groups
from creditflow.wrappers.credit.gigpo import GiGPO
from creditflow.wrappers.credit.graphgpo import GraphGPO
from creditflow.wrappers.credit.grouptd import GroupTD
from creditflow.wrappers.credit.grpo import GRPO
from creditflow.wrappers.credit.normalise import normalise
from creditflow.wrappers.credit.pica import PiCA
from creditflow.wrappers.credit.registry import explain, make, names, register
from creditflow.wrappers.credit.rewardflow import RewardFlow
from creditflow.wrappers.credit.rloo import RLOO

__all__ = [
    "GRPO",
    "RLOO",
    "Aggregation",
    "CheckReport",
    "Credit",
    "CreditError",
    "GiGPO",
    "GraphGPO",
    "GroupTD",
    "PiCA",
    "RewardFlow",
    "Scheme",
    "Semantics",
    "check_credit",
    "explain",
    "filter_groups",
    "make",
    "names",
    "normalise",
    "register",
]

"""Credit schemes: pure functions from a group of trajectories to one number per turn.

>>> from creditflow import credit
>>> credit.names(given=())
('ecpo', 'gagpo', 'gigpo', 'graphgpo', 'grouptd', 'grpo', 'hgpo', 'rewardflow', 'rloo', 'rtmc')
>>> credit.make("graphgpo", distance_discount=0.2).exponent
'next+cost'
>>> credit.make("graphgpo", distance=0.2)
Traceback (most recent call last):
    ...
creditflow.envs.errors.ConfigError: unknown parameter of graphgpo 'distance'; did you mean 'distance_discount'? ...
"""

from creditflow.wrappers.credit.annotations.actor_critic import MTPPO, PPOGAE
from creditflow.wrappers.credit.annotations.agent_opsd import AgentOPSD
from creditflow.wrappers.credit.annotations.draco import DRACO
from creditflow.wrappers.credit.annotations.gae import gae, whiten
from creditflow.wrappers.credit.annotations.hcapo import HCAPO
from creditflow.wrappers.credit.annotations.igpo import IGPO
from creditflow.wrappers.credit.annotations.pica import PiCA
from creditflow.wrappers.credit.annotations.prm import PRM
from creditflow.wrappers.credit.annotations.steppo import StepPO
from creditflow.wrappers.credit.annotations.tips import TIPS
from creditflow.wrappers.credit.annotations.trace import TRACE
from creditflow.wrappers.credit.base import Aggregation, Credit, CreditError, Scheme, Semantics, ValueTargets
from creditflow.wrappers.credit.bridge import Advantages, TurnColumns, advantages
from creditflow.wrappers.credit.check import CheckReport, check_credit
from creditflow.wrappers.credit.entities.egrpo import EGRPO
from creditflow.wrappers.credit.entities.gdcr import GDCR
from creditflow.wrappers.credit.entities.sapo import SAPO
from creditflow.wrappers.credit.entities.stepsearch import StepSearch
from creditflow.wrappers.credit.filter import filter_groups
from creditflow.wrappers.credit.normalize import normalize
from creditflow.wrappers.credit.outcomes.grpo import GRPO
from creditflow.wrappers.credit.outcomes.rloo import RLOO
from creditflow.wrappers.credit.registry import explain, load, make, names, register
from creditflow.wrappers.credit.states.ecpo import ECPO
from creditflow.wrappers.credit.states.gagpo import GAGPO
from creditflow.wrappers.credit.states.gigpo import GiGPO
from creditflow.wrappers.credit.states.graphgpo import GraphGPO
from creditflow.wrappers.credit.states.grouptd import GroupTD
from creditflow.wrappers.credit.states.hgpo import HGPO
from creditflow.wrappers.credit.states.rewardflow.scheme import RewardFlow
from creditflow.wrappers.credit.states.rtmc import RTMC

__all__ = [
    "DRACO",
    "ECPO",
    "EGRPO",
    "GAGPO",
    "GDCR",
    "GRPO",
    "HCAPO",
    "HGPO",
    "IGPO",
    "MTPPO",
    "PPOGAE",
    "PRM",
    "RLOO",
    "RTMC",
    "SAPO",
    "TIPS",
    "TRACE",
    "Advantages",
    "AgentOPSD",
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
    "StepPO",
    "StepSearch",
    "TurnColumns",
    "ValueTargets",
    "advantages",
    "check_credit",
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

"""The words of the report, and what its methods are."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Final

from creditflow.envs.errors import ConfigError
from creditflow.train.bench.names import MethodName
from creditflow.wrappers import credit
from creditflow.wrappers.credit.registry import lookup

__all__ = ["CONTROLS", "TERMS", "about_method"]

TERMS: Final[Mapping[str, str]] = {
    "credit": "one number for each turn of a recorded rollout: the factor of the turn's term in the policy gradient",
    "scheme, control, method": "a scheme is a published or proposed way to assign credit; a control is credit whose quality is "
    "known; a method is either of them",
    "success rate": "probability that a rollout of the policy succeeds; exact where the states fit into a table",
    "mean success during training": "area under the learning curve, divided by its length; the final criterion",
    "shared policy": "one policy over features of the state whose parameters many tasks share, so that a step for one task changes the "
    "others; held-out tasks are evaluated but not trained on; a batch is the rollouts of one update",
    "keys": "what tells a method which state it is in: distinct keys identify every state, aliased keys stand for several states, fresh keys "
    "never repeat",
    "cosine": "direction: cosine between the gradient sampled with the credit and the exact gradient of the success rate; "
    "of the mean over many groups, and the mean over single groups",
    "gain": "improvement, the main measure of one step: exact success rate gained by one step of a given KL divergence (from the old "
    "policy to the new one, in nats per turn), divided by the gain of the exact gradient",
    "bias², variance": "squared bias and variance of the sampled gradient after optimal scaling, relative to the exact "
    "gradient's squared length",
    "95 % CI": "95 % confidence interval by Student's t; tasks, and seeds where there are several, are the samples",
    "p, detectable": "p-value adjusted by Holm's method over the schemes compared; the true difference that such a test finds with "
    "probability 0.8: where p is not significant, a smaller difference may well exist",
}
CONTROLS: Final[Mapping[str, str]] = {
    "oracle_adv": "control: the exact advantage A^π, the ground truth",
    "stateless": "control: the outcome times .9 to the number of turns that follow, minus its mean over the group (not centred in results of version 0.2.0); it reads no states",
    "shuffled(X)": "control: X's credit permuted among the turns of each rollout",
    "flipped(X)": "control: X's credit times −1",
    "X[fitted]": "X with annotations estimated on earlier rollouts: what a critic, a success model or an LLM judge could have "
    "learned by then",
    "X[exact]": "control: X with exact values as annotations, which no method has in practice",
}


def about_method(name: str) -> str:
    """What a method is, in a sentence or two: a control's definition, or a scheme's summary and source; "" if it is neither."""
    if name in CONTROLS:
        return CONTROLS[name]
    try:
        variant = MethodName.parse(name)
    except ConfigError:
        return ""
    if variant.corruptions:
        return CONTROLS[f"{variant.corruptions[0]}(X)"]
    if variant.scheme not in credit.names():
        return ""
    scheme = lookup(variant.scheme)
    sentences = ["Credit of a turn: " + " ".join((inspect.getdoc(scheme) or "").partition("\n\n")[0].split())]
    sentences += [f"Source: {scheme.source}." if scheme.source else ""]
    sentences += [CONTROLS[f"X[{variant.source}]"] + "." if f"X[{variant.source}]" in CONTROLS else ""]
    return " ".join(sentence for sentence in sentences if sentence)

"""Settings of the environment manager, read from verl-agent's own config and its section ``env.creditflow``.

The defaults of each environment are those of our recipes ``train/configs/gigpo_*.yaml``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.train.settings.reading import read_dataclass
from creditflow.wrappers import credit
from creditflow.wrappers.credit.base import Scheme, Semantics

__all__ = ["PRESETS", "LoopSettings", "SchemeSettings", "entry", "fork_scheme", "loop_settings", "plain"]


@dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """``env.creditflow``: what is played and how it is shown.

    Attributes:
        name: our environment's name; "" derives it from ``env.env_name``.
        options: arguments of the environment, over the preset's.
        panel, valid_panel: "NAME:SPLIT" of training and validation; None takes the preset's, "" the source that the options name.
        valid_options: further arguments of the validation environments, over ``options``.
        invalid_actions: "keep" (an invalid action is a turn), "retry" or "terminate".
        prompt, dialect: template and output format; "" takes the preset's.
        anchor: the text by which verl-agent's own estimators compare states: our "state" key, or the "text" key.
        max_characters: a prompt with more shows fewer past turns; 0 for no limit.
        threads: groups stepped at once, for environments that wait (retrieval servers); 0 steps one after another.
    """

    name: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    panel: str | None = None
    valid_panel: str | None = None
    valid_options: dict[str, Any] = field(default_factory=dict)
    invalid_actions: Literal["keep", "retry", "terminate"] = "keep"
    prompt: str = ""
    dialect: str = ""
    anchor: Literal["state", "text"] = "state"
    max_characters: int = 0
    threads: int = 0

    def __post_init__(self) -> None:
        if min(self.max_characters, self.threads) < 0:
            raise ConfigError(
                f"max_characters and threads must be at least 0, got {self.max_characters} and {self.threads}"
            )


@dataclass(frozen=True, kw_only=True)
class SchemeSettings:
    """``algorithm.creditflow``: arguments of ``credit.make``."""

    scheme: str = "gigpo"
    semantics: Semantics = "paper"
    parameters: dict[str, Any] = field(default_factory=dict)


PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "alfworld": {
        "panels": "standard-v3", "options": {"reward": "ten", "observation": "raw", "text_key": "observation"},
        "prompt": "think-v1", "dialect": "think",
    },
    "sokoban": {"panels": "paper-6x6-v1", "options": {"reward": "ten", "symbols": "ascii"}, "prompt": "think-v1", "dialect": "think"},
    "webshop": {"panels": "standard-v1", "options": {"preset": "verl_agent", "reward": "ten"}, "prompt": "think-v1", "dialect": "think"},
    "wikisearch": {
        "panels": "standard-v1", "options": {"dialect": "search_r1", "top_k": 3, "metric": "em"}, "prompt": "search-v1", "dialect": "bare",
    },
}  # fmt: skip
_NAMES: Final = {"search": "wikisearch", **{name: name for name in PRESETS}}  # what env.env_name contains -> our name


def entry(config: Any, path: str, default: Any = None) -> Any:
    """The entry of a nested config at a dotted path, whether its levels are mappings or objects."""
    for name in path.split("."):
        config = config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
        if config is None:
            return default
    return config


def plain(value: Any) -> Any:
    """A config section (OmegaConf's or plain) as plain dicts, lists and values."""
    if isinstance(value, Mapping):
        return {str(name): plain(value[name]) for name in value}
    return [plain(item) for item in value] if isinstance(value, Sequence) and not isinstance(value, str) else value


def loop_settings(config: Any) -> LoopSettings:
    """The manager's settings, with the environment's preset filled in.

    Raises:
        ConfigError: unknown or ill-typed settings, an environment that is not ours, or image observations.
    """
    given = read_dataclass(LoopSettings, plain(entry(config, "env.creditflow", {})), "env.creditflow")
    called = str(entry(config, "env.env_name", ""))
    name = given.name or next((ours for part, ours in _NAMES.items() if part in called.lower()), "")
    if name not in PRESETS:
        raise unknown_name_error("environment (env.env_name, or env.creditflow.name)", given.name or called, PRESETS)
    if name == "sokoban" and entry(config, "env.sokoban.mode") == "rgb_array":
        raise ConfigError(
            "env.sokoban.mode=rgb_array shows images to a vision model; this manager shows text: set "
            "env.sokoban.mode=tiny_rgb_array, prepare the data with --mode text, and train a text model"
        )
    preset = PRESETS[name]
    return LoopSettings(
        name=name,
        options={**preset["options"], **given.options},
        panel=f"{preset['panels']}:train" if given.panel is None else given.panel,
        valid_panel=f"{preset['panels']}:valid" if given.valid_panel is None else given.valid_panel,
        valid_options=given.valid_options,
        invalid_actions=given.invalid_actions,
        prompt=given.prompt or preset["prompt"],
        dialect=given.dialect or preset["dialect"],
        anchor=given.anchor,
        max_characters=given.max_characters,
        threads=given.threads,
    )


def fork_scheme(config: Any) -> Scheme:
    """The scheme of ``algorithm.creditflow``; without that section, the fork's own estimator in release semantics.

    The penalty of invalid actions is the fork's (``actor.invalid_action_penalty_coef``) unless parameters give one.

    Raises:
        ConfigError: unknown settings, or an estimator that is none of our schemes.
    """
    section = entry(config, "algorithm.creditflow")
    if section is not None:
        asked = read_dataclass(SchemeSettings, plain(section), "algorithm.creditflow")
    else:
        asked = SchemeSettings(**_own_estimator(config))
    made = credit.make(asked.scheme, semantics=asked.semantics, **asked.parameters)
    if hasattr(made, "invalid_penalty") and "invalid_penalty" not in asked.parameters:
        actor = entry(config, "actor_rollout_ref.actor", {})
        used = entry(actor, "use_invalid_action_penalty", True)
        penalty = float(entry(actor, "invalid_action_penalty_coef", 0.0)) if used else 0.0
        made = credit.make(asked.scheme, semantics=asked.semantics, **{**asked.parameters, "invalid_penalty": penalty})
    return made


def _own_estimator(config: Any) -> dict[str, Any]:
    """Arguments of ``SchemeSettings`` for the estimator that the script names."""
    algorithm = entry(config, "algorithm", {})
    name = str(getattr(value := entry(algorithm, "adv_estimator", ""), "value", value))
    if name in ("grpo", "rloo"):
        scaled = name == "rloo" or entry(algorithm, "norm_adv_by_std_in_grpo", True)
        parameters: dict[str, Any] = {} if scaled else {"outcome_scale": "none"}
    elif name == "gigpo":
        mode = entry(algorithm, "gigpo.mode", "mean_std_norm")
        if mode not in ("mean_norm", "mean_std_norm"):
            raise ConfigError(f"algorithm.gigpo.mode must be 'mean_norm' or 'mean_std_norm', got {short_repr(mode)}")
        scale = "std" if mode == "mean_std_norm" else "none"
        similar = entry(algorithm, "gigpo.enable_similarity", False)
        parameters = {
            "discount": float(entry(algorithm, "gamma", 1.0)),
            "step_weight": float(entry(algorithm, "gigpo.step_advantage_w", 1.0)),
            "outcome_scale": scale,
            "step_scale": scale,
            "similarity": float(entry(algorithm, "gigpo.similarity_thresh", 0.95)) if similar else 0.0,
        }
    else:
        raise ConfigError(
            f"algorithm.adv_estimator={name} is none of gigpo, grpo, rloo: keep one of these, which verl-agent's trainer "
            "accepts, and name the scheme in +algorithm.creditflow.scheme"
        )
    return {"scheme": name, "semantics": "release", "parameters": parameters}

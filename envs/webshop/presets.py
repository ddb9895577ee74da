"""Environment variants of published work, each a named set of options.

| preset | from | options |
| --- | --- | --- |
| standard | here | text pages, reward = score, 15 steps |
| upstream | Princeton's WebShop | the same pages, 100 steps, goal order from seed 233, their three splits |
| verl_agent | verl-agent (GiGPO) | reward 10 for a perfect purchase, else 0; ``seed`` orders the goals; text key: page without instruction |
| rewardflow | RewardFlow | as verl_agent; text key: page with the clicked option values |
| graphgpo | GraphGPO | as verl_agent; pages with labelled buttons; ``ads`` inserts advertisements |
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from creditflow.envs.errors import ConfigError, check_name, short_repr

__all__ = ["PRESETS", "ObservationMode", "Preset", "RewardMode", "TextKey", "resolve_preset"]

ObservationMode = Literal["text", "text_rich"]
RewardMode = Literal["score", "ten"]
TextKey = Literal["page", "bare_page", "clicked"]

OBSERVATION_MODES: Final = ("text", "text_rich")
REWARD_MODES: Final = ("score", "ten")


@dataclass(frozen=True, slots=True)
class Preset:
    """Options in which published environments differ.

    Attributes:
        obs_mode: format of the page.
        reward: "score": the score of the purchase, in [0, 1]; "ten": 10 for a score of 1, else 0.
        max_steps: limit of an episode.
        show_attributes: whether item pages offer the "Attributes" sub page.
        text_key: "page" (the observation), "bare_page" (verl-agent's form, without the instruction) or "clicked"
            (RewardFlow's form, with the option values clicked).
        goal_seed: random seed of the order of goals; None for the seed of the prices.
        splits: name -> (first, last) goal number, last exclusive and None for the end.
        ads: number of advertisements inserted into every page.
        ad_chance: probability that each of them appears.
    """

    obs_mode: ObservationMode = "text"
    reward: RewardMode = "score"
    max_steps: int = 15
    show_attributes: bool = False
    text_key: TextKey = "page"
    goal_seed: int | None = 233
    splits: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    ads: int = 0
    ad_chance: float = 1.0

    def goal_range(self, split: str) -> slice:
        """The goal numbers of a split; every preset has the split "all".

        Raises:
            ConfigError: no such split.
        """
        if split == "all":
            return slice(0, None)
        check_name("split of this preset", split, [*self.splits, "all"])
        return slice(*self.splits[split])


_PRINCETON_SPLITS: Final = {"test": (0, 500), "dev": (500, 1500), "train": (1500, None)}
_VERL: Final = Preset(
    reward="ten", text_key="bare_page", goal_seed=None, splits={"val": (0, 500), "train": (500, None)}
)
PRESETS: Final = {
    "standard": Preset(splits={"valid": (0, 500), "train": (500, None)}),
    "upstream": Preset(max_steps=100, splits=dict(_PRINCETON_SPLITS)),
    "verl_agent": _VERL,
    "rewardflow": replace(_VERL, text_key="clicked"),
    "graphgpo": replace(_VERL, obs_mode="text_rich", text_key="page"),
}


def resolve_preset(name: str, **overrides: Any) -> Preset:
    """The named preset with every override that is not None.

    Raises:
        ConfigError: unknown preset, or an override outside its range.
    """
    check_name("WebShop preset", name, PRESETS)
    preset = replace(PRESETS[name], **{key: value for key, value in overrides.items() if value is not None})
    check_name("obs_mode", preset.obs_mode, OBSERVATION_MODES)
    check_name("reward", preset.reward, REWARD_MODES)
    if type(preset.show_attributes) is not bool:
        raise ConfigError(f"show_attributes must be True or False, got {short_repr(preset.show_attributes)}")
    if type(preset.ads) is not int or not 0 <= preset.ads <= 100:
        raise ConfigError(f"ads must be an integer from 0 to 100, got {short_repr(preset.ads)}")
    if type(preset.ad_chance) not in (int, float) or not 0 <= preset.ad_chance <= 1:
        raise ConfigError(f"ad_chance must be a number from 0 to 1, got {short_repr(preset.ad_chance)}")
    return preset

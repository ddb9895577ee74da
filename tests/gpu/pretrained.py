"""Credit schemes on a pretrained instruct model: the same tasks, rollouts and loss for every scheme, at two learning rates.

Protocol, stated before any run. Sokoban in text, 6 × 6, 15 turns, with free thought before the action (``train/configs/gigpo_sokoban.yaml``);
16 tasks × 8 rollouts × 150 iterations, token mean, Adam, which the scale of the credit hardly touches; held-out panel ``paper-6x6-v1:test``. Each scheme has its
own rate, the better one on the panel ``paper-6x6-v1:valid``. The primary contrast is ``PRIMARY``, final success on the held-out panel, a
t interval over seeds paired by seed; five points are detectable with about five seeds. All other contrasts are secondary, adjusted by Holm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import ConfigError
from creditflow.train.settings.schema import TrainConfig, load_settings
from creditflow.train.statistics import crossed_mean
from creditflow.wrappers import credit

__all__ = ["PRIMARY", "RATES", "SCHEMES", "contrasts", "pretrained", "settings_of"]

PRIMARY: Final = ("grouptd", "graphgpo")
SCHEMES: Final = ("grpo", "grouptd", "graphgpo", "gigpo", "g2po")  # those that are registered
RATES: Final = (1e-6, 3e-6)
RECIPE: Final = Path(__file__).resolve().parents[2] / "train/configs/gigpo_sokoban.yaml"


def settings_of(
    folder: Path, model: str, scheme: str, rate: float, seed: int, overrides: Sequence[str] = ()
) -> TrainConfig:
    """The settings of one run; all schemes have the same ones but for the scheme and the rate."""
    name = f"{Path(model).name}-{scheme}-{rate:g}-{seed}"
    given = (
        f"out={folder / name}", f"seed={seed}", f"model.path={model}", f"credit.scheme={scheme}", "credit.parameters={}",
        f"update.optimizer.lr={rate}", "update.loss.aggregation=token_mean",
    )  # fmt: skip
    return load_settings(RECIPE, (*given, *overrides))


def pretrained(
    folder: Path, model: str, seeds: Sequence[int], overrides: Sequence[str] = ()
) -> dict[str, Callable[[], dict[str, Any]]]:
    """The runs by name, seed by seed; each can be continued after an interruption.

    Raises:
        ConfigError: the folder of the model is missing.
    """
    if not (Path(model) / "config.json").is_file():
        raise ConfigError(f"--model {model}: expected a folder with a pretrained model and its tokenizer")
    from gpu.curves import train_curve  # needs torch

    schemes = [name for name in SCHEMES if name in credit.names()]
    runs: dict[str, Callable[[], dict[str, Any]]] = {}
    for seed in seeds:
        for scheme in schemes:
            for rate in RATES:
                settings = settings_of(folder, model, scheme, rate, seed, overrides)
                runs[Path(settings.out).name] = partial(train_curve, settings)
    return runs


def contrasts(
    success: Mapping[str, Mapping[float, Sequence[float]]], valid: Mapping[str, Mapping[float, float]]
) -> dict[str, Any]:
    """The primary contrast and every scheme minus grpo.

    Args:
        success: by scheme and rate the final held-out success of every seed.
        valid: by scheme and rate the mean success on the validation panel, by which the rate is chosen.
    """
    chosen = {scheme: max(rates, key=rates.__getitem__) for scheme, rates in valid.items()}
    final = {scheme: np.array(success[scheme][rate]) for scheme, rate in chosen.items()}

    def minus(better: str, worse: str) -> list[float]:
        difference = crossed_mean((final[better] - final[worse])[:, None])
        return [difference.mean, *difference.interval]

    result: dict[str, Any] = {"rates": chosen}
    if set(PRIMARY) <= set(final):
        result["primary"] = {" − ".join(PRIMARY): minus(*PRIMARY)}
    result["secondary"] = {f"{scheme} − grpo": minus(scheme, "grpo") for scheme in final if scheme != "grpo"}
    return result

"""verl-agent's GiGPO, by the path of a checkout: one row per turn, in the order of time.

creditflow bench --estimator creditflow.train.adapters.estimators.verl_agent:gigpo:path/to/verl-agent

The file imports torch and ``verl`` (a checkout brings its own; an installed one serves as well). States are numbers, so that
equal states are equal anchors; its script's discount is 0.95, and its modes are "mean_norm" (``gigpo``) and "mean_std_norm"
(``gigpo_std``).
"""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.plugins.code import Code, load_code
from creditflow.train.bench.estimators.contract import EstimatorFunction, TurnRows

__all__ = ["gigpo", "gigpo_std"]

FILE = Path("gigpo") / "core_gigpo.py"
DISCOUNT = 0.95


def gigpo(path: str) -> EstimatorFunction:
    """GiGPO of a checkout, or of its file core_gigpo.py, in the mode "mean_norm"."""
    return _estimator(path, "mean_norm")


def gigpo_std(path: str) -> EstimatorFunction:
    """The same in the mode "mean_std_norm"."""
    return _estimator(path, "mean_std_norm")


def _estimator(path: str, mode: str) -> EstimatorFunction:
    file = Path(path) / FILE if Path(path).is_dir() else Path(path)
    returns = load_code(f"{file}:compute_step_discounted_returns")
    advantages = load_code(f"{file}:compute_gigpo_outcome_advantage")
    return GiGPO(returns, advantages, mode, {file.name: advantages.digest})


@dataclass(frozen=True)
class GiGPO:
    """GiGPO by the two functions of a checkout.

    Attributes:
        returns, advantages: the functions.
        mode: "mean_norm" or "mean_std_norm".
        released: digest of the file.
    """

    returns: Code
    advantages: Code
    mode: str
    released: dict[str, str]

    def __call__(self, rows: TurnRows) -> NDArray[np.float64]:
        """float64 (N,): the advantage of every turn."""
        import torch

        n = len(rows.reward)
        columns: dict[str, Any] = {
            "rewards": rows.reward.astype(object), "traj_uid": rows.trajectory.astype(str).astype(object),
            "active_masks": np.ones(n, bool),
        }  # fmt: skip
        batch = SimpleNamespace(non_tensor_batch=columns, batch={"input_ids": torch.zeros(n, 1)})
        with contextlib.redirect_stdout(io.StringIO()):  # it prints the mean size of its groups
            per_row, _ = self.advantages.target(
                token_level_rewards=torch.tensor(rows.returns[rows.trajectory], dtype=torch.float32)[:, None],
                step_rewards=self.returns.target(batch, DISCOUNT), response_mask=torch.ones(n, 1),
                anchor_obs=rows.state.astype(object), index=rows.group.astype(str).astype(object), traj_index=columns["traj_uid"],
                mode=self.mode,
            )  # fmt: skip
        return np.asarray(per_row[:, 0].numpy(), np.float64)

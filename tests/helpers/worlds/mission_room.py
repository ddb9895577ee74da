"""A foreign environment with observations as in MiniGrid."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Room(gym.Env):
    """A mission in a grid, observed as in MiniGrid: an image, a direction and a text."""

    observation_space = spaces.Dict(
        {"image": spaces.Box(0, 9, (3,), np.uint8), "direction": spaces.Discrete(4), "mission": spaces.Text(20)}
    )
    action_space: spaces.Space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.goal = (options or {}).get("goal", int(self.np_random.integers(1, 3)))
        self.at = 0
        return self._obs(), {"admissible_actions": "mine", "room": "cellar"}

    def step(self, action):
        self.at += int(action)
        done = self.at == self.goal
        return self._obs(), float(done), done, False, {"is_success": done, "room": "cellar"}

    def _obs(self):
        image = np.zeros(3, np.uint8)
        image[self.at] = 1
        return {"image": image, "direction": self.at, "mission": f"walk {self.goal}"}

"""Programs that peers of Sokoban run in their own interpreters for ``bench_sokoban.py``: each prints one JSON object last."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any, Final

__all__ = ["PEERS", "run_peer"]

GEM: Final = r"""
import json, random, sys, time
import numpy as np
from gem.envs.game_env.sokoban import SokobanEnv

steps, kinds = int(sys.argv[1]), json.loads(sys.argv[2])
env = SokobanEnv(dim_room=(6, 6), max_turns=10**9, num_boxes=2)
env.reset(seed=1)
start = env.room_fixed, env.room_state, env.player_position
moves = ["\\boxed{%s}" % ("up", "down", "left", "right")[i] for i in np.random.default_rng(0).integers(0, 4, 1000)]
env.room_state, env.player_position = start[1].copy(), start[2].copy()
began = time.process_time()
for _ in range(steps // 1000):
    for move in moves:
        if env.step(move)[2]:
            env.room_state, env.player_position = start[1].copy(), start[2].copy()
result = {"steps": steps / (time.process_time() - began)}
for side, boxes in kinds:
    env = SokobanEnv(dim_room=(side, side), max_turns=50, num_boxes=boxes)
    began, made = time.process_time(), 0
    while made < 3 or (time.process_time() - began < 1.0 and made < 500):
        made += 1
        env.reset(seed=made)
    result[f"levels {side}x{side} {boxes}"] = made / (time.process_time() - began)
print(json.dumps(result))
"""

GYM_SOKOBAN: Final = r"""
import json, random, sys, time, warnings
warnings.filterwarnings("ignore")
import numpy as np
from gym_sokoban.envs import room_utils
from gym_sokoban.envs.sokoban_env import SokobanEnv

steps, kinds = int(sys.argv[1]), json.loads(sys.argv[2])
random.seed(0)
np.random.seed(0)
result = {}
env = SokobanEnv(dim_room=(6, 6), max_steps=10**9, num_boxes=1)
moves = np.random.default_rng(0).integers(1, 5, 1000).tolist()
start = env.room_fixed.copy(), env.room_state.copy(), env.player_position.copy()
for mode, count in (("rgb_array", steps // 50), ("tiny_rgb_array", steps // 5), ("no picture", steps)):
    if mode == "no picture":
        env.render = lambda mode="", close=None, scale=1: None
    began, made = time.process_time(), 0
    while made < count:
        for move in moves[: count - made]:
            made += 1
            if env.step(move, "rgb_array" if mode == "no picture" else mode)[2]:
                env.room_state, env.player_position = start[1].copy(), start[2].copy()
                env.boxes_on_target, env.num_env_steps = 0, 0
    result[f"steps {mode}"] = count / (time.process_time() - began)
for side, boxes in kinds:
    began, made = time.process_time(), 0
    while made < 2 or (time.process_time() - began < 1.0 and made < 500):
        try:
            room_utils.generate_room((side, side), num_steps=int(1.7 * 2 * side), num_boxes=boxes)
        except (RuntimeError, RuntimeWarning):
            continue
        made += 1
    result[f"levels {side}x{side} {boxes}"] = made / (time.process_time() - began)
print(json.dumps(result))
"""

PEERS: Final = {"gem": GEM, "gym-sokoban": GYM_SOKOBAN}


def run_peer(name: str, interpreter: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Run a peer's program; return what it printed."""
    command = [interpreter, "-c", PEERS[name], *arguments]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found

"""The package that ``creditflow new hub-package`` writes for verifiers, installed by pip into a fresh environment and played there."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from creditflow.train.cli import main

pytestmark = pytest.mark.verifiers

PLAY = """
import asyncio, sys
from helpers.servers.chat_server import chat_server, random_player
from verifiers.v1.clients import EvalClientConfig, ModelContext
from verifiers.v1.configs.env import EnvConfig
from verifiers.v1.env import Env
from verifiers.v1.types import SamplingConfig
from verifiers.v1.utils.generic import concrete_type
from verifiers.v1.utils.loaders import environment_class, load_environment, taskset_config_type
from creditflow import credit
from creditflow.train.adapters.verifiers.credit import ADVANTAGES, credit_episodes

name = sys.argv[1]
kind = concrete_type(environment_class(name), EnvConfig, origin=Env)
settings = taskset_config_type(name)(id=name, count=1)
env = load_environment(kind(taskset={"id": name, "count": 1}))

async def play(url):
    client = EvalClientConfig(base_url=url, api_key_var="CREDITFLOW_NO_KEY")
    model = ModelContext(model="toy", client=client, sampling=SamplingConfig())
    async with env.serving():
        slots = [slot for task in env.taskset for slot in env.slots(task, 2)]
        return await asyncio.gather(*(env.run_slot(slot, model) for slot in slots))

with chat_server(random_player(0)) as url:
    episodes = asyncio.run(play(url))
assert all(episode.ok for episode in episodes), [episode.last_error for episode in episodes]
credit_episodes(episodes, credit.make("grpo"))
print(settings.env, settings.panel, len(episodes), all(episode.traces[0].info[ADVANTAGES] for episode in episodes))
"""


def test_the_package_is_installed_and_played_in_a_fresh_environment(tmp_path: Path) -> None:
    package, fresh = tmp_path / "package", tmp_path / "fresh"
    assert main(["new", "hub-package", "sokoban", "--for", "verifiers", "--out", str(package)]) == 0
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(fresh)], check=True)
    [site] = fresh.glob("lib/python*/site-packages")
    # what the package requires is that of this tier: nothing is downloaded by a test
    (site / "tier.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    install = ["install", "-qq", "--no-deps", "--no-index", "--no-build-isolation", str(package)]
    python = str(fresh / "bin" / "python")
    subprocess.run([sys.executable, "-m", "pip", "--python", python, *install], check=True)
    assert (site / "creditflow_sokoban.py").is_file()
    paths = os.pathsep.join(path for path in sys.path if path.endswith(("/src", "/tests")))
    played = subprocess.run(
        [python, "-c", PLAY, "creditflow_sokoban"], check=False, capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    assert played.returncode == 0, played.stderr
    assert played.stdout.splitlines()[-1] == "sokoban standard-v1:train 2 True"

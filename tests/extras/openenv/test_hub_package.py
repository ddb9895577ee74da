"""The package that ``creditflow new hub-package`` writes for OpenEnv: validated by its tool, and its own server is played."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest
from helpers.servers.adversary import connect
from helpers.servers.env_server import free_url

from creditflow.train.cli import main

pytestmark = pytest.mark.openenv

APP = "import sys, uvicorn; from server.app import app; uvicorn.run(app, port=int(sys.argv[1]), ws='websockets-sansio')"


def test_the_package_passes_validation_and_its_server_is_played_in_a_fresh_environment(tmp_path: Path) -> None:
    from openenv.validation import Level, Verdict, run_validation

    from creditflow.train.adapters.openenv.client import PlayClient

    package, fresh = tmp_path / "package", tmp_path / "fresh"
    assert main(["new", "hub-package", "sokoban", "--for", "openenv", "--out", str(package)]) == 0
    assert run_validation(package, max_level=Level.STATIC, skip_build=True).verdict is Verdict.PASS
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(fresh)], check=True)
    [site] = fresh.glob("lib/python*/site-packages")
    # what the package requires is that of this tier: nothing is downloaded by a test
    (site / "tier.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    source = os.pathsep.join([str(package), *(path for path in sys.path if path.endswith("/src"))])
    url = free_url()
    environment = {**os.environ, "PYTHONPATH": source}
    command = [str(fresh / "bin" / "python"), "-c", APP, url.rpartition(":")[2]]
    with subprocess.Popen(command, cwd=package, env=environment, stderr=subprocess.DEVNULL) as server:
        try:
            _wait(url, server)
            with PlayClient(base_url=url).sync() as env:
                result = env.reset(seed=0)
                assert "#" in result.observation.text
                while not result.done:
                    result = env.step("up")
        finally:
            server.terminate()


def _wait(url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(6000):
        assert server.poll() is None, "the server has ended"
        try:
            with connect(url):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the server does not listen")

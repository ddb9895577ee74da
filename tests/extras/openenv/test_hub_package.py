"""The packages that ``creditflow new hub-package`` writes for OpenEnv: its tools read them, and their own servers are played."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import time
from ipaddress import ip_address
from pathlib import Path

import pytest
import yaml
from helpers.servers.adversary import connect
from helpers.servers.env_server import free_url, parsed

from creditflow.train.adapters.hub import ENVIRONMENTS
from creditflow.train.cli import main
from creditflow.train.commands.serve import env as serve_env

pytestmark = pytest.mark.openenv

APP = "import sys, uvicorn; from server.app import app; uvicorn.run(app, port=int(sys.argv[1]), ws='websockets-sansio')"
COUNTS = {
    "sokoban": {"train": 300, "valid": 60, "test": 60},
    "alfworld": {"train": 240, "valid": 120, "test": 120},
    "webshop": {"train": 1010, "valid": 206, "test": 185},
    "wikisearch": {"train": 712, "valid": 96, "test": 192},
}


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp(request.param) / "package"
    assert main(["new", "hub-package", request.param, "--for", "openenv", "--out", str(folder)]) == 0
    return request.param, folder


@pytest.fixture(scope="module")
def fresh_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with what the packages require: that of this tier, so that a test downloads nothing."""
    fresh = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(fresh)], check=True)
    [site] = fresh.glob("lib/python*/site-packages")
    (site / "tier.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return fresh / "bin" / "python"


def test_the_manifest_passes_openenvs_static_validation(package: tuple[str, Path]) -> None:
    from openenv.validation import Level, Verdict, run_validation

    report = run_validation(package[1], max_level=Level.STATIC, skip_build=True)
    assert report.verdict is Verdict.PASS, report
    manifest = yaml.safe_load((package[1] / "openenv.yaml").read_text(encoding="utf-8"))
    assert manifest["name"] == package[0]
    assert manifest["validation"]["capabilities"]["declared_task_count"] == COUNTS[package[0]]


def test_the_card_has_the_front_matter_that_spaces_read_and_states_the_licence(package: tuple[str, Path]) -> None:
    _, front, body = (package[1] / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    card = yaml.safe_load(front)
    assert (card["sdk"], card["app_port"], card["tags"], card["license"]) == ("docker", 8000, ["openenv"], "apache-2.0")
    assert "$" not in body
    for file in ("README.md", "LICENSE"):
        assert ENVIRONMENTS[package[0]]["origin"] in (package[1] / file).read_text(encoding="utf-8")
    [example] = re.findall(r"```python\n(.*?)```", body, re.S)
    compile(example, "README.md", "exec")


def test_the_dockerfile_needs_no_secret_and_its_command_is_one_of_ours(package: tuple[str, Path]) -> None:
    text = (package[1] / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    words = [line.split()[0] for line in lines]
    assert words == ["FROM", "WORKDIR", "COPY", "RUN", "USER", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT"]
    assert not re.search(r"(?i)secret|token|password|--mount|git\+|http://(?!127\.0\.0\.1)|https://", "\n".join(lines))
    program, command, kind, *arguments = json.loads(lines[-1].removeprefix("ENTRYPOINT "))
    assert (program, command, kind) == ("creditflow", "serve", "env")
    args = parsed(*arguments)
    assert (args.name, args.port, args.allow_host) == (package[0], 8000, [])
    assert ip_address(args.host).is_unspecified  # every interface of the container
    assert serve_env._served(args).options["panel"] == ENVIRONMENTS[package[0]]["panel"]
    check = json.loads(lines[-2].partition("CMD ")[2])
    assert check[0] == "python"
    compile(check[2], "HEALTHCHECK", "exec")
    subprocess.run(["sh", "-n", "-c", lines[3].removeprefix("RUN ")], check=True)
    assert shlex.split(lines[3])


def test_its_server_is_played_in_a_fresh_environment(package: tuple[str, Path], fresh_python: Path) -> None:
    from creditflow.train.adapters.openenv.client import PlayClient

    source = os.pathsep.join([str(package[1]), *(path for path in sys.path if path.endswith("/src"))])
    url = free_url()
    environment = {**os.environ, "PYTHONPATH": source}
    command = [str(fresh_python), "-c", APP, url.rpartition(":")[2]]
    with subprocess.Popen(command, cwd=package[1], env=environment, stderr=subprocess.DEVNULL) as server:
        try:
            _wait(url, server)
            with PlayClient(base_url=url).sync() as env:
                result = env.reset(seed=0)
                assert result.observation.text
                while not result.done:
                    result = env.step("up")  # of three environments no action, which costs a step
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

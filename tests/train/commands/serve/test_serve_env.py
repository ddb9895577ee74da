"""The options of ``creditflow serve env``, without OpenEnv."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from helpers.servers.env_server import parsed

from creditflow.envs.errors import ConfigError, MissingExtraError
from creditflow.train.adapters.releases import OPENENV
from creditflow.train.commands.serve import env as serve_env


@pytest.mark.skipif(find_spec("openenv") is not None, reason="OpenEnv is installed")
def test_without_openenv_the_error_names_the_extra() -> None:
    with pytest.raises(MissingExtraError, match=r"\[openenv\]"):
        serve_env.run(parsed("sokoban"))


@pytest.mark.parametrize("version", ["0.9.1", "0.11.0", "1.0"])
def test_other_releases_of_openenv_are_refused(version: str) -> None:
    OPENENV.check("0.10.2")
    with pytest.raises(ConfigError, match=r"openenv>=0\.10,<0\.11"):
        OPENENV.check(version)

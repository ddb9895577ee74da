"""The command ``serve-reward``."""

from __future__ import annotations

import pytest

from creditflow.train.cli import main
from creditflow.train.commands.serve import reward as serve_reward


# -- the command ------------------------------------------------------------------------------------------------------
def test_the_command_listens_on_loopback_and_checks_its_port(capsys: pytest.CaptureFixture[str]) -> None:
    import argparse

    parser = argparse.ArgumentParser()
    serve_reward.add_arguments(parser)
    assert parser.parse_args(["--model", "m"]).host == "127.0.0.1"
    assert main(["serve-reward", "--model", "m", "--port", "0"]) == 2
    assert "--port" in capsys.readouterr().err
    assert main(["serve-reward", "--model", "m", "--placeholder", ""]) == 2

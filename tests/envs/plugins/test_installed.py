"""Entry points of installed packages: found by name, imported when asked for, and broken ones break nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.plugins import AGENT, ENVIRONMENT, SCHEME, write_package

from creditflow import credit
from creditflow.agents.registry import check_agent, make_agent
from creditflow.envs.errors import ConfigError
from creditflow.envs.registration import env_id
from creditflow.train.bench.methods import scheme_entry
from creditflow.train.cli import main
from creditflow.train.run.identity import versions

pytestmark = pytest.mark.usefixtures("forgotten")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_names_of_installed_packages_are_found_in_every_registry(site):
    write_package(site, "stranger_a", SCHEME, ("creditflow.schemes", "mine", "stranger_a:Mine"))
    write_package(site, "stranger_b", AGENT, ("creditflow.agents", "nth", "stranger_b:Nth"))
    write_package(site, "stranger_c", ENVIRONMENT, ("creditflow.environments", "Ladder", "stranger_c:Ladder"))
    assert "mine" not in credit.names(), "nothing is imported before it is asked for"
    assert credit.make("mine").name == "mine"
    assert scheme_entry("mine").scheme == "mine"
    assert make_agent("nth:2").name == "nth"
    assert env_id("Ladder") == "plugins/Ladder-v0"
    assert sorted(versions()["plugins"]) == ["agent nth", "environment Ladder", "scheme mine"]
    with pytest.raises(ConfigError, match="did you mean 'mine'"):
        credit.make("miné")


def test_a_broken_plug_in_is_reported_where_it_is_asked_for_and_nowhere_else(site, capsys):
    write_package(
        site, "stranger_a", "raise RuntimeError('it is broken')", ("creditflow.schemes", "mine", "stranger_a:Mine")
    )
    write_package(
        site, "stranger_b", SCHEME.replace('"mine"', '"other"'), ("creditflow.schemes", "renamed", "stranger_b:Mine")
    )
    assert main([]) == 0, "the help imports no plug-in"
    assert credit.make("grpo").name == "grpo"
    with pytest.raises(
        ConfigError, match=r"scheme 'mine' of stranger_a 1\.0 \(stranger_a:Mine\) cannot be loaded.*it is broken"
    ):
        credit.make("mine")
    with pytest.raises(ConfigError, match="its entry point is called 'renamed', but the scheme is called 'other'"):
        credit.make("renamed")
    nameless = SCHEME.replace('name = "mine"', "")
    write_package(site, "stranger_c", nameless, ("creditflow.schemes", "nameless", "stranger_c:Mine"))
    with pytest.raises(ConfigError, match="stranger_c:Mine: Mine: a scheme needs a class attribute name"):
        credit.make("nameless")
    capsys.readouterr()
    assert main(["schemes", "--json"]) == 0
    rows = {row.get("name"): row for row in json.loads(capsys.readouterr().out)}
    assert rows["mine"]["origin"] == "stranger_a 1.0 (stranger_a:Mine)"
    assert "it is broken" in rows["mine"]["error"]
    assert main(["schemes"]) == 0
    assert "it is broken" in capsys.readouterr().out


def test_names_that_are_taken_name_both(site, capsys):
    write_package(
        site, "stranger_a", SCHEME.replace('"mine"', '"grpo"'), ("creditflow.schemes", "grpo", "stranger_a:Mine")
    )
    write_package(site, "stranger_b", SCHEME, ("creditflow.schemes", "mine", "stranger_b:Mine"))
    write_package(site, "stranger_c", SCHEME, ("creditflow.schemes", "mine", "stranger_c:Mine"))
    assert type(credit.make("grpo")).__module__.startswith("creditflow."), (
        "an installed package cannot replace a scheme of ours"
    )
    with pytest.raises(ConfigError, match=r"stranger_b 1\.0 .*stranger_c 1\.0"):
        credit.make("mine")
    assert main(["schemes"]) == 0
    assert "creditflow has scheme 'grpo' itself" in capsys.readouterr().out
    with pytest.raises(ConfigError, match=r"stranger_a:Mine: .*'grpo' exists already: creditflow\.wrappers"):
        credit.load("stranger_a:Mine")


def test_listing_environments_shows_where_they_are_from(site, capsys):
    write_package(site, "stranger_c", ENVIRONMENT, ("creditflow.environments", "Ladder", "stranger_c:Ladder"))
    assert main(["envs"]) == 0
    assert "stranger_c 1.0 (stranger_c:Ladder)" in capsys.readouterr().out
    check_agent("random")

"""The bundle of wheels for an offline machine: a failed download is an error of the user's machine, not a defect."""

from __future__ import annotations

import subprocess

import pytest
from gpu.bundle import build_bundle

from creditflow.envs.errors import DataError


def test_a_failed_download_names_the_wheels_and_the_remedy_and_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 1))
    with pytest.raises(DataError, match=r"could not download gymnasium.*exit code 1.* machine with network"):
        build_bundle(tmp_path / "wheels")
    assert not (tmp_path / "wheels").exists()

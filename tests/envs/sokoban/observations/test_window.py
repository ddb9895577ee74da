"""``render_mode="human"``: a window where there is a display, and elsewhere an error that says what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from importlib.util import find_spec
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import creditflow
from creditflow.envs.errors import ConfigError, EpisodeError
from creditflow.envs.sokoban import SokobanEnv, render

LEVEL = "#######\n#@ $ .#\n#######"


@pytest.fixture(scope="module")
def display():
    """A display: the present one, or a virtual one where Xvfb is installed; the tier of the browser installs it and requires these tests."""
    if not render.missing_for_window():
        yield
        return
    server = shutil.which("Xvfb")
    if server is None or find_spec("tkinter") is None:
        pytest.skip("needs a display or Xvfb (apt-get install xvfb), and tkinter")
    read, write = os.pipe()
    arguments = [server, "-displayfd", str(write), "-screen", "0", "640x480x24", "-nolisten", "tcp"]
    with (
        pytest.MonkeyPatch.context() as patch,
        subprocess.Popen(arguments, pass_fds=(write,), stderr=subprocess.DEVNULL) as xvfb,
    ):
        os.close(write)
        with os.fdopen(read) as number:
            patch.setenv("DISPLAY", f":{number.readline().strip()}")
        yield
        xvfb.terminate()


@pytest.fixture
def headless(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")


@pytest.mark.usefixtures("headless")
def test_without_a_display_the_error_says_what_is_missing_and_what_to_use():
    with pytest.raises(ConfigError, match=r"needs a display \(\$DISPLAY is not set\); use render_mode='rgb_array'"):
        SokobanEnv(level=LEVEL, render_mode="human")


def test_without_tk_the_error_names_its_package(monkeypatch):
    monkeypatch.setattr(render, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="python3-tk"):
        SokobanEnv(level=LEVEL, render_mode="human")


@pytest.mark.usefixtures("headless")
def test_without_a_display_the_other_modes_pass_gymnasiums_checker():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = creditflow.make("sokoban", level=LEVEL, render_mode="rgb_array").unwrapped
        assert env.metadata["render_modes"] == ["rgb_array", "ansi"]
        check_env(env)
    assert SokobanEnv.metadata["render_modes"] == ["rgb_array", "ansi", "human"]


def test_a_display_that_cannot_be_opened_is_an_error_at_the_first_frame(monkeypatch):
    tkinter = pytest.importorskip("tkinter")

    def broken():
        raise tkinter.TclError("couldn't connect to display")

    monkeypatch.setattr(tkinter, "Tk", broken)
    monkeypatch.setattr(render, "missing_for_window", lambda: "")
    env = SokobanEnv(level=LEVEL, render_mode="human")
    with pytest.raises(ConfigError, match="cannot open a window"):
        env.reset()


def test_a_frame_stays_for_its_time(monkeypatch):
    tkinter = pytest.importorskip("tkinter")
    clock, waited = [100.0], []

    def sleep(seconds):
        waited.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr(render, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: clock[0]))
    for name in ("Tk", "Label", "PhotoImage"):
        monkeypatch.setattr(tkinter, name, MagicMock())
    shown = render.Window("frames")
    frame = np.zeros((2, 2, 3), np.uint8)
    for passed in (0.0, 0.05, 9.0):  # since the frame before
        clock[0] += passed
        shown.show(frame)
    assert waited == pytest.approx([0.0, 1 / render.FRAMES_PER_SECOND - 0.05, 0.0])


@pytest.mark.window
@pytest.mark.usefixtures("display")
def test_a_window_shows_every_reset_and_step():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(creditflow.make("sokoban", level=LEVEL, render_mode="human").unwrapped)
    env = SokobanEnv(level=LEVEL, render_mode="human", tile_size=20)
    env.reset()
    env.step("right")
    assert env.render() is None
    assert env._window is not None
    assert (env._window._picture.width(), env._window._picture.height()) == (140, 60)
    env.close()
    env.close()


@pytest.mark.window
@pytest.mark.usefixtures("display")
def test_a_window_that_somebody_closed_is_an_error():
    env = SokobanEnv(level=LEVEL, render_mode="human")
    env.reset()
    assert env._window is not None
    env._window._root.destroy()
    with pytest.raises(EpisodeError, match="was closed"):
        env.step("right")
    env.close()

"""Headless Chromium for tests that look at pages: its DOM, or driven through chromedriver's HTTP interface."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip


def rendered_dom(page: Path, profile: Path, *, budget_ms: int = 5000) -> str:
    """The page's DOM after its scripts ran, as HTML text; skips the test when there is no Chromium."""
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium runs this test")
    done = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", f"--virtual-time-budget={budget_ms}", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout


ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {
    "Tab": "\ue004",
    "Enter": "\ue007",
    "Escape": "\ue00c",
    "Left": "\ue012",
    "Up": "\ue013",
    "Right": "\ue014",
    "Down": "\ue015",
}  # of WebDriver


class Browser:
    """The few WebDriver calls needed.

    Args:
        port: where chromedriver listens.
        profile: folder of the browser's profile.
        width: of a telephone's screen in px; 0 for a desktop window.
        dark: whether pages are asked for in dark colours.
    """

    def __init__(self, port: int, profile: Path, *, width: int = 0, dark: bool = False) -> None:
        self.port = port
        arguments = [*FLAGS, "--disable-dev-shm-usage", "--window-size=1280,900", f"--user-data-dir={profile}"]
        if dark:
            arguments.append("--blink-settings=preferredColorScheme=0")
        options: dict[str, Any] = {"binary": CHROMIUM, "args": arguments}
        if width:
            options["mobileEmulation"] = {"deviceMetrics": {"width": width, "height": 800, "pixelRatio": 1.0}}
        wanted = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}}
        self.session = self.call("POST", "/session", wanted)["sessionId"]
        self.do("POST", "/timeouts", {"implicit": 20_000})

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The value of one call."""
        data = None if body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, data, {"Content-Type": "application/json"})
        value = json.load(connection.getresponse())["value"]
        connection.close()
        return value

    def do(self, method: str, path: str, body: Any = None) -> Any:
        """The value of one call of this session."""
        return self.call(method, f"/session/{self.session}{path}", body)

    def open(self, page: Path) -> None:
        """Open a file, and wait until it is loaded."""
        self.do("POST", "/url", {"url": page.as_uri()})

    def run(self, script: str) -> Any:
        """What a script returns; it runs outside the page's content security policy."""
        return self.do("POST", "/execute/sync", {"script": script, "args": []})

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        actions = [{"type": kind, "value": KEYS.get(key, key)} for key in keys for kind in ("keyDown", "keyUp")]
        self.do("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def find(self, xpath: str) -> str:
        """The first element at the path; the driver waits for it."""
        found: str = self.do("POST", "/element", {"using": "xpath", "value": xpath})[ELEMENT]
        return found

    def text(self, xpath: str) -> Any:
        """The text of the first element at the path."""
        return self.do("GET", f"/element/{self.find(xpath)}/text")

    def click(self, button: str, then: str) -> None:
        """Click the button with this text, and wait for what the next page shows."""
        self.do("POST", f"/element/{self.find(f'//button[.={quoted(button)}]')}/click", {})
        self.find(then)


def quoted(text: str) -> str:
    """A text as XPath writes it."""
    assert not ('"' in text and "'" in text)
    return f"'{text}'" if '"' in text else f'"{text}"'


@contextmanager
def driven(folder: Path, *, width: int = 0, dark: bool = False) -> Iterator[Browser]:
    """A browser that is driven; skips the test when there is no Chromium or no chromedriver."""
    driver = shutil.which("chromedriver")
    if CHROMIUM is None or driver is None:
        pytest.skip("no Chromium or no chromedriver: apt-get install chromium chromium-driver runs this test")
    process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        started = (re.search(r"started successfully on port (\d+)", line) for line in process.stdout or ())
        port = int(next(found.group(1) for found in started if found))
        browser = Browser(port, folder / "profile", width=width, dark=dark)
        yield browser
        browser.do("DELETE", "")
    finally:
        process.terminate()
        process.communicate(timeout=10)

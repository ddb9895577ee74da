"""A headless Chromium buys the right product by clicking (driven through chromedriver's HTTP interface)."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import subprocess
import threading

import pytest

from creditflow.envs.webshop.env import WebShopEnv
from creditflow.envs.webshop.web import ShopServer

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """The few WebDriver calls needed."""

    def __init__(self, port, binary, profile):
        self.port = port
        arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--user-data-dir={profile}",
        ]
        options = {"binary": binary, "args": arguments}
        wanted = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}}
        self.session = self.call("POST", "/session", wanted)["sessionId"]

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, data, {"Content-Type": "application/json"})
        answer = json.load(connection.getresponse())["value"]
        connection.close()
        return answer

    def do(self, method, path, body=None):
        return self.call(method, f"/session/{self.session}{path}", body)

    def find(self, css):
        return [e[ELEMENT] for e in self.do("POST", "/elements", {"using": "css selector", "value": css})]

    def text(self, css):
        return self.do("GET", f"/element/{self.find(css)[0]}/text")

    def click(self, css, text):
        for element in self.find(css):
            if self.do("GET", f"/element/{element}/text") == text:
                self.do("POST", f"/element/{element}/click", {})
                return
        raise AssertionError(f"nothing called {text!r} to click on {self.do('GET', '/url')}")


@pytest.fixture
def browser(tmp_path):
    binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not binary or not driver:
        pytest.skip(f"needs chromium and chromedriver (apt-get install chromium chromium-driver): {binary=}, {driver=}")
    process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        started = (re.search(r"started successfully on port (\d+)", line) for line in process.stdout or ())
        port = int(next(found.group(1) for found in started if found))
        browser = Browser(port, binary, tmp_path / "profile")
        yield browser
        browser.do("DELETE", "")
    finally:
        process.terminate()
        process.communicate(timeout=10)


@pytest.mark.slow
def test_a_person_buys_the_right_product_by_clicking(browser):
    env = WebShopEnv()
    server = ShopServer(env, seed=11)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        goal = env.shop.goal
        assert len(goal.options) == 2
        browser.do("POST", "/url", {"url": server.url})
        assert goal.instruction in browser.text("#instruction-text")
        box = browser.find("#search_input")[0]
        browser.do("POST", f"/element/{box}/value", {"text": goal.name})
        browser.click("button", "Search")
        browser.click("button.product-link", goal.asin)
        browser.click("button", "Features")
        browser.click("button", "< Prev")
        for value in goal.option_values:
            browser.click("button.option", value)
        assert len(browser.find('button[aria-pressed="true"]')) == 2
        browser.click("button", "Buy Now")
        assert browser.text("#reward") == "1.0"
        assert env.reward_parts.score == 1.0
        browser.click("button", "New task")
        assert browser.find("#search_input")
    finally:
        server.close()
        thread.join()

"""A headless Chromium buys the goal's product by clicking (driven through chromedriver's HTTP interface)."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import subprocess

import pytest
from helpers.servers.browser import CHROMIUM, FLAGS
from helpers.servers.http_server import served

from creditflow.envs.webshop.env import WebShopEnv
from creditflow.envs.webshop.pages.web import create_shop_app

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """The few WebDriver calls needed."""

    def __init__(self, port, binary, profile):
        self.port = port
        options = {"binary": binary, "args": [*FLAGS, "--disable-dev-shm-usage", f"--user-data-dir={profile}"]}
        wanted = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}}
        self.session = self.call("POST", "/session", wanted)["sessionId"]
        self.do("POST", "/timeouts", {"implicit": 20_000})

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, data, {"Content-Type": "application/json"})
        value = json.load(connection.getresponse())["value"]
        connection.close()
        return value

    def do(self, method, path, body=None):
        return self.call(method, f"/session/{self.session}{path}", body)

    def find(self, xpath):
        """The first element at the path; the driver waits for it."""
        return self.do("POST", "/element", {"using": "xpath", "value": xpath})[ELEMENT]

    def text(self, xpath):
        return self.do("GET", f"/element/{self.find(xpath)}/text")

    def click(self, button, then):
        """Click the button with this text, and wait for what the next page shows."""
        self.do("POST", f"/element/{self.find(f'//button[.={quoted(button)}]')}/click", {})
        self.find(then)


def quoted(text):
    assert not ('"' in text and "'" in text)
    return f"'{text}'" if '"' in text else f'"{text}"'


@pytest.fixture
def browser(tmp_path):
    driver = shutil.which("chromedriver")
    if CHROMIUM is None or driver is None:
        pytest.skip("no Chromium or no chromedriver: apt-get install chromium chromium-driver runs this test")
    process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        started = (re.search(r"started successfully on port (\d+)", line) for line in process.stdout or ())
        port = int(next(found.group(1) for found in started if found))
        browser = Browser(port, CHROMIUM, tmp_path / "profile")
        yield browser
        browser.do("DELETE", "")
    finally:
        process.terminate()
        process.communicate(timeout=10)


@pytest.mark.browser
@pytest.mark.slow
def test_a_user_buys_the_right_product_by_clicking(browser):
    env = WebShopEnv()
    two_options = (seed for seed in range(100) if env.reset(seed=seed) and len(env.shop.goal.options) == 2)
    with served(create_shop_app(env, seed=next(two_options))) as url:
        goal = env.shop.goal
        browser.do("POST", "/url", {"url": f"{url}/"})
        assert goal.instruction in browser.text('//*[@id="instruction-text"]')
        box = browser.find('//*[@id="search_input"]')
        browser.do("POST", f"/element/{box}/value", {"text": goal.name})
        browser.click("Search", then="//button[.='Next >']")
        browser.click(goal.asin, then="//button[.='Buy Now']")
        browser.click("Features", then="//p[@class='product-info']")
        browser.click("< Prev", then="//button[.='Buy Now']")
        for value in goal.option_values:
            browser.click(value, then=f"//button[@aria-pressed='true'][.={quoted(value)}]")
        browser.click("Buy Now", then="//*[@id='thankyou']")
        assert browser.text("//*[@id='reward']") == "1.0"
        assert env.reward_parts.score == 1.0
        browser.click("New task", then="//*[@id='search_input']")

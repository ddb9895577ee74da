"""A headless Chromium buys the goal's product by clicking (driven through chromedriver's HTTP interface)."""

from __future__ import annotations

import pytest
from helpers.servers.browser import driven, quoted
from helpers.servers.http_server import served

from creditflow.envs.webshop.env import WebShopEnv
from creditflow.envs.webshop.pages.web import create_shop_app


@pytest.fixture
def browser(tmp_path):
    with driven(tmp_path) as opened:
        yield opened


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

"""The shop as a web page: escaped, on loopback, for its own pages only."""

from __future__ import annotations

import http.client
import re
from html.parser import HTMLParser
from types import SimpleNamespace
from urllib.parse import urlencode, urlsplit

import pytest
from helpers.servers.http_server import served
from helpers.worlds.webshop_small import make_product, small_stock

from creditflow.envs.webshop.actions import ShopAction
from creditflow.envs.webshop.catalogue.catalogue import Catalogue, MemoryProducts
from creditflow.envs.webshop.env import WebShopEnv
from creditflow.envs.webshop.goals.goals import Goal
from creditflow.envs.webshop.pages.html import render_html
from creditflow.envs.webshop.pages.web import MAX_BODY, create_shop_app
from creditflow.envs.webshop.rules import INDEX, Shop

EVIL = "</title></style><script>alert(1)</script>\"'><img src=x onerror=alert(2)>&lt;b&gt;"


@pytest.fixture
def server():
    pytest.importorskip("starlette", reason="the page needs the extra [serve]")
    env = WebShopEnv(data=small_stock())
    with served(create_shop_app(env, seed=3)) as url:
        yield SimpleNamespace(env=env, port=urlsplit(url).port)


def request(server, method="GET", path="/", form=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    host = headers.pop("Host", f"127.0.0.1:{server.port}")
    headers = {"Host": host, **({"Origin": f"http://{host}"} if method == "POST" else {}), **headers}
    headers = {key: value for key, value in headers.items() if value is not None}
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    connection.request(method, path, urlencode(form) if form is not None else None, headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response, text


class Tags(HTMLParser):
    def __init__(self, source):
        super().__init__()
        self.tags, self.attributes, self.texts = [], [], []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data):
        self.texts.append(data)


def evil_shop():
    product = make_product(0, EVIL, EVIL.lower(), 5.0, [EVIL.lower()], ((EVIL.lower(), (EVIL.lower(),)),))
    goal = Goal(product.asin, EVIL, product.query, EVIL, EVIL, EVIL, (EVIL.lower(),), 10.0, ())
    return Shop(Catalogue(MemoryProducts([product], [5.0])), goal, "0", show_attributes=True)


def test_html_and_script_in_texts_never_become_markup():
    shop = evil_shop()
    results = shop.act(INDEX, ShopAction("search", "alert"))
    item = shop.act(results, ShopAction("click", "p00"))
    clicks = ("description", "features", "reviews", "attributes", "buy now")
    states = [INDEX, results, item, *(shop.act(item, ShopAction("click", name)) for name in clicks)]
    for state in states:
        page = Tags(render_html(shop, state))
        assert not {"script", "img", "b"} & set(page.tags)
        assert not any(name.startswith("on") for name in page.attributes)
        if state.page != "done":
            assert any("<script>alert(1)</script>" in text for text in page.texts)


def test_pages_load_nothing_from_elsewhere(server):
    for form in ({"words": "tents"}, {"action": "click[p01]"}, {"action": "click[features]"}):
        request(server, "POST", "/act", form)
        response, text = request(server)
        assert not re.search(r"(src|href|srcset|@import|url\()\s*=?", text)
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]


def test_a_user_can_search_open_choose_and_buy(server):
    env = server.env
    product = env.stock.catalogue.product(env.shop.goal.asin)
    request(server, "POST", "/act", {"words": product.title})
    request(server, "POST", "/act", {"action": f"click[{product.asin.lower()}]"})
    for value in env.shop.goal.option_values:
        _, text = request(server)
        request(server, "POST", "/act", {"action": f"click[{value}]"})
    assert request(server, "POST", "/act", {"action": "click[buy now]"})[0].status == 303
    _, text = request(server)
    assert f'<span id="reward">{env.reward_parts.score}</span>' in text
    request(server, "POST", "/act", {"words": "more"})
    assert "begin a new task" in request(server)[1]
    request(server, "POST", "/new", {})
    assert "steps are left" in request(server)[1]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "0.0.0.0:80", ""])
def test_other_hosts_are_rejected(server, host):
    before = server.env.elapsed_steps
    assert request(server, Host=host)[0].status == 421
    assert request(server, "POST", "/act", {"words": "x"}, Host=host)[0].status == 421
    assert server.env.elapsed_steps == before


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", None, "https://127.0.0.1", "http://127.0.0.1:1"])
def test_posts_from_other_sites_are_rejected(server, origin):
    for path in ("/act", "/new"):
        assert request(server, "POST", path, {"words": "x"}, Origin=origin)[0].status == 403
    assert server.env.elapsed_steps == 0


def test_localhost_is_this_host_too(server):
    assert request(server, Host=f"localhost:{server.port}")[0].status == 200
    assert request(server, "POST", "/act", {"words": "x"}, Host=f"localhost:{server.port}")[0].status == 303


def test_huge_and_malformed_forms_are_rejected(server):
    assert request(server, "POST", "/act", {"words": "x" * MAX_BODY})[0].status == 413
    assert request(server, "POST", "/act", {f"k{i}": "x" for i in range(20)})[0].status == 400
    assert request(server, "POST", "/elsewhere", {"words": "x"})[0].status == 404
    assert request(server, path="/etc/passwd")[0].status == 404
    assert server.env.elapsed_steps == 0


def test_the_reason_of_an_invalid_action_is_on_the_page(server):
    request(server, "POST", "/act", {"action": "click[<b>nothing</b>]"})
    _, text = request(server)
    assert "nothing called &#x27;&lt;b&gt;nothing&lt;/b&gt;&#x27;" in text

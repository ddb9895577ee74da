"""A page as HTML, for the ``html`` observation: all text escaped, no script, no external resource.

Identifiers and classes are those of WebShop's pages, so that scripts written for them work.
"""

from __future__ import annotations

from html import escape

from creditflow.envs.webshop.render import sub_page_texts
from creditflow.envs.webshop.rules import Shop, ShopState

__all__ = ["render_html"]

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:60rem;padding:1rem;color:#1b1b1b;background:#fff}
form{display:inline}button{font:inherit;margin:.15rem;padding:.25rem .7rem;border:1px solid #777;border-radius:.3rem;
background:#f4f4f4;color:inherit;cursor:pointer}button:focus-visible,input:focus-visible{outline:3px solid #0b62d6}
button[aria-pressed=true]{background:#0b62d6;color:#fff}.instruction{background:#fff7d6;padding:.6rem;border-radius:.3rem}
.product{border-top:1px solid #ccc;padding:.5rem 0}.product-link{color:#0b4fae;border:0;background:none;
text-decoration:underline}input{font:inherit;width:70%;padding:.3rem}
"""


def _button(text: str, kind: str = "btn btn-primary", *, pressed: bool | None = None) -> str:
    """A form with one button that clicks ``text``."""
    state = "" if pressed is None else f' aria-pressed="{"true" if pressed else "false"}"'
    value = escape(f"click[{text.lower()}]")
    return (
        f'<form method="post" action="/act"><button class="{kind}" name="action" value="{value}"{state}>'
        f"{escape(text)}</button></form>"
    )


def render_html(shop: Shop, state: ShopState) -> str:
    """The page's source. Its forms name the actions: ``action=click[…]`` or ``words=…``."""
    body = _body(shop, state)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>WebShop</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>{body}</body></html>'
    )


def _body(shop: Shop, state: ShopState) -> str:
    instruction = (
        f'<div id="instruction-text" class="instruction"><h4>Instruction: {escape(shop.goal.instruction)}</h4></div>'
    )
    match state.page:
        case "index":
            return (
                f'<h3>WebShop</h3>{instruction}<form method="post" action="/act">'
                '<label for="search_input">Words</label> <input id="search_input" name="words" autofocus>'
                '<button class="btn btn-success">Search</button></form>'
            )
        case "done":
            score = shop.purchase(state).score
            return (
                '<h1 id="thankyou">Thank you for shopping with us!</h1>'
                f'<p>Your score (min 0.0, max 1.0): <span id="reward">{score}</span></p>'
            )
        case "results":
            return instruction + _results(shop, state)
        case "item":
            return instruction + _item(shop, state)
        case _:
            texts = "".join(f'<p class="product-info">{escape(text)}</p>' for text in sub_page_texts(shop, state))
            return instruction + _buttons(shop, state) + texts


def _buttons(shop: Shop, state: ShopState) -> str:
    return "".join(_button(text) for text in shop.buttons(state))


def _results(shop: Shop, state: ShopState) -> str:
    total = len(shop.catalogue.search(state.query).asins)
    html = [_buttons(shop, state), f"<h3>Page {state.number} (Total results: {total})</h3>"]
    for asin in shop.listed(state):
        product = shop.catalogue.product(asin)
        html.append(
            f'<div class="product">{_button(asin, "product-link")}<h4 class="product-title">{escape(product.title)}'
            f'</h4><h5 class="product-price">{escape(product.price_tag)}</h5></div>'
        )
    return "".join(html)


def _item(shop: Shop, state: ShopState) -> str:
    product, chosen = shop.product(state), dict(state.options)
    html = [_button(text) for text in shop.buttons(state)[:2]]
    html.append(f"<h2>{escape(product.title)}</h2><h4>Price: {escape(product.price_tag)}</h4><h4>Rating: N.A.</h4>")
    for name, values in product.options:
        buttons = "".join(_button(value, "option", pressed=chosen.get(name) == value) for value in values)
        html.append(f'<fieldset class="radio-toolbar"><legend>{escape(name)}</legend>{buttons}</fieldset>')
    html += [_button(text) for text in shop.buttons(state)[2:]]
    return "".join(html)

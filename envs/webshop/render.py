"""A page as a list of nodes, and its observation as text, as text with labelled buttons, or as JSON.

The nodes are the texts of the original's pages in page order; both text forms are made from them alone. White space is
treated as by the original's conversion to HTML and back: empty nodes vanish, blank nodes become one space.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Literal, NamedTuple

from creditflow.envs.webshop.rules import Shop, ShopState, address

__all__ = ["Node", "page_nodes", "render_json", "render_rich", "render_text"]

SEPARATOR = " [SEP] "
_BLANK = " \t\n\f\r"


class Node(NamedTuple):
    """One text of a page: a plain text, a button, an option value or a product link."""

    kind: Literal["text", "button", "option", "link"]
    text: str


def _tidy(nodes: Iterable[Node]) -> list[Node]:
    tidied = []
    for node in nodes:
        text = node.text
        if not text:
            continue
        if not text.strip(_BLANK):
            if "\n" in text:
                continue
            node = Node(node.kind, " ")
        tidied.append(node)
    return tidied


def page_nodes(shop: Shop, state: ShopState) -> list[Node]:
    """The nodes of the page, in order."""
    instruction = shop.goal.instruction
    match state.page:
        case "index":
            head = [Node("text", "WebShop"), Node("text", "Instruction: "), Node("text", instruction)]
            return _tidy([*head, Node("button", "Search")])
        case "done":
            return _tidy(_done(shop, state))
    nodes = [Node("text", "Instruction:"), Node("text", instruction)]
    buttons = [Node("button", text) for text in shop.buttons(state)]
    match state.page:
        case "results":
            total = len(shop.catalogue.search(state.query).asins)
            nodes += [buttons[0], Node("text", f"Page {state.number} (Total results: {total})"), *buttons[1:]]
            for asin in shop.listed(state):
                product = shop.catalogue.product(asin)
                nodes += [Node("link", asin), Node("text", product.title), Node("text", product.price_tag)]
        case "item":
            nodes += buttons[:2]
            product = shop.product(state)
            for name, values in product.options:
                nodes += [Node("text", name), *(Node("option", value) for value in values)]
            nodes += [Node("text", product.title), Node("text", f"Price: {product.price_tag}")]
            nodes += [Node("text", "Rating: N.A."), *buttons[2:]]
        case _:
            nodes += [*buttons, *(Node("text", text) for text in sub_page_texts(shop, state))]
    return _tidy(nodes)


def sub_page_texts(shop: Shop, state: ShopState) -> list[str]:
    """The texts of a sub page."""
    product = shop.product(state)
    match state.sub:
        case "Description":
            return [product.description]
        case "Features":
            return [f" {bullet}" for bullet in product.bullets]
        case "Attributes":
            attributes = [f" {attribute}" for attribute in product.attributes]
            return [*attributes, product.category, product.query, product.product_category]
        case _:
            return []  # there are no reviews


def _html_safe_json(options: dict[str, str]) -> str:
    text = json.dumps(options, sort_keys=True)
    for char in "<>&'":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _done(shop: Shop, state: ShopState) -> list[Node]:
    texts = [
        "Thank you for shopping with us!",
        "Your code: ",
        "None",
        " (Paste it in your MTurk interface.)",
        "Purchased",
    ]
    texts += ["asin", state.asin, "options", _html_safe_json(dict(state.options)), "attrs", "None", "category", "None"]
    texts += ["query", "None", "product category", "None", "Target", "asin", "options", "attrs", "price upper"]
    texts += ["instuction text", "category", "product category", "query", "Goal ", "None", "Reward"]  # sic
    texts += ["Your score (min 0.0, max 1.0)", str(shop.purchase(state).score), "Reward Details ", "None"]
    return [Node("text", text) for text in texts]


def render_text(nodes: Iterable[Node]) -> str:
    """The plain form: texts joined by " [SEP] "."""
    return SEPARATOR.join(node.text.strip() for node in nodes)


def render_rich(nodes: Iterable[Node], state: ShopState, session: str) -> str:
    """The form with labelled buttons; clicked ones have another label.

    As in the original, an option counts as clicked if its text occurs in double quotes in the page's URL: values that JSON
    escapes never do, and a quoted word of the query may.
    """
    url = address(state, session)
    lines: list[str] = []
    notes: list[str] = []
    for kind, text in nodes:
        if kind == "button":
            lines.append(f"[button] {text} [button_]")
        elif kind == "option":
            clicked = f'"{text}"' in url
            lines.append(f"  [clicked button] {text} [clicked button_]" if clicked else f"  [button] {text} [button_]")
            if clicked:
                notes.append(f"You have clicked {text}.")
        elif kind == "link":
            label = "clicked button" if text in state.clicked else "button"
            lines.append(f"\n[{label}] {text} [{label}_]")
        else:
            lines.append(text)
    return "".join(f"{line}\n" for line in [*reversed(notes), *lines])


def render_json(shop: Shop, state: ShopState) -> str:
    """The page as a JSON object: kind, instruction, content, clickable texts."""
    page: dict[str, object] = {"page": state.page, "instruction": shop.goal.instruction}
    if state.page == "results":
        listed = [shop.catalogue.product(asin) for asin in shop.listed(state)]
        page["query"], page["number"] = state.query, state.number
        page["total"] = len(shop.catalogue.search(state.query).asins)
        page["products"] = [{"asin": p.asin, "title": p.title, "price": p.price_tag} for p in listed]
    elif state.page in ("item", "sub", "done"):
        product = shop.product(state)
        page["product"] = {"asin": product.asin, "title": product.title, "price": product.price_tag}
        page["chosen"] = dict(state.options)
        if state.page == "item":
            page["options"] = {name: list(values) for name, values in product.options}
        elif state.page == "sub":
            page["section"], page["texts"] = state.sub, [text.strip() for text in sub_page_texts(shop, state)]
        else:
            page["score"] = shop.purchase(state).score
    page["clickables"] = list(shop.clickables(state))
    return json.dumps(page, ensure_ascii=False)

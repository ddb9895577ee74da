"""A page as a list of nodes, and its observation as text, as text with labelled buttons, or as JSON.

The nodes are the texts of the original's pages in page order; both text forms are made from them alone. White space is
treated as by the original's conversion to HTML and back: empty nodes vanish, blank nodes become one space. ``verl_page`` and ``rewardflow_state`` write the formats of verl-agent
and RewardFlow.

Advertisements are the noise with which GraphGPO tests its merging of states: only the observation changes, not the rules,
the actions or the state keys. The lines and their positions are a function of a key sampled at reset and of the actions
since, so a restored snapshot has the same page, and two visits to one state have different ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from creditflow.envs.webshop.rules import Shop, ShopState, address

__all__ = [
    "AD_BANK",
    "Node",
    "insert_ads",
    "next_key",
    "page_nodes",
    "render_rich",
    "render_text",
    "rewardflow_state",
    "verl_page",
]

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


def verl_page(text: str, instruction: str) -> str:
    """A text page as verl-agent shows it: the parts after the instruction, each in single quotes.

    The page after a purchase does not contain the instruction and is returned unchanged.

    >>> verl_page("WebShop [SEP] Instruction: [SEP] buy tea [SEP] Search", "buy tea")
    "'Search'"
    """
    texts = text.split(SEPARATOR)
    expected = instruction.strip()
    if expected not in texts:
        return text
    return SEPARATOR.join(f"'{piece}'" for piece in texts[texts.index(expected) + 1 :])


def rewardflow_state(page: str, clicked: Iterable[str]) -> str:
    """RewardFlow's state: verl-agent's page, and the option values clicked, in the order of the clicks.

    Clicking ``a`` then ``b`` and ``b`` then ``a`` are two states, a replaced value stays in the list, and a visit to a
    sub page empties it although the shop keeps the choice: that is the published form.

    >>> rewardflow_state("'Buy Now'", ["navy", "large"])
    "'Buy Now' clicked attributes: [navy, large]"
    """
    values = list(clicked)
    return f"{page} clicked attributes: [{', '.join(values)}]" if values else page


AD_BANK = (
    "Members save more: join the club today!",
    "Flash sale ends at midnight.",
    "Free delivery on your first order.",
    "Customers who looked at this also bought a gift card.",
    "Sign up for our newsletter and get a coupon.",
    "Sponsored: the kitchen gadget everybody talks about.",
    "Only today: two for the price of one.",
    "Rate your last purchase and win a prize.",
    "Sponsored: sneakers that walk by themselves, almost.",
    "Download our app for deals on the go.",
    "Trade in your old phone for store credit.",
    "Sponsored: a mattress you will not want to leave.",
    "Clearance: last chance to save on summer styles.",
    "Need help choosing? Chat with an expert.",
    "Bundle and save: add batteries to your order.",
    "Sponsored: coffee so good it wakes the neighbours.",
)


def insert_ads(
    nodes: Sequence[Node], count: int, key: str, *, chance: float = 1.0, bank: Sequence[str] = AD_BANK
) -> list[Node]:
    """The nodes with up to ``count`` lines of ``bank`` between them, never before the instruction.

    Args:
        nodes: a page.
        count: number of lines.
        key: determines the choice; equal keys give equal pages.
        chance: probability that each line appears.
        bank: lines to choose from.
    """
    noisy = list(nodes)
    for number in range(count):
        digest = hashlib.blake2b(f"{key}:{number}".encode("utf-8", "surrogatepass"), digest_size=12).digest()
        line, position, uniform = (int.from_bytes(digest[i : i + 4], "big") for i in (0, 4, 8))
        if uniform >= chance * 2**32:
            continue
        first = min(3, len(noisy))
        noisy.insert(first + position % (len(noisy) - first + 1), Node("text", bank[line % len(bank)]))
    return noisy


def next_key(key: str, action: str) -> str:
    """The key of the page after ``action``."""
    return hashlib.blake2b(f"{key}:{action}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

"""WebShop pages as structure: instruction, buttons, products with prices, options; the clicked one is marked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence, Set
from html.parser import HTMLParser
from typing import Any, Final

from creditflow.train.viewer.scenes.lines import Line, Span, tidy

__all__ = ["webshop_scene"]

SEPARATOR: Final = " [SEP] "
_BUTTONS: Final = (
    "search",
    "back to search",
    "< prev",
    "next >",
    "description",
    "features",
    "reviews",
    "attributes",
    "buy now",
)
_OPTIONS: Final = (
    "color",
    "size",
    "flavor",
    "style",
    "scent",
    "pattern",
    "material",
    "model",
    "count",
    "length",
    "width",
)
_COUNT: Final = re.compile(r"Page \d+ \(Total results: \d+\)")
_PRODUCT: Final = re.compile(r"[A-Z0-9]{10}")
_PRICE: Final = re.compile(r"(?:Price: )?\$[\d.,]+(?: to \$[\d.,]+)?|Rating: .{1,20}")
_LABEL: Final = re.compile(r"\[(?:clicked )?button\] (.*?) \[(?:clicked )?button_\]")
_ACTION: Final = re.compile(r"(?:click|search)\[(.*)\]", re.DOTALL)


def webshop_scene(observation: str, action: str, options: Sequence[str] = ()) -> tuple[Line, ...]:
    """Return the scene of a page in any of the environment's text formats, () if it is in none of them.

    Args:
        observation: the page: texts joined by " [SEP] ", lines with labelled buttons, JSON or HTML.
        action: the action taken on it.
        options: names of options, which plain texts do not tell from their values.
    """
    option_names = {*_OPTIONS, *(name.casefold() for name in options)}
    match = _ACTION.fullmatch(action.strip())
    picked = match[1].strip().casefold() if match else ""
    if SEPARATOR in observation:
        texts = [text.strip().strip("'") for text in observation.split(SEPARATOR)]
        buys = "Buy Now" in texts  # the page of a product, whose short texts are options
        return tidy(_page([(text, _is_button(text, option_names, buys)) for text in texts], picked))
    if observation.startswith("<!DOCTYPE html>"):
        return tidy(_page(_html_parts(observation), picked))
    if _LABEL.search(observation):
        lines = [line.strip() for line in observation.split("\n")]
        labels = [_LABEL.fullmatch(line) for line in lines]
        pairs = zip(lines, labels, strict=True)
        return tidy(_page([(label[1] if label else line, bool(label)) for line, label in pairs if line], picked))
    return tidy(_json_page(observation, picked)) if observation.startswith("{") else ()


def _is_button(text: str, options: Set[str], buys: bool) -> bool:
    """Whether a text of a page without labels can be clicked."""
    if text.casefold() in _BUTTONS or _PRODUCT.fullmatch(text):
        return True
    plain = _PRICE.fullmatch(text) or text.endswith((".", ":")) or "Model " in text or text.casefold() in options
    return buys and len(text) <= 40 and not plain


def _page(parts: list[tuple[str, bool]], picked: str) -> Iterator[Line]:
    """Lines of a page from its texts and whether each is a button."""
    row: list[Span] = []
    instruction = False
    for text, button in parts:
        if text.rstrip(": ") == "Instruction":
            instruction = True
        elif instruction:
            instruction = False
            yield Line("row", tuple(row))
            row = []
            yield Line("head", (Span("", text),))
        elif button and not _PRODUCT.fullmatch(text):
            row.append(_button(text, picked))
        else:
            if _COUNT.fullmatch(text):
                row.append(Span("", text))
                continue
            yield Line("row", tuple(row))
            row = []
            if button:
                yield Line("item", (_button(text, picked),))
            elif _PRICE.fullmatch(text):
                yield Line("more", (Span("price", text),))
            elif len(text) <= 30 and not text.endswith(".") and "Model " not in text:
                row.append(Span("object", text))  # the name of an option, whose values follow
            else:
                yield Line("more", (Span("name" if "Model " in text else "", text),))
    yield Line("row", tuple(row))


def _button(text: str, picked: str) -> Span:
    return Span("picked" if text.casefold() == picked else "button", text)


class _Parts(HTMLParser):
    """Collects texts and whether they stand in a button; styles and scripts are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[tuple[str, bool]] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - the parser's interface
        if tag in ("button", "style", "script", "title"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            self._open.remove(tag)

    def handle_data(self, data: str) -> None:
        text = data.strip()
        if not text or {"style", "script", "title"} & set(self._open):
            return
        head, separator, instruction = text.partition("Instruction:")
        if separator and not head:
            self.parts += [("Instruction:", False), (instruction.strip(), False)]
        else:
            self.parts.append((text, "button" in self._open))


def _html_parts(page: str) -> list[tuple[str, bool]]:
    parser = _Parts()
    try:
        parser.feed(page)
    except AssertionError:  # html.parser's answer to some malformed declarations
        return []
    return parser.parts


def _json_page(observation: str, picked: str) -> Iterator[Line]:
    try:
        data: Any = json.loads(observation)
    except (ValueError, RecursionError):
        return
    if not isinstance(data, dict):
        return
    yield Line("head", (Span("", str(data.get("instruction", ""))),))
    for name, value in data.items():
        if name == "products" and isinstance(value, list):
            for product in value:
                if isinstance(product, dict):
                    yield Line("item", (_button(str(product.get("asin", "")), picked),))
                    yield Line(
                        "more",
                        (Span("name", str(product.get("title", ""))), Span("price", str(product.get("price", "")))),
                    )
        elif name == "options" and isinstance(value, dict):
            for option, values in value.items():
                chips = [_button(str(choice), picked) for choice in values] if isinstance(values, list) else []
                yield Line("row", (Span("object", str(option)), *chips))
        elif name == "clickables" and isinstance(value, list):
            yield Line("row", tuple(_button(str(button), picked) for button in value))
        elif name != "instruction":
            yield Line("more", (Span("name", name), Span("", f" {json.dumps(value, ensure_ascii=False)}")))

"""The scenes of a group's turns, by the environment that its task id names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from html.parser import HTMLParser
from typing import Any, Final

from creditflow.train.viewer.scenes.lines import MAX_SCENE, Line, Span, marked, tidy
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["alfworld_scene", "environment_of", "scene_maker", "search_names", "search_scene", "webshop_scene"]

_PREFIX: Final = re.compile(r"([a-z]+)\d+:")


def environment_of(task_id: str) -> str:
    """Return the environment that a task id names, "" if none.

    >>> environment_of("webshop1:5bb720804e4a4d0b1dd84a9daa2c2607")
    'webshop'
    """
    match = _PREFIX.match(task_id)
    return match[1] if match else ""


def scene_maker(group: Group) -> Callable[[Turn], tuple[Line, ...]]:
    """Return the function from a turn to its scene; () stands for the plain text."""
    name = environment_of(group.task_id)
    if name == "webshop":
        options = _option_names(group.task.get("options"))
        return _bounded(lambda turn: webshop_scene(turn.observation, turn.action, options))
    if name == "alfworld":
        return _bounded(lambda turn: alfworld_scene(turn.observation, turn.action))
    if name == "wikisearch" or any(turn.queries for turn in group.turns):
        names = search_names(group.task, sorted({name for turn in group.turns for name in turn.entities}))
        return _bounded(lambda turn: search_scene(turn.observation, names, turn.queries))
    return lambda _: ()


def _option_names(options: Any) -> tuple[str, ...]:
    """Names of the goal's options in a payload, from anywhere."""
    pairs = options if isinstance(options, (list, tuple)) else ()
    return tuple(
        pair[0] for pair in pairs[:20] if isinstance(pair, (list, tuple)) and pair and isinstance(pair[0], str)
    )


def _bounded(scene: Callable[[Turn], tuple[Line, ...]]) -> Callable[[Turn], tuple[Line, ...]]:
    return lambda turn: scene(turn) if 0 < len(turn.observation) <= MAX_SCENE else ()


_THING: Final = re.compile(r"\b[a-z]+ \d{1,3}\b")
_TASK: Final = re.compile(r"\s*Your task is to:")


def alfworld_scene(observation: str, action: str) -> tuple[Line, ...]:
    """ALFWorld's sentences, with the task as heading and its things (``cabinet 3``) marked; those that the action names apart.

    Args:
        observation: the text.
        action: the action taken after it.
    """
    picked = set(_THING.findall(action.casefold()))
    lines = []
    for paragraph in observation.split("\n"):
        seen = {thing: "picked" if thing in picked else "object" for thing in _THING.findall(paragraph)}
        kind = "head" if _TASK.match(paragraph) else "text"
        if not paragraph.startswith("-= "):  # the engine's greeting
            lines.append(Line(kind, tuple(_spans(paragraph, seen))))
    return tidy(lines)


def _spans(paragraph: str, seen: dict[str, str]) -> list[Span]:
    """Mark the things; more than a few dozen by one pattern each would be slow, so they are found by the general one."""
    if len(seen) <= 40:
        return list(marked(paragraph, seen))
    spans, end = [], 0
    for match in _THING.finditer(paragraph):
        spans += [Span("", paragraph[end : match.start()]), Span(seen[match[0]], match[0])]
        end = match.end()
    return [*spans, Span("", paragraph[end:])]


COLOURS: Final = 5
_PASSAGE: Final = re.compile(
    r"(?:\[\d+\]|Doc \d+\(Title: ).{1,300}?(?::|\))\s|\d{1,3}\. \[.{1,300}?\](?:\(\S{1,1000}\))?(?:\s|$)"
)
_HEAD: Final = re.compile(r"Question:|Results for:|\d{1,5} (?:passages|pages) for '|Passages of the page '")
_TAG: Final = re.compile(r"</?(?:information|tool_response|search|answer|think|tool_call|access)>")


def search_names(task: Mapping[str, Any], found: Sequence[str] = ()) -> dict[str, str]:
    """Return the mark of every name: the question's entities with their aliases, its answers, and entities of turns.

    Args:
        task: a task's payload, from anywhere.
        found: names that the environment recorded in turns.
    """
    names: dict[str, str] = {}
    entities = task.get("entities")
    for number, entity in enumerate(entities if isinstance(entities, (list, tuple)) else ()):
        entry = entity if isinstance(entity, Mapping) else {"name": entity}
        aliases = entry.get("aliases")
        for name in (entry.get("name"), *(aliases if isinstance(aliases, (list, tuple)) else ())):
            if isinstance(name, str) and 0 < len(name) <= 200:
                names.setdefault(name, f"entity{number % COLOURS}")
    answers = task.get("answers")
    for answer in answers if isinstance(answers, (list, tuple)) else ():
        if isinstance(answer, str) and 0 < len(answer) <= 200:
            names[answer] = "answer"
    for name in found:
        if 0 < len(name) <= 200:
            names.setdefault(name, f"entity{len(names) % COLOURS}")
    return names


def search_scene(observation: str, names: Mapping[str, str], queries: Sequence[str]) -> tuple[Line, ...]:
    """A question or results: the question's entities and its answers marked wherever they occur, passages as a list.

    Args:
        observation: the text.
        names: see ``search_names``.
        queries: the queries that this turn's action makes.
    """
    lines = []
    for text in _TAG.sub("\n", observation).split("\n"):
        if _HEAD.match(text):
            lines.append(Line("head", tuple(marked(text, names))))
            continue
        title = _PASSAGE.match(text)
        if title is None:
            lines.append(Line("text", tuple(marked(text, names))))
        else:
            lines.append(Line("item", (Span("name", title[0]), *marked(text[title.end() :], names))))
    if queries:
        lines.append(Line("row", (Span("", "searches for"), *(Span("query", query) for query in queries[:20]))))
    return tidy(lines)


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
    """A WebShop page as structure: instruction, buttons, products with prices, options; the clicked one is marked.

    The page is in any of the environment's text formats; the scene is () if it is in none of them.

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

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - HTMLParser passes it
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

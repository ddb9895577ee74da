"""What happens to a page's Markdown before Sphinx reads it: notes below blocks, links between pages, pictures.

A block is run by the tests unless its first line says otherwise, and the page shows what it says::

    ```sh                        run by the tier docs
    ```python run=trl            run by that tier
    ```python not-run: a GPU     not run, and why
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from typing import Final

from builder.repository import ADDRESS, MADE, NOT_RUN, REPOSITORY, ROOT, WRITTEN

__all__ = ["RUNNABLE", "blocks_of", "deeper", "mark_text", "prose", "staged_text", "table"]

RUNNABLE: Final = ("sh", "console", "python", "pycon")
_FENCE: Final = re.compile(
    r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>\w*) ?(?P<mark>[^\n`]*)\n(?P<code>.*?)^(?P=indent)(?P=ticks) *$",
    re.M | re.S,
)
_LINK: Final = re.compile(r"(!?)\[([^\]\n]*)\]\(([^)\s]+)\)")
_INTERVAL: Final = re.compile(r"\[([-+−.\d]+), ([-+−.\d]+)\]")


def blocks_of(text: str) -> Iterator[tuple[str, str, str]]:
    """(language, mark, code) of every fenced block, in order; the code without the indent of a list."""
    for fence in _FENCE.finditer(text):
        code = re.sub(f"^{fence['indent']}", "", fence["code"], flags=re.M)
        yield fence["language"], fence["mark"].strip(), code


def mark_text(mark: str) -> str:
    """What a page says below a block with this mark; "" if nothing.

    >>> mark_text("run=trl")
    'Tested by `.ci/run trl`.'
    >>> mark_text("not-run: needs a GPU")
    'Not run by any test: needs a GPU.'
    """
    if mark.startswith("not-run"):
        reason = mark.removeprefix("not-run").removeprefix(":").strip() or "follows the other project's sources"
        return f"Not run by any test: {reason}."
    tier = re.search(r"\brun=([\w-]+)", mark)
    name = re.search(r"\bfile=([\w./-]+)", mark)
    sentences = [f"The file `{name[1]}`."] if name else []
    sentences += [f"Tested by `.ci/run {tier[1]}`."] if tier else []
    return " ".join(sentences)


def deeper(text: str) -> str:
    """A page with its headings one level deeper, so that it can follow on another one; code stays as it is."""
    return _outside_code(text, lambda prose: re.sub(r"^#", "##", prose, flags=re.M))


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    pieces, at = [], 0
    for fence in _FENCE.finditer(text):
        pieces += [change(text[at : fence.start()]), fence.group()]
        at = fence.end()
    return "".join([*pieces, change(text[at:])])


def staged_text(text: str, path: str = "") -> tuple[str, set[str]]:
    """A page as Sphinx gets it, and the pictures that it shows, as paths in the repository.

    Links to files that are no page of the site become links to the published repository, whose address replaces the word REPOSITORY.

    Args:
        text: Markdown.
        path: the page of the repository that its relative links start from; "" starts at its root.

    Raises:
        ValueError: a link names a file that does not exist.
    """
    pictures: set[str] = set()

    def link(found: re.Match[str]) -> str:
        image, label, target = found.groups()
        if "://" in target or target.startswith(("mailto:", "/", "#")):
            return found.group()
        page, _, anchor = target.partition("#")
        inside = posixpath.normpath(posixpath.join(posixpath.dirname(path), page))
        if not image:
            return f"[{label}]({_address(inside, anchor, path)})"
        pictures.add(inside)
        dark = inside.replace("-light.", "-dark.")  # a second drawing, for the dark theme
        if dark == inside or not (ROOT / dark).is_file():
            return f"![{label}](/{inside})"
        pictures.add(dark)
        return f"![{label}](/{inside}){{.only-light}}\n![{label}](/{dark}){{.only-dark}}"

    def with_note(fence: re.Match[str]) -> str:
        note = mark_text(fence["mark"].strip()) if fence["mark"].strip() else NOT_RUN.get(path, "")
        if fence["language"] not in RUNNABLE or not note:
            return fence.group()
        return f"{fence.group()}\n\n{fence['indent']}{{.mark}}\n{fence['indent']}{note}\n"

    text = text.replace("git clone REPOSITORY", f"git clone {REPOSITORY}")
    text = _outside_code(text, lambda prose: _LINK.sub(link, prose))
    return _FENCE.sub(with_note, text), pictures


def _address(inside: str, anchor: str, path: str) -> str:
    """Where a link to a file of the repository leads, from one of its pages."""
    if inside in MADE:
        page, _, own_anchor = MADE[inside].partition("#")
        anchor = anchor or own_anchor
    elif inside.startswith(WRITTEN) and (ROOT / inside).is_file():
        page = inside.removeprefix(WRITTEN).removesuffix(".md")
    elif (ROOT / inside).exists():
        page = ""
    else:
        raise ValueError(f"{path} links to {inside}, and there is no such file")
    address = f"/{page}.md" if page else f"{ADDRESS}/{inside}"
    return f"{address}#{anchor}" if anchor else address


def _cell(text: str) -> str:
    return _INTERVAL.sub("[\\1,\u00a0\\2]", text.replace("|", "\\|").replace("\n", " "))


def table(rows: list[list[str]]) -> str:
    """A Markdown table, header first; bars in cells are escaped, and no interval is broken at its comma."""
    lines = [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join([lines[0], "| " + " | ".join("---" for _ in rows[0]) + " |", *lines[1:]]) + "\n"


def prose(text: str) -> str:
    r"""Text of docstrings and help as Markdown: characters that Markdown would read as marks are escaped, code in backquotes stays.

    Indented lines stay as they are, so that formulas remain blocks.

    >>> prose("V_h(k) = ``Φ`` * 2 <b> [x](y)")
    'V\\_h(k) = `Φ` \\* 2 \\<b> \\[x\\](y)'
    """
    lines = []
    for line in text.replace("``", "`").split("\n"):
        spans = re.split(r"(`[^`]*`)", line)
        quoted = [span if span.startswith("`") else re.sub(r"([\\*_<\[\]|#~$])", r"\\\1", span) for span in spans]
        lines.append(line if line.startswith("    ") else "".join(quoted))
    return "\n".join(lines)

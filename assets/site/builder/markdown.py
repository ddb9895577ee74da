"""What happens to a page's Markdown before Sphinx reads it: marks of blocks, links between pages, pictures.

A block is run by the tests unless its first line says otherwise, and the page shows what it says::

    ```sh                        run by the tier docs
    ```python run=trl            run by that tier
    ```python not-run: a GPU     not run, and why
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Final

from builder.repository import ADDRESS, MADE, NOT_RUN, REPOSITORY, ROOT, TARGETS, WRITTEN

__all__ = ["RUNNABLE", "blocks_of", "deeper", "mark_text", "prose", "staged_text", "table"]

RUNNABLE: Final = ("sh", "console", "python", "pycon")
_FENCE: Final = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>\w*) ?(?P<mark>[^\n`]*)\n(?P<code>.*?)^(?P=indent)(?P=ticks) *$", re.M | re.S)  # fmt: skip
_LINK: Final = re.compile(r"(!?)\[([^\]\n]*)\]\(([^)\s]+)\)")
_INTERVAL: Final = re.compile(r"\[([-+−.\d]+), ([-+−.\d]+)\]")
_SPAN: Final = re.compile(r"(?<![`\[])`([\w./-]+)`(?!`|\])")


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
    pieces, at = [], 0
    for fence in _FENCE.finditer(text):
        pieces += [re.sub(r"^#", "##", text[at : fence.start()], flags=re.M), fence.group()]
        at = fence.end()
    return "".join([*pieces, re.sub(r"^#", "##", text[at:], flags=re.M)])


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
    text = text.replace("git clone REPOSITORY", f"git clone {REPOSITORY}")
    blocks, at = [], 0
    for fence in _FENCE.finditer(text):
        blocks.append(_prose(text[at : fence.start()], path, pictures))
        at = fence.end()
        mark = fence["mark"].strip()
        note = mark_text(mark) if mark else NOT_RUN.get(path, "")
        if fence["language"] not in RUNNABLE:
            note = ""
        head = f"{fence['indent']}{fence['ticks']}{fence['language']}"
        plain = fence["language"] in RUNNABLE
        blocks.append(f"{head}\n{fence['code']}{fence['indent']}{fence['ticks']}" if plain else fence.group())
        blocks += [f"\n\n{fence['indent']}{{.mark}}\n{fence['indent']}{note}\n"] if note else []
    blocks.append(_prose(text[at:], path, pictures))
    return "".join(blocks), pictures


def _prose(text: str, path: str, pictures: set[str]) -> str:
    folder = posixpath.dirname(path)

    def link(found: re.Match[str]) -> str:
        image, label, target = found.groups()
        page, _, anchor = target.partition("#")
        if image and target.startswith("/"):
            pictures.add(target[1:])
        if "://" in target or target.startswith(("mailto:", "/", "#")):
            return found.group()
        inside = posixpath.normpath(posixpath.join(folder, page))
        if image:
            pictures.add(inside)
            dark = inside.replace("-light.", "-dark.")  # a second drawing, for the dark theme
            if dark == inside or not (ROOT / dark).is_file():
                return f"![{label}](/{inside})"
            pictures.add(dark)
            return f"![{label}](/{inside}){{.only-light}}\n![{label}](/{dark}){{.only-dark}}"
        if inside in MADE:
            site_page, _, own_anchor = MADE[inside].partition("#")
            anchor = anchor or own_anchor
        elif not (ROOT / inside).exists():
            raise ValueError(f"{path} links to {target}, and there is no such file")
        elif inside.startswith(WRITTEN):
            site_page = inside.removeprefix(WRITTEN).removesuffix(".md")
        else:
            return f"[{label}]({ADDRESS}/{inside}{'#' + anchor if anchor else ''})"
        return f"[{label}](/{site_page}.md{'#' + anchor if anchor else ''})"

    def span(found: re.Match[str]) -> str:
        name = found[1].rstrip("/")
        targets = [
            TARGETS[path_or_name]
            for path_or_name in (name, posixpath.normpath(posixpath.join(folder, name)))
            if path_or_name in TARGETS
        ]
        return f"[`{found[1]}`](/{targets[0]}.md)" if targets and TARGETS.get(path) != targets[0] else found.group()

    text = _LINK.sub(link, text)
    return "\n".join(line if re.match(r" {0,3}#", line) else _SPAN.sub(span, line) for line in text.split("\n"))


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

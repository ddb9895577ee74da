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

from creditflow.assets.site.repository import NOT_RUN, TARGETS

__all__ = ["RUNNABLE", "blocks_of", "mark_text", "prose", "staged_text", "table"]

RUNNABLE: Final = ("sh", "console", "python", "pycon")
_FENCE: Final = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>\w*) ?(?P<mark>[^\n`]*)\n(?P<code>.*?)^(?P=indent)(?P=ticks) *$", re.M | re.S)  # fmt: skip
_LINK: Final = re.compile(r"(!?)\[([^\]\n]*)\]\(([^)\s]+)\)")
_INTERVAL: Final = re.compile(r"\[([-+−.\d]+), ([-+−.\d]+)\]")
_SPAN: Final = re.compile(r"(?<![`\[])`([\w./-]+)`(?!`|\])")


def blocks_of(text: str) -> Iterator[tuple[str, str, str]]:
    """(language, mark, code) of every fenced block, in order; the code without the indent of a list."""
    for found in _FENCE.finditer(text):
        code = re.sub(f"^{found['indent']}", "", found["code"], flags=re.M)
        yield found["language"], found["mark"].strip(), code


def mark_text(mark: str) -> str:
    """What a page says below a block with this mark; "" if nothing.

    >>> mark_text("run=trl")
    'Run by the tests of the tier `trl`.'
    >>> mark_text("not-run: needs a GPU")
    'Not run by any test: needs a GPU.'
    """
    if mark.startswith("not-run"):
        reason = mark.removeprefix("not-run").removeprefix(":").strip() or "follows the other project's sources"
        return f"Not run by any test: {reason}."
    tier = re.search(r"\brun=([\w-]+)", mark)
    name = re.search(r"\bfile=([\w./-]+)", mark)
    parts = [f"The file `{name[1]}`."] if name else []
    parts += [f"Run by the tests of the tier `{tier[1]}`."] if tier else []
    return " ".join(parts)


def staged_text(text: str, path: str = "") -> tuple[str, set[str]]:
    """A page as Sphinx gets it, and the pictures that it shows, as paths in the repository.

    Args:
        text: Markdown.
        path: the page of the repository that its relative links start from; "" for a page of the site.
    """
    pictures: set[str] = set()
    parts, at = [], 0
    for found in _FENCE.finditer(text):
        parts.append(_prose(text[at : found.start()], path, pictures))
        at = found.end()
        mark = found["mark"].strip()
        note = (mark_text(mark) if mark else NOT_RUN.get(path, "")) if found["language"] in RUNNABLE else ""
        head = f"{found['indent']}{found['ticks']}{found['language']}"
        plain = found["language"] in RUNNABLE
        parts.append(f"{head}\n{found['code']}{found['indent']}{found['ticks']}" if plain else found.group())
        parts += [f"\n\n{found['indent']}{{.mark}}\n{found['indent']}{note}\n"] if note else []
    parts.append(_prose(text[at:], path, pictures))
    return "".join(parts), pictures


def _prose(text: str, path: str, pictures: set[str]) -> str:
    folder = posixpath.dirname(path)

    def link(found: re.Match[str]) -> str:
        image, label, target = found.groups()
        place, _, anchor = target.partition("#")
        if image and target.startswith("/"):
            pictures.add(target[1:])
        if "://" in target or target.startswith(("mailto:", "/", "#")) or not path:
            return found.group()
        inside = posixpath.normpath(posixpath.join(folder, place))
        if image:
            pictures.add(inside)
            return f"![{label}](/{inside})"
        if inside not in TARGETS:
            raise ValueError(f"{path} links to {target}, which is no page of the site: name it in repository.PAGES")
        return f"[{label}](/{TARGETS[inside]}.md{'#' + anchor if anchor else ''})"

    def span(found: re.Match[str]) -> str:
        name = found[1].rstrip("/")
        known = [TARGETS[one] for one in (name, posixpath.normpath(posixpath.join(folder, name))) if one in TARGETS]
        return f"[`{found[1]}`](/{known[0]}.md)" if known and TARGETS.get(path) != known[0] else found.group()

    text = _LINK.sub(link, text)
    return "\n".join(line if re.match(r" {0,3}#", line) else _SPAN.sub(span, line) for line in text.split("\n"))


def table(rows: list[list[str]]) -> str:
    """A Markdown table, header first; bars in cells are escaped, and no interval is broken at its comma."""
    shown = [
        [_INTERVAL.sub("[\\1,\u00a0\\2]", cell.replace("|", "\\|").replace("\n", " ")) for cell in row] for row in rows
    ]
    lines = [f"| {' | '.join(row)} |" for row in shown]
    return "\n".join([lines[0], "| " + " | ".join("---" for _ in rows[0]) + " |", *lines[1:]]) + "\n"


def prose(text: str) -> str:
    r"""Text of docstrings and help as Markdown: characters that Markdown would read as marks are escaped, code in backquotes stays.

    Indented lines stay as they are, so that formulas remain blocks.

    >>> prose("V_h(k) = ``Φ`` * 2 <b> [x](y)")
    'V\\_h(k) = `Φ` \\* 2 \\<b> \\[x\\](y)'
    """
    lines = []
    for line in text.replace("``", "`").split("\n"):
        parts = re.split(r"(`[^`]*`)", line)
        quoted = [part if part.startswith("`") else re.sub(r"([\\*_<\[\]|#~$])", r"\\\1", part) for part in parts]
        lines.append(line if line.startswith("    ") else "".join(quoted))
    return "\n".join(lines)

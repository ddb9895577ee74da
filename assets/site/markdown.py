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

from creditflow.assets.site.repository import MADE, NOT_RUN, ROOT, TARGETS, WRITTEN

__all__ = ["RUNNABLE", "blocks_of", "mark_text", "prose", "staged_text", "table"]

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
    'Run by the tests of the tier `trl`.'
    >>> mark_text("not-run: needs a GPU")
    'Not run by any test: needs a GPU.'
    """
    if mark.startswith("not-run"):
        reason = mark.removeprefix("not-run").removeprefix(":").strip() or "follows the other project's sources"
        return f"Not run by any test: {reason}."
    tier = re.search(r"\brun=([\w-]+)", mark)
    name = re.search(r"\bfile=([\w./-]+)", mark)
    sentences = [f"The file `{name[1]}`."] if name else []
    sentences += [f"Run by the tests of the tier `{tier[1]}`."] if tier else []
    return " ".join(sentences)


def staged_text(text: str, path: str = "") -> tuple[str, set[str]]:
    """A page as Sphinx gets it, and the pictures that it shows, as paths in the repository.

    Args:
        text: Markdown.
        path: the page of the repository that its relative links start from; "" for a page that is made.
    """
    pictures: set[str] = set()
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
        if "://" in target or target.startswith(("mailto:", "/", "#")) or not path:
            return found.group()
        inside = posixpath.normpath(posixpath.join(folder, page))
        if image:
            pictures.add(inside)
            return f"![{label}](/{inside})"
        if inside.startswith(WRITTEN) and (ROOT / inside).is_file():
            return f"[{label}](/{inside.removeprefix(WRITTEN)}{'#' + anchor if anchor else ''})"
        if inside not in MADE:
            raise ValueError(
                f"{path} links to {target}, which is no page of the site: name it in repository.PAGES or MADE"
            )
        return f"[{label}](/{MADE[inside]}.md{'#' + anchor if anchor else ''})"

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


def table(rows: list[list[str]]) -> str:
    """A Markdown table, header first; bars in cells are escaped, and no interval is broken at its comma."""
    escaped = [
        [_INTERVAL.sub("[\\1,\u00a0\\2]", cell.replace("|", "\\|").replace("\n", " ")) for cell in row] for row in rows
    ]
    lines = [f"| {' | '.join(row)} |" for row in escaped]
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

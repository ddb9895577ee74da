"""The viewer's data as plain JSON values; repeated texts are stored once.

The page is one self-contained HTML file: the data as inert JSON, one script and one style sheet allowed by their hashes. It holds the terms
of every advantage and what was compared; the script writes the sentences that explain a number.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.train.bench.report.terms import about_method
from creditflow.train.viewer.boards import board_of_codes, group_boards
from creditflow.train.viewer.pictures import TILE, Frames, tile_strip
from creditflow.wrappers.credit.base import STEP, Scheme, Statistics
from creditflow.wrappers.credit.explanation import Scored, scored
from creditflow.wrappers.graphs.state_graph import KIND_NAMES, StateGraph
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["MAX_PAGE", "MAX_TEXT", "layered_layout", "render_page", "view_data"]

DIGITS = 5  # significant digits on the page; the log has full precision
MAX_TEXT = 50_000  # characters of one text on the page
MAX_PAGE = 128 * 2**20


class _Store:
    """What turns refer to by number: distinct texts (0 is the empty one), boards and frames."""

    def __init__(self, read_frame: Callable[[str], npt.NDArray[np.uint8]] | None) -> None:
        self.texts: dict[str, int] = {"": 0}
        self.boards: dict[bytes, int] = {}
        self.frames = Frames(read_frame)

    def text(self, text: str) -> int:
        if len(text) > MAX_TEXT:
            text = f"{text[:MAX_TEXT]}\n\u2026 {len(text) - MAX_TEXT:,} more characters, which the log has"
        return self.texts.setdefault(text, len(self.texts))

    def board(self, board: bytes | None) -> int:
        return -1 if board is None else self.boards.setdefault(board, len(self.boards))

    def data(self) -> dict[str, Any]:
        return {
            "texts": list(self.texts),
            "boards": [board_of_codes(board) for board in self.boards],
            "tiles": tile_strip() if self.boards else "",
            "tile": TILE,
            "frames": self.frames.uris,
            "frames_left_out": self.frames.left_out,
        }


def view_data(
    groups: Sequence[Group],
    schemes: Mapping[str, Scheme],
    title: str,
    read_frame: Callable[[str], npt.NDArray[np.uint8]] | None = None,
    recommended: str = "",
) -> dict[str, Any]:
    """All data of the page, as JSON values; numbers have ``DIGITS`` significant digits, texts are cut after ``MAX_TEXT``.

    Args:
        groups: groups to show.
        schemes: schemes whose credit is shown, by name.
        title: title of the page.
        read_frame: pixels of a picture that turns name, uint8 (H, W, 3), or a ``DataError``; None if none are stored.
        recommended: the scheme that is shown first, if it is among them.
    """
    store = _Store(read_frame)
    names = sorted(schemes, key=lambda name: name != recommended)  # stable: the others keep their order
    assigned = [scored(groups, schemes[name]) for name in names]
    pages = []
    for i, group in enumerate(groups):
        pages.append(_group(group, store) | {"credit": [_credit(of_scheme[i]) for of_scheme in assigned]})
    return {
        "title": title,
        "schemes": names,
        "recommended": recommended,
        "about": [about_method(name) for name in names],
        "groups": pages,
        **store.data(),
    }


def _credit(scored_group: Scored) -> dict[str, Any]:
    """One scheme's advantages in a group, N turns of R rollouts, and what they are made of."""
    credit = scored_group.credit
    terms = credit.step_terms or {STEP: credit.flat_step_advantages}
    return {
        "advantages": _rounded(credit.flat_advantages),
        "outcome": _rounded(credit.outcome_advantages),
        "terms": [[name, _rounded(values)] for name, values in terms.items() if np.any(values)],
        "compared": [_comparison(statistics) for statistics in scored_group.statistics],
    }


def _comparison(statistics: Statistics) -> dict[str, Any]:
    """One normalisation: the entry of each row (as in ``Statistics``), and mean, size and unit of the samples of each group."""
    labels, sample = statistics.labels, statistics.sample
    rows, entries = np.unique(statistics.rows, return_index=True)
    return {
        "quantity": statistics.quantity,
        "unit": "turn" if (statistics.rows[sample] >= 0).any() else "rollout",
        "rows": rows.tolist(),
        "values": _rounded(statistics.x[entries]),
        "samples": labels[entries].tolist(),
        "means": _rounded(statistics.mean),
        "sizes": np.bincount(labels[sample], minlength=len(statistics.mean)).tolist(),
    }


def _group(group: Group, store: _Store) -> dict[str, Any]:
    graph = StateGraph.from_group(group)
    boards, arrays = group_boards(group), group.arrays

    def turn_json(t: int) -> list[Any]:
        turn = group.turns[t]
        return [
            int(graph.source[t]),
            int(graph.target[t]),
            store.text(turn.action),
            store.text(turn.observation),
            store.text(_said(turn)),
            store.text(turn.invalid_reason),
            *_rounded([turn.reward]),
            store.board(boards.get(turn.state_key)),
            store.board(boards.get(turn.next_state_key)),
            store.frames.numbers(turn.images),
        ]

    begins = (np.diff(arrays.offsets) > 0) & (group.first_turns == 0)  # a branch does not begin at the start
    starts = np.unique(graph.source[arrays.offsets[:-1][begins]])
    positions = layered_layout(graph, starts.astype(np.int64))
    nodes = [[KIND_NAMES[int(kind)], *_rounded(place)] for kind, place in zip(graph.kind, positions, strict=True)]
    offsets = arrays.offsets.tolist()
    rollouts = []
    for member, first, end in zip(group.trajectories, offsets, offsets[1:], strict=False):
        rollouts.append(
            {
                "id": member.trajectory_id,
                "stop": member.stop_reason,
                "score": member.score,
                "turns": [turn_json(t) for t in range(first, end)],
            }
        )
    return {"id": group.group_id, "task": group.task_id, "nodes": nodes, "rollouts": rollouts}


def _said(turn: Turn) -> str:
    """What the agent wrote, with reasoning that its response does not contain before it."""
    if turn.thought and turn.thought not in turn.response:
        return f"<think>{turn.thought}</think>\n{turn.response}"
    return turn.response


def _rounded(values: Iterable[float]) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in np.asarray(values, np.float64).tolist()]


SWEEPS = 4  # passes over all layers, forwards and backwards in turn


def layered_layout(graph: StateGraph, starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Coordinates in [0, 1]², float64 (V, 2).

    x is the minimum number of turns from a start; within a layer nodes are sorted by the mean y of their neighbours in the
    adjacent layer (barycentre heuristic, a few sweeps).

    Args:
        graph: graph to draw.
        starts: int64, indices of the initial states.
    """
    after: list[list[int]] = [[] for _ in range(graph.size)]
    before: list[list[int]] = [[] for _ in range(graph.size)]
    for source, target in zip(graph.source.tolist(), graph.target.tolist(), strict=True):
        after[source].append(target)
        before[target].append(source)
    depth = [-1] * graph.size
    queue = deque(starts.tolist())
    for node in queue:
        depth[node] = 0
    while queue:
        node = queue.popleft()
        for target in after[node]:
            if depth[target] < 0:
                depth[target] = depth[node] + 1
                queue.append(target)
    deepest = max(depth, default=0)
    layers: list[list[int]] = [[] for _ in range(deepest + 1)]
    for node, d in enumerate(depth):
        layers[max(d, 0)].append(node)
    height = np.zeros(graph.size)
    for sweep in range(SWEEPS):
        neighbours = before if sweep % 2 == 0 else after
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            layer.sort(key=lambda node: _mean_height(neighbours[node], height, node))
            for index, node in enumerate(layer):
                height[node] = (index + 0.5) / len(layer)
    x = np.array([max(d, 0) for d in depth]) / max(deepest, 1)
    return np.stack([x, height], axis=1)


def _mean_height(neighbours: list[int], height: NDArray[np.float64], node: int) -> float:
    return float(np.mean(height[neighbours])) if neighbours else float(height[node])


def render_page(data: dict[str, Any]) -> str:
    """The page for ``view_data``.

    The content security policy allows only this script and this style sheet, both by hash, and pictures inside the page: text from a
    log can neither run nor load anything, even if a browser took it for markup.

    Raises:
        DataError: data of more than ``MAX_PAGE`` characters.
    """
    folder = files("creditflow.assets") / "viewer"
    script = (folder / "viewer.js").read_text(encoding="ascii")
    style = (folder / "viewer.css").read_text(encoding="ascii")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; base-uri 'none'"
    )
    # only "<" could end a script element; ">" and "&" are escaped as well, so that no HTML parser finds anything in it
    inert = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    # as written, where each of the three characters takes six
    size = len(inert) + 5 * sum(map(inert.count, "<>&"))
    if size > MAX_PAGE:
        raise DataError(
            f"a page of {size:,} characters is too large for a browser, at most {MAX_PAGE:,} are written; show fewer groups "
            "(--limit)"
        )
    for character in "<>&":
        inert = inert.replace(character, f"\\u{ord(character):04x}")
    page = (folder / "viewer.html").read_text(encoding="utf-8")
    fillings = {
        "@POLICY@": html.escape(policy, quote=True).replace("&#x27;", "'"),
        "@TITLE@": html.escape(data["title"]),
        "@STYLE@": style,
        "@SCRIPT@": script,
        "@DATA@": inert,
    }
    for placeholder, text in fillings.items():
        head, separator, tail = page.partition(placeholder)
        if not separator:
            raise AssertionError(f"viewer.html lacks {placeholder}")
        page = head + text + tail
    return page.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")

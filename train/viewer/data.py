"""The viewer's data as plain JSON values; repeated texts are stored once.

The page is one self-contained HTML file: the data as inert JSON, one script and one style sheet allowed by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.train.bench.report.terms import about_method
from creditflow.train.viewer.scenes.group import scene_maker
from creditflow.train.viewer.scenes.lines import KINDS, MARKS, Line
from creditflow.train.viewer.scenes.pictures import TILE, Frames, tile_strip
from creditflow.train.viewer.scenes.sokoban import board_of_codes, group_boards
from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.credit.explanation import explained
from creditflow.wrappers.graphs.state_graph import KIND_NAMES, StateGraph
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["MAX_PAGE", "MAX_TEXT", "disagreement", "layered_layout", "render_page", "view_data"]

DIGITS = 5  # decimal places on the page; the log has full precision
MAX_REASONS = 20_000  # explanations of advantages on the page
DIFFERS = 1.0  # a row is marked if its largest and smallest advantage lie farther apart, in root mean squares
MAX_TEXT = 50_000  # characters of one text on the page
COLUMNS = {
    "turn": "one exchange: an observation, the agent's thought and its action",
    "action": "what the environment executed; struck through: invalid, so nothing but the step count changed",
    "reward": "number from the environment for this turn; a dot is 0",
}
MAX_PAGE = 128 * 2**20


class _Store:
    """What turns refer to by number: distinct texts (0 is the empty one), scenes, boards and frames."""

    def __init__(self, read_frame: Callable[[str], npt.NDArray[np.uint8]] | None) -> None:
        self.texts: dict[str, int] = {"": 0}
        self.scenes: dict[tuple[Line, ...], int] = {}
        self.boards: dict[bytes, int] = {}
        self.frames = Frames(read_frame)

    def text(self, text: str) -> int:
        if len(text) > MAX_TEXT:
            text = f"{text[:MAX_TEXT]}\n\u2026 {len(text) - MAX_TEXT:,} more characters, which the log has"
        return self.texts.setdefault(text, len(self.texts))

    def scene(self, scene: tuple[Line, ...]) -> int:
        return self.scenes.setdefault(scene, len(self.scenes)) if scene else -1

    def board(self, board: bytes | None) -> int:
        return -1 if board is None else self.boards.setdefault(board, len(self.boards))

    def data(self) -> dict[str, Any]:
        return {
            "texts": list(self.texts),
            "kinds": KINDS,
            "marks": MARKS,
            "scenes": [list(map(_line_json, scene)) for scene in self.scenes],
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
) -> dict[str, Any]:
    """All data of the page, as JSON values; numbers are rounded to ``DIGITS`` places, texts cut after ``MAX_TEXT``.

    Args:
        groups: groups to show.
        schemes: schemes whose credit is shown, by name.
        title: title of the page.
        read_frame: pixels of a picture that turns name, uint8 (H, W, 3), or a ``DataError``; None if none are stored.
    """
    store = _Store(read_frame)
    assigned = {name: scheme.assign_batch(groups) for name, scheme in schemes.items()}
    reasons = _reasons(groups, schemes)
    pages, spreads = [], []
    for i, group in enumerate(groups):
        credits_of = {name: results[i] for name, results in assigned.items()}
        advantages = [credit.flat_advantages for credit in credits_of.values()]
        scales, spread = disagreement(advantages or [np.zeros(len(group.turns))])
        spreads.append(spread)
        pages.append(_group(group, credits_of, reasons[i], store) | {"scales": list(map(_rounded, scales))})
        for t, turn in enumerate(turn for rollout in pages[-1]["rollouts"] for turn in rollout["turns"]):
            turn.append(int(spread[t] > DIFFERS))
    return {
        "title": title,
        "schemes": list(schemes),
        "about": {**COLUMNS, **{name: about_method(name) for name in schemes}},
        "groups": pages,
        "opens": _opens(groups, spreads),
        **store.data(),
    }


def disagreement(advantages: Sequence[npt.NDArray[np.float64]]) -> tuple[list[float], npt.NDArray[np.float64]]:
    """How far schemes disagree about the turns of a group, each scheme in units of its root mean square there.

    Args:
        advantages: float64 (N,) per scheme.

    Returns:
        The root mean square of every scheme (1 where it gives no credit), and of every turn the largest scaled advantage
        minus the smallest, float64 (N,).
    """
    scales = [float(np.sqrt(np.mean(np.square(values)))) if len(values) else 0.0 for values in advantages]
    scales = [scale or 1.0 for scale in scales]
    scaled = np.array([values / scale for values, scale in zip(advantages, scales, strict=True)])
    return scales, np.ptp(scaled, axis=0)


def _opens(groups: Sequence[Group], spreads: Sequence[npt.NDArray[np.float64]]) -> list[int] | None:
    """Group, rollout and turn to open: the rollout whose turns schemes disagree about most, on average; None if nowhere."""
    best, opened = 0.0, None
    for g, (group, spread) in enumerate(zip(groups, spreads, strict=True)):
        for r, of_rollout in enumerate(np.split(spread, group.arrays.offsets[1:-1])):
            mean = float(of_rollout.mean()) if len(of_rollout) else 0.0
            if mean > best:
                best, opened = mean, [g, r, int(of_rollout.argmax())]
    return opened


def _reasons(groups: Sequence[Group], schemes: Mapping[str, Scheme]) -> list[list[list[str]]]:
    """For each turn of each group why every scheme gives it its credit; "" for all where there are too many."""
    turns = sum(len(group.turns) for group in groups)
    if turns * len(schemes) > MAX_REASONS:
        return [[[""] * len(schemes)] * len(group.turns) for group in groups]
    texts: list[list[list[str]]] = [[[] for _ in group.turns] for group in groups]
    for scheme in schemes.values():
        for of_group, explanations in zip(texts, explained(groups, scheme), strict=True):
            for of_turn, explanation in zip(of_group, explanations, strict=True):
                of_turn.append(explanation.text())
    return texts


def _group(
    group: Group, credits_of: Mapping[str, Credit], reasons: Sequence[Sequence[str]], store: _Store
) -> dict[str, Any]:
    graph = StateGraph.from_group(group)
    scene, boards = scene_maker(group), group_boards(group)

    def pictures(turn: Turn) -> list[Any]:
        before, after = (store.board(boards.get(key)) for key in (turn.state_key, turn.next_state_key))
        return [store.scene(scene(turn)), before, after, store.frames.numbers(turn.images)]

    def turn_json(t: int) -> list[Any]:
        advantages = [_rounded(credit.flat_advantages[t]) for credit in credits_of.values()]
        return [
            *_turn(group, graph, t, advantages, store),
            *pictures(group.turns[t]),
            [store.text(reason) for reason in reasons[t]],
        ]

    arrays = group.arrays
    begins = (np.diff(arrays.offsets) > 0) & (group.first_turns == 0)  # a branch does not begin at the start
    starts = np.unique(graph.source[arrays.offsets[:-1][begins]])
    positions = layered_layout(graph, starts.astype(np.int64))
    bounds = list(zip(arrays.offsets[:-1].tolist(), arrays.offsets[1:].tolist(), strict=True))
    nodes = []
    for key, kind, (x, y) in zip(graph.keys, graph.kind, positions, strict=True):
        nodes.append([key, KIND_NAMES[int(kind)], _rounded(x), _rounded(y)])
    rollouts = []
    for i, (member, (first, end)) in enumerate(zip(group.trajectories, bounds, strict=True)):
        rollouts.append({
            "id": member.trajectory_id,
            "stop": member.stop_reason,
            "score": member.score,
            "outcome": {name: _rounded(credit.outcome_advantages[i]) for name, credit in credits_of.items()},
            "turns": [turn_json(t) for t in range(first, end)],
        })  # fmt: skip
    return {"id": group.group_id, "task": group.task_id, "nodes": nodes, "rollouts": rollouts}


def _line_json(line: Line) -> list[Any]:
    return [KINDS.index(line.kind), [[MARKS.index(mark), text] for mark, text in line.spans]]


def _turn(group: Group, graph: StateGraph, t: int, advantages: list[float], store: _Store) -> list[Any]:
    turn = group.turns[t]
    return [
        int(graph.source[t]),
        int(graph.target[t]),
        store.text(turn.action),
        store.text(turn.observation),
        store.text(turn.thought or turn.response),
        store.text(turn.invalid_reason),
        _rounded(turn.reward),
        advantages,
    ]


def _rounded(value: float) -> float:
    return round(float(value), DIGITS)


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

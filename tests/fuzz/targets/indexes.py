"""Index folders of passages: damaged ones, with the old checksums or with new ones.

Cases of tantivy keep the old checksums: the library maps its files unchecked, and whoever can write checksums of such a
folder is trusted (see ``tantivy_index``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.retrieval.opening import open_engine
from creditflow.envs.wikisearch.retrieval.store import write_store
from fuzz.sealed import damaged, mutate_seal_kept, mutate_sealed, unpack
from fuzz.target import Target

PASSAGES = [
    Passage(
        str(i),
        f"Page {i // 2}",
        f"Text {i} about rivers and {'towns' if i % 2 else 'hills'} of number {i}.",
        str(i // 2),
    )
    for i in range(30)
]
_BUILT: dict[str, Path] = {}


def _build(engine: str) -> Callable[[Path], Sequence[bytes]]:
    def make(place: Path) -> Sequence[bytes]:
        write_store(place / "index", PASSAGES, engine, "15m" if engine == "tantivy" else "")
        _BUILT[engine] = place / "index"
        return [unpack(place / "index")]

    return make


def _read(engine: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        damaged(_BUILT[engine], data, folder / "index")
        open_engine.cache_clear()
        found = open_engine(index=str(folder / "index"))
        hits = found.search(["rivers and hills", "number 7", ""], 5)
        found.visit([hit.passage.page for hit in hits[0]] + ["Page 3", "nowhere"])

    return read


TARGETS = (
    Target(
        name="indexes/bm25", read=_read("bm25"), seeds=_build("bm25"), mutate=mutate_sealed, cases=120, place="index"
    ),
    Target(
        name="indexes/tantivy",
        read=_read("tantivy"),
        seeds=_build("tantivy"),
        mutate=mutate_seal_kept,
        cases=80,
        place="index",
        needs=("tantivy",),
        seconds=10.0,
    ),
)

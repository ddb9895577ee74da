"""The study's encyclopedia and questions: the embedded fictional world's people, towns, works and organisations in short articles.

An article has only its entity's relations to other entities, so that a model of a few hundred thousand weights can read it. A
question follows two or three relations from one entity. Questions of different splits begin at different entities; the
encyclopedia is the same, so nothing in a held-out question is unknown by vocabulary. Where a search returns more than one passage,
those below or above an entity's own article are articles that name it: distractors, with other facts under the same relations.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np

from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.wikisearch.questions import Entity, Question, SubQuestion
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.retrieval.corpus import MemoryCorpus
from creditflow.envs.wikisearch.retrieval.local import index_passages
from creditflow.envs.wikisearch.world.graph import RELATIONS, World, make_world

WORLD_SEED: Final = 7
ARTICLES: Final = 200
KINDS: Final = ("person", "place", "work", "organisation")
WORDS: Final = {"birth_place": "birthplace"}  # the relations as one word each
SPLITS: Final = {"train": 480, "valid": 60, "test": 160}  # questions, half of each number of hops
HELD_OUT: Final = {"valid": 0.1, "test": 0.25}  # of the entities at which questions begin

Facts = dict[str, dict[str, str]]  # name to relation to name


def facts(world: World) -> Facts:
    """Every entity's relations by name; people who share their name with another are left out, and what leads to them."""
    found: Facts = {}
    named = {(kind, i) for kind in KINDS for i in range(world.counts[kind]) if kind != "person" or world.twin(i) == i}
    for kind, i in sorted(named, key=lambda node: (KINDS.index(node[0]), node[1])):
        relations = {}
        for relation, target in RELATIONS[kind].items():
            other = int(world.to[kind, relation][i])
            if (target, other) in named:
                relations[WORDS.get(relation, relation)] = world.name(target, other)
        found[world.name(kind, i)] = relations
    return found


def _kind(relations: dict[str, str]) -> str:
    """The kind of an entity by its relations; a person may lack some, an entity without any is nobody's subject."""
    owners = {WORDS.get(relation, relation): kind for kind in KINDS for relation in RELATIONS[kind]}
    return owners[next(iter(relations))] if relations else ""


def renamed(known: Facts, rng: np.random.Generator) -> Facts:
    """Another world of the same names: each goes to another entity of the same kind, so every fact is another."""
    kinds: dict[str, list[str]] = {}
    for name, relations in known.items():
        kinds.setdefault(_kind(relations), []).append(name)
    new: dict[str, str] = {}
    for names in kinds.values():
        new |= dict(zip(names, rng.permutation(names).tolist(), strict=True))
    return {
        new[name]: {relation: new[other] for relation, other in relations.items()} for name, relations in known.items()
    }


def article(name: str, relations: dict[str, str], *, repeated: bool = True) -> dict[str, str]:
    """The row of an article in a corpus file; a repeated name lets a search for it find its own article first."""
    stated = "; ".join(f"{relation} {other}" for relation, other in relations.items())
    return {"id": name, "title": name, "text": f"{name}. {stated}." if repeated else f"{stated}."}


def articles(known: Facts, passages: int) -> list[dict[str, str]]:
    """The rows of a corpus of which a search returns ``passages`` articles.

    Of one, it is always the entity's own. Of more, its place among them tells nothing certain: the name is repeated only where
    a search would otherwise not return the entity's own article at all.
    """
    repeated = {name for name, relations in known.items() if passages == 1 or not relations}
    while True:
        rows = [article(name, relations, repeated=name in repeated) for name, relations in known.items()]
        engine = index_passages(
            MemoryCorpus([Passage(row["id"], row["title"], row["text"], row["id"]) for row in rows])
        )
        found = zip(known, engine.search(list(known), passages), strict=True)
        missed = {name for name, hits in found if name not in [hit.passage.title for hit in hits]}
        if missed <= repeated:
            return rows
        repeated |= missed


def question(known: Facts, start: str, path: tuple[str, ...]) -> Question | None:
    """The question that follows ``path`` from ``start``; None if it has no answer, a loop, or one that shows too early."""
    names = [start]
    for relation in path:
        if relation not in known[names[-1]]:
            return None
        names.append(known[names[-1]][relation])
    early = {name for passed in names[:-2] for name in known[passed].values()}
    if len(set(names)) < len(names) or names[-1] in early:
        return None
    edges = tuple(zip(names[:-1], path, names[1:], strict=True))
    steps = tuple(
        SubQuestion(f"{relation} of {start if k == 0 else f'#{k}'}", other, subject)
        for k, (subject, relation, other) in enumerate(edges)
    )
    return Question(
        id=f"{start}/{'.'.join(path)}",
        text=f"What is the {' of the '.join(reversed(path))} of {start}?",
        answers=(names[-1],),
        kind=f"{len(path)} hops",
        entities=tuple(map(Entity, names)),
        edges=edges,
        answer_node=names[-1],
        steps=steps,
        supporting=tuple(names[:-1]),
    )


def path_of(text: str) -> tuple[str, ...]:
    """The relations that a question follows, in order."""
    return tuple(reversed(text.partition("the ")[2].rpartition(" of ")[0].split(" of the ")))


def questions(known: Facts, rng: np.random.Generator) -> dict[str, list[Question]]:
    """The questions of each split."""
    starts = rng.permutation(sorted(known)).tolist()
    sizes = {split: round(share * len(starts)) for split, share in HELD_OUT.items()}
    parts = {"valid": starts[: sizes["valid"]], "test": starts[sizes["valid"] :][: sizes["test"]]}
    parts["train"] = starts[sum(sizes.values()) :]
    words = sorted({relation for relations in known.values() for relation in relations})
    found = {}
    for split, count in SPLITS.items():
        chosen = list[Question]()
        for hops in (2, 3):
            paths = [tuple(words[i] for i in ids) for ids in np.ndindex(*[len(words)] * hops)]
            pool = [one for start in sorted(parts[split]) for path in paths if (one := question(known, start, path))]
            chosen += [pool[i] for i in rng.permutation(len(pool))[: count // 2].tolist()]
        found[split] = chosen
    return found


def random_questions(known: Facts, count: int, rng: np.random.Generator) -> list[Question]:
    """Different questions of two and three hops in turn, each from a random entity along random relations."""
    names, found = sorted(known), dict[str, Question]()
    while len(found) < count:
        start = at = names[int(rng.integers(len(names)))]
        path = list[str]()
        while len(path) < 2 + len(found) % 2 and known[at]:
            path.append(sorted(known[at])[int(rng.integers(len(known[at])))])
            at = known[at][path[-1]]
        if len(path) == 2 + len(found) % 2 and (one := question(known, start, tuple(path))):
            found.setdefault(one.id, one)
    return list(found.values())


def write_world(folder: Path, world_seed: int = WORLD_SEED, passages: int = 1) -> list[str]:
    """Write a world: ``corpus.jsonl``, for searches of so many passages, and a question file of each split; returns all names."""
    known = facts(make_world(world_seed, ARTICLES))
    _write(folder, known, questions(known, np.random.default_rng([world_seed, 1])), passages)
    return list(known)


def write_others(
    folder: Path, count: int, size: int, seed: int, world_seed: int = WORLD_SEED, passages: int = 1
) -> list[Path]:
    """Write worlds of the same names with other facts, with ``size`` training questions each; returns their folders."""
    known, rng = facts(make_world(world_seed, ARTICLES)), np.random.default_rng([seed, 2])
    folders = [folder / str(k) for k in range(count)]
    for path in folders:
        other = renamed(known, rng)
        _write(path, other, {"train": random_questions(other, size, rng)}, passages)
    return folders


def _write(folder: Path, known: Facts, asked: dict[str, list[Question]], passages: int) -> None:
    """The files of a world; ``one.jsonl`` has a single question, for environments whose tasks are given to them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows: dict[str, list[Any]] = {"corpus": articles(known, passages)}
    rows |= {split: [one.to_json() for one in chosen] for split, chosen in asked.items()}
    rows["one"] = rows["train"][:1]
    for name, lines in rows.items():
        with atomic_writer(folder / f"{name}.jsonl", encoding="utf-8") as stream:
            stream.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)

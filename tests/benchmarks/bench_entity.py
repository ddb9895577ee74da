"""Time of entity matching and the entity schemes, compared with matching one entity after the other, in one run.

    python tests/benchmarks/bench_entity.py [--toy]

First 1,000 entities in 1 MB of text, then whole groups: 64 questions x 5 rollouts of 32k tokens (about 128 kB of text
each: 10 turns, 12 % thoughts, passages with names from the question's graph). The reference ("peer") tokenises every text
once and searches it for each form.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.ratios import parser_of, print_ratio

from creditflow import credit
from creditflow.envs.text.entity_matching import EntityMatcher, phrase_tokens
from creditflow.wrappers.graphs.entity_graph import EntityGraph
from creditflow.wrappers.trajectory import Group, Trajectory, Turn

TURNS = 10


def words(rng: np.random.Generator, n: int) -> list[str]:
    """Made-up words, some with letters beyond ASCII."""
    letters = np.array([*"etaoinshrdlucmfwypvbgkjqxz", "é"])
    chance = np.append(np.linspace(2.0, 0.2, 26), 0.02)
    lengths = rng.integers(3, 10, n)
    drawn = rng.choice(letters, int(lengths.sum()), p=chance / chance.sum())
    ends = np.cumsum(lengths)
    return ["".join(drawn[end - length : end]) for end, length in zip(ends, lengths, strict=True)]


def prose(rng: np.random.Generator, vocabulary: list[str], names: list[str], characters: int) -> str:
    """Sentences, about half of them with a name."""
    picked = rng.integers(0, len(vocabulary), characters // 6).tolist()
    out, size, i = [], 0, 0
    while size < characters:
        part = " ".join(vocabulary[k] for k in picked[i : i + 12])
        sentence = f"{part.capitalize()}, {names[i % len(names)].title()}. " if i % 24 == 0 and names else f"{part}. "
        out.append(sentence)
        size, i = size + len(sentence), (i + 12) % max(len(picked) - 12, 1)
    return "".join(out)[:characters]


def fastest(run: Callable[[], Any], times: int = 5) -> float:
    """CPU seconds of the fastest of several runs."""
    best = float("inf")
    for _ in range(times):
        began = time.process_time()
        run()
        best = min(best, time.process_time() - began)
    return best


def one_by_one(forms: list[str], text: str) -> list[int]:
    """The reference: the text normalised once, then a scan for every form."""
    spaced = f" {' '.join(phrase_tokens(text))} "
    return [i for i, form in enumerate(forms) if f" {' '.join(phrase_tokens(form))} " in spaced]


def substrings(names: Sequence[str], text: str) -> list[bool]:
    """The reference for the exact rule."""
    return [name in text for name in names]


def matching(rng: np.random.Generator, characters: int, entities: int) -> None:
    """Time the search for 1,000 entities in a text."""
    vocabulary = words(rng, 20_000)
    names = [" ".join(rng.choice(vocabulary, int(rng.integers(1, 4)))) for _ in range(entities)]
    for label, text in (
        ("ASCII", prose(rng, [w.replace("é", "e") for w in vocabulary], names[:300], characters).replace("é", "e").replace("É", "E")),
        ("beyond ASCII", prose(rng, vocabulary, names[:300], characters)),
    ):  # fmt: skip
        matcher = EntityMatcher((name,) for name in names)
        assert list(matcher.found(text)) == one_by_one(names, text)
        built = fastest(lambda: EntityMatcher((name,) for name in names))
        ours = fastest(partial(matcher.found, text))
        peer = fastest(partial(one_by_one, names, text), 1)
        exact = EntityMatcher(((name,) for name in names), "exact_substring")
        raw = fastest(partial(exact.found, text))
        raw_peer = fastest(partial(substrings, names, text), 1)
        print(
            f"{entities:,} entities in {len(text.encode()) / 1e6:.2f} MB, {label}: normalised {ours * 1e3:.1f} ms (peer "
            f"{peer * 1e3:.0f} ms, {peer / ours:.0f}x), exact {raw * 1e3:.1f} ms (peer {raw_peer * 1e3:.0f} ms, "
            f"{raw_peer / raw:.0f}x); automaton {built * 1e3:.1f} ms"
        )
        print_ratio(
            f"{entities:,} entities in {characters:,} characters {label}", "one entity after the other", peer / ours
        )


def groups(rng: np.random.Generator, questions: int, shown: int) -> Iterator[Group]:
    """Groups of five long rollouts, one at a time, so that the 164 MB of text are never in memory at once."""
    vocabulary = words(rng, 20_000)
    for q in range(questions):
        names = [" ".join(rng.choice(vocabulary, 2)).title() for _ in range(12)]
        task = {
            "entities": [{"name": name, "aliases": [name.split()[1]]} for name in names],
            "edges": [[a, "to", b] for a, b in pairwise(names)],
            "answer_node": names[-1],
        }
        members = []
        for i in range(5):
            turns = tuple(
                Turn(
                    f"{t}", "search", f"{t + 1}", observation=prose(rng, vocabulary, names[t % 12 :], shown),
                    thought=prose(rng, vocabulary, names[: t + 1], shown // 7),
                )
                for t in range(TURNS)
            )  # fmt: skip
            good = bool(rng.random() < 0.4)
            members.append(
                Trajectory(f"{i}", f"q{q}", f"q{q}", turns, good, float(good), "success" if good else "failed", "10")
            )
        yield Group(tuple(members), task)


def peer_scores(group: Group) -> None:
    """The matches that gdcr and egrpo need, one entity after the other."""
    graph = EntityGraph.from_task(group.task)
    forms = [form for name, others in zip(graph.names, graph.aliases, strict=True) for form in (name, *others)]
    for member in group.trajectories:
        for turn, after in zip(member.turns, (*member.turns[1:], None), strict=True):
            one_by_one(forms, turn.thought)
            if after is not None:
                one_by_one(forms, after.observation)
            substrings(graph.names, turn.thought)


def schemes(rng: np.random.Generator, questions: int, shown: int) -> None:
    """Time both entity schemes on groups of long rollouts."""
    gdcr, egrpo = credit.make("gdcr"), credit.make("egrpo")
    seconds = {"gdcr": 0.0, "egrpo": 0.0, "peer": 0.0}
    characters = 0
    for q, group in enumerate(groups(rng, questions, shown)):
        characters += sum(len(turn.observation) + len(turn.thought) for turn in group.turns)
        group.arrays  # noqa: B018 - shared by all schemes, not what is measured
        seconds["gdcr"] += fastest(partial(gdcr.assign, group), 1)
        seconds["egrpo"] += fastest(partial(egrpo.assign, group), 1)
        if q % 16 == 0:
            seconds["peer"] += 16 * fastest(partial(peer_scores, group), 1)
    ours = seconds["gdcr"] + seconds["egrpo"]
    print(
        f"{questions} x 5 rollouts, {characters / 1e6:.0f} M characters: gdcr {seconds['gdcr']:.2f} s, egrpo "
        f"{seconds['egrpo']:.2f} s, together {ours:.2f} s (peer, from every 16th group, {seconds['peer']:.1f} s, "
        f"{seconds['peer'] / ours:.0f}x)"
    )
    print_ratio("gdcr and egrpo on rollouts of 32k tokens", "one entity after the other", seconds["peer"] / ours)


def main() -> None:
    """Run both parts."""
    args = parser_of(__doc__).parse_args()
    matching(np.random.default_rng(0), *((3_000, 50) if args.toy else (1_000_000, 1_000)))
    shown = 200 if args.toy else 11_200  # characters of a turn's observation; its thought has a seventh
    schemes(np.random.default_rng(1), 1 if args.toy else 64, shown)


if __name__ == "__main__":
    main()

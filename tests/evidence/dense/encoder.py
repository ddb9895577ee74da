"""Writes ``tests/evidence/dense/encoder.json``: R@1 and R@10 of a small encoder trained here, beside BM25 and cheap rivals.

    PYTHONPATH=src OMP_NUM_THREADS=1 python tests/evidence/dense/encoder.py [--seeds 3 --steps 120 --out FILE]

The corpus is a generated encyclopedia. A BERT of one layer and 128 dimensions starts from random weights and learns by
contrast with the other passages of its batch (InfoNCE, temperature .05): from the golden sub-questions of training questions, and from
sentences taken out of the passages that they stand in. It is then a folder like any other: an index is built and searched
by the engines ``dense`` and ``hybrid``. The rivals of ``hybrid`` are BM25 fused in the same way with rankings that need no training.

Two sets of queries are scored, both of held-out questions, which share no fact with training questions: their sub-questions with one
golden passage each, names filled in, and the whole questions with all their golden passages. A question enters the panel only
if BM25 does *not* find its last passage by the question itself (``world/selection.py``), so whole questions are harder for BM25 than
others would be; sub-questions were not selected by any engine. R@k is the mean fraction of golden passages among the best k.
Intervals are 95 %, over questions and seeds (``crossed_mean``).
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.text.bm25.analyser import analyse
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.retrieval.engines.dense_options import DenseOptions
from creditflow.envs.wikisearch.retrieval.engines.hybrid_index import DEPTH, reciprocal_rank_fusion
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.retrieval.store import open_store, write_store
from creditflow.envs.wikisearch.world.encyclopedia import Encyclopedia
from creditflow.envs.wikisearch.world.graph import make_world
from creditflow.envs.wikisearch.world.selection import select_questions
from creditflow.train.bench.report.provenance import provenance
from creditflow.train.statistics import crossed_mean

WORLD, ARTICLES, QUESTIONS, WIDTH, TOKENS, BATCH, BEST = 7, 1_500, 600, 128, 64, 128, 10
TEMPERATURE, RATE, TAKEN_OUT = 0.05, 2e-3, 0.5  # half of the sentences are also taken out of their passage
Search = Callable[[Sequence[str]], list[list[str]]]
Pair = tuple[str, str]


def sub_questions(question: Question) -> list[tuple[str, str]]:
    """(query, passage id) of the golden steps, with the answers of earlier steps filled in."""
    answers = [step.answer for step in question.steps]
    fill = re.compile(r"#(\d+)")
    return [
        (fill.sub(lambda match: answers[int(match[1]) - 1], step.question), step.passage_id) for step in question.steps
    ]


def sentences(text: str) -> list[str]:
    """Sentences, split where a full stop stands before a space and a capital."""
    return re.split(r"(?<=\w{3}\.) (?=[A-Z0-9])", text)


def save_untrained(folder: Path, passages: Sequence[Passage], queries: Sequence[str], seed: int) -> None:
    """An encoder with random weights and a tokenizer of the frequent words and of pairs of letters."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    text = " ".join([*(passage.contents for passage in passages), *queries]).lower()
    words = Counter(re.findall(r"\w+|[^\w\s]", text))
    letters = sorted({letter for letter in text if not letter.isspace()})
    pairs = sorted({text[i : i + 2] for i in range(len(text) - 1) if text[i : i + 2].isalnum()})
    pieces = [*letters, *pairs]
    names = ["[PAD]", "[UNK]", *pieces, *(f"##{piece}" for piece in pieces)]
    frequent = sorted((word for word, count in words.items() if count >= 3), key=lambda word: (-words[word], word))
    vocabulary = list(dict.fromkeys([*names, *frequent]))
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(vocabulary)}, unk_token=names[1]))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = dict(zip(("pad_token", "unk_token"), names[:2], strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=TOKENS, **special).save_pretrained(folder)
    torch.manual_seed(seed)
    shape = {"hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "num_hidden_layers": 1, "num_attention_heads": 4}
    config = BertConfig(
        vocab_size=len(vocabulary), max_position_embeddings=TOKENS, hidden_dropout_prob=0.0, pad_token_id=0,
        attention_probs_dropout_prob=0.0, **shape,
    )  # fmt: skip
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)


def batch_of(rng: np.random.Generator, supervised: Sequence[Pair], passages: Sequence[Passage]) -> list[Pair]:
    """Half golden sub-questions, half sentences with the rest of their passage; every passage once."""
    chosen = [supervised[i] for i in rng.choice(len(supervised), BATCH // 2, replace=False)]
    for i in rng.choice(len(passages), BATCH // 2, replace=False):
        passage = passages[int(i)]
        parts = sentences(passage.text)
        at = int(rng.integers(len(parts)))
        rest = [part for j, part in enumerate(parts) if j != at or rng.random() > TAKEN_OUT]
        chosen.append((f"{passage.title} {parts[at]}", "\n".join([passage.title, " ".join(rest)])))
    return list({target: (query, target) for query, target in chosen}.values())


def train(folder: Path, supervised: Sequence[Pair], passages: Sequence[Passage], seed: int, steps: int) -> list[float]:
    """Train the encoder in place; returns the loss of every step."""
    import torch
    from transformers import BertModel, PreTrainedTokenizerFast

    model = BertModel.from_pretrained(folder, add_pooling_layer=False).train()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps, pct_start=0.1)
    rng, losses = np.random.default_rng(seed), []

    def encode(texts: Sequence[str]) -> Any:
        ready = tokenizer(list(texts), padding=True, truncation=True, max_length=TOKENS, return_tensors="pt")
        mask = ready["attention_mask"]
        hidden = model(input_ids=ready["input_ids"], attention_mask=mask).last_hidden_state * mask[..., None]
        return torch.nn.functional.normalize(hidden.sum(1) / mask.sum(1, keepdim=True), dim=1)

    for _ in range(steps):
        pairs = batch_of(rng, supervised, passages)
        scores = encode([query for query, _ in pairs]) @ encode([target for _, target in pairs]).T / TEMPERATURE
        goal = torch.arange(len(pairs))
        loss = (torch.nn.functional.cross_entropy(scores, goal) + torch.nn.functional.cross_entropy(scores.T, goal)) / 2
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        losses.append(float(loss.detach()))
    model.save_pretrained(folder)
    return losses


def searching(engine: LocalRetriever) -> Search:
    """Ids of the best passages, by an engine."""
    return lambda queries: [[hit.passage.id for hit in hits] for hits in engine.search(queries, DEPTH)]


def fused(first: Search, second: Search, passages: Sequence[Passage]) -> Search:
    """Both rankings by reciprocal ranks, as the engine ``hybrid`` fuses BM25 and vectors."""
    rows = {passage.id: row for row, passage in enumerate(passages)}

    def search(queries: Sequence[str]) -> list[list[str]]:
        both = zip(first(queries), second(queries), strict=True)
        best = (reciprocal_rank_fusion([[rows[name] for name in ids] for ids in pair], DEPTH) for pair in both)
        return [[passages[row].id for row, _ in found] for found in best]

    return search


def engine_of(scratch: Path, passages: Sequence[Passage], kind: str, encoder: Path) -> Search:
    """An index folder of an engine, built and opened."""
    path = scratch / f"{encoder.name}-{kind}"
    write_store(path, passages, kind, dense=DenseOptions(encoder=str(encoder), max_tokens=TOKENS, batch=64))
    return searching(LocalRetriever(*open_store(path, encoder=str(encoder))))


def bags(passages: Sequence[Passage]) -> tuple[NDArray[np.float64], Callable[[str], NDArray[np.float64]]]:
    """TF-IDF rows of unit length, and the function that makes one of a text; terms as BM25 sees them."""
    found = [Counter(analyse(passage.contents.lower())) for passage in passages]
    terms = {term: i for i, term in enumerate(sorted({term for counts in found for term in counts}))}
    documents = Counter(term for counts in found for term in counts)
    idf = np.array([np.log(len(passages) / documents[term]) for term in terms])

    def row(counts: Counter[str]) -> NDArray[np.float64]:
        vector = np.zeros(len(terms))
        for term, count in counts.items():
            if term in terms:
                vector[terms[term]] = (1 + np.log(count)) * idf[terms[term]]
        length = np.linalg.norm(vector)
        return vector / length if length else vector

    return np.stack([row(counts) for counts in found]), lambda text: row(Counter(analyse(text.lower())))


def linear(passages: Sequence[Passage], axes: NDArray[np.float64] | None) -> Search:
    """Cosines of TF-IDF rows, projected on axes (terms, width) or as they are."""
    rows, row = bags(passages)
    seen = rows if axes is None else rows @ axes
    seen = seen / np.maximum(np.linalg.norm(seen, axis=1, keepdims=True), 1e-12)

    def search(queries: Sequence[str]) -> list[list[str]]:
        asked = np.stack([row(query) for query in queries])
        scores = (asked if axes is None else asked @ axes) @ seen.T
        best = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
        return [[passages[i].id for i in line] for line in best]

    return search


def latent_axes(passages: Sequence[Passage]) -> NDArray[np.float64]:
    """The leading right singular vectors of the TF-IDF rows (latent semantic analysis)."""
    rows = bags(passages)[0]
    values, vectors = np.linalg.eigh(rows @ rows.T)
    lead = np.argsort(-values)[:WIDTH]
    found: NDArray[np.float64] = rows.T @ (vectors[:, lead] / np.sqrt(values[lead]))
    return found


def recalls(found: list[list[str]], queries: Sequence[tuple[str, frozenset[str]]], k: int) -> NDArray[np.float64]:
    """Fraction of golden passages among the best k, of each query."""
    return np.array([len(golden & {*ids[:k]}) / len(golden) for ids, (_, golden) in zip(found, queries, strict=True)])


def interval(values: NDArray[np.float64]) -> list[float]:
    """Mean and the ends of its interval; rows are seeds, columns are queries."""
    mean = crossed_mean(values)
    return [mean.mean, *mean.interval]


def table_of(searches: dict[str, list[Search]], queries: Sequence[tuple[str, frozenset[str]]]) -> dict[str, Any]:
    """R@1 and R@10 of every engine, and their differences from BM25's, paired by query."""
    texts = [query for query, _ in queries]
    found = {name: [search(texts) for search in each] for name, each in searches.items()}
    table: dict[str, Any] = {name: {} for name in searches}
    for k in (1, BEST):
        values = {name: np.stack([recalls(one, queries, k) for one in each]) for name, each in found.items()}
        for name, one in values.items():
            table[name] |= {
                f"recall_at_{k}": interval(one),
                f"recall_at_{k}_minus_bm25": interval(one - values["bm25"]),
            }
    return table


def main() -> None:
    """Train, search and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--out", default=str(Path(__file__).with_suffix(".json")))
    args = parser.parse_args()
    encyclopedia = Encyclopedia(make_world(WORLD, ARTICLES))
    corpus = encyclopedia.retriever.corpus
    passages = [corpus.passage(row) for row in range(len(corpus))]
    chosen = list(select_questions(encyclopedia, QUESTIONS))
    text_of = {passage.id: passage.contents for passage in passages}
    training = [pair for one in chosen if one.split == "train" for pair in sub_questions(one.question)]
    supervised = sorted({(query, text_of[name]) for query, name in training if name in text_of})
    held_out = [one.question for one in chosen if one.split == "test"]
    steps = sorted({pair for question in held_out for pair in sub_questions(question) if pair[1] in text_of})
    queries = {
        "sub-questions": [(query, frozenset([name])) for query, name in steps],
        "whole questions": [(question.text, frozenset(question.supporting)) for question in held_out],
    }
    bm25, cosine, latent = (
        searching(encyclopedia.retriever), linear(passages, None), linear(passages, latent_axes(passages))
    )  # fmt: skip
    searches: dict[str, list[Search]] = {
        "bm25": [bm25], "tf-idf cosine": [cosine], "lsa": [latent],
        "bm25 fused with tf-idf cosine": [fused(bm25, cosine, passages)], "bm25 fused with lsa": [fused(bm25, latent, passages)],
    }  # fmt: skip
    terms = bags(passages)[0].shape[1]
    runs = []
    with tempfile.TemporaryDirectory(prefix="encoder.") as scratch:
        for seed in range(args.seeds):
            axes = np.random.default_rng(seed).standard_normal((terms, WIDTH))
            searches.setdefault("random projection of tf-idf", []).append(linear(passages, axes))
            for name, trained in (("untrained", 0), ("trained", args.steps)):
                folder = Path(scratch) / f"{name}-{seed}"
                save_untrained(folder, passages, [query for query, _ in supervised], seed)
                cpu = time.process_time()
                losses = train(folder, supervised, passages, seed, trained) if trained else []
                if losses:
                    runs.append({"seed": seed, "cpu_seconds": time.process_time() - cpu, "first_loss": losses[0],
                                 "last_loss": float(np.mean(losses[-20:]))})  # fmt: skip
                    print(runs[-1], flush=True)
                for kind in ("dense", "hybrid"):
                    search = engine_of(Path(scratch), passages, kind, folder)
                    searches.setdefault(f"{kind}, {name} encoder", []).append(search)
        tables = {what: table_of(searches, asked) for what, asked in queries.items()}
    report = {
        **provenance([], 0),
        "command": f"python tests/evidence/dense/encoder.py --seeds {args.seeds} --steps {args.steps}",
        "passages": len(passages), "training_pairs": len(supervised), "queries": {k: len(v) for k, v in queries.items()},
        "runs": runs, "recall": tables,
    }  # fmt: skip
    with atomic_writer(args.out) as out:
        out.write(json.dumps(report, indent=1) + "\n")
    print(json.dumps(tables, indent=1))


if __name__ == "__main__":
    main()

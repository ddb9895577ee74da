"""The wording of a question tree by templates: nested noun phrases and a final question."""

from __future__ import annotations

from typing import Final

from creditflow.envs.wikisearch.synthesis.graph import CorpusGraph
from creditflow.envs.wikisearch.synthesis.queries import Described, Link, Named, Term
from creditflow.envs.wikisearch.synthesis.relations import RELATIONS
from creditflow.envs.wikisearch.synthesis.statements import plain_title

__all__ = ["name_of", "quoted", "step_text", "wording_of"]

_WHAT: Final = {"person": "Who is", "work": "What is the title of"}
_WHEN: Final = {"person": "born in", "organisation": "founded in", "place": "dating from"}


def name_of(graph: CorpusGraph, node: int) -> str:
    """The name of a node in a question: a title with its brackets, which distinguish pages of the same name."""
    return graph.nodes[node].name


def quoted(graph: CorpusGraph, node: int, form: str) -> str:
    """A name as it is written in a question: titles of works in quotation marks, followed by their brackets."""
    form = form.replace('"', "").strip()
    if graph.nodes[node].kind != "work":
        return form
    plain = plain_title(form)
    return f'"{plain}"{form[len(plain) :]}'


def wording_of(graph: CorpusGraph, root: Described) -> str:
    """The question of a tree."""
    first = root.links[0]
    if len(root.links) == 1 and first.forward:
        text = RELATIONS[first.relation].ask.replace("{x}", _phrase(graph, first.other))
    else:
        text = f"{_WHAT.get(graph.nodes[root.node].kind, 'What is the name of')} {_phrase(graph, root)}?"
    return text[:1].upper() + text[1:]


def step_text(graph: CorpusGraph, term: Described, link: Link) -> str:
    """The question of one hop, with the names that are known before it."""
    end = Named(link.other.node, name_of(graph, link.other.node))
    alone = Described(term.node, (Link(link.relation, link.forward, end, link.row),), term.word, term.years)
    return wording_of(graph, alone)


def _phrase(graph: CorpusGraph, term: Term) -> str:
    if isinstance(term, Named):
        return quoted(graph, term.node, term.form)
    kind = graph.nodes[term.node].kind
    forward = [link for link in term.links if link.forward]
    inverse = [link for link in term.links if not link.forward]
    if not forward:
        return _described(graph, term, kind)
    phrase = RELATIONS[forward[0].relation].noun.replace("{x}", _phrase(graph, forward[0].other))
    for link in forward[1:]:
        noun = RELATIONS[link.relation].noun.replace("{x}", _phrase(graph, link.other))
        phrase += f" {'who' if kind == 'person' else 'that'} is also {noun}"
    for link in inverse:
        said = RELATIONS[link.relation].inverse.replace("{x}", _phrase(graph, link.other))
        relative = said.startswith(("who ", "that "))
        phrase += f" {said}" if relative else f" {'who' if kind == 'person' else 'that'} was {said}"
    return phrase


def _described(graph: CorpusGraph, term: Described, kind: str) -> str:
    word, when = term.word or "one", ""
    if term.years is not None:
        first, last = term.years
        span = str(first) if first == last else f"the {first}s"
        if kind == "work":
            word = f"{span.removeprefix('the ')} {word}"
        else:
            when = f" {_WHEN.get(kind, 'dating from')} {span}"
    said = [RELATIONS[link.relation].inverse.replace("{x}", _phrase(graph, link.other)) for link in term.links]
    joined = " and ".join(said)
    relative = joined.startswith(("who ", "that "))
    return f"the {word}{when}{' and' if when and not relative else ''} {joined}"

"""Questions from recipes: a recipe names entities and relations, and always gives the same question.

bridge        a walk over relations from one entity, asking for a property of the last
comparison    two people, each reached by a relation; a property of the one born earlier or later
intersection  the one person who is on two lists; a property of theirs
temporal      the head of an organisation in the year of a work; a property of theirs
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.text.entity_matching import EntityMatcher
from creditflow.envs.wikisearch.questions import Entity, Question, SubQuestion
from creditflow.envs.wikisearch.world.articles import Fact, fact_objects
from creditflow.envs.wikisearch.world.encyclopedia import Encyclopedia
from creditflow.envs.wikisearch.world.graph import GENRES, KINDS, World
from creditflow.envs.wikisearch.world.wording import ASK, DESCRIBED, INJECT, NOUN, phrase

__all__ = ["InvalidRecipeError", "build_question", "description"]

Node = tuple[str, int]


class InvalidRecipeError(DataError):
    """A malformed recipe, or one whose question does not have exactly one answer."""


class _Edge(NamedTuple):
    subject: Node
    relation: str
    object: Node | str


def build_question(encyclopedia: Encyclopedia, recipe: Mapping[str, Any]) -> Question:
    """The question of a recipe.

    Args:
        encyclopedia: what it is about.
        recipe: ``kind`` and the keys of its kind; see the functions below.

    Raises:
        InvalidRecipeError: the recipe has no unique answer in this world, or is malformed.
    """
    makers = {"bridge": _bridge, "comparison": _comparison, "intersection": _intersection, "temporal": _temporal}
    maker = makers.get(recipe.get("kind", ""))
    if maker is None:
        raise InvalidRecipeError(f"a recipe's kind is one of {', '.join(makers)}, got {str(recipe)[:80]}")
    try:
        text, edges = maker(encyclopedia.world, recipe)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, InvalidRecipeError):
            raise
        raise InvalidRecipeError(f"malformed recipe {str(recipe)[:120]}: {error!r}") from error
    return _question(encyclopedia, str(recipe["kind"]), text[:1].upper() + text[1:], edges)


def _node(world: World, value: Any) -> Node:
    kind, i = value
    if kind not in KINDS or type(i) is not int or not 0 <= i < world.counts[kind]:
        raise InvalidRecipeError(f"no such entity: {short_repr(value)}")
    return kind, i


def _follow(world: World, node: Node, relation: str) -> _Edge:
    target = fact_objects(world, *node).get(relation)
    if target is None:
        raise InvalidRecipeError(f"{node} has no {relation}")
    return _Edge(node, relation, target)


def _noun(world: World, edge: _Edge, inner: str) -> str:
    kind, i = edge.subject
    maker = GENRES[int(world.number["work", "genre"][i])][1] if kind == "work" else ""
    return NOUN[kind, edge.relation].replace("{maker}", maker).replace("{x}", inner)


def _final_question(world: World, node: Node, relation: str, inner: str) -> tuple[str, _Edge]:
    return ASK[node[0], relation].replace("{x}", inner), _follow(world, node, relation)


def _bridge(world: World, recipe: Mapping[str, Any]) -> tuple[str, list[_Edge]]:
    """``start``, ``via`` (relations), ``ask``; with ``inject`` the start is described by that relation, not named."""
    node = _node(world, recipe["start"])
    edges: list[_Edge] = []
    inner = phrase(world, *node)
    if recipe.get("inject"):
        inner, edges = description(world, node, recipe["inject"])
    for relation in recipe["via"]:
        edge = _follow(world, node, relation)
        inner = _noun(world, edge, inner)
        edges.append(edge)
        node = _entity(edge)
    text, last = _final_question(world, node, recipe["ask"], inner)
    return text, [*edges, last]


def _entity(edge: _Edge) -> Node:
    if isinstance(edge.object, str):
        raise InvalidRecipeError(f"the relation {edge.relation} has no target entity")
    return edge.object


def description(world: World, node: Node, relation: str) -> tuple[str, list[_Edge]]:
    """A phrase that describes exactly one entity, by its ``relation`` and, where needed, a decade.

    Raises:
        InvalidRecipeError: several entities fit.
    """
    kind, i = node
    edge = _follow(world, node, relation)
    z = _entity(edge)
    matching = world.to[kind, relation] == z[1]
    word = ""
    if kind == "work":
        genre = world.number["work", "genre"]
        matching, word = matching & (genre == genre[i]), GENRES[int(genre[i])][0]
    elif kind == "person":
        profession = world.number["person", "profession"]
        matching, word = matching & (profession == profession[i]), world.profession(i)
    edges, when = [edge], ""
    if np.count_nonzero(matching) > 1 and kind in DESCRIBED:
        attribute, wording = DESCRIBED[kind]
        decade = world.number[kind, attribute] // 10
        matching &= decade == decade[i]
        when = wording.replace("{decade}", str(int(decade[i]) * 10))
        edges.append(_follow(world, node, attribute))
    if np.count_nonzero(matching) != 1:
        raise InvalidRecipeError(f"the description of {node} by {relation} fits several")
    text = INJECT[kind, relation].replace("{d}", word).replace("{when}", when).replace("{z}", phrase(world, *z))
    return text, edges


def _comparison(world: World, recipe: Mapping[str, Any]) -> tuple[str, list[_Edge]]:
    """``a`` and ``b``: [entity, relation to a person] each; ``pick``: "earlier" or "later"; ``ask`` of that person."""
    compared = []
    for start, relation in (recipe["a"], recipe["b"]):
        edge = _follow(world, _node(world, start), relation)
        person = _entity(edge)
        compared.append(
            (_noun(world, edge, phrase(world, *edge.subject)), edge, person, _follow(world, person, "born"))
        )
    (first, edge_a, a, born_a), (second, edge_b, b, born_b) = compared
    if recipe["pick"] not in ("earlier", "later") or born_a.object == born_b.object:
        raise InvalidRecipeError("a comparison needs different years, and 'earlier' or 'later'")
    first_is_earlier = int(str(born_a.object)) < int(str(born_b.object))
    chosen = a if first_is_earlier == (recipe["pick"] == "earlier") else b
    inner = f"whoever was born {recipe['pick']}, {first} or {second}"
    text, last = _final_question(world, chosen, recipe["ask"], inner)
    edges = [edge_a, edge_b, born_a, born_b]
    return text, edges if last in edges else [*edges, last]


def _intersection(world: World, recipe: Mapping[str, Any]) -> tuple[str, list[_Edge]]:
    """``event`` and ``organisation``: numbers; the one participant who was a first member; ``ask`` of them."""
    event, body = _node(world, ("event", recipe["event"])), _node(world, ("organisation", recipe["organisation"]))
    guests = world.lists["event", "participants"][event[1]].tolist()
    members = world.lists["organisation", "members"][body[1]].tolist()
    names = {world.name("person", j) for j in guests} & {world.name("person", j) for j in members}
    shared = sorted(set(guests) & set(members))
    if len(shared) != 1 or len(names) != 1 or guests.count(shared[0]) + members.count(shared[0]) != 2:
        raise InvalidRecipeError("the two lists must share one person")
    person = ("person", shared[0])
    inner = f"the competitor in {phrase(world, *event)} who was a founding member of {phrase(world, *body)}"
    text, last = _final_question(world, person, recipe["ask"], inner)
    return text, [_Edge(event, "participant", person), _Edge(body, "member", person), last]


def _temporal(world: World, recipe: Mapping[str, Any]) -> tuple[str, list[_Edge]]:
    """``organisation``, ``head`` (which of them) and ``work`` (whose year lies strictly inside the term); ``ask`` of the head."""
    body, work = _node(world, ("organisation", recipe["organisation"])), _node(world, ("work", recipe["work"]))
    heads = world.lists["organisation", "heads"][body[1]].tolist()
    start, end = world.lists["organisation", "terms"][body[1]].tolist()[recipe["head"] : recipe["head"] + 2]
    if not start < int(world.number["work", "year"][work[1]]) < end or heads.count(heads[recipe["head"]]) != 1:
        raise InvalidRecipeError("the work's year must lie inside one term of one head")
    person = ("person", heads[recipe["head"]])
    inner = f"the head of {phrase(world, *body)} in the year from which {phrase(world, *work)} dates"
    text, last = _final_question(world, person, recipe["ask"], inner)
    return text, [_follow(world, work, "year"), _Edge(body, "head", person), last]


def _question(encyclopedia: Encyclopedia, kind: str, text: str, edges: list[_Edge]) -> Question:
    """Golden passages, entities and steps for the edges; the last edge's object is the answer.

    Every entity but the answer whose name the text lacks was replaced by a description: these are the entities of the
    construction. Years and other values are none.
    """
    world = encyclopedia.world
    nodes: dict[str, Node | str] = {}
    forms: dict[str, dict[str, None]] = {}
    triples, golden, steps = [], [], []

    def add_entity(node: Node | str) -> str:
        name = node if isinstance(node, str) else world.name(*node)
        if nodes.setdefault(name, node) != node:
            raise InvalidRecipeError(f"two things in one question are called {name!r}")
        alias = "" if isinstance(node, str) else world.alias(*node)
        forms.setdefault(name, {}).update({alias: None} if alias else {})
        return name

    for edge in edges:
        subject, obj = add_entity(edge.subject), add_entity(edge.object)
        stated = encyclopedia.stated(*edge.subject, edge.relation, obj)
        if stated is None:
            raise InvalidRecipeError(f"no article states {(subject, edge.relation, obj)}")
        passage, fact = stated
        triples.append((subject, edge.relation, obj))
        golden.append(passage)
        number = next((k for k, (_, _, o) in enumerate(triples[:-1], 1) if o == subject), 0)
        inner = f"#{number}" if number else phrase(world, *edge.subject)
        steps.append(SubQuestion(ASK[edge.subject[0], edge.relation].replace("{x}", inner), obj, passage))
    answer = triples[-1][2]
    said = EntityMatcher([(name, *aliases) for name, aliases in forms.items()]).found(text)
    replaced = [
        name
        for number, (name, node) in enumerate(nodes.items())
        if not isinstance(node, str) and name != answer and number not in said
    ]
    return Question(
        id=_question_id(kind, triples),
        text=text,
        answers=_answers(edges[-1], fact, answer, tuple(forms[answer])),
        kind=kind,
        entities=tuple(Entity(name, tuple(aliases)) for name, aliases in forms.items()),
        edges=tuple(dict.fromkeys(triples)),
        answer_node=answer,
        steps=tuple(steps),
        supporting=tuple(dict.fromkeys(golden)),
        corpus=encyclopedia.retriever.digest,
        construction_entities=tuple(replaced),
    )


def _question_id(kind: str, triples: list[tuple[str, str, str]]) -> str:
    return f"{kind}/{triples[0][0]}/" + ".".join(relation for _, relation, _ in triples)


def _answers(edge: _Edge, fact: Fact, name: str, aliases: tuple[str, ...]) -> tuple[str, ...]:
    forms = [name, *aliases]
    if edge.relation == "river":
        forms += [f"River {name}", f"{name} River"]
    if edge.relation == "born":
        forms = [name]
    return tuple(dict.fromkeys([*forms, fact.written] if not isinstance(edge.object, str) else forms))

"""WikiSearch: multi-hop questions, a corpus to search, and the evidence graph of every question."""

from creditflow.envs.errors import ServiceError
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.envs.wikisearch.question_files import read_question, read_questions
from creditflow.envs.wikisearch.questions import Entity, Question, SubQuestion, with_virtual_answer
from creditflow.envs.wikisearch.retrieval.base import Hit, Passage, Retriever
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever, index_passages
from creditflow.envs.wikisearch.retrieval.opening import open_corpus, open_engine
from creditflow.envs.wikisearch.retrieval.remote import HttpRetriever
from creditflow.envs.wikisearch.retrieval.store import open_store, write_store
from creditflow.envs.wikisearch.world.build import build_wiki
from creditflow.envs.wikisearch.world.encyclopedia import Encyclopedia, load_encyclopedia

__all__ = [
    "Encyclopedia",
    "Entity",
    "Hit",
    "HttpRetriever",
    "LocalRetriever",
    "Passage",
    "Question",
    "Retriever",
    "ServiceError",
    "SubQuestion",
    "WikiSearchEnv",
    "build_wiki",
    "index_passages",
    "load_encyclopedia",
    "open_corpus",
    "open_engine",
    "open_store",
    "read_question",
    "read_questions",
    "with_virtual_answer",
    "write_store",
]

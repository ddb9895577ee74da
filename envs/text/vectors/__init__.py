"""Nearest vectors: raw shards on disk, exact search in NumPy, approximate search by faiss.

Exact search multiplies blocks of memory-mapped rows by all queries of a call; BLAS proposes, and sums in float64 decide
between what its rounding cannot tell apart, so results are the same for any batch, block or number of threads.

Approximate search takes candidates from faiss (inverted lists, in each of which vectors are product-quantised or kept as bytes), and
orders them by the same exact scores. The libraries compared:

========= ======================= ============== ================ ====================================================
library   licence, wheels         memory map     bytes a vector   taken for
========= ======================= ============== ================ ====================================================
NumPy     (there anyway)          our shards     768 to 3,072     exact search: less work than faiss's own scan
faiss-cpu MIT, any Python ≥ 3.10  inverted lists 96 (pq96) to 768 approximate search
usearch   Apache-2.0, per Python  whole index    917 (int8)       –
hnswlib   Apache-2.0, source only none           3,221 (float32)  –
voyager   Apache-2.0, per Python  none           (not measured)   –
========= ======================= ============== ================ ====================================================

A graph (usearch, hnswlib, voyager) finds more in the same time. It is built whole, in memory: 19 GB for 21 M vectors of 768 numbers with
usearch, 68 GB with hnswlib; a search reads single vectors all over it, and two builds on several threads differ. faiss's lists are built a
shard at a time in some hundred MB, go on after an interruption to the same bytes, and are read from the disk in runs.
"""

"""The limit of this machine: matrix products of the model's shapes."""

from __future__ import annotations

import time

import torch
from benchmarks.peer.work import Work

__all__ = ["matrix_limit"]

SECONDS = 0.3  # for every shape


def matrix_limit(work: Work) -> float:
    """Operations per CPU second of fp32 products of a micro-batch's tokens with the model's matrices, on one thread."""
    torch.set_num_threads(1)
    tokens, operations, spent = work.micro_rows * work.length, 0.0, 0.0
    for rows, columns, count in work.shapes:
        inputs, weights = torch.randn(tokens, rows), torch.randn(rows, columns)
        out = torch.empty(tokens, columns)
        torch.matmul(inputs, weights, out=out)
        began, calls = time.process_time(), 0
        while time.process_time() - began < SECONDS:
            torch.matmul(inputs, weights, out=out)
            calls += 1
        operations += 2.0 * tokens * rows * columns * count
        spent += count * (time.process_time() - began) / calls
    return operations / spent

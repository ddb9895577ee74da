"""One training run in several processes: every process plays whole groups, and all take the same optimiser steps.

A process is called a rank, as in ``torch.distributed``. With one process nothing here changes a number or costs time.
"""

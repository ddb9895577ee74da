"""Fuzzing of everything the project reads: files, requests, answers of servers and models, snapshots, actions.

The rule for every input, however damaged or hostile: it is read, or refused by an error of ``creditflow.envs.errors``
that says where; within bounded memory and bounded time.

Why a seeded mutator of our own. Hypothesis builds values from strategies and shrinks them well, and the unit tests use
it; but it starts from nothing, where a fuzzer of file formats must start from samples that are almost right, it runs in
the process it might abort, and it has no limit of memory. Atheris measures coverage, but needs clang and a build of its own.
So: a ``Target`` names valid samples that the project itself writes, hand-made traps, a mutator and a reader; every case has a
number, ``(seed, target, number)`` makes it again on any machine, and it runs in a child process under RLIMIT_AS and a
processor-time alarm, so that a crash, an abort or a hang is laid to its case and the rest goes on.

  make fuzz                                     the bounded run of continuous integration
  make fuzz SECONDS=7200 SEED=7                 for hours, from another seed
  PYTHONPATH=src:tests python -m fuzz --list    all targets
"""

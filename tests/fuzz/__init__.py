"""Fuzzing of everything that the project reads: files, requests, responses of servers and models, snapshots, actions.

The rule for every input, however damaged or hostile: it is accepted, or rejected with an error of
``creditflow.envs.errors`` that names the place, within bounded memory and bounded time.

The mutator is our own. Hypothesis builds values from strategies and shrinks them well, and the unit tests use it; but it
does not start from valid samples, as a fuzzer of file formats must, it runs in the process that a case may abort, and it
has no memory limit. Atheris measures coverage, but needs clang and a build of its own.

A ``Target`` has valid samples that the project itself writes, hand-made cases (traps), a mutator and a reader. Every
mutated case has a number, and ``(seed, target, number)`` reproduces it on any machine. Cases run in a child process under
RLIMIT_AS and an alarm on processor time, so a crash, an abort or a hang is attributed to its case and the others still run.

  make fuzz                                     the fixed number of cases that CI runs
  make fuzz SECONDS=7200 SEED=7                 for two hours, from another seed
  PYTHONPATH=src:tests python -m fuzz --list    all targets
"""

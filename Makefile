# creditflow: everything a fresh machine with Python 3.11+, venv and make needs.
#   make demo    set up, measure seven credit schemes against exact values and controls, write runs/demo/report.html
#                (SCHEMES= for all of them and SUITES=shared,sokoban to play Sokoban too)
#   make test    set up and run a two-minute selection of the tests (TESTS=tests/envs: others; all that need no torch: .ci/run fast)
#   make check   lint, format, types, layering, counts
#   make bench   speed of hot paths, relative to other implementations: one table, runs/bench/ratios.md (ARGS=--toy: seconds)
#   make gpu     on a GPU, half an hour: equality tests, speed, a recipe's iterations, the ladder of sizes (ARGS=--dry-run: toy
#                size, CPU, two minutes; ARGS=--resume: continue; ARGS='--resume --minutes 9': as far as nine minutes go)
#   make docs    the documentation site, build/site/html/index.html: built without network, warnings and broken links are errors
#   make fuzz    damaged and hostile input for everything that is read; for hours: make fuzz SECONDS=7200 SEED=7
#   make slow    the tests that take minutes
#   make release build dist/*.whl and *.tar.gz from the files that git tracks, and try the wheel in an environment of its own
#   make ci      what continuous integration runs (TIERS="browser alfworld": only these)
export PYTHONSAFEPATH := 1
SUITES := shared
SCHEMES := grpo,rloo,gigpo,graphgpo,rewardflow,g2po,grouptd
# What make test runs: rules and recorded episodes of the environments, records and graphs, dense rewards, every scheme against
# golden values and worked examples, agents, commands, names and pages. The files that are ignored take longest.
TESTS := $(addprefix tests/,agents wrappers/*.py wrappers/graphs wrappers/records \
	$(addprefix wrappers/credit/,annotations entities outcomes states test_bridge.py test_normalize.py test_registry.py test_weights.py test_worked_examples.py) \
	$(addprefix envs/,test_contract.py test_spaces.py alfworld/test_transcripts.py sokoban/test_rules.py sokoban/test_transcripts.py \
	webshop/test_golden.py webshop/test_reward.py wikisearch/grading wikisearch/protocol wikisearch/test_golden.py) \
	$(addprefix train/commands/,test_cli.py test_command_parser.py test_seeds.py test_silence.py) packaging/test_pages.py packaging/test_public_names.py) \
	$(addprefix --ignore-glob=tests/,wrappers/credit/states/test_grouptd_*.py wrappers/credit/states/test_merged_states.py \
	wrappers/test_dense_reward_invariance.py agents/test_agents.py agents/test_secrets.py)

.PHONY: demo test check bench ci docs slow fuzz gpu release clean

demo:
	@venv=$$(.ci/venv demo bench) && $$venv/bin/creditflow bench --preset quick --envs $(SUITES) $(if $(SCHEMES),--schemes $(SCHEMES)) --out runs/demo --force

test:
	@venv=$$(.ci/venv fast dev) && $$venv/bin/pytest -q -n 2 -m "not slow" $(TESTS)

check:
	@venv=$$(.ci/venv fast dev) && .ci/check $$venv

bench:
	@venv=$$(.ci/venv bench dev || { echo "without peers: they could not be installed" >&2; .ci/venv fast dev; }) && \
	$$venv/bin/python tests/benchmarks/run.py $(ARGS)

docs:
	@venv=$$(.ci/venv docs docs) && PYTHONPATH=assets/site $$venv/bin/python -m builder.build && .ci/spelling $$venv

slow:
	@venv=$$(.ci/venv fast dev) && $$venv/bin/pytest -q -m slow --ignore=tests/extras

fuzz:
	@.ci/fuzz $(or $(SECONDS),0) $(or $(SEED),0)

gpu:
	@python=python3; python3 -c 'import torch, transformers' 2>/dev/null || python=$$(.ci/venv train train)/bin/python; \
	PYTHONPATH=src $$python tests/gpu/run.py $(ARGS)

release:
	@rm -rf dist && venv=$$(.ci/venv fast dev) && .ci/wheel $$venv dist && work=$$(mktemp -d) && python3 -m venv $$work/venv && \
	$$work/venv/bin/python -m pip install -qq --disable-pip-version-check -c constraints/fast.txt dist/*.whl && cd $$work && \
	venv/bin/creditflow doctor && venv/bin/creditflow demo --out demo.html && rm -r $$work && ls -l $(CURDIR)/dist

ci:
	@bash .ci/run $(TIERS)

clean:
	rm -rf .venv .venv-* build dist runs src/creditflow.egg-info

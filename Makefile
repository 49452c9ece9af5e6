# stqsh: every recipe sets up what it needs. A machine with Python 3.11 or newer is enough.
PYTHON ?= python3
# So many tests run side by side. Engines have a Java process of up to 2 GB each; 0 runs all in one process.
TESTERS ?= 2
# STRICT=1 makes a failed preparation of quick starts an error; otherwise sessions only take longer to start.
STRICT ?=
# What `kills` and `strikes` draw their disturbances from, and how many there are.
SEED  ?= 1
KILLS ?= 200
STRIKES ?= 100
VENV   := .venv
BIN    := $(VENV)/bin
# What a user needs; what those need who test and change stqsh; and what makes starts quick.
USABLE := $(VENV)/.usable
INSTALLED := $(VENV)/.installed
READY  := $(VENV)/.ready
# pip brings uv, which installs in less than half the time; pip does what uv cannot.
INSTALL = { uv=$$(command -v $(BIN)/uv || command -v uv) && "$$uv" pip install --python $(BIN)/python $(1); } \
  || $(BIN)/python -m pip install --disable-pip-version-check $(1)
# A list of pyproject.toml, one a line: $(call LIST,["dependencies"],what its lines must not begin with).
LIST = $(BIN)/python -c 'import tomllib; all = tomllib.load(open("pyproject.toml", "rb"))["project"]$(1); \
  print(*(one for one in all if not one.startswith("$(2)")), sep="\n")'
# Compiled modules are kept, whatever the user's environment says: the tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=
# The quick tests write tens of thousands of small files, which memory removes much faster than a disk.
# They go to memory if 4 GB of it are free, unless TMPDIR says otherwise.
SHM := /dev/shm
SYSTEMS := spark or slow or kafka or cluster or peers or browser or data
# A process that dies ends the run: pytest-xdist would wait for ever for another one.
PYTEST := $(BIN)/python -m pytest --numprocesses $(TESTERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0

.DEFAULT_GOAL := help
.PHONY: help install demo kafka-demo kafka-kills shell test test-systems test-all hunt bounds kills strikes check bench peers screens wheel clean

help:            ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

# Spark comes last: it takes most of the time, on one core, while the other one compiles kernels of the first
# answers. Sessions compile what is left of them on both cores, and all others behind their answers.
$(USABLE): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "stqsh needs Python 3.11 or newer; name one with: make PYTHON=python3.12"; exit 1; }
	@echo "1/3  making $(VENV)" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@command -v $(BIN)/uv >/dev/null || command -v uv >/dev/null \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv \
	  || echo "     uv cannot be had; pip does it, and takes two or three times as long" >&2
	@echo "2/3  installing what stqsh needs, Spark excepted" >&2
	@$(call LIST,["dependencies"],pyspark) >$(VENV)/without-spark.txt
	@$(call INSTALL,--requirement $(VENV)/without-spark.txt)
	@echo "3/3  installing Spark, which is large, and compiling the first kernels meanwhile" >&2
	@$(BIN)/python -m stqsh.core.kernel_warmup >$(VENV)/kernels.log 2>&1 & \
	  $(call INSTALL,--editable .)
	@touch $(USABLE)

$(INSTALLED): $(USABLE)
	@echo "installing what tests and checks need" >&2
	@$(call LIST,["optional-dependencies"]["dev"],#) >$(VENV)/dev.txt
	@$(call INSTALL,--requirement $(VENV)/dev.txt)
	@touch $(INSTALLED)

$(READY): $(USABLE)
	@echo "preparing quick starts, once: all kernels, and an archive of Java's classes (a minute or two)" >&2
	@$(BIN)/python -m stqsh.engine.launch.build_class_archive >/dev/null \
	  || { test -z "$(STRICT)" || exit 1; echo "that did not work; sessions only take longer to start" >&2; }
	@touch $(READY)

install: $(INSTALLED) $(READY)  ## set up .venv, with what tests and checks need, and prepare quick starts

demo: $(USABLE)  ## the main job on sample_data/; the first call takes about two minutes
	@$(BIN)/stqsh demo

shell: $(USABLE)  ## the shell
	@$(BIN)/stqsh

kafka-demo: $(READY)  ## live updates from a Kafka broker, which it brings and starts
	@$(BIN)/python -m stqsh.broker.demo

test: $(INSTALLED) $(READY)     ## the quick tests, two at a time; TESTERS=4 says otherwise
	@echo "the quick tests: without Spark, clusters, Kafka, browsers, other systems, and what is slow (make test-systems)"
	@if test -z "$$TMPDIR" && test "$$(df -Pk $(SHM) 2>/dev/null | awk 'NR == 2 {print $$4}')" -ge 4000000 2>/dev/null; \
	  then export TMPDIR=$(SHM)/tests-of-stqsh && mkdir -p "$$TMPDIR"; fi; \
	  $(PYTEST) -o tmp_path_retention_policy=failed -m "not ($(SYSTEMS) or hunt)"

test-systems: $(INSTALLED) $(READY)  ## the others: with Spark, clusters, Kafka, browsers, other systems, real data, and the slow ones
	@$(PYTEST) --verbose --durations 40 -m "($(SYSTEMS)) and not hunt"

test-all: test test-systems  ## all tests

hunt: $(INSTALLED) $(READY)     ## the properties only, on examples not seen before
	@STQSH_HYPOTHESIS=thorough $(BIN)/python -m pytest --timeout 3600 -m "not spark" tests/core tests/laws

# Compiled code reads beyond an array without a word. The kernels of these runs have a cache of their own.
bounds: $(INSTALLED) $(READY)   ## the properties, by kernels that check every index (half an hour)
	@NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/$(VENV)/checked $(PYTEST) --timeout 1800 -m "not spark" \
	  --deselect tests/core/test_kernel_cache.py tests/core tests/routing tests/laws tests/bench/test_star_continuous.py

kills: $(INSTALLED) $(READY)    ## processes of sessions killed at random; SEED=7 KILLS=200 say which and how often
	@$(BIN)/python tests/kills.py --seed $(SEED) --kills $(KILLS)

strikes: $(INSTALLED) $(READY)  ## hosts of a cluster struck at random, on Linux as root; SEED=7 STRIKES=100 say which and how often
	@$(BIN)/python tests/strikes.py --seed $(SEED) --strikes $(STRIKES)

kafka-kills: $(INSTALLED) $(READY)  ## 2 M records through Kafka while everything is killed; SEED says what is
	@STQSH_ONCE_RECORDS=2000000 STQSH_ONCE_KILLS=30 STQSH_ONCE_RATE=8000 SEED=$(SEED) \
	  $(BIN)/python -m pytest -s tests/kafka/test_exactly_once.py

check: $(INSTALLED)  ## ruff, mypy --strict, the import borders
	@$(BIN)/ruff check stqsh tests
	@$(BIN)/ruff format --check stqsh tests
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

bench: $(INSTALLED) $(READY)    ## the measurements, quick sizes; BENCH='--full --save FILE --compare FILE' says more
	@$(BIN)/stqsh bench all $(BENCH)

peers: $(INSTALLED) $(READY)    ## the same questions to PySpark by hand, PostGIS, Flink, Tile38: those that are there
	@$(BIN)/stqsh bench peers $(BENCH)

screens: $(INSTALLED) $(READY)  ## the README's pictures: the real shell on sample_data/, drawn as .screens/*.svg
	@$(BIN)/python tests/screens.py

# The kernels come compiled for the usual processors (x86-64-v3), for this Python only; elsewhere they are compiled
# when they are needed, as they are from a wheel that was built without this recipe.
wheel: $(USABLE)  ## a wheel in dist/, with compiled kernels: the first answer comes within seconds
	@echo "compiling the kernels for x86-64-v3 (two minutes)" >&2
	@rm -rf stqsh/core/compiled
	@NUMBA_CPU_NAME=x86-64-v3 NUMBA_CPU_FEATURES= XDG_CACHE_HOME=$(CURDIR)/$(VENV)/wheel \
	  $(BIN)/python -c 'from stqsh.core.kernel_cache import ship_kernels; ship_kernels()'
	@$(call INSTALL,build hatchling)
	@$(BIN)/python -m build --wheel --no-isolation; status=$$?; rm -rf stqsh/core/compiled; exit $$status

clean:           ## remove what the recipes made
	@rm -rf $(VENV) stqsh/core/compiled dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find stqsh tests -name __pycache__ -prune -exec rm -rf {} +

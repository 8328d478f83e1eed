# Targets for users and CI. PORTAL_HOME (state), PORTAL_CACHE and PORTAL_PORT are respected.
#   make run     run the whole portal on this machine; Ctrl-C stops it
#   make unit    run the tests that start no process, in about a minute
#   make test    run the whole suite;  make test ARGS="tests/unit/spawners/form/test_form.py -k gpu"  runs a part
#   make release build sdists, wheels and bills of materials into dist/
#   make package build the release, and a package for this release of Debian
#   make test-package  as root, install, start and purge it in a bare root
#   make test-live   run Slurm and the Hub on newer versions of Slurm
ifndef PORTAL_HOME
PORTAL_HOME := $(shell [ "$$(id -u)" = 0 ] && echo /var/lib/data-scientist-portal || echo "$$HOME/.local/share/data-scientist-portal")
endif
PORTAL_HOME := $(abspath $(PORTAL_HOME))
PORTAL_CACHE ?= $(PORTAL_HOME)/cache
PORTAL_CACHE := $(abspath $(PORTAL_CACHE))
export PORTAL_HOME PORTAL_CACHE
unexport PYTHONDONTWRITEBYTECODE  # with it, each process of the suite would compile all modules
BIN := $(PORTAL_HOME)/venv/bin
ARGS ?=

.PHONY: run stop status reset unit test test-live bench lint docs pictures release package test-package clean
.DEFAULT_GOAL := run

run:
	@sh deploy/install.sh run
	@exec "$(BIN)/portal" demo $(ARGS)

stop:
	@"$(BIN)/portal" demo --stop

status:
	@"$(BIN)/portal" demo --status

reset:
	@"$(BIN)/portal" demo --reset

unit:
	@sh deploy/install.sh test
	@exec "$(BIN)/python" -m pytest tests/unit -n 2 $(ARGS)

test:
	@sh deploy/install.sh test
	@exec "$(BIN)/python" -m $(if $(ARGS),pytest $(ARGS),tests.side_by_side)

test-live:
	@sh deploy/install.sh test
	@exec "$(BIN)/python" -m tests.side_by_side live

test-package:
	@sh deploy/install.sh test
	@exec "$(BIN)/python" -m tests.live_package

bench:
	@sh deploy/install.sh test
	@exec "$(BIN)/python" -m tests.benchmarks $(ARGS)

lint:
	@sh deploy/install.sh test
	@"$(BIN)/ruff" check .
	@"$(BIN)/ruff" format --check .
	@"$(BIN)/mypy"

release:
	@sh deploy/install.sh test
	@"$(BIN)/python" deploy/release.py

package:
	@sh deploy/install.sh test
	@"$(BIN)/python" -m deploy.package

docs:
	@sh deploy/install.sh test
	@exec "$(BIN)/python" -m docs.reference $(ARGS)

pictures:
	@sh deploy/install.sh test
	@exec "$(BIN)/python" -m docs.pictures $(ARGS)

clean:
	@rm -rf build dist .pytest_cache .ruff_cache .mypy_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

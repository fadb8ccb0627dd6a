# Every target gets the machine ready first; doing so again costs a fraction of a second.
#   make demo          see agent rollouts run on this machine under three policies
#   make test          the tests
#   make check         all that continuous integration checks
#   make bench         speed, beside peers
#   make test-cgroup2  the enforcement tests on an emulated machine with cgroup v2
#   make docs          write the generated parts of the documentation anew, and check all of it
#   make format        lay out the code
# PYTHON=... names the interpreter, TESTS=... some tests, ARGS=... arguments of the program.

.DEFAULT_GOAL := help
.PHONY: help demo test check lint coverage docs docs-check bench test-cgroup2 format clean

VENV ?= .venv
PYTHON ?= python3
TESTS ?=
ARGS ?=
export VENV PYTHON

bin := $(VENV)/bin
setup = @scripts/setup
# No tests of a kind (pytest's status 5) is no failure.
none_is_fine = || [ $$? = 5 ]
cover = $(if $(COVERAGE),--cov --cov-report=)

help:
	@sed -n 's/^#   //p' Makefile

demo:
	$(setup) run
	$(bin)/arl-tangram demo $(ARGS)

# First what can share the processors, then what has to have them for itself.
test:
	$(setup) dev
	$(bin)/python -m pytest -q -n auto --dist=loadgroup -m "not alone and not cgroup2" $(cover) $(TESTS)
	$(bin)/python -m pytest -q -m "alone and not cgroup2" $(if $(cover),$(cover) --cov-append) $(TESTS) $(none_is_fine)

check: lint
	$(MAKE) test COVERAGE=yes
	$(MAKE) coverage docs-check

lint:
	$(setup) dev
	$(bin)/ruff check
	$(bin)/ruff format --check
	$(bin)/mypy
	$(bin)/lint-imports --no-logo

# What `make test COVERAGE=yes` measured: every branch of the pure rooms, most of the others.
coverage:
	$(setup) dev
	$(bin)/coverage report --fail-under=85
	$(bin)/coverage report --include='*/arl_tangram/core/*,*/arl_tangram/policies/*' --fail-under=100

docs:
	$(setup) dev
	$(bin)/python scripts/docs write
	$(bin)/python scripts/docs check

docs-check:
	$(setup) dev
	$(bin)/python scripts/docs check

bench:
	$(setup) bench
	$(bin)/python -m bench --peers $(VENV)-bench/bin/python $(ARGS)

test-cgroup2:
	$(setup) cgroup2
	scripts/cgroup2-vm -- $(abspath $(bin))/python -m pytest -q -p no:cacheprovider -m cgroup2 $(or $(TESTS),tests/executors)

format:
	$(setup) dev
	$(bin)/ruff check --fix
	$(bin)/ruff format

clean:
	rm -rf $(VENV) $(VENV)-bench build dist .coverage* .*_cache .hypothesis

# Every target does its own set-up, once. `make` alone lists them.

SHELL := /bin/sh
PY := .venv/bin/python
.DEFAULT_GOAL := help

# The checkout's own: nothing is left in, or taken from, the user's ~/.ansible.
export ANSIBLE_HOME := $(CURDIR)/.ansible
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: help setup demo docs docs-serve test test-full sanity lint unit pipeline molecule integration hosts golden rules release-data fuzz bench package requirements vulnerabilities clean distclean

help: ## this list
	@sed -n 's/^\([a-z -]*\):[^=#]*## /    make \1\t/p' Makefile | expand -t 48

setup: ## make the checkout ready to work with: .venv, pinned requirements, Java, Maven
	@scripts/setup.sh --java

demo: ## a fleet of real brokers on this machine, and the death of a master
	@scripts/setup.sh --demo --java
	@$(PY) -m scripts.prefetch demo
	@$(PY) -m activemq_fleet.lab.demo --output build/demo

test: ## everything, in tiers, the quickest first
	@scripts/setup.sh --java --browser --tracer --balancer --database --prometheus --gluster --packets
	@$(PY) -m scripts.run_tests

test-full: export KILLS := $(or $(KILLS),20)
test-full: export ROUTES := $(or $(ROUTES),30)
test-full: export ORDERINGS := $(or $(ORDERINGS),21)
test-full: export CONVENTIONS := $(or $(CONVENTIONS),all)
test-full: export CUTS := $(or $(CUTS),10)
test-full: export STATES := $(or $(STATES),all)
test-full: export SITUATIONS := $(or $(SITUATIONS),all)
test-full: export FLEET_NETWORK := full
test-full: export JUMPS := $(or $(JUMPS),all)
test-full: export DISK_FULL_RUNS := $(or $(DISK_FULL_RUNS),20)
test-full: export AGENT_KILLS := $(or $(AGENT_KILLS),100)
test-full: export FAILOVER_RELEASES := $(or $(FAILOVER_RELEASES),all)
test-full: export DOWN_SECONDS := $(or $(DOWN_SECONDS),300)
test-full: export FOLLOW_KILLS := $(or $(FOLLOW_KILLS),10)
test-full: export PLAN_EDITINGS := $(or $(PLAN_EDITINGS),20)
test-full: export CLUSTER := $(or $(CLUSTER),full)
test-full: export ALERTS := $(or $(ALERTS),all)
test-full: export HISTORIES := $(or $(HISTORIES),1000)
test-full: export HOSTILE_SECONDS := $(or $(HOSTILE_SECONDS),60)
test-full: export FUZZ_EXAMPLES := $(or $(FUZZ_EXAMPLES),2000)
test-full: export ACTIVEMQ_FLEET_HOSTS := required
test-full: export ACTIVEMQ_FLEET_BROWSER := required
test-full: ## the same with many more kills and examples, and no tier may be skipped; TIERS=hosts: that tier
	@scripts/setup.sh --java --browser --tracer --balancer --database --prometheus --gluster --packets
	@$(PY) -m scripts.run_tests $(TIERS)
	@$(if $(TIERS),,$(PY) -m scripts.fuzz --minutes $(or $(MINUTES),1))
	@$(if $(TIERS),,$(PY) -m scripts.sanity)

sanity: ## ansible-test sanity on the built collection with each ansible-core; CORE=2.21: that one
	@scripts/setup.sh
	@$(PY) -m scripts.sanity $(addprefix --core ,$(CORE))

lint unit: ## one tier that needs no Java
	@scripts/setup.sh
	@$(PY) -m scripts.run_tests $@

pipeline molecule integration hosts: ## one tier that does
	@scripts/setup.sh --java $(if $(filter integration,$@),--browser --tracer --balancer --database --prometheus --gluster --packets)
	@$(PY) -m scripts.run_tests $@

golden: ## write the golden files anew: look at `git diff` before committing them
	@scripts/setup.sh --java
	@$(PY) -m pytest tests/unit --update-golden --quiet
	@FLEET_GOLDEN=update $(PY) -m scripts.run_tests molecule
	@git status --short -- tests/golden molecule

rules: ## write docs/rules.md, docs/topology-errors.md, docs/alerts.md, docs/log-records.md, docs/release-lines.md, docs/glossary.md and the JSON Schemas
	@scripts/setup.sh
	@$(PY) -m scripts.rules_page
	@$(PY) -m scripts.topology_errors_page
	@$(PY) -m scripts.variables_schema
	@$(PY) -m scripts.alerts_page
	@$(PY) -m scripts.log_records_page
	@$(PY) -m scripts.release_lines_page
	@$(PY) -m scripts.glossary
	@$(PY) -m scripts.galaxy_page

release-data: ## compare the release data with ActiveMQ's SOURCE (a clone) and WEBSITE; WRITE=1 enters new patch releases
	@scripts/setup.sh
	@$(PY) -m scripts.release_data $(or $(SOURCE),$(error set SOURCE to a clone of apache/activemq)) \
	  $(if $(WEBSITE),--website $(WEBSITE)) $(if $(WRITE),--write)

docs: ## build the documentation site in build/site; a broken link fails the build
	@scripts/setup.sh
	@$(PY) -m scripts.docsite

docs-serve: ## build the documentation site, and serve it on a free port of 127.0.0.1
	@scripts/setup.sh
	@$(PY) -m scripts.docsite --serve

fuzz: ## hostile inputs to what reads them: each TARGETS (all) for MINUTES (10)
	@scripts/setup.sh --java
	@$(PY) -m scripts.fuzz $(TARGETS) --minutes $(or $(MINUTES),10)

pictures: ## photograph the drawings of docs/pictures, light and dark
	@scripts/setup.sh --browser
	@$(PY) -m scripts.pictures

bench: ## the table of the README
	@scripts/setup.sh --java
	@$(PY) -m benchmarks --output build/bench

package: ## the files of a release into dist/: wheels, collection, wheelhouse, SBOMs, checksums; SIGNING_KEY=FILE: signed
	@scripts/setup.sh
	@$(PY) -m scripts.bundle_schemas
	@$(PY) -m scripts.check_packages
	@$(PY) -m scripts.build_packages $(if $(SIGNING_KEY),--sign "$(SIGNING_KEY)")

vulnerabilities: ## pinned packages against the published advisories; it needs a network that reaches their service
	@scripts/setup.sh
	@test -x build/audit/bin/pip-audit || { $(PY) -m venv build/audit && \
	  build/audit/bin/pip install --quiet --no-deps --require-hashes --requirement requirements/audit.txt; }
	@for pins in agent run pipeline dev audit; do \
	  echo "==> requirements/$$pins.txt"; \
	  build/audit/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off --requirement requirements/$$pins.txt || exit 1; \
	done

requirements: ## pin the newest of every requirement
	@scripts/setup.sh
	@scripts/compile-requirements.sh --upgrade

clean: ## remove what was generated
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean ## and the virtual environment
	rm -rf .venv .ansible

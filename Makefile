# Each target sets up what it needs. `make` lists the targets.

SHELL := /bin/sh
PY := .venv/bin/python
.DEFAULT_GOAL := help

# Ansible uses the directory .ansible of the checkout instead of ~/.ansible.
export ANSIBLE_HOME := $(CURDIR)/.ansible
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: help setup demo docs docs-serve test test-full sanity lint unit pipeline molecule integration hosts golden rules release-data fuzz bench package versions requirements vulnerabilities clean distclean

help: ## list the targets
	@sed -n 's/^\([a-z -]*\):[^=#]*## /    make \1\t/p' Makefile | expand -t 48

setup: ## set up the checkout: .venv, pinned requirements, Java, Maven
	@scripts/setup.sh --java

demo: ## start a fleet of real brokers on this machine, and kill a master
	@scripts/setup.sh --demo --java
	@$(PY) -m scripts.prefetch demo
	@$(PY) -m activemq_fleet.lab.demo --output build/demo

test: ## run all tests in tiers, the fastest first
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
test-full: ## run all tests with more repetitions, and fail if a tier is skipped; TIERS=hosts: only this tier
	@scripts/setup.sh --java --browser --tracer --balancer --database --prometheus --gluster --packets
	@$(PY) -m scripts.run_tests $(TIERS)
	@$(if $(TIERS),,$(MAKE) versions)
	@$(if $(TIERS),,$(PY) -m scripts.fuzz --minutes $(or $(MINUTES),1))
	@$(if $(TIERS),,$(MAKE) sanity)

sanity: ## run ansible-test sanity on the built collection with each ansible-core, antsibull-docs and ansible-builder, and record the results in docs/versions.md; CORE=2.21: only this one
	@scripts/setup.sh
	@$(PY) -m scripts.sanity $(addprefix --core ,$(CORE)); result=$$?; $(PY) -m scripts.versions_page --record; exit $$result

lint unit: ## run a tier that requires no Java
	@scripts/setup.sh
	@$(PY) -m scripts.run_tests $@

pipeline molecule integration hosts: ## run a tier that requires Java
	@scripts/setup.sh --java $(if $(filter integration,$@),--browser --tracer --balancer --database --prometheus --gluster --packets)
	@$(PY) -m scripts.run_tests $@

golden: ## update the golden files: check `git diff` before you commit them
	@scripts/setup.sh --java
	@$(PY) -m pytest tests/unit --update-golden --quiet
	@FLEET_GOLDEN=update $(PY) -m scripts.run_tests molecule
	@git status --short -- tests/golden molecule

rules: ## write CHANGELOG.md, docs/rules.md, docs/topology-errors.md, docs/alerts.md, docs/log-records.md, docs/release-lines.md, docs/glossary.md and the JSON Schemas
	@scripts/setup.sh
	@$(PY) -m scripts.rules_page
	@$(PY) -m scripts.topology_errors_page
	@$(PY) -m scripts.variables_schema
	@$(PY) -m scripts.alerts_page
	@$(PY) -m scripts.log_records_page
	@$(PY) -m scripts.release_lines_page
	@$(PY) -m scripts.glossary
	@$(PY) -m scripts.changelog_page
	@$(PY) -m scripts.galaxy_page
	@$(PY) -m scripts.role_readmes
	@$(PY) -m scripts.versions_page

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

fuzz: ## fuzz the parsers with hostile input: each of TARGETS (all) for MINUTES (10)
	@scripts/setup.sh --java
	@$(PY) -m scripts.fuzz $(TARGETS) --minutes $(or $(MINUTES),10)

pictures: ## take screenshots of docs/pictures in light and dark colors
	@scripts/setup.sh --browser
	@$(PY) -m scripts.pictures

bench: ## run the benchmarks, and print their tables
	@scripts/setup.sh --java
	@$(PY) -m benchmarks --output build/bench

package: ## build the files of a release in dist/: wheels, collection, wheelhouse, SBOMs, checksums; SIGNING_KEY=FILE signs them
	@scripts/setup.sh
	@$(PY) -m scripts.bundle_schemas
	@$(PY) -m scripts.check_packages
	@$(PY) -m scripts.build_packages $(if $(SIGNING_KEY),--sign "$(SIGNING_KEY)")

versions: ## run each ansible-core with its Python versions, and record the results in docs/versions.md; SESSIONS=NAME: one of them
	@scripts/setup.sh
	@test -x build/nox/bin/nox || { $(PY) -m venv build/nox && \
	  build/nox/bin/pip install --quiet --no-deps --require-hashes --requirement requirements/versions.txt; }
	@build/nox/bin/nox $(if $(SESSIONS),--sessions $(patsubst %,'%',$(SESSIONS))); result=$$?; $(PY) -m scripts.versions_page --record; exit $$result

vulnerabilities: ## check the pinned packages against published advisories; requires access to their service
	@scripts/setup.sh
	@test -x build/audit/bin/pip-audit || { $(PY) -m venv build/audit && \
	  build/audit/bin/pip install --quiet --no-deps --require-hashes --requirement requirements/audit.txt; }
	@for pins in agent run pipeline dev audit versions installer; do \
	  echo "==> requirements/$$pins.txt"; \
	  build/audit/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off --requirement requirements/$$pins.txt || exit 1; \
	done

requirements: ## pin the newest version of each requirement
	@scripts/setup.sh
	@scripts/compile-requirements.sh --upgrade

clean: ## remove generated files
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean ## remove generated files and the virtual environment
	rm -rf .venv .ansible

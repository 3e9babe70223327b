#!/bin/sh
# Pins everything again: requirements/run.txt (what the package, the lab and the agent run on), requirements/agent.txt (what
# the agent alone runs on), requirements/pipeline.txt (run.txt, and Spark), requirements/dev.txt (that, and what checks,
# tests and builds it) and requirements/demo.txt (what `make demo` installs). No address of an index gets into the files, and the
# hashes are those of all published files: a find-links directory would put local wheels among them.
#     scripts/compile-requirements.sh [pip-compile OPTION ...]     e.g. --upgrade
set -eu
cd "$(dirname "$0")/.."
export PIP_FIND_LINKS="" CUSTOM_COMPILE_COMMAND="make requirements"
compile() {
    .venv/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --extra lab --extra agent \
        --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options "$@"
}
compile "$@" --output-file requirements/run.txt pyproject.toml agent/pyproject.toml
.venv/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-trusted-host \
    --no-emit-find-links --no-emit-options "$@" --constraint requirements/run.txt --output-file requirements/agent.txt agent/pyproject.toml
# One set of versions: what runs is tested as it is pinned.
compile "$@" --extra pipeline --constraint requirements/run.txt --output-file requirements/pipeline.txt pyproject.toml agent/pyproject.toml
compile "$@" --extra pipeline --constraint requirements/pipeline.txt --output-file requirements/dev.txt pyproject.toml agent/pyproject.toml requirements/dev.in
# What `make demo` installs.
compile "$@" --extra pipeline --constraint requirements/dev.txt --output-file requirements/demo.txt pyproject.toml agent/pyproject.toml requirements/demo.in
# What `make vulnerabilities` runs, in an environment of its own.
.venv/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-trusted-host \
    --no-emit-find-links --no-emit-options "$@" --output-file requirements/audit.txt requirements/audit.in
# What `make versions` runs, in an environment of its own.
.venv/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-trusted-host \
    --no-emit-find-links --no-emit-options "$@" --output-file requirements/versions.txt requirements/versions.in
# What scripts/setup.sh installs the requirements with.
.venv/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-trusted-host \
    --no-emit-find-links --no-emit-options "$@" --output-file requirements/installer.txt requirements/installer.in
# The role installs the agent's wheel with these, and is a collection's file.
cp requirements/agent.txt roles/agent/files/requirements.txt

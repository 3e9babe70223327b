#!/bin/sh
# Pin all requirements again:
#     requirements/run.txt       of the package, the lab and the agent
#     requirements/agent.txt     of the agent alone
#     requirements/pipeline.txt  run.txt and Spark
#     requirements/dev.txt       pipeline.txt, and the packages that check, test and build the project
#     requirements/demo.txt      of `make demo`
# The files contain no address of an index, and the hashes of all published files. With a find-links directory, they
# would contain the hashes of local wheels.
#     scripts/compile-requirements.sh [pip-compile OPTION ...]     for example --upgrade
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
# All files contain the same versions, so that the tests run with the pinned versions.
compile "$@" --extra pipeline --constraint requirements/run.txt --output-file requirements/pipeline.txt pyproject.toml agent/pyproject.toml
compile "$@" --extra pipeline --constraint requirements/pipeline.txt --output-file requirements/dev.txt pyproject.toml agent/pyproject.toml requirements/dev.in
# The packages that `make demo` installs.
compile "$@" --extra pipeline --constraint requirements/dev.txt --output-file requirements/demo.txt pyproject.toml agent/pyproject.toml requirements/demo.in
# The programs of `make vulnerabilities`, in a separate environment.
.venv/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-trusted-host \
    --no-emit-find-links --no-emit-options "$@" --output-file requirements/audit.txt requirements/audit.in
# The programs of `make versions`, in a separate environment.
.venv/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-trusted-host \
    --no-emit-find-links --no-emit-options "$@" --output-file requirements/versions.txt requirements/versions.in
# The installer that scripts/setup.sh uses.
.venv/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url --no-emit-trusted-host \
    --no-emit-find-links --no-emit-options "$@" --output-file requirements/installer.txt requirements/installer.in
# The role installs these with the agent's wheel; the collection contains only files below its directories.
cp requirements/agent.txt roles/agent/files/requirements.txt

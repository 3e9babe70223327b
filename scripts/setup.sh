#!/usr/bin/env bash
# Set up a checkout; steps that are already done are skipped:
#     scripts/setup.sh             .venv with the pinned requirements, and the collection's link
#     scripts/setup.sh --demo      only the requirements of the demo, instead of all, and the jars of its brokers
#     scripts/setup.sh --java      and a Java (17 or later) and Maven for real brokers
#     scripts/setup.sh --browser   and a Chromium that checks pictures; without it the checks are skipped
#     scripts/setup.sh --tracer    and strace, for the test of the order of the agent's writes
#     scripts/setup.sh --balancer  and HAProxy; without it the tests of load balancers are skipped
#     scripts/setup.sh --database  and PostgreSQL, with SITUATIONS=all also MariaDB; without them the tests of
#                                  pairs that share a database are skipped
#     scripts/setup.sh --prometheus  and Prometheus with Alertmanager; without them the tests of alerts are skipped
#     scripts/setup.sh --gluster   and GlusterFS; without it the tests of stores on a network file system are skipped
#     scripts/setup.sh --packets   and nftables; without it the tests of networks that lose packets are skipped
# After TERM or Ctrl-C, the script stops what it has started, and the next run continues.
# As root on Debian or Ubuntu, the script installs missing packages. Otherwise it prints the packages to install.
set -eu
cd "$(dirname "$0")/.."

note() { printf '==> %s\n' "$*"; }
fail() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }
can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

# tried "what" COMMAND [ARG ...]: run it without output, and print its duration. Children of a failed command are stopped.
tried() {
    what=$1; shift
    printf '==> %s … ' "$what"
    began=$(date +%s)
    # The command has a separate process group, so that its children can be stopped with it.
    set -m
    "$@" </dev/null >"$log" 2>&1 &
    running=$!
    set +m
    if wait "$running"; then
        running=
        printf '%s s\n' "$(($(date +%s) - began))"
    else
        status=$?
        stop_children
        running=
        printf 'failed\n'
        return "$status"
    fi
}

stop_children() {
    kill -TERM -- "-$running" 2>/dev/null || return 0
    wait "$running" 2>/dev/null || true
    # Its children may stop a moment later; the system may keep them as zombies longer.
    for _ in 1 2 3 4 5; do
        kill -0 -- "-$running" 2>/dev/null || break
        sleep 0.1
    done
}

# stop SIGNAL: stop the running command with its children, then end this script by the signal.
running=
stop() {
    trap '' HUP INT TERM
    [ -z "$running" ] || stop_children
    printf '\nsetup: stopped; the next run continues\n' >&2
    trap - "$1"
    kill -s "$1" "$$"
}
trap 'stop HUP' HUP
trap 'stop INT' INT
trap 'stop TERM' TERM

# timed "what" COMMAND [ARG ...]: the same; after a failure, print its output and exit.
timed() {
    tried "$@" && return
    tail -n 30 "$log" >&2
    fail "$1 failed, as the output above shows (complete output: $log). Correct the cause, and run scripts/setup.sh again"
}

apt_install() {
    apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "$@"
}

find_python() {
    for candidate in ${PYTHON:-} python3.11 python3.12 python3.13 python3; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

# A virtual environment without pip is one whose creation was interrupted.
ensure_venv() {
    [ -x .venv/bin/pip ] && [ "$(cat .venv/fleet-place 2>/dev/null || pwd)" = "$(pwd)" ] && return
    python=$(find_python) || {
        can_install || fail "Python 3.11 to 3.13 is required: install it, or set PYTHON to its path"
        timed "install Python from the distribution" apt_install python3 python3-venv
        python=$(find_python) || fail "the Python of the distribution is not 3.11, 3.12 or 3.13: install one of them, and set PYTHON to its path"
    }
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        can_install || fail "$python has no venv module: install python3-venv"
        timed "install python3-venv from the distribution" apt_install python3-venv
    fi
    timed "create the virtual environment with $("$python" --version)" "$python" -m venv --clear .venv
}

stamp_of() {
    cat "requirements/$1.txt" pyproject.toml agent/pyproject.toml hatch_build.py | sha256sum | cut -d' ' -f1
}

# ensure_requirements SET: install requirements/SET.txt, unless it or the larger set of developers is installed.
# The stamp is the last thing written, so an interrupted installation starts again.
ensure_requirements() {
    installed=$(cat .venv/fleet-stamp 2>/dev/null || true)
    wanted=$(stamp_of "$1")
    [ "$installed" = "$wanted" ] && return
    [ "$installed" = "$(stamp_of dev)" ] && return
    rm -f .venv/fleet-stamp
    pip=".venv/bin/python -m pip --disable-pip-version-check"
    install_pinned "$1"
    # shellcheck disable=SC2086
    timed "install activemq-fleet and activemq-agent" $pip install --no-deps --no-build-isolation --editable . --editable agent
    # shellcheck disable=SC2086
    timed "check the installed packages" $pip check
    timed "compile the installed modules" compile_modules
    pwd >.venv/fleet-place
    echo "$wanted" >.venv/fleet-stamp
}

install_pinned() {
    # shellcheck disable=SC2086 # $pip is several words
    if tried "install uv, the installer" $pip install --no-deps --require-hashes --requirement requirements/installer.txt; then
        status=0
        if [ "$1" = demo ] && command -v mvn >/dev/null; then
            tried "install the pinned requirements with uv, and fetch the jars of the brokers" install_and_fetch "$1" || status=$?
        else
            tried "install the pinned requirements with uv" uv_install "$1" || status=$?
        fi
        [ "$status" != 0 ] || return 0
        if [ "$status" = "$jars_failed" ]; then
            cat "$jars_log" >&2
            fail "the jars of the brokers were not downloaded, as the output above shows. Correct the cause, and run scripts/setup.sh again: it continues"
        fi
    fi
    note "uv cannot install the pinned requirements, so pip installs them. No action is necessary"
    # shellcheck disable=SC2086
    timed "install the pinned requirements with pip" $pip install --no-compile --no-deps --require-hashes --requirement "requirements/$1.txt"
}

# install_and_fetch SET: fetch the jars while Spark is built, because Maven mostly waits for the network. The library, which
# fetches them, is installed first. The status is $jars_failed if the jars are not fetched; `tried` stops the installation.
jars_failed=3
jars_log=build/jars.log
install_and_fetch() {
    uv_install run || return 1
    uv_install "$1" &
    installation=$!
    PYTHONPATH=src .venv/bin/python -m scripts.prefetch demo >"$jars_log" 2>&1 || return "$jars_failed"
    wait "$installation"
}

# uv needs about half of pip's time, but does not read pip's settings: it gets pip's index and the certificates of the
# system. Where it requires another setting of pip, such as a client certificate, it fails, and pip installs.
# Its cache, 2.3 GB because of Spark, is on the file system of .venv, so that files are linked and not copied. It is kept
# until an interrupted installation was repeated.
uv_install() {
    index=${PIP_INDEX_URL:-$($pip config get global.index-url 2>/dev/null || true)}
    [ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
    # Spark comes as source, 0.4 GB of compressed jars. Compressing them again in a wheel would need most of the time.
    UV_CACHE_DIR=${UV_CACHE_DIR:-build/uv} UV_SYSTEM_CERTS=true UV_HTTP_TIMEOUT=180 .venv/bin/uv pip install --python .venv/bin/python \
        --config-settings-package 'pyspark:--build-option=--compression=stored' \
        --no-deps --require-hashes --requirement "requirements/$1.txt"
}

# compile_modules: compile what the commands import, and delete the cache of uv meanwhile. Otherwise the first process that
# imports a module compiles it, and every process does where PYTHONDONTWRITEBYTECODE is set. Compiling pandas would take a
# third of the time, and no command imports it.
compile_modules() {
    rm -rf build/uv &
    .venv/bin/python -m compileall -q -j 0 -x '/(tests|ansible_test|(site-packages|pyspark)/pandas)/' .venv/lib src agent/src plugins/module_utils || true
    wait
}

# Ansible finds a collection only below ansible_collections/NAMESPACE/NAME.
ensure_link() {
    mkdir -p .ansible/collections/ansible_collections/activemq
    link=.ansible/collections/ansible_collections/activemq/fleet
    [ "$(readlink "$link" || true)" = ../../../.. ] || ln -sfn ../../../.. "$link"
}

java_is_new_enough() {
    java=${JAVA_HOME:+$JAVA_HOME/bin/}java
    version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p;t' | head -n 1)
    [ "${version:-0}" -ge 17 ]
}

ensure_java() {
    missing=
    java_is_new_enough || missing=default-jre-headless
    command -v mvn >/dev/null || missing="$missing maven"
    [ -z "$missing" ] && return
    can_install || fail "real brokers require Java 17 or later and Maven; install: $missing"
    # shellcheck disable=SC2086 # a list of packages
    timed "install $missing from the distribution" apt_install $missing
    java_is_new_enough || fail "Java 17 or later is required: install it, and set JAVA_HOME to its directory"
}

# Required by the tests of the pictures, which are skipped without it.
ensure_browser() {
    for name in ${CHROMIUM:-} chromium chromium-browser google-chrome; do
        command -v "$name" >/dev/null && return
    done
    if ! can_install; then
        note "Chromium is missing: the tests of the pictures are skipped. To run them, install chromium fonts-dejavu-core"
    elif ! tried "install chromium and a font from the distribution" apt_install chromium fonts-dejavu-core; then
        note "Chromium is missing: the tests of the pictures are skipped. Its installation failed: see the error in build/setup.log"
    fi
}

# install_optional NAME COMMAND PACKAGE "what is skipped without it": a missing package is no failure.
install_optional() {
    command -v "$2" >/dev/null && return
    if ! can_install; then
        note "$1 is missing: $4. To run them, install $3"
    elif ! tried "install $3 from the distribution" apt_install "$3"; then
        note "$1 is missing: $4. Its installation failed: see the error in build/setup.log"
    fi
}

# Required by the test that an event is on the disk before the agent returns its id; the test is skipped without it.
ensure_tracer() {
    install_optional strace strace strace "the tests of the order of writes are skipped"
}

# Required by the tests of the load balancer, which are skipped without it.
ensure_balancer() {
    install_optional HAProxy haproxy haproxy "the tests of load balancers are skipped"
}

# Required by the tests of shared-jdbc pairs, which are skipped without it. The server of Debian is not started.
ensure_database() {
    ensure_postgresql
    [ "${SITUATIONS:-}" != all ] || ensure_mariadb
}

ensure_mariadb() {
    command -v mariadbd >/dev/null && return
    if ! can_install; then
        note "MariaDB is missing: the tests of pairs that share one are skipped. To run them, install mariadb-server"
        return
    fi
    mask_unit mariadb
    tried "install mariadb-server from the distribution" apt_install mariadb-server ||
        note "MariaDB is missing: the tests of pairs that share one are skipped. Its installation failed: see the error in build/setup.log"
}

ensure_postgresql() {
    [ -n "$(find /usr/lib/postgresql -name initdb 2>/dev/null)" ] && return
    command -v initdb >/dev/null && return
    if ! can_install; then
        note "PostgreSQL is missing: the tests of shared-jdbc pairs are skipped. To run them, install postgresql"
        return
    fi
    mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] ||
        echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
    tried "install postgresql from the distribution" apt_install postgresql ||
        note "PostgreSQL is missing: the tests of shared-jdbc pairs are skipped. Its installation failed: see the error in build/setup.log"
}

# Debian starts a service after its installation. The tests start separate servers, so the unit is masked.
mask_unit() {
    mkdir -p /etc/systemd/system
    [ -e "/etc/systemd/system/$1.service" ] || ln -sf /dev/null "/etc/systemd/system/$1.service"
}

# Required by the tests of alerts, which are skipped without them. The servers of Debian are not started.
ensure_prometheus() {
    missing=
    command -v promtool >/dev/null || missing=prometheus
    command -v prometheus-alertmanager >/dev/null || missing="$missing prometheus-alertmanager"
    command -v prometheus-node-exporter >/dev/null || missing="$missing prometheus-node-exporter"
    [ -z "$missing" ] && return
    if ! can_install; then
        note "Prometheus is missing: the tests of alerts are skipped. To run them, install $missing"
        return
    fi
    for unit in $missing; do
        mask_unit "$unit"
    done
    # shellcheck disable=SC2086 # a list of packages
    tried "install $missing from the distribution" apt_install $missing ||
        note "Prometheus is missing: the tests of alerts are skipped. Its installation failed: see the error in build/setup.log"
}

# Required by the tests of stores on a network file system. Its daemon is not started.
ensure_gluster() {
    command -v glusterd >/dev/null && return
    if ! can_install; then
        note "GlusterFS is missing: the tests of stores on it are skipped. To run them, install glusterfs-server glusterfs-client"
        return
    fi
    tried "install glusterfs from the distribution" apt_install glusterfs-server glusterfs-client ||
        note "GlusterFS is missing: the tests of stores on it are skipped. Its installation failed: see the error in build/setup.log"
}

# Required by the tests of networks that lose packets, which are skipped without it.
ensure_packets() {
    install_optional nft nft nftables "the tests of networks that lose packets are skipped"
}

# Only one run per checkout at a time.
mkdir -p build
log=build/setup.log
if command -v flock >/dev/null; then
    exec 9>build/.setup.lock
    flock -n 9 || { note "another setup of this checkout is running; waiting for its end"; flock 9; }
fi
requirements=dev
[ "${1:-}" = --demo ] && { requirements=demo; shift; }
for wanted; do
    case $wanted in
        --java) ensure_java ;;
        --browser) ensure_browser ;;
        --tracer) ensure_tracer ;;
        --balancer) ensure_balancer ;;
        --database) ensure_database ;;
        --prometheus) ensure_prometheus ;;
        --gluster) ensure_gluster ;;
        --packets) ensure_packets ;;
        *) fail "unknown option $wanted: use one or more of --java, --browser, --tracer, --balancer, --database, --prometheus, --gluster, --packets" ;;
    esac
done
ensure_venv
ensure_requirements "$requirements"
ensure_link

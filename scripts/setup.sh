#!/bin/sh
# Makes a checkout ready to work with, and does nothing that is already done:
#     scripts/setup.sh             .venv with the pinned requirements, and the collection's link
#     scripts/setup.sh --demo      only what the demo needs, in place of all pinned requirements
#     scripts/setup.sh --java      and a Java (17 or later) and Maven for real brokers
#     scripts/setup.sh --browser   and a Chromium that looks at pictures; without one they are not looked at
#     scripts/setup.sh --tracer    and strace, which shows when an event is on the disk
#     scripts/setup.sh --balancer  and HAProxy, to balance real brokers; without it that is not tested
#     scripts/setup.sh --database  and PostgreSQL, for pairs that share a database, with SITUATIONS=all MariaDB as well;
#                                  without it they are not tested
#     scripts/setup.sh --prometheus  and Prometheus with Alertmanager, for alerts; without them they are not tested
#     scripts/setup.sh --gluster   and GlusterFS, for stores on a network file system; without it that is not tested
#     scripts/setup.sh --packets   and nftables, for networks that lose packets; without it that is not tested
# What is missing is installed where that is possible (root on Debian or Ubuntu); otherwise one
# line says what to install.
set -eu
cd "$(dirname "$0")/.."

note() { printf '==> %s\n' "$*"; }
fail() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }
can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

# tried "what" COMMAND [ARG ...]: run it quietly, and say how long it took.
tried() {
    what=$1; shift
    printf '==> %s … ' "$what"
    began=$(date +%s)
    if "$@" >"$log" 2>&1; then
        printf '%s s\n' "$(($(date +%s) - began))"
    else
        printf 'failed\n'
        return 1
    fi
}

# timed "what" COMMAND [ARG ...]: the same; a failure shows what it said, and ends the set-up.
timed() {
    tried "$@" && return
    tail -n 30 "$log" >&2
    fail "$1 failed (the whole output: $log)"
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

ensure_venv() {
    [ -x .venv/bin/python ] && [ "$(cat .venv/fleet-place 2>/dev/null || pwd)" = "$(pwd)" ] && return
    python=$(find_python) || {
        can_install || fail "Python 3.11 to 3.13 is needed: install it, or name it with PYTHON=…"
        timed "Python, from the distribution" apt_install python3 python3-venv
        python=$(find_python) || fail "the distribution's Python is not one of 3.11 to 3.13"
    }
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        can_install || fail "$python has no venv module: install python3-venv"
        timed "python3-venv, from the distribution" apt_install python3-venv
    fi
    timed "virtual environment of $("$python" --version)" "$python" -m venv --clear .venv
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
    # shellcheck disable=SC2086 # $pip is several words
    timed "pinned requirements" $pip install --no-compile --no-deps --require-hashes --requirement "requirements/$1.txt"
    # shellcheck disable=SC2086
    timed "activemq-fleet itself" $pip install --no-deps --no-build-isolation --editable .
    # shellcheck disable=SC2086
    timed "activemq-agent itself" $pip install --no-deps --no-build-isolation --editable agent
    # shellcheck disable=SC2086
    timed "a look whether they fit together" $pip check
    pwd >.venv/fleet-place
    echo "$wanted" >.venv/fleet-stamp
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
    can_install || fail "real brokers need Java 17 or later and Maven; install: $missing"
    # shellcheck disable=SC2086 # a list of packages
    timed "$missing, from the distribution" apt_install $missing
    java_is_new_enough || fail "Java 17 or later is needed: install one and name it with JAVA_HOME=…"
}

# Only the tests of the pictures need it, and they say so when it is not there.
ensure_browser() {
    for name in ${CHROMIUM:-} chromium chromium-browser google-chrome; do
        command -v "$name" >/dev/null && return
    done
    if ! can_install; then
        note "no Chromium: pictures are not looked at; for that install: chromium fonts-dejavu-core"
    elif ! tried "chromium and a font, from the distribution" apt_install chromium fonts-dejavu-core; then
        note "no Chromium: pictures are not looked at (why: build/setup.log)"
    fi
}

# install_optional NAME COMMAND PACKAGE "what is not done without it": one that is missing is no failure.
install_optional() {
    command -v "$2" >/dev/null && return
    if ! can_install; then
        note "no $1: $4; for that install: $3"
    elif ! tried "$3, from the distribution" apt_install "$3"; then
        note "no $1: $4 (why: build/setup.log)"
    fi
}

# Only the proof that an event is on the disk before its id is told needs it, and says so when it is not there.
ensure_tracer() {
    install_optional strace strace strace "the order of writes is not looked at"
}

# Only the tests of the load balancer need it, and say so when it is not there.
ensure_balancer() {
    install_optional HAProxy haproxy haproxy "load balancers are not tested"
}

# Only the tests of shared-jdbc pairs need its programs, and say so when they are not there. Debian would start a server.
ensure_database() {
    ensure_postgresql
    [ "${SITUATIONS:-}" != all ] || ensure_mariadb
}

ensure_mariadb() {
    command -v mariadbd >/dev/null && return
    if ! can_install; then
        note "no MariaDB: pairs that share one are not tested; for that install: mariadb-server"
        return
    fi
    mask_unit mariadb
    tried "mariadb-server, from the distribution" apt_install mariadb-server ||
        note "no MariaDB: pairs that share one are not tested (why: build/setup.log)"
}

ensure_postgresql() {
    [ -n "$(find /usr/lib/postgresql -name initdb 2>/dev/null)" ] && return
    command -v initdb >/dev/null && return
    if ! can_install; then
        note "no PostgreSQL: shared-jdbc pairs are not tested; for that install: postgresql"
        return
    fi
    mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] ||
        echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
    tried "postgresql, from the distribution" apt_install postgresql ||
        note "no PostgreSQL: shared-jdbc pairs are not tested (why: build/setup.log)"
}

# Debian starts a service when it is installed; of the tests' servers none is the machine's.
mask_unit() {
    mkdir -p /etc/systemd/system
    [ -e "/etc/systemd/system/$1.service" ] || ln -sf /dev/null "/etc/systemd/system/$1.service"
}

# Only the tests of alerts need them, and say so when they are not there. Debian would start servers.
ensure_prometheus() {
    missing=
    command -v promtool >/dev/null || missing=prometheus
    command -v prometheus-alertmanager >/dev/null || missing="$missing prometheus-alertmanager"
    command -v prometheus-node-exporter >/dev/null || missing="$missing prometheus-node-exporter"
    [ -z "$missing" ] && return
    if ! can_install; then
        note "no Prometheus: alerts are not tested; for that install: $missing"
        return
    fi
    for unit in $missing; do
        mask_unit "$unit"
    done
    # shellcheck disable=SC2086 # a list of packages
    tried "$missing, from the distribution" apt_install $missing ||
        note "no Prometheus: alerts are not tested (why: build/setup.log)"
}

# Only the tests of stores on a network file system need its programs. Its daemon is not started.
ensure_gluster() {
    command -v glusterd >/dev/null && return
    if ! can_install; then
        note "no GlusterFS: stores on it are not tested; for that install: glusterfs-server glusterfs-client"
        return
    fi
    tried "glusterfs, from the distribution" apt_install glusterfs-server glusterfs-client ||
        note "no GlusterFS: stores on it are not tested (why: build/setup.log)"
}

# Only the tests of bad networks need it, and say so when it is not there.
ensure_packets() {
    install_optional nft nft nftables "networks that lose packets are not tested"
}

# Two runs in one checkout take turns here.
mkdir -p build
log=build/setup.log
if command -v flock >/dev/null; then
    exec 9>build/.setup.lock
    flock -n 9 || { note "waiting for another set-up of this checkout"; flock 9; }
fi
requirements=dev
[ "${1:-}" = --demo ] && { requirements=demo; shift; }
ensure_venv
ensure_requirements "$requirements"
ensure_link
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
        *) fail "$wanted is not known: --java, --browser, --tracer, --balancer, --database, --prometheus, --gluster, --packets" ;;
    esac
done

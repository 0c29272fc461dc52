#!/bin/sh
# From a fresh checkout to a broker that answers: installs what is missing (Debian and its relatives,
# as root), builds, and runs the demo; with `check`, the tests too. May be called from anywhere.
set -eu

build_packages='gcc make pkg-config libc6-dev libuv1-dev libssl-dev libcurl4-openssl-dev libcjson-dev
    libyaml-dev libmicrohttpd-dev libarchive-dev libsqlite3-dev libsystemd-dev ca-certificates openssl'
test_packages='libcmocka-dev python3 netcat-openbsd nodejs npm docker.io podman runc containernetworking-plugins
    busybox-static iptables iproute2 systemd python3-yaml'

me=${0##*/}
root=$(cd "$(dirname "$0")/.." && pwd)

usage() {
    cat <<USAGE
usage: $me [check]

  $me          install what is missing, build, run the demo
  $me check    the same, and then every test
USAGE
}

have() {
    command -v "$1" >/dev/null 2>&1
}

# Whether a package is not needed: it is installed, or its program came another way.
is_there() {
    case $1 in
    nodejs) have node && return ;;
    docker.io) have dockerd && return ;;
    python3 | npm | gcc | make | openssl | pkg-config | podman | runc) have "$1" && return ;;
    esac
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing_of() {
    missing=''
    for package in "$@"; do
        is_there "$package" || missing="$missing $package"
    done
    echo "${missing# }"
}

install_debian() {
    # shellcheck disable=SC2086 # lists
    missing=$(missing_of $packages)
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" != 0 ]; then
        echo "$me: some packages are missing. As root:" >&2
        echo "apt-get update && apt-get install -y --no-install-recommends $missing" >&2
        exit 69
    fi
    echo "installing: $missing"
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    # shellcheck disable=SC2086 # a list
    if ! { apt-get update && apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        echo "$me: apt-get failed: see above" >&2
        exit 69
    fi
    rm -f "$log"
}

# Elsewhere nothing is installed: what is there is tried, what is not is named.
check_other() {
    lacking=''
    for program in gcc make pkg-config openssl "$@"; do
        have "$program" || lacking="$lacking, $program"
    done
    for library in libuv openssl libcurl libcjson yaml-0.1 libmicrohttpd libarchive sqlite3 libsystemd; do
        pkg-config --exists "$library" 2>/dev/null || lacking="$lacking, $library (library)"
    done
    [ -n "$lacking" ] || return 0
    echo "$me: this is no Debian, so nothing was installed. Not found: ${lacking#, }" >&2
    echo "$me: needed are a C11 compiler, make, pkg-config, the openssl program, and the development" \
        "files of libuv, OpenSSL 3, libcurl (built with OpenSSL), cJSON, libyaml, libmicrohttpd, libarchive, SQLite and libsystemd;" \
        "for the tests also cmocka, Python 3, netcat, Node.js, npm, dockerd, podman, runc, a static busybox, systemd-analyze and PyYAML" >&2
    exit 69
}

processors() {
    getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1
}

packages=$build_packages
tests=''
case "$#${1:-}" in
0) ;;
1check)
    packages="$build_packages $test_packages"
    tests='python3 node npm nc dockerd podman runc busybox ip systemd-analyze'
    ;;
1-h | 1--help) usage && exit 0 ;;
*) usage >&2 && exit 64 ;;
esac

if have dpkg-query && have apt-get; then
    install_debian
else
    # shellcheck disable=SC2086 # a list
    check_other $tests
fi

cd "$root"
echo "building"
make -s -j"$(processors)" programs
make -s demo
[ -z "$tests" ] || make -s check

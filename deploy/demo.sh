#!/bin/sh
# What `make demo` shows, from nothing to nothing: certificates, a broker that listens with TLS, a
# chat streamed through it, a host tool called, an event emitted and found in the broker's file, a
# clean stop. Needs no network, no provider key, no fixed port; whatever it made is gone afterwards.
#
#   TACTUS_BUILD=build/asan deploy/demo.sh     with the programs of another build
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
build=${TACTUS_BUILD:-build/release}
text='Secrets stay on the host, words go through.'
work=$(mktemp -d)
broker=''

clean_up() {
    if [ -n "$broker" ] && kill -0 "$broker" 2>/dev/null; then
        kill -KILL "$broker"
    fi
    rm -rf "$work"
}

line() {
    printf '%-14s %s\n' "$1" "$2"
}

fail() {
    echo "demo: $1" >&2
    for file in "$work/out" "$work/log"; do
        [ ! -s "$file" ] || sed 's/^/  | /' "$file" >&2
    done
    exit 1
}

# Shows what a command of brokerctl answers, as it comes, and keeps it in $work/out; then, below, what
# it said besides.
ctl() {
    printf '%15s' ''
    { "$build/tactus-brokerctl" "$@" 2>"$work/aside" && echo 0 >"$work/status" ||
        echo $? >"$work/status"; } | tee "$work/out"
    sed 's/^/               /' "$work/aside"
    [ "$(cat "$work/status")" = 0 ] || fail "brokerctl $1 ended with $(cat "$work/status")"
}

expect() {
    grep -qF -- "$2" "$3" || fail "$1: '$2' was expected"
}

# wait_for PATTERN FILE
wait_for() {
    tries=100
    until grep -q -- "$1" "$2" 2>/dev/null; do
        kill -0 "$broker" 2>/dev/null || fail "the broker ended"
        tries=$((tries - 1))
        [ $tries -gt 0 ] || fail "waited 10 s for $1 in ${2##*/}"
        sleep 0.1
    done
}

trap clean_up EXIT
trap 'exit 1' HUP INT TERM

sh certs/make-certs.sh --out "$work/tls" --days 1 >"$work/log" 2>&1 || fail "make-certs.sh"
line certificates "a CA, a server certificate"

cat >"$work/broker.yml" <<CONFIG
listeners:
  - { url: "tls://127.0.0.1:0", cert: "$work/tls/server.pem", key: "$work/tls/server.key",
      auth: none, grant: demo }
providers:
  - { name: builtin, type: builtin }
grants:
  - { name: demo, models: [ "*" ], tools: [ "*" ] }
CONFIG
"$build/tactus-broker" --config "$work/broker.yml" --events "$work/events" \
    >"$work/endpoints" 2>"$work/log" &
broker=$!
wait_for '^tls://' "$work/endpoints"
TACTUS_BROKER_SOCKET=$(grep '^tls://' "$work/endpoints")
TACTUS_BROKER_TLS_CA_FILE=$work/tls/ca.pem
export TACTUS_BROKER_SOCKET TACTUS_BROKER_TLS_CA_FILE
line broker "$TACTUS_BROKER_SOCKET, process $broker"

line chat "llm.chat of builtin/slow-40, streamed"
ctl chat --model builtin/slow-40 "$text"
expect chat "$text" "$work/out"
expect usage 'prompt + 8 completion' "$work/aside"
line call "tool.call of host.ping"
ctl call host.ping '{"n":1}'
expect call '{"ok":true,"echo":{"n":1}}' "$work/out"
line emit "events.emit"
ctl emit '{"event_type":"log","message":"from the demo"}'
wait_for '"message":"from the demo"' "$work/events"
line event "$(tail -n 1 "$work/events")"

kill -TERM "$broker"
status=0
wait "$broker" || status=$?
broker=''
[ $status -eq 0 ] || fail "the broker ended with $status after SIGTERM"
line stop "SIGTERM, exit 0"

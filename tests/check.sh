#!/bin/sh
# Runs test programs one after the other and adds up what they say. `make check` and its relatives
# call it.
#
#   check.sh BUILD-DIR KIND...       KIND: unit, loop, fuzz (replay of corpora), e2e, engine
#
# A program's output is kept and shown only when it fails; each has one closing line, the run has
# `check: N passed, N failed`. TACTUS_WRAP is put before unit and loop programs (valgrind).
set -u

cd "$(dirname "$0")/.." || exit 2
build=$1
shift
kinds=$*
seconds=300 # one program; sanitizers and slow machines included
passed=0
failed=0
skipped=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}"

count() {
    grep -c -- "$1" "$2" || true
}

# add NAME PASSED FAILED SKIPPED
add() {
    passed=$((passed + $2))
    failed=$((failed + $3))
    skipped=$((skipped + $4))
    more=''
    [ "$4" -eq 0 ] || more=", $4 skipped"
    echo "$1: $2 passed, $3 failed$more"
}

show() {
    sed "s/^/  | /" "$work/out" "$work/err"
}

# run NAME COMMAND...: 0 when it ended well; output in $work.
run() {
    name=$1
    shift
    timeout -k 10 "$seconds" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    [ $status -eq 0 ] || echo "FAIL $name: ended with $status"
    return $status
}

# A cmocka program. What began and neither passed nor was skipped has failed, also when the program
# died in it; a program that ends badly after its last test, or has no test, counts as one failure.
run_cmocka() {
    # shellcheck disable=SC2086 # a command with its options
    run "$1" ${TACTUS_WRAP:-} "$2"
    status=$?
    began=$(count '^\[ RUN ' "$work/out")
    good=$(count '^\[       OK ' "$work/out")
    skip=$(count '^\[  SKIPPED ' "$work/out")
    bad=$((began - good - skip))
    if [ $bad -eq 0 ] && { [ $status -ne 0 ] || [ "$began" -eq 0 ]; }; then
        bad=1
    fi
    [ $bad -eq 0 ] || show
    add "$1" "$good" $bad "$skip"
}

# Each input is one test for the sum; a crash ends the rest.
run_fuzz() {
    target=${1#fuzz/fuzz_}
    set -- "$1" "$2"
    for directory in "tests/fuzz/corpus/$target" "tests/fuzz/regression/$target"; do
        [ ! -d "$directory" ] || set -- "$@" "$directory"
    done
    if [ $# -eq 2 ]; then
        echo "FAIL $1: no corpus in tests/fuzz/corpus/$target"
        add "$1" 0 1 0
    elif run "$@"; then
        add "$1" "$(sed -n 's/^.*: \([0-9]*\) inputs$/\1/p' "$work/out" | tail -n 1)" 0 0
    else
        show
        add "$1" 0 1 0
    fi
}

# e2e, or engine: the same with real container engines.
run_e2e() {
    TACTUS_BUILD=$build python3 tests/e2e/run.py --kind "$1" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    sed "/^$1: /d" "$work/out"
    closing=$(sed -n 's/^[a-z0-9]*: \([0-9]*\) passed, \([0-9]*\) failed\(, \([0-9]*\) skipped\)\{0,1\}$/\1 \2 \4/p' \
        "$work/out" | tail -n 1)
    # shellcheck disable=SC2086 # its numbers
    set -- $closing
    if [ $# -lt 2 ] || { [ $status -ne 0 ] && [ "$2" -eq 0 ]; }; then
        cat "$work/err"
        set -- "${1:-0}" 1
    fi
    add "$kind" "$1" "$2" "${3:-0}"
}

for kind in $kinds; do
    case $kind in
    unit | loop) sources="tests/$kind/test_*.c" ;;
    fuzz) sources='tests/fuzz/fuzz_*.c' ;;
    e2e | engine)
        run_e2e "$kind"
        continue
        ;;
    *)
        echo "check.sh: unknown kind: $kind" >&2
        exit 64
        ;;
    esac
    for source in $sources; do
        [ -e "$source" ] || continue
        name=$(basename "$source" .c)
        if [ "$kind" = fuzz ]; then
            run_fuzz "fuzz/$name" "$build/tests/fuzz/$name"
        else
            run_cmocka "$kind/$name" "$build/tests/$kind/$name"
        fi
    done
done

more=''
[ $skipped -eq 0 ] || more=", $skipped skipped"
echo "check: $passed passed, $failed failed$more"
[ $failed -eq 0 ] && [ $passed -gt 0 ]

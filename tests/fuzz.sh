#!/bin/sh
# Runs every libFuzzer program for a while. `make fuzz` calls it:  fuzz.sh BUILD-DIR SECONDS
# New inputs are kept below BUILD-DIR; an input that breaks a target goes to tests/fuzz/regression.
set -eu

cd "$(dirname "$0")/.."
build=$1
seconds=$2
failed=0
for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    target=${name#fuzz_}
    found=tests/fuzz/regression/$target
    mkdir -p "$build/corpus/$target" "$found" "tests/fuzz/corpus/$target"
    if "$build/libfuzzer/$name" -max_total_time="$seconds" -timeout=10 -artifact_prefix="$found/" \
        -print_final_stats=1 "$build/corpus/$target" "tests/fuzz/corpus/$target" "$found" \
        >"$build/$name.log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$name.log")
        echo "fuzz/$name: ${runs:-0} runs in $seconds s, nothing found"
    else
        tail -n 60 "$build/$name.log"
        echo "FAIL fuzz/$name: its input is in $found"
        failed=1
    fi
    rmdir "$found" "tests/fuzz/corpus/$target" 2>/dev/null || true
done
exit $failed

#!/bin/sh
# clang-tidy (.clang-tidy) on each file named, two at a time; silent about what is clean.
#   tidy.sh FILE... -- COMPILER-FLAGS
set -eu

cd "$(dirname "$0")/../.."
if [ "${1:-}" = --one ]; then
    file=$2
    shift 2
    case $file in
    */base/err.c) ;;
    *) set -- "$@" -include tests/lint/analyzer.h ;;
    esac
    # One file a call: with several, clang-tidy 14 takes each va_list but the first file's for
    # uninitialised. Its count of hidden warnings goes to stderr.
    clang-tidy --quiet "$file" -- -std=c11 "$@" 2>/dev/null || {
        echo "clang-tidy: $file: see above"
        exit 1
    }
    exit
fi

files=''
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    files="$files $1"
    shift
done
[ $# -eq 0 ] || shift
# shellcheck disable=SC2086 # file names have no spaces here
printf '%s\n' $files | xargs -P2 -I '{}' sh tests/lint/tidy.sh --one '{}' "$@"
echo "clang-tidy: clean"

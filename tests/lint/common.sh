# shellcheck shell=sh
# What the checks in this directory share; read with `.`, not run.
#
# A check defines check_tree, which looks at the tree in the current directory and prints one line a
# finding, and ends with `lint_main "$@"`:
#   check.sh              looks at the project; 1 when there are findings
#   check.sh DIRECTORY    looks at another tree
#   check.sh --self-test  proves that it can fail: every bad sample of self_test must be found, every
#                         good one pass

lint_name=${0##*/}
lint_dir=$(cd "$(dirname "$0")" && pwd)
lint_work=''

# The files of the given directories (those that exist) with one of the suffixes .c and .h.
c_files() {
    for directory in "$@"; do
        [ ! -d "$directory" ] || find "$directory" -name '*.[ch]' -type f
    done | LC_ALL=C sort
}

# Lines "file:line:code" of the files named on stdin; comments and literals removed.
code_only() {
    xargs -r awk ${1:+-v "$1"} -f "$lint_dir/code_only.awk"
}

# sample good|bad PATH: one tree with the one file PATH, whose text is on stdin. Notes are files: a
# pipe's right side is a process of its own.
sample() {
    rm -rf "$lint_work/tree"
    mkdir -p "$lint_work/tree/$(dirname "$2")"
    cat >"$lint_work/tree/$2"
    found=$(cd "$lint_work/tree" && check_tree)
    if [ "$1" = bad ] && [ -z "$found" ]; then
        echo "$2: not found: $(head -n 5 "$lint_work/tree/$2")" >>"$lint_work/failed"
    elif [ "$1" = good ] && [ -n "$found" ]; then
        echo "wrongly found: $found" >>"$lint_work/failed"
    else
        echo "$2" >>"$lint_work/passed"
    fi
}

lint_self_test() {
    lint_work=$(mktemp -d)
    trap 'rm -rf "$lint_work"' EXIT
    : >"$lint_work/passed"
    : >"$lint_work/failed"
    self_test
    cat "$lint_work/failed"
    echo "$lint_name self-test: $(wc -l <"$lint_work/passed") passed," \
        "$(wc -l <"$lint_work/failed") failed"
    [ -s "$lint_work/passed" ] && [ ! -s "$lint_work/failed" ]
}

lint_main() {
    if [ "${1:-}" = --self-test ]; then
        lint_self_test
        return
    fi
    cd "${1:-$lint_dir/../..}" || return 2
    found=$(check_tree)
    [ -z "$found" ] && echo "$lint_name: clean" && return
    echo "$found"
    echo "$lint_name: $(echo "$found" | wc -l) findings"
    return 1
}

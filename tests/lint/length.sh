#!/bin/sh
# A function has at most 60 lines from its brace to its brace, a file at most 800. Functions are
# known by the format that .clang-format gives: both braces alone in the first column. The main() of
# a test program is mostly its list of tests and may be longer.
set -eu
# shellcheck source=tests/lint/common.sh
. "$(dirname "$0")/common.sh"

function_max=60
file_max=800

check_tree() {
    # shellcheck disable=SC2016 # the program is awk's
    c_files broker runner include tests |
        xargs -r awk -v function_max=$function_max -v file_max=$file_max '
    FNR == 1 {
        end_of_file()
        start = 0
        previous = ""
    }
    function end_of_file() {
        if (last > file_max) {
            print file ": " last " lines; " file_max " are allowed"
        }
        last = 0
    }
    {
        file = FILENAME
        last = FNR
    }
    /^{$/ {
        start = FNR
        signature = previous
    }
    /^}$/ && start {
        if (FNR - start + 1 > function_max && !(FILENAME ~ /^tests\// && signature ~ /^int main\(/)) {
            print FILENAME ":" start ": function of " FNR - start + 1 " lines; " function_max " are allowed: " signature
        }
        start = 0
    }
    {
        previous = $0
    }
    END {
        end_of_file()
    }'
}

# function_of N: one function whose body, braces included, has N lines.
function_of() {
    printf 'int f(void)\n{\n'
    lines "$(($1 - 2))"
    printf '}\n'
}

lines() {
    awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) print "    a();" }'
}

self_test() {
    function_of $function_max | sample good broker/x.c
    function_of $((function_max + 1)) | sample bad broker/x.c
    function_of $((function_max + 1)) | sample bad tests/unit/test_x.c
    function_of 200 | sed 's/int f(void)/int main(void)/' | sample good tests/unit/test_x.c
    function_of 200 | sed 's/int f(void)/int main(void)/' | sample bad broker/x.c
    lines $file_max | sample good include/x.h
    lines $((file_max + 1)) | sample bad include/x.h
    { function_of 20 && function_of 61 && function_of 20; } | sample bad runner/x.c
    { printf 'struct x {\n' && lines 90 && printf '};\n'; } | sample good runner/x.h
}

lint_main "$@"

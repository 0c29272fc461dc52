#!/bin/sh
# Functions and forms that the project does not use (CONTRIBUTING.md), outside comments and strings.
set -eu
# shellcheck source=tests/lint/common.sh
. "$(dirname "$0")/common.sh"

functions='v?sprintf|strcpy|stpcpy|strcat|strtok|ato[ifl]|atoll|strto(l|ul|ll|ull)|v?sscanf|gets'
functions="$functions|alloca|system|popen|signal|abort|exit|rand"

check_tree() {
    c_files broker runner include | code_only keep_strings=0 | grep -E \
        -e "(^|[^A-Za-z0-9_.>])($functions)[[:space:]]*\(" \
        -e '(^|[^A-Za-z0-9_])(if|while)[[:space:]]*\(+[A-Za-z0-9_.>*-]+[[:space:]]=[[:space:]]' |
        sed 's/$/    <- banned/' || true
    c_files broker runner include | xargs -r grep -nE 'return -1;$' /dev/null |
        sed 's/$/    <- a bare -1: return an enum err, or say in a comment what it means/' || true
    c_files broker runner include | xargs -r grep -nE '\<(TODO|FIXME|XXX)\>' /dev/null |
        sed 's/$/    <- finish it, or say why not/' || true
}

self_test() {
    for call in sprintf vsprintf strcpy strcat strtok atoi strtol sscanf gets alloca system popen signal; do
        echo "    x = $call(a, b);" | sample bad broker/base/x.c
        echo "$call (a);" | sample bad include/tactus/x.h
        echo "    y(\"$call(\"); /* $call(a) */ // $call(b)" | sample good broker/base/x.c
        echo "    my_$call(a); x->$call(a); ${call}_r(a); n$call(a);" | sample good runner/x.c
    done
    printf '/* a\n' | sample good broker/x.c
    printf '/* a\n * system(b)\n */\nint c;\n' | sample good broker/x.c
    printf '/* a */ system(b);\n' | sample bad broker/x.c
    printf 'char q = '"'\"'"'; system(b);\n' | sample bad broker/x.c
    printf 'p("\\""); system(b);\n' | sample bad broker/x.c
    printf 'p("http://x"); system(b);\n' | sample bad broker/x.c
    echo '    return -1;' | sample bad broker/x.c
    echo '    return -1; /* as its caller wants it */' | sample good broker/x.c
    echo '    return -1 + n;' | sample good broker/x.c
    echo '    if ((n = read(fd)) > 0) {' | sample bad broker/x.c
    echo '    if (n == m && a <= b && c != d) {' | sample good broker/x.c
    echo '/* TODO: later */' | sample bad broker/x.c
    echo '    system(b);' | sample good tests/unit/x.c
}

lint_main "$@"

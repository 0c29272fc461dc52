#!/bin/sh
# Line coverage of broker/ after a run of the coverage build: one line a file, least covered first,
# and the sum. `make cov` calls it.   coverage.sh BUILD-DIR
set -eu

cd "$(dirname "$0")/.."
find "$1/broker" -name '*.gcda' | LC_ALL=C sort | while read -r data; do
    gcov -n -o "$(dirname "$data")" "$data" 2>/dev/null
done | LC_ALL=C awk '
BEGIN {
    sort = "sort -n"
}
/^File / {
    file = $0
    gsub(/^File .|.$/, "", file)
}
/^Lines executed:/ && file ~ /^broker\/.*\.c$/ {
    split($2, part, /[:%]/)
    printf "%6.1f %% of %4d  %s\n", part[2], $4, file | sort
    covered += part[2] * $4 / 100
    lines += $4
    file = ""
}
END {
    if (lines == 0) {
        print "coverage: no data"
        exit 1
    }
    close(sort)
    printf "%6.1f %% of %4d  total\n", 100 * covered / lines, lines
}'

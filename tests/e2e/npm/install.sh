#!/bin/sh
# Installs the servers of package.json, at the versions of package-lock.json, into DIR (default build/npm).
# Does nothing when they are there already. Nothing of theirs runs while they are installed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-$here/../../../build/npm}
mkdir -p "$dir"
if cmp -s "$here/package-lock.json" "$dir/installed-lock.json"; then
    exit 0
fi
cp "$here/package.json" "$here/package-lock.json" "$dir/"
cd "$dir"
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
cp package-lock.json installed-lock.json

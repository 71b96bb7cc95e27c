#!/usr/bin/env bash
# Compares a Quorate cluster with a real Redis server: see run.py. Prepares what that needs, inside the project only.
#   tests/redis/run.sh [PROGRAM [OPTIONS OF run.py]]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

venv=$root/.venv
if ! "$venv/bin/python" -c 'import redis' 2>/dev/null; then
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
fi
if command -v npm >/dev/null && [ ! -d "$here/node/node_modules/redis" ]; then
    (cd "$here/node" && npm ci --silent --no-audit --no-fund) || echo "run.sh: npm could not install node-redis; its checks are skipped" >&2
fi
# prepare WHAT COMMAND...: builds a client; where it cannot, its checks are skipped.
prepare() {
    local what=$1
    shift
    "$@" >/dev/null 2>&1 || echo "run.sh: could not build the client for $what; its checks are skipped" >&2
}
if command -v go >/dev/null; then
    (cd "$here/go" && prepare go-redis go build -o smoke .)
fi
if command -v mvn >/dev/null; then
    (cd "$here/java" && prepare Jedis mvn -q -B compile dependency:build-classpath -Dmdep.outputFile=target/classpath)
fi

program=${1:-${CARGO_TARGET_DIR:-$root/target}/release/quorate}
[ $# -gt 0 ] && shift
exec "$venv/bin/python" "$here/run.py" "$program" "$@"

#!/bin/sh
# Measures everything in a fresh directory each and appends to results.jsonl.
#   bench/engines/run.sh DIRECTORY_ON_THE_DISK [cargo features]
# Once is one round; the tables of decision 0004 have the medians of three. With the feature rocksdb it links the system's RocksDB
# (Cargo.toml says which).
set -eu
cd "$(dirname "$0")"
scratch=${1:?the directory to measure in}/engines-scratch
features=${2:-}
case " $features " in
*rocksdb*)
    ROCKSDB_LIB_DIR=${ROCKSDB_LIB_DIR:-$(pkg-config --variable=libdir rocksdb)}
    ROCKSDB_INCLUDE_DIR=${ROCKSDB_INCLUDE_DIR:-$(pkg-config --variable=includedir rocksdb)}
    export ROCKSDB_LIB_DIR ROCKSDB_INCLUDE_DIR
    ;;
esac
cargo build --release --locked --features "$features"
program=${CARGO_TARGET_DIR:-target}/release/engines
commit=$(git rev-parse --short HEAD)
stores="quorate fjall redb"
case " $features " in *rocksdb*) stores="$stores rocksdb" ;; esac
once() {
    rm -rf "$scratch"
    "$program" "$@" --dir "$scratch" | sed "s/^{/{\"commit\":\"$commit\",/" | tee -a results.jsonl
}
once machine
for engine in $stores; do
    once store --engine "$engine"
done
for engine in quorate raft-engine; do
    once log --engine "$engine"
    once log --engine "$engine" --records 1
    once log --engine "$engine" --no-sync --batches 30000
done
rm -rf "$scratch"

#!/bin/sh
# Runs a program with --blas LIBRARY, whose dgemm is slow for a large C on one host: slow_memory.sh HOST PROGRAM...
host=$1
shift
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cc -O2 -shared -fPIC -DHOST="\"$host\"" "$(dirname "$0")/slow_memory.c" -o "$folder/slow-memory.so" \
    -Wl,--no-as-needed -l:libopenblas.so.0 || exit
"$@" --blas "$folder/slow-memory.so"

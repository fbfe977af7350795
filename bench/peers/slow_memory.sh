#!/bin/sh
# slow_memory.sh HOST PROGRAM...: runs the program with --blas LIBRARY after its words. The library's dgemm is slow for a large C on
# that host; its other functions are those of OpenBLAS, which it is linked with.
host=$1
shift
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cc -O2 -shared -fPIC -DHOST="\"$host\"" "$(dirname "$0")/slow_memory.c" -o "$folder/slow-memory.so" \
    -Wl,--no-as-needed -l:libopenblas.so.0 || exit
"$@" --blas "$folder/slow-memory.so"

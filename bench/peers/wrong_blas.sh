#!/bin/sh
# wrong_blas.sh HOST PROGRAM...: runs the program with --blas LIBRARY after its words. The library's dgemm is wrong once in ten
# thousand calls on that host; its other functions are those of OpenBLAS, which it is linked with.
host=$1
shift
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cc -O2 -shared -fPIC -DHOST="\"$host\"" -DLOCK="\"$folder/lock\"" "$(dirname "$0")/wrong_blas.c" \
    -o "$folder/wrong-blas.so" -Wl,--no-as-needed -l:libopenblas.so.0 || exit
"$@" --blas "$folder/wrong-blas.so"

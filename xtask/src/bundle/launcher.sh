#!/bin/sh
# Runs @PROGRAM@ with the libraries of this bundle.
self=$(readlink -f -- "$0")
here=$(dirname -- "$(dirname -- "$self")")
. "$here/etc/environment.sh"
become @PROGRAM@ @ARGUMENTS@"$@"

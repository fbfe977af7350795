#!/bin/sh
# Measures the GPU of this host by the campaigns in bench/campaigns, in less than ten minutes.
#
# isochron-gpu-bench [FOLDER]: the results are in the folder, or in gpu-results. The same command goes on where it was stopped.
# Ends with 1 where a campaign cannot be measured.
self=$(readlink -f -- "$0")
here=$(dirname -- "$(dirname -- "$self")")
results=${1:-gpu-results}
PATH=$here/bin:$PATH
# A campaign measures what learning costs, and leaves nothing to the user.
ISOCHRON_STORE=
export PATH ISOCHRON_STORE

failed=
for file in "$here"/bench/campaigns/gpu-*.toml; do
    name=$(basename -- "$file" .toml)
    isochron campaign run "$file" --dir "$results/$name" &&
        isochron campaign report "$results/$name" &&
        isochron-bench figures "$results/$name" || failed="$failed $name"
done

echo
echo "failed:${failed:- none}"
echo "The results are in $results."
[ -z "$failed" ]

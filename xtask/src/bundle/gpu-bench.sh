#!/bin/sh
# Measures the GPU of this host by the campaigns in bench/campaigns, within their limits of time.
#
# isochron-gpu-bench [FOLDER [NAME...]]: the results go into the folder, or in gpu-results. Names such as updates choose campaigns.
# The same command goes on where it was stopped. Ends with 1 where there is no GPU, or a campaign cannot be measured.
self=$(readlink -f -- "$0")
here=$(dirname -- "$(dirname -- "$self")")
results=${1:-gpu-results}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- updates link memory devices ranks models
PATH=$here/bin:$PATH
# On a rented machine users are often root.
OMPI_ALLOW_RUN_AS_ROOT=1
OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PATH OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM

# Without a GPU this says what was found.
isochron-bench gpu copies 65536 >/dev/null || exit 1

trap 'exit 130' INT TERM
failed=
for name; do
    folder=$results/gpu-$name
    isochron campaign run "$here/bench/campaigns/gpu-$name.toml" --dir "$folder" &&
        grep -q '"status":"done"' "$folder/points.jsonl" &&
        isochron campaign report "$folder" &&
        isochron-bench figures "$folder" || failed="$failed $name"
done

echo
echo "failed:${failed:- none}"
echo "The results are in $results."
[ -z "$failed" ]

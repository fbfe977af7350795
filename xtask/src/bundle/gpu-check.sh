#!/bin/sh
# Proves the GPU path on the GPU of this host: every case of the devices, products of every type of elements, and both
# ways to hold C under compute-sanitizer, which is NVIDIA's and is looked for on PATH or named by COMPUTE_SANITIZER.
#
# Says at the end what passed, what failed and what was not run; ends with 1 where something failed or there is no GPU.
self=$(readlink -f -- "$0")
here=$(dirname -- "$(dirname -- "$self")")
logs=$(mktemp -d) || exit 1
ISOCHRON_REQUIRE_GPU=1
export ISOCHRON_REQUIRE_GPU

passed=0
failed=
not_run=

# Runs a command at most so many seconds, where the host can tell the time to a program.
within() {
    seconds=$1
    shift
    if command -v timeout >/dev/null; then
        timeout "$seconds" "$@"
    else
        "$@"
    fi
}

# check NAME COMMAND...: the command has to succeed.
check() {
    name=$1
    shift
    if within 120 "$@" >"$logs/$name.log" 2>&1; then
        passed=$((passed + 1))
        echo "passed   $name"
    else
        failed="$failed $name"
        echo "FAILED   $name: $*"
        tail -n 20 "$logs/$name.log"
    fi
}

# sanitize TOOL NAME COMMAND...: the same under compute-sanitizer, unless that cannot run here.
sanitize() {
    tool=$1
    name=$1-$2
    shift 2
    within 120 "$sanitizer" --tool "$tool" --target-processes all --error-exitcode 9 "$@" \
        >"$logs/$name.log" 2>&1
    status=$?
    if grep -q -i 'not supported' "$logs/$name.log"; then
        not_run="$not_run $name"
        echo "not run  $name: $(grep -i -m 1 'not supported' "$logs/$name.log")"
    elif [ "$status" -eq 0 ]; then
        passed=$((passed + 1))
        echo "passed   $name: $(grep -m 1 'SUMMARY' "$logs/$name.log")"
    else
        failed="$failed $name"
        echo "FAILED   $name: status $status"
        tail -n 20 "$logs/$name.log"
    fi
}

found=$("$here/bin/isochron-cuda-cases" survey | head -n 1)
echo "$found"

for case in conformance paced out-of-core elements narrow-limits speeds; do
    check "$case" "$here/bin/isochron-cuda-cases" "$case"
done

gpu='schema = 1
[[node]]
[[node.device]]
name = "gpu"
kind = "cuda"'
echo "$gpu" >"$logs/on-the-gpu.toml"
printf '%s\nmemory_limit = 300000\n' "$gpu" >"$logs/in-tiles.toml"

for place in on-the-gpu in-tiles; do
    for type in f32 f64 c32 c64; do
        check "mxm-$type-$place" "$here/bin/isochron" mxm --size 500 --block 64 --type "$type" \
            --verify exact --platform "$logs/$place.toml"
    done
done

sanitizer=${COMPUTE_SANITIZER:-compute-sanitizer}
for tool in memcheck racecheck initcheck; do
    for place in on-the-gpu in-tiles; do
        case $found in
        *Emulated*) why="the CUDA is emulated" ;;
        *) why="compute-sanitizer was not found: put it on PATH, or name it by COMPUTE_SANITIZER" ;;
        esac
        if command -v "$sanitizer" >/dev/null && [ "${why#the CUDA}" = "$why" ]; then
            sanitize "$tool" "$place" "$here/bin/isochron" mxm --size 300 --block 64 --verify exact \
                --platform "$logs/$place.toml"
        else
            not_run="$not_run $tool-$place"
            echo "not run  $tool-$place: $why"
        fi
    done
done

echo
echo "$passed passed"
echo "failed:${failed:- none}"
echo "not run:${not_run:- none}"
echo "What each said is in $logs."
[ -z "$failed" ]

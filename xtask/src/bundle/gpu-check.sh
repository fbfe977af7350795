#!/bin/sh
# Proves the GPU path on the GPU of this host: products of every type of elements, both ways to hold C under
# compute-sanitizer, which is NVIDIA's and is looked for on PATH, beside the CUDA toolkit, or named by COMPUTE_SANITIZER,
# products of several ranks that share the GPU, and every case of the devices.
#
# isochron-gpu-check [FOLDER]: what each says is left in the folder, or in a new one. All of it ends within
# ISOCHRON_CHECK_SECONDS, 540 where that is not set. Says at the end what passed, what failed and what was not run; ends
# with 1 where something failed or there is no GPU.
self=$(readlink -f -- "$0")
here=$(dirname -- "$(dirname -- "$self")")
if [ -n "$1" ]; then
    logs=$1
    mkdir -p -- "$logs" || exit 1
else
    logs=$(mktemp -d) || exit 1
fi
ISOCHRON_REQUIRE_GPU=1
# On a rented machine users are often root.
OMPI_ALLOW_RUN_AS_ROOT=1
OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export ISOCHRON_REQUIRE_GPU OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
end=$(($(date +%s) + ${ISOCHRON_CHECK_SECONDS:-540}))

passed=0
failed=
not_run=

# within SECONDS COMMAND...: at most so long, and no longer than is left; where the host can tell the time to a program.
within() {
    seconds=$1
    left=$((end - $(date +%s)))
    [ "$seconds" -gt "$left" ] && seconds=$left
    shift
    if command -v timeout >/dev/null; then
        timeout -k 10 "$seconds" "$@"
    else
        "$@"
    fi
}

# skip NAME WHY
skip() {
    not_run="$not_run $1"
    echo "not run  $1: $2"
}

# has_time NAME: whether another one can be begun.
has_time() {
    [ "$(date +%s)" -lt $((end - 5)) ] && return 0
    skip "$1" "the time is over"
    return 1
}

# fails NAME WHY
fails() {
    failed="$failed $1"
    echo "FAILED   $1: $2"
    tail -n 20 "$logs/$1.log"
}

# check NAME COMMAND...: the command has to succeed.
check() {
    name=$1
    shift
    has_time "$name" || return
    if within 240 "$@" >"$logs/$name.log" 2>&1; then
        passed=$((passed + 1))
        echo "passed   $name"
    else
        fails "$name" "$*"
    fi
}

# sanitized FOLDER TOOL WORDS...: the program of this folder of the bundle with these words under compute-sanitizer.
sanitized() {
    program=$here/$1/isochron
    tool=$2
    shift 2
    within 120 "$sanitizer" --tool "$tool" --target-processes all --error-exitcode 9 "$program" "$@"
}

# sanitize TOOL NAME WORDS...: `isochron` with these words under compute-sanitizer. Only a summary that counts no errors is a
# pass: without one the tool has not seen the program, for instance since it does not follow the shell and the loader that
# start it; then it is started without them, with the host's C library.
sanitize() {
    name=$1-$2
    tool=$1
    shift 2
    has_time "$name" || return
    sanitized bin "$tool" "$@" >"$logs/$name.log" 2>&1
    status=$?
    if ! grep -q 'SUMMARY' "$logs/$name.log"; then
        (
            . "$here/etc/environment.sh"
            LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
            export LD_LIBRARY_PATH
            sanitized libexec "$tool" "$@"
        ) >>"$logs/$name.log" 2>&1
        status=$?
    fi
    summary=$(grep 'SUMMARY' "$logs/$name.log" | tail -n 1)
    case $status:$summary in
    0:*'SUMMARY: 0 errors'* | 0:*'SUMMARY: 0 hazards'*)
        passed=$((passed + 1))
        echo "passed   $name: $summary"
        ;;
    *:?*) fails "$name" "status $status, $summary" ;;
    *)
        if grep -q -i 'not supported' "$logs/$name.log"; then
            skip "$name" "$(grep -i -m 1 'not supported' "$logs/$name.log")"
        else
            fails "$name" "status $status, and no summary"
        fi
        ;;
    esac
}

found=$("$here/bin/isochron-cuda-cases" survey | head -n 1)
echo "$found"

device='[[node.device]]
name = "gpu"
kind = "cuda"'
printf 'schema = 1\n[[node]]\n%s\n' "$device" >"$logs/on-the-gpu.toml"
printf 'schema = 1\n[[node]]\n%s\nmemory_limit = 300000\n' "$device" >"$logs/in-tiles.toml"
shared=$(printf '[[node]]\n%s\nshare = true' "$device")
printf 'schema = 1\n%s\n%s\n' "$shared" "$shared" >"$logs/shared.toml"

for place in on-the-gpu in-tiles; do
    for type in f32 f64 c32 c64; do
        check "mxm-$type-$place" "$here/bin/isochron" mxm --size 500 --block 64 --type "$type" \
            --verify exact --platform "$logs/$place.toml"
    done
    check "mxm-operations-$place" "$here/bin/isochron" mxm --m 333 --n 501 --k 217 --block 32 --type c64 --op-a c \
        --op-b t --alpha 2-3i --beta -1 --verify exact --platform "$logs/$place.toml"
    check "mxm-thin-$place" "$here/bin/isochron" mxm --m 3001 --n 5 --k 1 --block 32 --verify exact \
        --platform "$logs/$place.toml"
done
check ranks-that-share "$here/bin/mpirun" -n 2 "$here/bin/isochron" mxm --size 600 --block 64 --verify exact \
    --platform "$logs/shared.toml"

sanitizer=${COMPUTE_SANITIZER:-$(command -v compute-sanitizer)}
: "${sanitizer:=${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer}"
case $found in
*Emulated*) why="the CUDA is emulated" ;;
*) why= ;;
esac
command -v "$sanitizer" >/dev/null ||
    why=${why:-"compute-sanitizer was not found: put it on PATH, or name it by COMPUTE_SANITIZER"}
for tool in memcheck racecheck initcheck; do
    for place in on-the-gpu in-tiles; do
        if [ -z "$why" ]; then
            sanitize "$tool" "$place" mxm --size 300 --block 64 --verify exact --platform "$logs/$place.toml"
        else
            skip "$tool-$place" "$why"
        fi
    done
done

for case in elements narrow-limits speeds out-of-core conformance paced; do
    check "$case" "$here/bin/isochron-cuda-cases" "$case"
done

echo
echo "$passed passed"
echo "failed:${failed:- none}"
echo "not run:${not_run:- none}"
echo "What each said is in $logs."
[ -z "$failed" ]

#!/bin/sh
# unseen_quota.sh PROGRAM...: runs a rank on one core, without a view of the control groups that limit its time, as in some
# containers. Ranks that see a common quota take turns, and none is slowed by the other.
export CORE=$((OMPI_COMM_WORLD_RANK % 2))
exec unshare --mount sh -c 'mount -t tmpfs none /sys/fs/cgroup && exec taskset -c "$CORE" "$@"' sh "$@"

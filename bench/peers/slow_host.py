"""Finds out if `isochron health` names a slow host among five emulated ones, and the cause.

slow_host.py FAULT TRIES: the last host is slow by the fault, or none is with `none`. Prints as JSON in how many tries exactly the
devices of that host were named, by the right cause, and the lowest speeds of a device beside its class.
"""

import json
import subprocess
import sys

# A rank on one core without a view of the control groups that limit its CPU time, as in some containers.
UNSEEN = """
mount -t tmpfs none /sys/fs/cgroup || exit
exec taskset -c $((OMPI_COMM_WORLD_RANK % 2)) "$@"
"""
# The options of the hosts, of their ranks and of the check, and the cause, by fault.
FAULTS = {
    "quota": ("--quota 36%,36%,36%,36%,18% --cpus 0,1,0,1,0", [], "--seconds 20", "clock"),
    "memory": (
        "--cpus 0,1",
        [],
        "--seconds 20 --platform ../../cluster-configs/emulated-slow-memory.toml",
        "memory",
    ),
    # Ranks that do not see their quota time each update by itself: most have to be longer than a period of the quota.
    "neighbours": (
        "--quota 40%",
        ["--ranks", "1,1,1,1,2", "--", "unshare", "--mount", "sh", "-c", UNSEEN, "sh"],
        "--seconds 60",
        "neighbours",
    ),
    "none": ("--quota 36% --cpus 0,1", [], "--seconds 20", None),
}

fault, tries = sys.argv[1], int(sys.argv[2])
hosts, ranks, options, cause = FAULTS[fault]
cluster = ["isochron-cluster", "with", "5", "--name", "bench", *hosts.split(), "--", "isochron-cluster", "run"]
check = ["isochron", "health", "--store", "none", "--json", *options.split()]
named, speeds = 0, []
for _ in range(tries):
    job = subprocess.run(
        [*cluster, *(ranks or ["--"]), *check],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    if job.returncode not in (0, 1):
        sys.exit(f"a check ended with status {job.returncode}")
    report = json.loads(job.stdout)
    print(report["line"], file=sys.stderr)
    devices = report["devices"]
    expected = [cause if device["host"] == "iso-5" else None for device in devices]
    named += [device["cause"] for device in devices] == expected
    speeds.append(min(device["speed"] for device in devices))
print(json.dumps({"named": named, "speed": speeds}))

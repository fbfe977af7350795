"""Runs a multiplication on emulated hosts, and cuts the CPU quota of one of them in mid-run.

cut_quota.py HOST QUOTA FACTOR PROGRAM...: PROGRAM starts `isochron mxm --json` beside a cluster of `isochron-cluster with`. When
a third of its steps are done, HOST has QUOTA from then on, by which its times grow by FACTOR. Prints the seconds, the part of
the steps before the cut, and whether the report names the host, the step within three, and the factor within a fifth.
"""

import json
import os
import re
import subprocess
import sys

host, quota, factor, *program = sys.argv[1:]
log = "isochron_core::product=info,isochron_core::product::summa=trace"
process = subprocess.Popen(
    program,
    stdin=subprocess.DEVNULL,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    env={**os.environ, "ISOCHRON_LOG": log, "NO_COLOR": "1"},
    text=True,
)
steps, cut = None, None
last = ""
for line in process.stderr:
    last = line
    if cut is not None or not line.startswith("rank 0 "):
        continue
    if found := re.search(r"multiplying steps=(\d+)", line):
        steps = int(found[1])
    done = re.search(r"step\{step=(\d+)", line) if "the devices' times" in line else None
    if done and steps and int(done[1]) + 1 >= steps / 3:
        cut = int(done[1]) + 1
        subprocess.run(["isochron-cluster", "quota", host, quota], check=True)
output = process.stdout.read()
if process.wait() != 0:
    sys.exit(last)
if cut is None:
    sys.exit("the log has no steps")
report = json.loads(output)
drifts = (report.get("learning") or {}).get("drifts", [])
named = [
    drift
    for drift in drifts
    if drift["host"] == host
    and abs(drift["step"] - cut) <= 3
    and abs(drift["factor"] / float(factor) - 1) <= 0.2
]
seconds = {key: report[key] for key in ["wall_s", "balance_s"]}
print(json.dumps({**seconds, "part": cut / steps, "named": len(named)}))

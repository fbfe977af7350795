"""Counts the checks of emulated hosts that name the slow one and the cause.

count_named.py TRIES HOST CAUSE [LINK=HOST] PROGRAM...: PROGRAM starts `isochron health --json`. HOST is the slow host, and CAUSE what
makes it slow, or `wrong`; both are `none` if there is none. LINK is the cause of the only slow link, at its own host. Prints how many
tries called the devices of HOST slow by CAUSE, or wrong, and all others healthy, and the link slow, if one is given.
"""

import json
import subprocess
import sys

tries, host, cause, *program = sys.argv[1:]
link, links = None, []
if "=" in program[0]:
    link, at = program.pop(0).split("=")
    links = [(link, [at])]
named = 0
for _ in range(int(tries)):
    job = subprocess.run(program, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if not job.stdout:
        sys.exit(f"a check ended without an answer, with status {job.returncode}")
    report = json.loads(job.stdout)
    print(report["line"], file=sys.stderr)
    found = [(device["health"], device["cause"]) for device in report["devices"]]
    unwell = ("wrong", None) if cause == "wrong" else ("slow", cause)
    expected = [unwell if device["host"] == host else ("healthy", None) for device in report["devices"]]
    slow_links = [(finding["cause"], finding["members"]) for finding in report["links"]["findings"]] if link else []
    named += found == expected and slow_links == links
print(json.dumps({"named": named}))

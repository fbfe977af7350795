"""Runs what `isochron plan` chooses: planned.py FOLDER SIZE -- COMMAND...

COMMAND is run once the words [grid], [ranks], [rows] and [block] in it are replaced: by the grid of the best plan that has one, and by the ranks of
the hosts, the rows of their grid and the block for equal parts. FOLDER is that of predicted.py.
"""

import json
import pathlib
import subprocess
import sys

from predicted import ask, prepare

folder, size, _, *command = sys.argv[1:]
cluster = prepare(pathlib.Path(folder), ["isochron-cluster", "run", "--"])
plan = json.loads(ask(["isochron", "plan", *cluster, "--size", size, "--scalapack", "--json"]))
equal = plan["equal_ranks"]


def has_all_hosts(candidate):
    rows, _, cols = candidate["layout"].partition(" in ")[2].partition("x")
    return candidate["strategy"] == "fpm" and rows and int(rows) * int(cols) == len(equal["hosts"])


grid = next(c["layout"].split(" in ")[1] for c in plan["candidates"] if has_all_hosts(c))
words = {
    "[grid]": grid,
    "[ranks]": ",".join(str(host["ranks"]) for host in equal["hosts"]),
    "[rows]": str(equal["rows"]),
    "[block]": str(equal["block"]),
}
for word, text in words.items():
    command = [part.replace(word, text) for part in command]
print(command, file=sys.stderr)
sys.exit(subprocess.run(command).returncode)

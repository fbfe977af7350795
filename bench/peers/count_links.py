"""Counts the tries in which `isochron links` names what is slow: count_links.py TRIES CAUSE MEMBERS COMMAND...

CAUSE is that of the only finding and MEMBERS its hosts, with commas; `none` for no finding. Prints {"named": COUNT}, and what was
found otherwise on standard error.
"""

import json
import subprocess
import sys

tries, cause, members = int(sys.argv[1]), sys.argv[2], sys.argv[3].split(",")
expected = [] if cause == "none" else [(cause, sorted(members))]
named = 0
for _ in range(tries):
    ended = subprocess.run(sys.argv[4:], stdout=subprocess.PIPE, text=True)
    document = json.loads(ended.stdout)
    found = [(finding["cause"], sorted(finding["members"])) for finding in document["findings"]]
    if found == expected:
        named += 1
    else:
        print(found, file=sys.stderr)
print(json.dumps({"named": named}))

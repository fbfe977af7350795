"""Predicts multiplications by `isochron plan` and runs them: predicted.py FOLDER STRATEGIES M,N,K... -- COMMAND...

COMMAND starts ranks. FOLDER gets a platform file with a network and the models of all devices, unless it has them. Each STRATEGY is
even, br, cartesian, or a grid as 2x3. Prints the cases, and of all of them the relative error of the prediction: its median, its
largest, the part of cases with at most 5 %, and the part of runs within the predicted bounds.
"""

import json
import pathlib
import statistics
import subprocess
import sys

LAYOUTS = {"even": [], "br": [], "cartesian": ["--layout", "cartesian"]}


def ask(command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def prepare(folder, launch):
    """Describes the cluster in a folder, unless that was done; returns the options of `isochron plan`."""
    platform, models = folder / "platform.toml", folder / "models"
    if not models.exists():
        folder.mkdir(parents=True, exist_ok=True)
        platform.write_text(ask([*launch, "isochron", "config", "--network"]))
        measure = ["isochron", "measure", "mxm", "--platform", platform, "--out", models]
        ask([*launch, *map(str, measure), "--store", "none"])
    return ["--platform", str(platform), "--models", str(models)]


def predict(folder, strategies, size, launch):
    """Predicts a product by each strategy and runs it."""
    cluster = prepare(folder, launch)
    shape = [word for name, side in zip("mnk", size.split(",")) for word in ["--" + name, side]]
    shape += ["--block", "64"]
    plan = json.loads(ask(["isochron", "plan", *cluster, *shape, "--json"]))
    for strategy in strategies.split(","):
        kind = "homogeneous" if strategy == "even" else "fpm"
        grid = strategy not in LAYOUTS
        layout = "kl in " + strategy if grid else strategy.replace("even", "br")
        options = ["--layout", "kl", "--grid", strategy] if grid else LAYOUTS[strategy]
        if kind == "fpm":
            options = [*options, *cluster[2:]]
        found = next(c for c in plan["candidates"] if (c["strategy"], c["layout"]) == (kind, layout))
        run = ["isochron", "mxm", *shape, "--strategy", kind, *options]
        report = json.loads(ask([*launch, *run, "--verify", "none", "--store", "none", "--json"]))
        yield {
            "strategy": strategy,
            "size": size,
            "predicted_s": found["wall_s"],
            "bounds_s": found["bounds_s"],
            "measured_s": report["wall_s"],
        }


if __name__ == "__main__":
    end = sys.argv.index("--")
    folder, strategies, *sizes = sys.argv[1:end]
    launch = sys.argv[end + 1 :]
    found = [predict(pathlib.Path(folder), strategies, size, launch) for size in sizes]
    cases = [case for cases in found for case in cases]
    errors = [abs(case["measured_s"] / case["predicted_s"] - 1) for case in cases]
    inside = [case["bounds_s"][0] <= case["measured_s"] <= case["bounds_s"][1] for case in cases]
    print(json.dumps({
        "median_error": statistics.median(errors),
        "largest_error": max(errors),
        "within_5": statistics.mean(error <= 0.05 for error in errors),
        "inside": statistics.mean(inside),
        "cases": cases,
    }))

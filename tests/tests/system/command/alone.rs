//! `isochron measure mxm --alone`: devices measured one after the other.

use std::fs;

use isochron_tests::launch::{HANGS, libraries, open_mpi, run};
use serde_json::Value;

use super::{Folder, json, read_json, run_line};

/// Few repetitions of small sizes: the tests are not about speed.
const QUICK: &str = "measure mxm --blas embedded --block 32 --min-reps 2 --max-reps 3";

fn list<'v>(value: &'v Value, what: &str) -> &'v [Value] {
    value[what].as_array().expect(what)
}

#[test]
fn devices_are_measured_alone_and_together() {
    let folder = Folder::new();
    let platform = folder.write(
        "two.toml",
        "schema = 1\n[[node]]\n[[node.device]]\nname = \"fast\"\ncores = 1\npace = 1.0\n\
         [[node.device]]\nname = \"slow\"\ncores = 1\npace = 3.0\n",
    );
    let (out, svg) = (folder.path("points"), folder.path("speed.svg"));
    let line = format!("{QUICK} --to 9 --points 3 --platform {platform} --out {out}");
    for (more, word, beside) in
        [(format!("--alone --svg {svg}"), "alone", "nothing"), (String::new(), "together", "slow")]
    {
        let line = format!("{line} {more}");
        let found = read_json(&line);
        let models = list(&found, "ranks");
        assert_eq!(models.len(), 2, "{found}");
        for model in models {
            let points = list(model, "points");
            let sizes: Vec<&Value> = points.iter().map(|point| &point["d"]).collect();
            assert_eq!(sizes, [1, 5, 9], "{found}");
            let is_timed = |point: &Value| point["t_s"].as_f64() > Some(0.0);
            assert!(points.iter().all(is_timed), "{found}");
        }
        let text = fs::read_to_string(format!("{out}/fast-{word}.points")).expect("points");
        assert!(text.contains(&format!("# measured-beside: {beside}\n")), "{text}");
        assert_eq!(read_json(&line)["resumed"], 3, "{line}");
    }
    let drawn = fs::read_to_string(&svg).expect("a plot");
    // A line for each device, and one for it in the legend.
    assert_eq!(drawn.matches("<polyline").count(), 2 * 2);
    run_line(&format!("models show {out}/slow-alone.points")).success();
}

#[test]
fn the_devices_of_all_ranks_of_a_host_take_turns() {
    let folder = Folder::new();
    let device = "[[node.device]]\ncores = 1\npace = 1.0\n";
    let nodes = format!("schema = 1\n[[node]]\n{device}[[node]]\n{device}{device}");
    let platform = folder.write("three.toml", &nodes);
    for mpi in libraries() {
        let out = folder.path(mpi.name);
        let line =
            format!("{QUICK} --alone --to 4 --points 2 --platform {platform} --out {out} --json");
        let found = json(&mpi.run_line(2, &line).success());
        let models = list(&found, "ranks");
        let ranks: Vec<&Value> = models.iter().map(|model| &model["rank"]).collect();
        assert_eq!(ranks, [0, 1, 1], "{found}");
        for model in models {
            assert_eq!(list(model, "points").len(), 2, "{found}");
            let name = model["device"].as_str().expect("a name");
            let file = format!("{out}/rank{}-{name}-alone.points", model["rank"]);
            assert_eq!(model["file"], *file, "{found}");
            let text = fs::read_to_string(&file).expect(&file);
            assert!(text.contains("# measured-beside: nothing\n"), "{text}");
        }
    }
}

#[test]
fn times_alone_are_not_kept() {
    let folder = Folder::new();
    let mpi = open_mpi();
    for (more, segments) in [("--alone", 0), ("", 1)] {
        let mut command =
            mpi.line_command(1, &format!("{QUICK} --to 1 --points 1 --group node {more}"));
        command.env("ISOCHRON_STORE", folder.path("store"));
        run(command, HANGS).success();
        let kept = fs::read_dir(folder.path("store/v4"));
        assert_eq!(kept.map_or(0, |kept| kept.count()), segments, "{more}");
    }
}

#[test]
fn a_size_that_would_take_too_long_is_bounded() {
    let folder = Folder::new();
    // 10 µs for each block: 10 ms for all of C, far more than there is time for.
    folder.write("slow.points", "# block: 32\n1 1e-5\n1000 1e-2\n");
    let device = "[[node.device]]\ncores = 1\npoints = \"slow.points\"\n";
    let platform = folder.write("slow.toml", &format!("schema = 1\n[[node]]\n{device}"));
    for limit in ["--max-seconds 0.002", "--budget 0.002"] {
        let line = format!("{QUICK} --alone --from 1024 --points 1 --platform {platform} {limit}");
        let found = read_json(&line);
        assert_eq!(found["ranks"][0]["points"][0]["reps"], 0, "{found}");
    }
}

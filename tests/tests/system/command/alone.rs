//! `isochron measure mxm --alone`: devices measured one after the other.

use isochron_tests::launch::libraries;
use serde_json::Value;

use super::{Folder, cluster_configs, isochron, json, refused};

/// Few repetitions of small sizes: the tests are not about speed.
const QUICK: &str = "measure mxm --blas embedded --block 32 --min-reps 2 --max-reps 3";

/// Returns the words of a command line, and then `more`.
fn join<'w>(line: &'w str, more: &[&'w str]) -> Vec<&'w str> {
    line.split(' ').chain(more.iter().copied()).collect()
}

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
    let line = format!("{QUICK} --to 9 --points 3 --platform {platform} --out {out} --json");
    let alone = ["--alone", "--svg", &svg];
    for (more, word, beside) in [(&alone[..], "alone", "nothing"), (&[], "together", "slow")] {
        let found = json(&isochron(&join(&line, more)).success());
        let models = list(&found, "ranks");
        assert_eq!(models.len(), 2, "{found}");
        for model in models {
            let points = list(model, "points");
            let sizes: Vec<&Value> = points.iter().map(|point| &point["d"]).collect();
            assert_eq!(sizes, [1, 5, 9], "{found}");
            let is_timed = |point: &Value| point["t_s"].as_f64() > Some(0.0);
            assert!(points.iter().all(is_timed), "{found}");
        }
        let text = std::fs::read_to_string(format!("{out}/fast-{word}.points"));
        let text = text.expect("a points file");
        let header = format!("# measured-beside: {beside}\n");
        assert!(text.contains(&header), "{text}");
        let again = json(&isochron(&join(&line, more)).success());
        assert_eq!(again["resumed"], 3, "{again}");
    }
    let drawn = std::fs::read_to_string(&svg).expect("a plot");
    // A line for each device, and one for it in the legend.
    assert_eq!(drawn.matches("<polyline").count(), 2 * 2);
    let file = format!("{out}/slow-alone.points");
    isochron(&["models", "show", &file]).success();
}

#[test]
fn the_devices_of_all_ranks_of_a_host_take_turns() {
    let folder = Folder::new();
    let device = "[[node.device]]\ncores = 1\npace = 1.0\n";
    let nodes = format!("schema = 1\n[[node]]\n{device}[[node]]\n{device}{device}");
    let platform = folder.write("three.toml", &nodes);
    for mpi in libraries() {
        let out = folder.path(mpi.name);
        let line = format!("{QUICK} --alone --to 4 --points 2 --platform {platform} --out {out}");
        let found = json(&mpi.isochron(2, &join(&line, &["--json"])).success());
        let models = list(&found, "ranks");
        let ranks: Vec<&Value> = models.iter().map(|model| &model["rank"]).collect();
        assert_eq!(ranks, [0, 1, 1], "{found}");
        for model in models {
            assert_eq!(list(model, "points").len(), 2, "{found}");
            let name = model["device"].as_str().expect("a name");
            let file = format!("{out}/rank{}-{name}-alone.points", model["rank"]);
            assert_eq!(model["file"], *file, "{found}");
            let text = std::fs::read_to_string(&file).expect(&file);
            assert!(text.contains("# measured-beside: nothing\n"), "{text}");
        }
    }
}

#[test]
fn times_alone_are_not_kept() {
    let folder = Folder::new();
    let [mpi, _] = libraries();
    for (more, segments) in [(&["--alone"][..], 0), (&[], 1)] {
        let line = format!("{QUICK} --to 1 --points 1 --group node");
        let mut command = std::process::Command::new(&mpi.isochron);
        command.args(join(&line, more));
        command.env("ISOCHRON_STORE", folder.path("store"));
        isochron_tests::launch::run(command, isochron_tests::launch::HANGS).success();
        let kept = std::fs::read_dir(folder.path("store/v4"));
        let kept = kept.map_or(0, |kept| kept.count());
        assert_eq!(kept, segments, "{more:?}");
    }
}

#[test]
fn a_file_that_cannot_be_written_ends_all_ranks_before_the_work() {
    let [mpi, _] = libraries();
    let folder = Folder::new();
    let svg = folder.path("nowhere/speed.svg");
    let words = join("measure mxm --alone --thorough --svg", &[&svg]);
    let stderr = mpi.isochron(2, &words).failure(2);
    assert!(stderr.contains(&svg), "{stderr}");
}

#[test]
fn devices_are_grouped_as_asked() {
    for group in ["auto", "numa", "node"] {
        let shown = json(&isochron(&["topology", "--group", group, "--json"]).success());
        let expected = list(&shown["nodes"][0]["ranks"][0], "devices").len();
        let line = format!("{QUICK} --alone --to 1 --points 1 --json --group {group}");
        let found = json(&isochron(&join(&line, &[])).success());
        let names = list(&found, "ranks").iter().map(|model| &model["device"]);
        let cpus = names.filter(|name| name.as_str().is_some_and(|name| !name.starts_with("cuda")));
        assert_eq!(cpus.count(), expected, "{group}: {found}");
    }
}

#[test]
fn a_size_that_would_take_too_long_is_bounded() {
    let folder = Folder::new();
    // 10 µs for each block: 10 ms for all of C, far more than there is time for.
    folder.write("slow.points", "# block: 32\n1 1e-5\n1000 1e-2\n");
    let platform = folder.write(
        "slow.toml",
        "schema = 1\n[[node]]\n[[node.device]]\ncores = 1\npoints = \"slow.points\"\n",
    );
    let line = format!("{QUICK} --alone --from 1024 --points 1 --json --platform {platform}");
    for limit in ["--max-seconds 0.002", "--budget 0.002"] {
        let found = json(&isochron(&join(&line, &join(limit, &[]))).success());
        assert_eq!(found["ranks"][0]["points"][0]["reps"], 0, "{found}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (line, message) in [
        ("measure mxm --alone --block 0", "--block"),
        ("measure mxm --alone --from 512 --to 256", "--from 512"),
        ("measure mxm --alone --min-reps 1", "number from 2"),
        ("measure mxm --alone --precision 0", "precision"),
        ("measure mxm --alone --group socket", "socket"),
        ("measure mxm --budget 0", "'--budget <S>': expected a number above 0"),
        ("measure mxm --thorough --budget 9", "--thorough"),
        ("measure mxm --surface --svg x.svg", "--surface"),
        ("measure gemm --alone", "--alone: goes with the kernel mxm"),
        ("mxm --size 64 --confidence 1", "confidence"),
        ("mxm --size 64 --min-reps 5 --max-reps 4", "max_reps"),
    ] {
        refused(line, &[], &[message]);
    }
    let platform = cluster_configs().join("nowhere.toml");
    let platform = platform.to_str().expect("a name");
    refused("measure mxm --alone --platform", &[platform], &[platform]);
}

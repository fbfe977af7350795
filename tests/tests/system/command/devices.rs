//! `isochron devices bench`.

use std::process::Command;

use isochron_tests::launch::{HANGS, libraries, run};

use super::{Folder, cluster_configs, isochron, json, refused};

/// Few repetitions of small sizes: the tests are not about speed.
const QUICK: &str = "--min-reps 2 --max-reps 3 --block 32";

/// Runs the bench with the words of `line`, then `more`.
fn bench(line: &str, more: &[&str]) -> String {
    let line = format!("devices bench {QUICK} {line}");
    let words: Vec<&str> = line
        .split_whitespace()
        .chain(more.iter().copied())
        .collect();
    isochron(&words).success()
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
    let files = [
        "--platform",
        &platform,
        "--out",
        &out,
        "--svg",
        &svg,
        "--json",
    ];
    let found = json(&bench("--from 32 --to 96 --points 3", &files));
    let devices = found["devices"].as_array().expect("devices");
    assert_eq!(devices.len(), 2);
    for device in devices {
        assert!(
            device["peak"]["gflops"]
                .as_f64()
                .is_some_and(|peak| peak > 0.0),
            "{device}"
        );
        let sizes = device["sizes"].as_array().expect("sizes");
        assert_eq!(
            sizes
                .iter()
                .map(|size| size["n"].as_u64())
                .collect::<Vec<_>>(),
            [32, 64, 96].map(Some)
        );
        for size in sizes {
            assert!(
                size["alone"]["t_s"].as_f64().is_some_and(|t_s| t_s > 0.0),
                "{size}"
            );
            assert!(
                size["together"]["reps"]
                    .as_u64()
                    .is_some_and(|reps| reps > 0),
                "{size}"
            );
        }
    }
    assert_eq!(found["measured"]["measurements"], 2 * 2 * 3);
    for name in ["fast-alone", "fast-together", "slow-alone", "slow-together"] {
        let file = format!("{out}/{name}.points");
        let shown = json(&isochron(&["models", "show", &file, "--json"]).success());
        assert_eq!(
            shown["models"][0]["points"].as_array().map(Vec::len),
            Some(3),
            "{name}"
        );
    }
    let drawn = std::fs::read_to_string(&svg).expect("a plot");
    // A line for each curve, and one for it in the legend.
    assert_eq!(drawn.matches("<polyline").count(), 2 * 2 * 3);
}

#[test]
fn the_devices_of_every_rank_are_measured_beside_those_of_its_host() {
    let folder = Folder::new();
    let device = "[[node.device]]\ncores = 1\npace = 1.0\n";
    let nodes = format!("schema = 1\n[[node]]\n{device}[[node]]\n{device}{device}");
    let platform = folder.write("three.toml", &nodes);
    for mpi in libraries() {
        let out = folder.path(mpi.name);
        let mut words: Vec<&str> = "devices bench --sizes 32,64".split(' ').collect();
        words.extend(QUICK.split(' '));
        words.extend(["--platform", &platform, "--out", &out]);
        let text = mpi.isochron(2, &words).success();
        let found = json(
            &mpi.isochron(2, &[&words[..], &["--json"]].concat())
                .success(),
        );
        let devices = found["devices"].as_array().expect("devices");
        let ranks: Vec<_> = devices.iter().map(|d| d["rank"].as_u64()).collect();
        assert_eq!(ranks, [0, 1, 1].map(Some), "{found}");
        assert_eq!(found["measured"]["measurements"], 3 * 2 * 2, "{found}");
        for device in devices {
            let host = device["host"].as_str().expect("a name");
            assert!(text.contains(&format!("rank {} on {host}, ", device["rank"])));
            let name = device["name"].as_str().expect("a name");
            let file = format!("{out}/rank{}-{name}-together.points", device["rank"]);
            let points = std::fs::read_to_string(&file).expect(&file);
            assert!(points.contains(&format!("# host: {host}\n")), "{points}");
            let line = points.lines().find(|line| line.contains("measured-beside"));
            assert_eq!(line.expect(&points).matches("rank ").count(), 2, "{points}");
            isochron(&["models", "show", &file]).success();
        }
    }
}

#[test]
fn a_file_that_cannot_be_written_ends_all_ranks_before_the_work() {
    let [mpi, _] = libraries();
    let folder = Folder::new();
    let svg = folder.path("nowhere/speed.svg");
    let words = ["devices", "bench", "--thorough", "--svg", &svg];
    let stderr = mpi.isochron(2, &words).failure(2);
    assert!(stderr.contains(&svg), "{stderr}");
}

#[test]
fn progress_is_shown_on_a_terminal_alone() {
    let [mpi, _] = libraries();
    let line = format!("devices bench {QUICK} --sizes 32,64 --group node");
    let words: Vec<&str> = line.split_whitespace().collect();
    let quiet = isochron(&words);
    assert_eq!(quiet.stderr, "");
    quiet.success();
    let mut terminal = Command::new("script");
    let program = format!("{} {line}", mpi.isochron.display());
    terminal.args(["-qec", &program, "/dev/null"]);
    let shown = run(terminal, HANGS).success();
    for step in ["the peak of", "n = 32", "n = 64"] {
        assert!(shown.contains(step), "{step} in {shown}");
    }
    assert!(
        shown.contains("measuring: 3 of 3, ") && shown.contains("now cpu0 alone, n = 64"),
        "{shown}"
    );
}

#[test]
fn the_devices_of_this_host_are_measured() {
    let text = bench("--sizes 64,32", &[]);
    assert!(text.contains("peak") && text.contains("% peak"), "{text}");
}

#[test]
fn devices_are_grouped_as_asked() {
    for group in ["auto", "numa", "node"] {
        let shown = json(&isochron(&["topology", "--group", group, "--json"]).success());
        let expected = shown["nodes"][0]["ranks"][0]["devices"].as_array();
        let found = json(&bench("--sizes 32 --group", &[group, "--json"]));
        let cpus = found["devices"]
            .as_array()
            .expect("devices")
            .iter()
            .filter(|device| device["kind"] == "cpu")
            .count();
        assert_eq!(Some(cpus), expected.map(Vec::len), "{group}: {found}");
    }
}

#[test]
fn a_size_that_would_take_too_long_is_bounded() {
    let folder = Folder::new();
    // 10 µs for each block: 10 ms for all of C, five times what there is time for.
    folder.write("slow.points", "# block: 32\n1 1e-5\n1000 1e-2\n");
    let platform = folder.write(
        "slow.toml",
        "schema = 1\n[[node]]\n[[node.device]]\ncores = 1\npoints = \"slow.points\"\n",
    );
    let files = ["--platform", &platform, "--json"];
    let found = json(&bench("--sizes 1024 --max-seconds 0.002", &files));
    let alone = &found["devices"][0]["sizes"][0]["alone"];
    assert_eq!(alone["outcome"], "bounded");
    assert_eq!(alone["reps"], 0);
    assert!(
        alone["t_s"].as_f64().is_some_and(|t_s| t_s >= 0.002),
        "{alone}"
    );
    assert_eq!(found["measured"]["bounds"], 1);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (line, message) in [
        ("devices bench --sizes 100 --block 64", "100"),
        ("devices bench --block 0", "--block 0"),
        ("devices bench --from 512 --to 256", "--from 512"),
        ("devices bench --sizes 128 --from 128", "--from"),
        ("devices bench --sizes 128 --min-reps 1", "number from 2"),
        ("devices bench --sizes 128 --precision 0", "precision"),
        ("devices bench --group socket", "socket"),
        (
            "devices bench --sizes 128 --budget 0",
            "'--budget <S>': expected a number above 0",
        ),
        ("devices bench --thorough --budget 9", "--thorough"),
        ("mxm --size 64 --confidence 1", "confidence"),
        ("mxm --size 64 --min-reps 5 --max-reps 4", "max_reps"),
    ] {
        refused(line, &[], &[message]);
    }
    let platform = cluster_configs().join("nowhere.toml");
    let platform = platform.to_str().expect("a name");
    refused(
        "devices bench --sizes 128 --platform",
        &[platform],
        &[platform],
    );
}

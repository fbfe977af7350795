//! `isochron devices bench`.

use super::{Folder, cluster_configs, isochron, json, refused};

/// Few repetitions of small sizes: what is tested is not how fast they are.
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
        let shown = json(&isochron(&["model", &file, "--json"]).success());
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
fn the_devices_of_this_host_are_measured() {
    let text = bench("--sizes 64,32", &[]);
    assert!(
        text.contains("peak") && text.contains("% of peak"),
        "{text}"
    );
}

#[test]
fn devices_are_grouped_as_asked() {
    for group in ["auto", "numa", "node"] {
        let shown = json(&isochron(&["topology", "--group", group, "--json"]).success());
        let expected = shown["nodes"][0]["ranks"][0]["devices"].as_array();
        let found = json(&bench("--sizes 32 --group", &[group, "--json"]));
        let measured = found["devices"].as_array().expect("devices").iter();
        let cpus = measured.filter(|device| device["kind"] == "cpu").count();
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
        ("devices bench --sizes 128 --min-reps 1", "min_reps"),
        ("devices bench --sizes 128 --precision 0", "precision"),
        ("devices bench --group socket", "socket"),
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

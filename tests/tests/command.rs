//! The `isochron` command: its results as JSON, and its report.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

use std::process::Command;

use isochron_tests::launch::{HANGS, cluster_configs, libraries, run};
use serde_json::Value;

fn isochron(arguments: &[&str]) -> isochron_tests::launch::Outcome {
    let [mpi, _] = libraries();
    let mut command = Command::new(&mpi.isochron);
    command.args(arguments);
    run(command, HANGS)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A points file that comes with the platform files.
fn model(name: &str) -> String {
    let path = cluster_configs().join("models").join(name);
    path.to_str().expect("a name").to_string()
}

/// Files of one test.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> String {
        let path = self.0.path().join(name);
        path.to_str().expect("a name").to_string()
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a writable folder");
        path
    }
}

/// Runs the command with the words of `line` and then `files`, and expects one message that holds `parts`.
fn refused(line: &str, files: &[&str], parts: &[&str]) {
    let words: Vec<&str> = line
        .split_whitespace()
        .chain(files.iter().copied())
        .collect();
    let stderr = isochron(&words).failure(2);
    for part in parts {
        assert!(stderr.contains(part), "{part:?} in {stderr:?} of {words:?}");
    }
}

/// The command's JSON; the words of `line` follow `files`.
fn answer(command: &[&str], files: &[&str], line: &str) -> Value {
    let rest = line.split_whitespace().chain(["--json"]);
    let words: Vec<&str> = command.iter().chain(files).copied().chain(rest).collect();
    json(&isochron(&words).success())
}

fn total(numbers: &Value) -> u64 {
    let numbers = numbers.as_array().expect("a list");
    numbers
        .iter()
        .map(|number| number.as_u64().expect("a number"))
        .sum()
}

#[test]
fn partition_prints_units_and_times() {
    let (fast, slow) = (model("cliff-60k.points"), model("cliff-30k.points"));
    for algorithm in ["cpm", "gpa"] {
        let arguments = [
            "partition",
            "--units",
            "9000",
            "--models",
            &fast,
            &slow,
            "--algorithm",
            algorithm,
            "--json",
        ];
        let answer = json(&isochron(&arguments).success());
        assert_eq!(answer["algorithm"], algorithm);
        assert_eq!(answer["units"], json("[6000, 3000]"));
        let max_time_s = answer["max_time_s"].as_f64().expect("a number");
        assert!((max_time_s - 0.1).abs() < 1e-6, "{answer}");
        assert_eq!(answer["times_s"].as_array().map(Vec::len), Some(2));
    }
}

#[test]
fn partition_follows_the_cliff_where_a_constant_cannot() {
    let (paging, steady) = (model("cliff-paging.points"), model("cliff-60k.points"));
    let time = |algorithm| {
        let arguments = [
            "partition",
            "--units",
            "9000",
            "--models",
            &paging,
            &steady,
            "--algorithm",
            algorithm,
            "--json",
        ];
        json(&isochron(&arguments).success())["max_time_s"]
            .as_f64()
            .expect("a number")
    };
    assert!(time("gpa") < 0.8 * time("cpm"));
}

#[test]
fn broken_models_are_named_with_the_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("broken.points");
    std::fs::write(
        &path,
        "# format: isochron-points 1\n1 0.5 3 0\n2 minus 3 0\n",
    )
    .expect("a writable folder");
    let name = path.to_str().expect("a name");
    let stderr = isochron(&["partition", "--units", "10", "--models", name]).failure(2);
    assert!(
        stderr.contains("broken.points") && stderr.contains("line 3"),
        "{stderr}"
    );
}

#[test]
fn every_algorithm_partitions() {
    let (fast, slow) = (model("cliff-60k.points"), model("cliff-30k.points"));
    let partition = |algorithm: &str, files: &[&str]| {
        let command = ["partition", "--models"];
        let answer = answer(
            &command,
            files,
            &format!("--units 3000 --algorithm {algorithm}"),
        );
        assert_eq!(answer["algorithm"], algorithm.split(' ').next().unwrap());
        assert_eq!(total(&answer["units"]), 3000, "{answer}");
        let max_time_s = answer["max_time_s"].as_f64().expect("a number");
        (answer, (max_time_s * 1e5).round())
    };
    let both = [fast.as_str(), slow.as_str()];
    assert_eq!(partition("even", &both).1, 5000.0);
    for algorithm in ["cpm", "gpa", "npa", "hpopta", "hpopta-search"] {
        let (answer, time) = partition(algorithm, &both);
        assert_eq!(answer["units"], json("[2000, 1000]"), "{answer}");
        assert_eq!((time, &answer["active"]), (3333.0, &json("2")));
        let searches = ["npa", "hpopta-search"].contains(&algorithm);
        assert_eq!(answer["converged"] == true, searches, "{answer}");
        assert_eq!(answer["iterations"].is_u64(), algorithm == "npa");
        assert_eq!(answer["granule"] == 1, algorithm.starts_with("hpopta"));
    }
    for fit in [
        "cpm",
        "piecewise-speed",
        "piecewise-time",
        "akima",
        "raw-piecewise",
    ] {
        let (answer, _) = partition(&format!("gpa --fit {fit}"), &both);
        assert_eq!(answer["fit"], fit);
    }
    let equal = [fast.as_str(); 2];
    for files in [&equal[..1], &equal] {
        let devices = if files.len() == 1 { "--devices 2" } else { "" };
        let (answer, time) = partition(&format!("popta {devices}"), files);
        assert_eq!((&answer["units"], time), (&json("[1500, 1500]"), 2500.0));
    }
    let (answer, time) = partition("hipopta --nodes 1", &both);
    assert_eq!((&answer["units"], time), (&json("[2000, 1000]"), 3333.0));
    let arguments = [
        "partition",
        "--units",
        "6000",
        "--algorithm",
        "hipopta",
        "--nodes",
        "2",
        "--models",
        &fast,
        &slow,
    ];
    let text = isochron(&arguments).success();
    assert!(
        text.contains("4 of 4 active") && text.lines().count() == 7,
        "{text}"
    );
    let answer = json(&isochron(&[&arguments[..], &["--json"]].concat()).success());
    assert_eq!(answer["units"], json("[2000, 1000, 2000, 1000]"));
    assert_eq!(answer["nodes"][1]["units"], 3000);
    assert_eq!(answer["nodes"][1]["devices"]["units"], json("[2000, 1000]"));
}

#[test]
fn partition_keeps_to_limits_and_estimates() {
    let (fast, slow) = (model("cliff-60k.points"), model("cliff-30k.points"));
    let units = |line: &str| {
        let command = ["partition", "--algorithm", "hpopta", "--models"];
        answer(&command, &[&fast, &slow], &format!("--units 3000 {line}"))["units"].clone()
    };
    assert_eq!(units("--caps 1000,none"), json("[1000, 2000]"));
    assert_eq!(
        units("--caps none,1000 --forbid 0:1,1:64"),
        json("[2000, 1000]")
    );
    assert_eq!(units("--forbid 0:2000"), json("[1500, 1500]"));
    assert_eq!(units("--forbid 2000"), json("[1500, 1500]"));
    assert_eq!(units("--caps 1500"), json("[1500, 1500]"));

    let folder = Folder::new();
    let noisy = folder.write("noisy.points", "32 1.5 3 0\n64 1 3 2\n");
    let steady = folder.write("steady.points", "32 1.5 3 0\n64 4 3 0\n");
    let command = ["partition", "--algorithm", "hpopta", "--models"];
    let estimated = |estimate: &str| {
        let line = format!("--units 64 --estimate {estimate}");
        answer(&command, &[&noisy, &steady], &line)
    };
    let (mean, upper) = (estimated("mean"), estimated("upper"));
    assert_eq!(
        (&mean["units"], &mean["active"]),
        (&json("[64, 0]"), &json("1"))
    );
    assert_eq!(
        (&upper["units"], &upper["granule"]),
        (&json("[32, 32]"), &json("32"))
    );
}

#[test]
fn fewer_units_than_devices_leave_some_idle() {
    let (fast, slow) = (model("cliff-60k.points"), model("cliff-30k.points"));
    for algorithm in ["even", "cpm", "gpa", "npa", "hpopta", "hpopta-search"] {
        let line = format!("--units 1 --algorithm {algorithm}");
        let answer = answer(&["partition", "--models"], &[&fast, &slow], &line);
        assert_eq!(answer["units"], json("[1, 0]"), "{answer}");
        assert_eq!(answer["active"], 1);
    }
}

#[test]
fn what_cannot_be_partitioned_is_refused_by_flag() {
    let (fast, slow) = (model("cliff-60k.points"), model("cliff-30k.points"));
    let cases = [
        ("--units 0", "--units"),
        ("--units -1", "--units"),
        ("--units many", "--units"),
        ("--units 9 --algorithm best", "--algorithm"),
        ("--units 9 --fit spline", "unknown model \"spline\""),
        (
            "--units 9 --algorithm hpopta --estimate median",
            "--estimate",
        ),
        (
            "--units 9 --algorithm hpopta --fit akima",
            "--fit: does not go with",
        ),
        ("--units 9 --algorithm hpopta --granule 0", "--granule"),
        ("--units 9 --granule 1", "--granule: does not go with"),
        ("--units 9 --estimate upper", "--estimate: does not go with"),
        (
            "--units 9 --caps 3",
            "--caps: does not go with --algorithm gpa",
        ),
        ("--units 9 --forbid 3", "--forbid: does not go with"),
        ("--units 9 --nodes 2", "--nodes: does not go with"),
        (
            "--units 9 --algorithm hpopta --devices 2",
            "--devices: does not go with",
        ),
        (
            "--units 9 --algorithm hpopta --work-limit 2",
            "--work-limit: does not",
        ),
        ("--units 9 --algorithm hipopta", "--nodes: missing"),
        ("--units 9 --algorithm hipopta --nodes 0", "--nodes"),
        ("--units 9 --algorithm popta", "cliff-30k.points: differs"),
        (
            "--units 9 --algorithm popta --devices 2",
            "--devices: the number",
        ),
        ("--units 9 --algorithm hpopta --caps some", "--caps"),
        (
            "--units 9 --algorithm hpopta --caps 1,2,3",
            "--caps: 3 caps for 2 devices",
        ),
        (
            "--units 9 --algorithm hpopta --forbid 2:1",
            "--forbid 2:1: there are 2 devices",
        ),
        ("--units 9 --algorithm hpopta --forbid 0", "--forbid"),
        (
            "--units 500 --algorithm hpopta --caps 64",
            "--caps: 500 units",
        ),
        (
            "--units 18432 --algorithm hpopta --forbid 0:9216",
            "--forbid: 18432 units",
        ),
        (
            "--units 3 --algorithm hpopta",
            "--units: 3 units are no sum",
        ),
        ("--units 99999 --algorithm hpopta", "--units: 99999 units"),
        (
            "--units 500 --algorithm hpopta --granule 64",
            "--granule: point d = 1",
        ),
    ];
    for (line, message) in cases {
        refused(
            &format!("partition {line} --models"),
            &[&fast, &slow],
            &[message],
        );
    }
    let line = "partition --units 2 --algorithm popta --caps 1,2 --models";
    refused(
        line,
        &[&fast, &fast],
        &["--caps, --forbid: device 1 differs"],
    );
    // Half of 2500 is no size, and the search ends before it finds any division.
    let line = "partition --units 2500 --algorithm hpopta-search --work-limit 1 --models";
    let words: Vec<&str> = line.split(' ').chain([fast.as_str(), &slow]).collect();
    assert!(isochron(&words).failure(1).contains("--work-limit"));
    let line = "--units 3000 --algorithm hpopta-search --work-limit 1";
    let even = answer(&["partition", "--models"], &[&fast, &slow], line);
    assert_eq!(
        (&even["units"], &even["converged"]),
        (&json("[1500, 1500]"), &json("false"))
    );
}

#[test]
fn broken_points_are_refused_by_file_and_line() {
    let folder = Folder::new();
    let cases = [
        ("empty", "", "holds no points"),
        ("comments", "# device: none\n", "holds no points"),
        ("unsorted", "1 1\n9 1\n8 1\n", "line 3: d = 8 after d = 9"),
        ("nan", "1 1\n2 nan\n", "line 2: point d = 2, t = NaN s"),
        ("infinite", "1 inf\n", "line 1: point d = 1"),
        ("zero", "0 1\n", "line 1: point d = 0"),
        ("negative", "1 -1\n", "line 1: point d = 1"),
        ("interval", "1 1 3 -1\n", "line 1: confidence interval"),
        ("words", "one 1\n", "line 1: d = \"one\""),
        ("short", "1\n", "line 1: 1 fields"),
        (
            "version",
            "# format: isochron-points 9\n1 1\n",
            "line 1: format",
        ),
        (
            "surface",
            "# format: isochron-surface 1\n1 1 1\n",
            "line 1: format",
        ),
    ];
    for (name, text, message) in cases {
        let file = folder.write(name, text);
        let parts = [file.as_str(), message];
        refused("partition --units 9 --models", &[&file], &parts);
        refused(
            "partition --units 9 --algorithm hpopta --models",
            &[&file],
            &parts,
        );
        refused("layout --models", &[&file], &parts);
        refused("model", &[&file], &parts);
    }
    let missing = folder.path("missing");
    for line in ["partition --units 9 --models", "layout --models", "model"] {
        refused(line, &[&missing], &[&missing]);
    }
    // One point is a constant speed.
    let single = folder.write("single", "100 2\n");
    let answer = answer(&["partition", "--models"], &[&single], "--units 9");
    assert_eq!(
        (&answer["units"], &answer["max_time_s"]),
        (&json("[9]"), &json("0.18"))
    );
}

#[test]
fn layout_tiles_the_matrix() {
    let answer = json(
        &isochron(&[
            "layout", "4", "2", "1", "1", "--rows", "40", "--cols", "40", "--json",
        ])
        .success(),
    );
    let rects = answer["rects"].as_array().expect("rectangles");
    let area: u64 = rects
        .iter()
        .map(|rect| rect["rows"].as_u64().expect("rows") * rect["cols"].as_u64().expect("cols"))
        .sum();
    assert_eq!((rects.len(), area), (4, 1600));
    let half_perimeters = answer["half_perimeters"].as_f64().expect("a number");
    assert!(half_perimeters >= answer["lower_bound"].as_f64().expect("a number"));
    let picture = isochron(&["layout", "4", "2", "1", "1"]).success();
    assert!(picture.contains("sum of half-perimeters"), "{picture}");
}

#[test]
fn every_method_tiles_and_draws() {
    let area = |rect: &Value| rect["rows"].as_u64().unwrap() * rect["cols"].as_u64().unwrap();
    for method in [
        "kl",
        "br",
        "cartesian",
        "recursive",
        "corner",
        "row-slices",
        "column-slices",
    ] {
        let answer = answer(
            &["layout"],
            &["4", "2", "1", "1"],
            &format!("--method {method}"),
        );
        let zones = answer["zones"].as_array().expect("zones");
        let areas = zones.iter().flat_map(|zone| zone.as_array().unwrap());
        assert_eq!(
            (zones.len(), areas.map(area).sum::<u64>()),
            (4, 64_u64 * 64)
        );
        assert_eq!(answer["method"], method);
        assert!(answer["cost"].is_u64(), "{answer}");
        if answer["rects"].is_array() {
            assert_eq!(answer["half_perimeters"], answer["cost"]);
        }
        let text = isochron(&["layout", "4", "2", "1", "1", "--method", method]).success();
        assert!(
            text.contains('┌') && text.contains("sum of half-perimeters"),
            "{text}"
        );
    }
    let l_shaped = answer(&["layout"], &["30", "1"], "--method corner");
    assert_eq!(l_shaped["zones"][0].as_array().map(Vec::len), Some(2));
    assert!(l_shaped["rects"].is_null() && l_shaped["half_perimeters"].is_null());
    let text = isochron(&["layout", "30", "1", "--method", "corner"]).success();
    let lines = text
        .lines()
        .filter(|line| line.trim_start().starts_with("0  "));
    assert_eq!(lines.count(), 2, "{text}");
}

#[test]
fn layout_goes_by_models() {
    let (fast, slow) = (model("cliff-60k.points"), model("cliff-30k.points"));
    let command = ["layout", "--models"];
    for method in ["", "--method fpm-br", "--method row-slices"] {
        let line = format!("--rows 30 --cols 30 {method}");
        let answer = answer(&command, &[&fast, &slow], &line);
        let rects = answer["rects"].as_array().expect("rectangles");
        let area = |rect: &Value| rect["rows"].as_u64().unwrap() * rect["cols"].as_u64().unwrap();
        assert_eq!(rects.iter().map(area).collect::<Vec<_>>(), [600, 300]);
        let max_time_s = answer["max_time_s"].as_f64().expect("a number");
        assert!((max_time_s - 0.01).abs() < 1e-8, "{answer}");
    }
    let folder = Folder::new();
    let surface = |name: &str, speed: f64| {
        let point = |(m, n)| format!("{m} {n} {:?}\n", f64::from(m * n) / speed);
        let points = [(4, 4), (8, 4), (4, 8), (8, 8)].map(point).concat();
        folder.write(name, &format!("# format: isochron-surface 1\n{points}"))
    };
    let (slow, fast) = (surface("slow", 10.0), surface("fast", 30.0));
    let files = [slow.as_str(), &slow, &fast, &fast];
    let answer = answer(&command, &files, "--rows 8 --cols 8 --method fpm-kl");
    let area = |rect: &Value| rect["rows"].as_u64().unwrap() * rect["cols"].as_u64().unwrap();
    let rects = answer["rects"].as_array().expect("rectangles");
    assert_eq!(rects.iter().map(area).collect::<Vec<_>>(), [8, 8, 24, 24]);
    assert_eq!(answer["converged"], true);
    let words = ["layout", "--method", "fpm-kl", "--models", &slow, &fast];
    let text = isochron(&words).success();
    assert!(
        text.contains("time s") && text.contains("iterations"),
        "{text}"
    );

    let kl = "layout --method fpm-kl --models";
    let points = model("cliff-60k.points");
    refused(kl, &[&points], &[&points, "line 1: format"]);
    let bad = folder.write("bad", "# format: isochron-surface 1\n4 4 1\n4 0 1\n");
    refused(kl, &[&bad], &[&bad, "line 3: point m = 4, n = 0"]);
    let headless = folder.write("headless", "4 4 1\n");
    refused(kl, &[&headless], &[&headless, "line 1: no line \"# format"]);
    let empty = folder.write("empty", "");
    refused(kl, &[&empty], &[&empty, "holds no points"]);
    refused(
        &kl.replace("--models", "--fit cpm --models"),
        &[&slow],
        &["--fit"],
    );
}

#[test]
fn what_cannot_be_arranged_is_refused_by_flag() {
    let cases = [
        ("layout", "AREA"),
        ("layout nan 1", "area NaN"),
        ("layout 0 0", "every area is 0"),
        ("layout inf", "area inf"),
        ("layout 1 --method spiral", "--method"),
        ("layout 1 --method fpm-br", "--method: fpm-br"),
        ("layout 1 --method fpm-kl", "--method: fpm-br and fpm-kl"),
        ("layout 1 --fit cpm", "--models"),
        ("layout 1 --models file", "--models"),
        (
            "layout 1 --rows 18446744073709551615 --cols 3",
            "18446744073709551615",
        ),
    ];
    for (line, message) in cases {
        refused(line, &[], &[message]);
    }
}

#[test]
fn models_are_told_at_sizes_and_outliers_are_flagged() {
    let folder = Folder::new();
    let dip = folder.write("dip.points", "100 1\n200 4 3 0.1\n300 2.5\n400 4\n");
    let answer = |line: &str| answer(&["model"], &[&dip], line)["models"][0].clone();
    let all = answer("");
    assert_eq!(all["file"], dip);
    assert_eq!(
        all["points"][1],
        json("{\"d\":200,\"t_s\":4.0,\"reps\":3,\"ci_s\":0.1,\"speed\":50.0}")
    );
    assert_eq!(all["flags"][0]["d"], 200);
    assert_eq!(all["flags"][0]["reason"], "too-slow");
    let fits = all["fits"].as_array().expect("fits");
    assert_eq!(fits.len(), 5);
    let speed = |fit: &str| {
        let found = fits.iter().find(|found| found["fit"] == fit).expect(fit);
        assert_eq!(found["at"].as_array().map(Vec::len), Some(4));
        assert_eq!(found["at"][1]["d"], 200);
        found["at"][1]["speed"].as_f64().expect("a speed")
    };
    assert_eq!(
        (speed("raw-piecewise"), speed("piecewise-speed")),
        (50.0, 110.0)
    );
    let two = answer("--at 800,150 --fit cpm raw-piecewise");
    assert_eq!(two["fits"].as_array().map(Vec::len), Some(2));
    let last = &two["fits"][1]["at"];
    assert_eq!(
        (&last[0]["d"], &last[0]["speed"]),
        (&json("150"), &json("75.0"))
    );
    assert_eq!(
        (&last[1]["d"], &last[1]["time_s"]),
        (&json("800"), &json("8.0"))
    );
    let text = isochron(&["model", &dip, &dip]).success();
    assert!(
        text.matches("too slow").count() == 2 && text.contains("d = 200:"),
        "{text}"
    );
    assert!(
        text.contains("raw-piecewise") && !text.contains("o measured"),
        "{text}"
    );
}

#[test]
fn models_are_plotted() {
    let folder = Folder::new();
    let (paging, steady) = (model("cliff-paging.points"), model("cliff-60k.points"));
    let text = isochron(&["model", &paging, "--plot", "--time"]).success();
    assert_eq!(text.matches("o measured").count(), 2, "{text}");
    let svg = folder.path("plot.svg");
    let text = isochron(&["model", &paging, &steady, "--svg", &svg, "--time", "--json"]).success();
    assert_eq!(json(&text)["models"].as_array().map(Vec::len), Some(2));
    let drawn = std::fs::read_to_string(&svg).expect("a plot");
    assert!(drawn.starts_with("<svg ") && drawn.ends_with("</svg>\n"));
    assert_eq!(drawn.matches("<polyline").count(), 2 * 2 * 5);
    assert!(!drawn.contains("NaN"));
    let files = std::fs::read_dir(folder.0.path()).expect("a folder");
    assert_eq!(files.count(), 1, "nothing else is left behind");

    let nowhere = folder.path("nowhere/plot.svg");
    refused("model --svg", &[&nowhere, &paging], &[&nowhere]);
    for (line, message) in [
        ("model", "FILE"),
        ("model --time", "--time: goes with"),
        ("model --plot --json", "--json"),
        ("model --fit spline --", "unknown model"),
        ("model --at 0 --", "--at"),
        ("model --at x --", "--at"),
    ] {
        let files = if line == "model" {
            &[][..]
        } else {
            &[paging.as_str()]
        };
        refused(line, files, &[message]);
    }
}

#[test]
fn topology_shows_the_cores() {
    let summary = json(&isochron(&["topology", "--json"]).success());
    assert!(
        summary["cores"]
            .as_array()
            .is_some_and(|cores| !cores.is_empty()),
        "{summary}"
    );
    isochron(&["topology"]).success();
}

/// The keys that scripts depend on.
const KEYS: [&str; 13] = [
    "schema",
    "m",
    "n",
    "k",
    "block",
    "strategy",
    "wall_s",
    "balance_s",
    "ideal_s",
    "gflops",
    "imbalance",
    "verified",
    "nodes",
];

#[test]
fn the_report_has_its_keys_in_order() {
    let platform = cluster_configs().join("emulated-4.toml");
    let platform = platform.to_str().expect("a name");
    for mpi in libraries() {
        let arguments = [
            "mxm",
            "--m",
            "300",
            "--n",
            "200",
            "--k",
            "250",
            "--block",
            "32",
            "--platform",
            platform,
            "--json",
        ];
        let text = mpi.isochron(4, &arguments).success();
        let report = json(&text);
        let places: Vec<_> = KEYS
            .iter()
            .map(|key| text.find(&format!("\n  \"{key}\":")).expect(key))
            .collect();
        assert!(
            places.is_sorted(),
            "the fixed keys come first and in order: {text}"
        );
        assert_eq!(report["schema"], 1);
        assert_eq!(report["verified"], true);
        let nodes = report["nodes"].as_array().expect("nodes");
        assert_eq!(nodes.len(), 4);
        assert_eq!(nodes[3]["devices"].as_array().map(Vec::len), Some(2));
        let area: u64 = nodes
            .iter()
            .map(|node| node["rows"].as_u64().expect("rows") * node["cols"].as_u64().expect("cols"))
            .sum();
        assert_eq!(area, 300 * 200);
        assert_eq!(
            nodes[0]["devices"][0]["paced"], "slowdown 2",
            "{}",
            nodes[0]
        );
    }
}

#[test]
fn one_process_is_one_node() {
    let report =
        json(&isochron(&["mxm", "--size", "200", "--verify", "exact", "--json"]).success());
    assert_eq!(
        (
            &report["verified"],
            report["nodes"].as_array().map(Vec::len)
        ),
        (&Value::Bool(true), Some(1))
    );
    let laptop = cluster_configs().join("laptop.toml");
    isochron(&[
        "mxm",
        "--size",
        "100",
        "--platform",
        laptop.to_str().expect("a name"),
    ])
    .success();
}

#[test]
fn a_program_of_another_mpi_library_is_told_so() {
    let [openmpi, mpich] = libraries();
    let stderr = run(
        mpich.command(2, &openmpi.isochron, &["mxm", "--size", "10"]),
        HANGS,
    )
    .failure(2);
    assert!(stderr.contains("linked with"), "{stderr}");
}

//! `isochron partition`.

use serde_json::Value;

use super::{Folder, answer, check_told, json, points, read_json, refused, run_line, total};

#[test]
fn partition_follows_the_cliff_where_a_constant_cannot() {
    let (paging, steady) = (points("cliff-paging.points"), points("cliff-60k.points"));
    let [gpa_s, cpm_s] = ["gpa", "cpm"].map(|algorithm| {
        let line = format!("--units 9000 --algorithm {algorithm}");
        let found = answer(&["partition", "--models"], &[&paging, &steady], &line);
        found["max_time_s"].as_f64().expect("a number")
    });
    assert!(gpa_s < 0.8 * cpm_s);
}

fn partition(algorithm: &str, files: &[&str]) -> (Value, f64) {
    let line = format!("--units 3000 --algorithm {algorithm}");
    let answer = answer(&["partition", "--models"], files, &line);
    assert_eq!(answer["algorithm"], algorithm.split(' ').next().unwrap());
    assert_eq!(total(&answer["units"]), 3000, "{answer}");
    let max_time_s = answer["max_time_s"].as_f64().expect("a number");
    (answer, (max_time_s * 1e5).round())
}

#[test]
fn every_algorithm_partitions() {
    let (fast, slow) = (points("cliff-60k.points"), points("cliff-30k.points"));
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
    for fit in ["cpm", "piecewise-speed", "piecewise-time", "akima", "raw-piecewise"] {
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
    let line =
        format!("partition --units 6000 --algorithm hipopta --nodes 2 --models {fast} {slow}");
    let text = run_line(&line).success();
    assert!(text.contains("4 of 4 devices get units"), "{text}");
    let answer = read_json(&line);
    assert_eq!(answer["units"], json("[2000, 1000, 2000, 1000]"));
    assert_eq!(answer["nodes"][1]["units"], 3000);
    assert_eq!(answer["nodes"][1]["devices"]["units"], json("[2000, 1000]"));
}

#[test]
fn partition_keeps_to_limits_and_estimates() {
    let (fast, slow) = (points("cliff-60k.points"), points("cliff-30k.points"));
    let command = ["partition", "--algorithm", "hpopta", "--models"];
    for (limits, units) in [
        ("--caps 1000,none", "[1000, 2000]"),
        ("--caps none,1000 --forbid 0:1,1:64", "[2000, 1000]"),
        ("--forbid 0:2000", "[1500, 1500]"),
        ("--forbid 2000", "[1500, 1500]"),
        ("--caps 1500", "[1500, 1500]"),
        ("--memory 8:100:12107", "[1500, 1500]"),
        ("--memory 0:8:0:8000", "[1000, 2000]"),
    ] {
        let found = answer(&command, &[&fast, &slow], &format!("--units 3000 {limits}"));
        assert_eq!(found["units"], json(units), "{limits}");
    }

    let folder = Folder::new();
    let noisy = folder.write("noisy.points", "32 1.5 3 0\n64 1 3 2\n");
    let steady = folder.write("steady.points", "32 1.5 3 0\n64 4 3 0\n");
    let [mean, upper] = ["mean", "upper"].map(|estimate| {
        let line = format!("--units 64 --estimate {estimate}");
        answer(&command, &[&noisy, &steady], &line)
    });
    assert_eq!((&mean["units"], &mean["active"]), (&json("[64, 0]"), &json("1")));
    assert_eq!((&upper["units"], &upper["granule"]), (&json("[32, 32]"), &json("32")));
}

#[test]
fn few_units_leave_devices_idle() {
    let (fast, slow) = (points("cliff-60k.points"), points("cliff-30k.points"));
    for algorithm in ["even", "cpm", "gpa", "npa", "hpopta", "hpopta-search", "hipopta --nodes 1"] {
        for (units, divided) in [(0, "[0, 0]"), (1, "[1, 0]")] {
            let line = format!("--units {units} --algorithm {algorithm}");
            let answer = answer(&["partition", "--models"], &[&fast, &slow], &line);
            assert_eq!(answer["units"], json(divided), "{answer}");
            assert_eq!(answer["active"], units, "{answer}");
        }
    }
}

#[test]
fn shares_may_be_real_numbers() {
    let (fast, slow) = (points("cliff-60k.points"), points("cliff-30k.points"));
    let line = "--units 1000 --algorithm continuous --fit cpm";
    let answer = answer(&["partition", "--models"], &[&fast, &slow], line);
    let shares: Vec<f64> = serde_json::from_value(answer["shares"].clone()).expect("numbers");
    assert!((shares[0] - 2000.0 / 3.0).abs() < 1e-3 && answer["units"].is_null());
    assert!((shares.iter().sum::<f64>() - 1000.0).abs() < 1e-9);
    let text = run_line(&format!("partition {line} --models {fast} {slow}")).success();
    assert!(text.contains("  666.6") && text.contains("2 of 2 devices get units"), "{text}");
}

#[test]
fn npa_says_whether_it_had_to_be_helped() {
    let (fast, slow) = (points("cliff-60k.points"), points("cliff-30k.points"));
    for guess in ["even", "proportional"] {
        let line = format!("--units 3000 --algorithm npa --fit cpm --guess {guess}");
        let answer = answer(&["partition", "--models"], &[&fast, &slow], &line);
        assert_eq!(answer["shares_of"], "numerical", "{answer}");
        assert!(answer["residual"].as_f64().expect("a number") <= 1e-12);
    }
    // A spline that swings, and a solution among its swings.
    let folder = Folder::new();
    let valley = folder.write("valley", "1 0.01\n10 0.011\n11 5\n60 5.01\n61 90\n100 90.1\n");
    let steady = folder.write("steady", "1 1\n");
    let line = "--units 15 --algorithm npa --fit akima";
    let files = [valley.as_str(), &steady];
    let answer = answer(&["partition", "--models"], &files, line);
    assert_eq!(
        (&answer["converged"], &answer["shares_of"]),
        (&json("false"), &json("\"geometrical\"")),
        "{answer}"
    );
    let text = run_line(&format!("partition {line} --models {valley} {steady}")).success();
    assert!(text.contains("not converged; divided by the geometric algorithm"), "{text}");
}

#[test]
fn times_that_fall_are_noted_with_the_fit() {
    let folder = Folder::new();
    let falling = folder.write("falling", "1 2\n10 20\n20 3\n");
    let files = [falling.as_str(), &falling];
    for (line, noted) in [
        ("--units 25 --algorithm npa --fit akima", true),
        ("--units 25 --algorithm gpa --fit raw-piecewise", true),
        ("--units 25 --algorithm gpa", false),
        ("--units 25 --algorithm cpm --fit akima", false),
    ] {
        let found = answer(&["partition", "--models"], &files, line);
        assert_eq!(found["falling"] == json("[0, 1]"), noted, "{found}");
        let text = run_line(&format!("partition {line} --models {falling} {falling}")).success();
        let note = line.rsplit_once("--fit ").map_or("fall with", |(_, fit)| fit);
        let note = format!("fall with the size by --fit {note}");
        assert_eq!(text.contains(&note), noted, "{text}");
    }
}

#[test]
fn what_cannot_be_partitioned_is_refused_by_flag() {
    let (fast, slow) = (points("cliff-60k.points"), points("cliff-30k.points"));
    let cases = [
        ("--units", "--units"),
        ("--units -1", "--units"),
        ("--units many", "--units"),
        ("--units 9 --algorithm best", "--algorithm"),
        ("--units 9 --fit spline", "unknown model \"spline\""),
        ("--units 9 --algorithm hpopta --estimate median", "--estimate"),
        ("--units 9 --algorithm hpopta --fit akima", "--fit: goes with --algorithm "),
        ("--units 9 --algorithm hpopta --granule 0", "--granule"),
        ("--units 9 --granule 1", "--granule: goes with --algorithm "),
        ("--units 9 --estimate upper", "--estimate: goes with --algorithm "),
        ("--units 9 --caps 3", "--caps: goes with --algorithm hpopta, hpopta-search, popta or"),
        ("--units 9 --forbid 3", "--forbid: goes with --algorithm "),
        ("--units 9 --nodes 2", "--nodes: goes with --algorithm "),
        ("--units 9 --algorithm hpopta --devices 2", "--devices: goes with --algorithm "),
        ("--units 9 --algorithm hpopta --work-limit 2", "--work-limit: goes with --algorithm "),
        ("--units 9 --algorithm hipopta", "--nodes: missing"),
        ("--units 9 --algorithm hipopta --nodes 0", "--nodes"),
        ("--units 9 --algorithm popta", "cliff-30k.points: differs"),
        ("--units 9 --algorithm popta --devices 2", "--devices: the number"),
        ("--units 9 --algorithm hpopta --caps some", "--caps"),
        ("--units 9 --algorithm hpopta --caps 1,2,3", "--caps: 3 caps for 2 devices"),
        ("--units 9 --algorithm hpopta --forbid 2:1", "--forbid: device 2: there are 2"),
        ("--units 9 --algorithm hpopta --memory 2:1:1:1", "--memory: device 2: there are 2"),
        ("--units 9 --algorithm hpopta --memory 1:1", "--memory"),
        ("--units 9 --memory 1:1:1", "--memory: goes with --algorithm "),
        ("--units 9 --guess even", "--guess: goes with --algorithm "),
        ("--units 9 --algorithm npa --guess best", "expected one of even, proportional"),
        ("--units 9 --algorithm hpopta --forbid 0", "--forbid"),
        ("--units 500 --algorithm hpopta --caps 64", "--caps: 500 units"),
        ("--units 500 --algorithm hpopta --memory 8:0:600 --forbid 9", "--forbid, --memory: "),
        ("--units 60 --algorithm hipopta --nodes 4000000000", "--nodes: "),
        ("--units 18432 --algorithm hpopta --forbid 0:9216", "--forbid: 18432 units"),
        ("--units 3 --algorithm hpopta", "--units: 3 units are no sum"),
        ("--units 99999 --algorithm hpopta", "--units: 99999 units"),
        ("--units 500 --algorithm hpopta --granule 64", "--granule: point d = 1"),
    ];
    for (line, message) in cases {
        refused(&format!("partition {line} --models"), &[&fast, &slow], &[message]);
    }
}

#[test]
fn what_is_too_much_is_refused_by_flag() {
    let (fast, slow) = (points("cliff-60k.points"), points("cliff-30k.points"));
    let line = "partition --units 2 --algorithm popta --caps 1,2 --models";
    refused(line, &[&fast, &fast], &["--caps: device 1 differs"]);
    let line = "partition --units 60 --algorithm popta --devices 4000000000 --models";
    let reason = "4000000000 identical devices or nodes";
    refused(line, &[&fast], &["--devices: ", "bytes", reason]);
    let folder = Folder::new();
    let far = folder.write("far", "18446744073709551614 1\n18446744073709551615 1\n");
    refused(
        "partition --units 18446744073709551615 --algorithm hipopta --nodes 2 --models",
        &[&far],
        &["--granule: ", "measure at multiples of one size"],
    );
    // Half of 2500 is no size, and the search ends before it finds any division.
    let line = "partition --units 2500 --algorithm hpopta-search --work-limit 1 --models";
    let told = run_line(&format!("{line} {fast} {slow}")).failure(1);
    check_told(&told, &["--work-limit: ", "after 1 steps", "use --algorithm hpopta"], line);
    let line = "--units 3000 --algorithm hpopta-search --work-limit 1";
    let even = answer(&["partition", "--models"], &[&fast, &slow], line);
    assert_eq!((&even["units"], &even["converged"]), (&json("[1500, 1500]"), &json("false")));
}

#[test]
fn broken_points_are_refused_by_file_and_line() {
    let folder = Folder::new();
    let missing = folder.path("missing");
    for (name, text, message) in [
        ("empty", "", "holds no points"),
        ("unsorted", "1 1\n9 1\n8 1\n", "line 3: d = 8 after d = 9"),
        ("nan", "1 1\n2 nan\n", "line 2: point d = 2, t = NaN s"),
        ("surface", "# format: isochron-surface 9\n1 1 1\n", "line 1: format"),
    ] {
        let file = folder.write(name, text);
        for line in ["partition --units 9 --models", "layout --models", "models show"] {
            refused(line, &[&file], &[&file, message]);
            refused(line, &[&missing], &[&missing]);
        }
    }
    // One point is a constant speed.
    let single = folder.write("single", "100 2\n");
    let answer = answer(&["partition", "--models"], &[&single], "--units 9");
    assert_eq!((&answer["units"], &answer["max_time_s"]), (&json("[9]"), &json("0.18")));
}

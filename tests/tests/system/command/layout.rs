//! `isochron layout`.

use serde_json::Value;

use super::{Folder, answer, points, refused, run_line};

/// Returns the blocks of each rectangle.
fn areas(answer: &Value) -> Vec<u64> {
    answer["rects"]
        .as_array()
        .expect("rectangles")
        .iter()
        .map(|rect| rect["rows"].as_u64().expect("rows") * rect["cols"].as_u64().expect("cols"))
        .collect()
}

/// Writes a surface file of a constant speed; returns its path.
fn write_surface(folder: &Folder, name: &str, speed: f64) -> String {
    let points = [(4, 4), (8, 4), (4, 8), (8, 8)]
        .map(|(m, n)| format!("{m} {n} {:?}\n", f64::from(m * n) / speed));
    let text = format!("# format: isochron-surface 1\n{}", points.concat());
    folder.write(name, &text)
}

#[test]
fn every_method_tiles_and_draws() {
    for method in ["kl", "br", "cartesian", "cartesian-sums", "recursive"] {
        let answer = answer(&["layout"], &["4", "2", "1", "1"], &format!("--method {method}"));
        let found = areas(&answer);
        assert_eq!((found.len(), found.iter().sum()), (4, 64 * 64_u64));
        assert_eq!(answer["method"], method);
        assert!(answer["half_perimeters"].is_u64(), "{answer}");
        let text = run_line(&format!("layout 4 2 1 1 --method {method}")).success();
        assert!(text.contains('┌') && text.contains("sum of half-perimeters"), "{text}");
    }
}

#[test]
fn layout_goes_by_models() {
    let (fast, slow) = (points("cliff-60k.points"), points("cliff-30k.points"));
    let command = ["layout", "--models"];
    for method in ["", "--method fpm-br", "--method kl"] {
        let line = format!("--rows 30 --cols 30 {method}");
        let answer = answer(&command, &[&fast, &slow], &line);
        assert_eq!(areas(&answer), [600, 300]);
        let max_time_s = answer["max_time_s"].as_f64().expect("a number");
        assert!((max_time_s - 0.01).abs() < 1e-8, "{answer}");
    }
    let folder = Folder::new();
    let slow = write_surface(&folder, "slow", 10.0);
    let fast = write_surface(&folder, "fast", 30.0);
    let files = [slow.as_str(), &slow, &fast, &fast];
    let answer = answer(&command, &files, "--rows 8 --cols 8 --method fpm-kl");
    assert_eq!(areas(&answer), [8, 8, 24, 24]);
    assert_eq!(answer["converged"], true);
    let text = run_line(&format!("layout --method fpm-kl --models {slow} {fast}")).success();
    assert!(text.contains("time s") && text.contains("iterations"), "{text}");

    let kl = "layout --method fpm-kl --models";
    let points = points("cliff-60k.points");
    refused(kl, &[&points], &[&points, "line 1: format"]);
    refused("layout --method fpm-kl --dividing npa --models", &[&points], &["--dividing"]);
    for (name, text, part) in [
        ("bad", "# format: isochron-surface 1\n4 4 1\n4 0 1\n", "line 3: point m = 4, n = 0"),
        ("headless", "4 4 1\n", "line 1: no line \"# format"),
        ("empty", "", "holds no points"),
    ] {
        let file = folder.write(name, text);
        refused(kl, &[&file], &[&file, part]);
    }
    refused(&kl.replace("--models", "--fit cpm --models"), &[&slow], &["--fit"]);
}

#[test]
fn the_lower_bound_is_one_after_rounding_too() {
    let areas = ["1"; 9];
    for line in ["--rows 1 --cols 2", "--rows 3 --cols 3", "--rows 0", "--rows 5 --cols 7"] {
        let answer = answer(&["layout"], &areas, line);
        let sum = answer["half_perimeters"].as_f64();
        let bound = answer["lower_bound"].as_f64();
        assert!(sum >= bound && bound >= Some(0.0), "{answer}");
        assert!(!answer.to_string().contains("-0.0"), "{answer}");
    }
}

#[test]
fn columns_may_be_given() {
    let kl = answer(
        &["layout"],
        &["3", "1", "1", "3"],
        "--method kl --columns 1,2/0,3 --rows 8 --cols 8",
    );
    assert_eq!(areas(&kl), [24, 8, 8, 24]);
    assert_eq!([&kl["rects"][1]["col"], &kl["rects"][0]["col"]], [0, 2]);

    // Rows of speeds 9, 1 and 2, 3: heights 10 : 5 by their sums, 11 : 8 if the slowest two are to be alike.
    for (method, expected) in [
        ("cartesian-sums", [190 * 11, 95 * 11, 190 * 4, 95 * 4]),
        ("cartesian", [165 * 11, 120 * 11, 165 * 4, 120 * 4]),
    ] {
        let line = format!("--method {method} --columns 0,1/2,3 --rows 285 --cols 15");
        let grid = answer(&["layout"], &["9", "2", "1", "3"], &line);
        assert_eq!(areas(&grid), expected);
    }

    let (fast, slow) = (points("cliff-60k.points"), points("cliff-30k.points"));
    let line = "--rows 30 --cols 30 --method cartesian --columns 1/0";
    let grid = answer(&["layout", "--models"], &[&fast, &slow], line);
    assert_eq!(areas(&grid), [600, 300]);
    for dividing in ["gpa", "npa"] {
        let line = format!("--rows 30 --cols 30 --method kl --columns 1/0 --dividing {dividing}");
        let answer = answer(&["layout", "--models"], &[&fast, &slow], &line);
        assert_eq!(answer["dividing"], dividing);
        assert_eq!(areas(&answer), [600, 300], "{answer}");
        assert_eq!(answer["rects"][1]["col"], 0);
    }

    let folder = Folder::new();
    let slow = write_surface(&folder, "slow", 10.0);
    let fast = write_surface(&folder, "fast", 30.0);
    let files = [slow.as_str(), &fast, &slow, &fast];
    let line = "--rows 8 --cols 8 --method fpm-kl --columns 1,3/0,2";
    let found = answer(&["layout", "--models"], &files, line);
    assert_eq!(areas(&found), [8, 24, 8, 24]);
    assert_eq!([&found["rects"][1]["col"], &found["rects"][0]["col"]], [0, 6]);
    refused(
        "layout --method fpm-kl --columns 0/4 --models",
        &files,
        &["--columns: the arrangement names node 4 of 4"],
    );
}

#[test]
fn what_cannot_be_arranged_is_refused_by_flag() {
    let cases = [
        ("layout", "AREA"),
        ("layout 1 a", "'a' for '[AREA]...': expected a number"),
        ("layout nan 1", "AREA: node 0: area NaN"),
        ("layout 0 0", "AREA: 64 x 64 blocks to lay out and every area is 0"),
        ("layout inf", "AREA: node 0: area inf"),
        ("layout 1 --method spiral", "recursive, fpm-kl, fpm-br"),
        ("layout 1 --columns 0", "--columns: goes with --method kl"),
        ("layout 1 1 --method kl --columns 0", "--columns: node 1"),
        ("layout 1 1 --method kl --columns 0/2", "--columns: the arrangement names node 2"),
        ("layout 1 1 --method kl --columns 0/1,1", "--columns: the arrangement names node 1"),
        ("layout 1 1 --method kl --columns 0;1", "--columns"),
        ("layout 1 1 --method recursive --columns 0/1", "--columns: goes with"),
        (
            "layout 1 1 1 --method cartesian --columns 0,1/2",
            "--columns: column 1 of the grid has 1 nodes",
        ),
        ("layout 1 0 --method cartesian-sums --columns 0,1", "--columns: node 1 has speed 0"),
        ("layout 1 --dividing npa", "--dividing: goes with --models"),
        ("layout --models file --dividing hpopta", "measured times alone"),
        ("layout 1 --models file --dividing kl", "unknown partitioner"),
        ("layout 1 --method fpm-br", "--method: fpm-br"),
        ("layout 1 --method fpm-kl", "--method: fpm-br and fpm-kl"),
        ("layout 1 --fit cpm", "--models"),
        ("layout 1 --models file", "--models"),
        ("layout 1 --rows 18446744073709551615 --cols 3", "18446744073709551615"),
        ("layout 4 2 --lines 2", "from 3 to"),
    ];
    for (line, message) in cases {
        refused(line, &[], &[message]);
    }
}

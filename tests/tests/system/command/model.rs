//! `isochron models show` of files.

use super::{Folder, answer, json, points, read_json, refused, run_limited, run_line};

#[test]
fn models_are_told_at_sizes_and_outliers_are_flagged() {
    let folder = Folder::new();
    let dip = folder.write("dip.points", "100 1\n200 4 3 0.1\n300 2.5\n400 4\n");
    let files = [dip.as_str()];
    let [all, two, once] = ["", "--at 800,150 --fit cpm raw-piecewise", "--fit cpm,akima,cpm"]
        .map(|line| answer(&["models", "show"], &files, line)["models"][0].clone());
    assert_eq!(all["file"], dip);
    assert_eq!(
        all["points"][1],
        json("{\"d\":200,\"t_s\":4.0,\"reps\":3,\"ci_s\":0.1,\"speed\":50.0}")
    );
    assert_eq!(all["flags"][0]["d"], 200);
    assert_eq!(all["flags"][0]["reason"], "too-slow");
    let fits = all["fits"].as_array().expect("fits");
    assert_eq!(fits.len(), 5);
    for (fit, speed) in [("raw-piecewise", 50.0), ("piecewise-speed", 110.0)] {
        let found = fits.iter().find(|found| found["fit"] == fit).expect(fit);
        assert_eq!(found["at"].as_array().map(Vec::len), Some(4));
        assert_eq!(found["at"][1]["d"], 200);
        assert_eq!(found["at"][1]["speed"], speed);
    }
    assert_eq!(two["fits"].as_array().map(Vec::len), Some(2));
    let last = &two["fits"][1]["at"];
    assert_eq!((&last[0]["d"], &last[0]["speed"]), (&json("150"), &json("75.0")));
    assert_eq!((&last[1]["d"], &last[1]["time_s"]), (&json("800"), &json("8.0")));
    assert_eq!(once["fits"].as_array().map(Vec::len), Some(2));
    let text = run_line(&format!("models show {dip} {dip}")).success();
    assert!(text.matches("too slow").count() == 2 && text.contains("d = 200:"), "{text}");
    assert!(text.contains("raw-piecewise") && !text.contains("o measured"), "{text}");
}

#[test]
fn surfaces_are_told_in_sections() {
    let folder = Folder::new();
    let head = "# device: gpu\n# format: isochron-surface 1\n";
    let text = format!("{head}10 1 2.5 3 0.5\n10 3 3.75\n20 1 1.25\n20 3 1.875\n");
    let surface = folder.write("grid.surface", &text);
    let steady = points("cliff-60k.points");
    let both = answer(&["models", "show"], &[&surface, &steady], "");
    let told = &both["models"][0];
    assert_eq!((&told["file"], &told["grid"]), (&json(&format!("{surface:?}")), &json("true")));
    assert_eq!(
        told["points"][0],
        json("{\"m\":10,\"n\":1,\"t_s\":2.5,\"reps\":3,\"ci_s\":0.5,\"speed\":4.0}")
    );
    assert_eq!(told["sections"].as_array().map(Vec::len), Some(2));
    assert!(both["models"][1]["fits"].is_array());
    let middle = answer(&["models", "show"], &[&surface], "--width 2 --at 15");
    assert_eq!(
        middle["models"][0]["sections"],
        json("[{\"n\":2,\"at\":[{\"m\":15,\"speed\":15.0,\"time_s\":2.0}]}]")
    );
    let svg = folder.path("plot.svg");
    let text = run_line(&format!("models show {surface} --plot --time --svg {svg}")).success();
    assert_eq!(text.matches("* n = 1   + n = 3").count(), 2, "{text}");
    assert!(text.contains("height, blocks") && !text.contains("not every height"));
    let drawn = std::fs::read_to_string(&svg).expect("a plot");
    // A line for each curve, one before the first measured height and one behind the last, and one in the legend.
    assert_eq!(drawn.matches("<polyline").count(), 2 * 2 * 4);
    assert_eq!(drawn.matches("<circle").count(), 2 * (4 + 1));
    let scattered = folder.write("scattered", &format!("{head}10 1 2.5\n20 3 3.75\n"));
    let text = run_line(&format!("models show {scattered}")).success();
    assert!(text.contains("not every height was measured"), "{text}");

    refused("models show --fit cpm --", &[&surface], &[&surface, "--fit: does not go"]);
    refused("models show --width 2 --", &[&steady], &[&steady, "--width: goes with"]);
    refused("models show --width 0 --", &[&surface], &["--width"]);
}

#[test]
fn models_are_plotted() {
    let folder = Folder::new();
    let (paging, steady) = (points("cliff-paging.points"), points("cliff-60k.points"));
    let text = run_line(&format!("models show {paging} --plot --time")).success();
    assert_eq!(text.matches("o measured").count(), 2, "{text}");
    let svg = folder.path("plot.svg");
    let shown = read_json(&format!("models show {paging} {steady} --svg {svg} --time"));
    assert_eq!(shown["models"].as_array().map(Vec::len), Some(2));
    let drawn = std::fs::read_to_string(&svg).expect("a plot");
    assert!(drawn.starts_with("<svg ") && drawn.ends_with("</svg>\n"));
    // Both are in one plot of speed and one of time. Lines are dotted where nothing was measured.
    assert_eq!(drawn.matches("<polyline").count(), 2 * 2 * 4);
    assert_eq!(drawn.matches("stroke-dasharray=\"2 4\"").count(), 2 * 2 * 2);
    for (text, times) in [(">speed, units/s", 1), (">time, s<", 1), (">cliff-60k<", 2), ("NaN", 0)]
    {
        assert_eq!(drawn.matches(text).count(), times, "{text}");
    }
    let nowhere = folder.path("nowhere/plot.svg");
    refused("models show --svg", &[&nowhere, &paging], &[&nowhere]);
    for (line, message) in [
        ("models show", "FILE"),
        ("models show --time", "--time: goes with"),
        ("models show --plot --json", "--json"),
        ("models show --fit spline --", "unknown model"),
        ("models show --at 0 --", "--at"),
        ("models show --at x --", "--at"),
    ] {
        let files = if line == "models show" { &[][..] } else { &[paging.as_str()] };
        refused(line, files, &[message]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn long_points_files_take_little_memory() {
    let folder = Folder::new();
    let lines = (1..=400_000).map(|d| format!("{} {}e-6 3 1e-9\n", 16 * d, 16 * d));
    let file = folder.write("long.points", &lines.collect::<String>());
    // The program itself takes 26 to 32 MiB of address space, and 100 bytes a line are 38.
    for (mib, line) in
        [(62, "partition --units 1000 --models"), (74, "models show --json"), (80, "models show")]
    {
        run_limited(mib, &format!("{line} {file}")).success();
    }
}

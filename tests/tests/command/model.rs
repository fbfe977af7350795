//! `isochron model`.

use super::{Folder, answer, isochron, json, points, refused};

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
    let (paging, steady) = (points("cliff-paging.points"), points("cliff-60k.points"));
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

//! The campaign on the GPU, in small and on the emulated CUDA: that every part of it works, and what it does with results
//! that are of no GPU.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use isochron_hierarchy::model::ModelFile;
use isochron_tests::emulator::emulate;
use isochron_tests::launch::{HANGS, campaigns, run};
use serde_json::Value;

fn campaign(words: &[&dyn AsRef<OsStr>]) -> Command {
    let mut command = Command::new(campaigns());
    command.arg("gpu");
    for word in words {
        command.arg(word);
    }
    command
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[test]
fn the_campaign_is_whole_on_an_emulated_gpu_and_is_not_published() {
    let (folder, libraries) = (tempfile::tempdir(), tempfile::tempdir());
    let (folder, libraries) = (folder.expect("a folder"), libraries.expect("a folder"));
    let out = folder.path().join("results");
    let words: [&dyn AsRef<OsStr>; 5] = [&"--small", &"--rounds", &"1", &"--out", &out];
    let mut command = campaign(&words);
    emulate(&mut command, libraries.path());
    command.env("ISOCHRON_CUDA_EMULATOR_MEMORY", "16M");
    let said = run(command, HANGS).success();
    assert!(
        said.contains("they say nothing about speed, and are not published"),
        "{said}"
    );

    let results: Value = serde_json::from_str(&read(&out.join("gpu.json"))).expect("JSON");
    assert_eq!(results["emulated"], true);
    let [parts, summary] =
        ["parts", "summary"].map(|key| results[key].as_array().cloned().unwrap_or_default());
    for part in parts {
        assert_eq!(part["error"], Value::Null, "{part}");
    }
    let mut rows: BTreeMap<String, usize> = BTreeMap::new();
    for row in summary {
        *rows
            .entry(row["part"].as_str().unwrap_or_default().to_owned())
            .or_default() += 1;
    }
    let least = [
        ("link", 1),
        ("resident", 10),
        ("streamed", 1),
        ("out-of-core", 3),
        ("together", 2),
        ("ranks", 4),
        ("models", 3),
        ("step", 1),
    ];
    for (part, least) in least {
        assert!(
            rows.get(part).is_some_and(|&count| count >= least),
            "{part}: {rows:?}"
        );
    }
    assert!(
        results["out_of_core"]["cublasxt"]["block"].is_u64()
            && results["out_of_core"]["cublasxt, pinned"]["block"].is_u64(),
        "{}",
        results["out_of_core"]
    );
    let tables = read(&out.join("gpu.md"));
    assert!(tables.starts_with("**Emulated**"), "{tables}");
    for file in results["models"]["files"].as_array().expect("points files") {
        let name = file.as_str().expect("a name");
        let points = ModelFile::parse(&read(&out.join(name))).expect("a points file");
        assert!(
            points.points.len() >= 3 && points.headers.contains_key("library"),
            "{name}"
        );
    }
    for name in ["gpu.svg", "gpu-step.svg"] {
        let picture = read(&out.join(name));
        assert!(
            picture.ends_with("</svg>\n") && !picture.contains("NaN"),
            "{name}"
        );
    }

    let page = "<!-- bench gpu -->\n<!-- /bench gpu -->\n";
    let bench = folder.path().join("bench");
    std::fs::create_dir_all(bench.join("results")).expect("a folder");
    std::fs::write(bench.join("README.md"), page).expect("a file");
    let mut command = campaign(&[&"--from", &out]);
    command.current_dir(folder.path());
    let refused = run(command, HANGS).failure(1);
    assert!(
        refused.contains("of an emulated CUDA, and are not published"),
        "{refused}"
    );
    assert_eq!(read(&bench.join("README.md")), page);
    assert!(!bench.join("results/gpu.json").exists());
}

#[test]
fn without_a_gpu_the_campaign_says_what_was_found() {
    let libraries = tempfile::tempdir().expect("a folder");
    let mut command = campaign(&[&"--small"]);
    emulate(&mut command, libraries.path());
    command.env("ISOCHRON_CUDA_EMULATOR_DEVICES", "0");
    let stderr = run(command, HANGS).failure(1);
    assert!(
        stderr.contains("there is no GPU to measure: a CUDA driver"),
        "{stderr}"
    );
}

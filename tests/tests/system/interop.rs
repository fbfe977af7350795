//! ReFrame, JUBE and Ramble with the files of the documentation.
//!
//! `cargo xtask test --all` installs ReFrame and JUBE. Ramble has no package: its file is read by Python with the directives
//! that Ramble documents.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use isochron_tests::launch::{HANGS, is_whole, open_mpi, python, reframe, run};
use serde_json::Value;

use crate::command::{Folder, json};

/// Directives of Ramble, as its guide for developers of applications describes them.
const RAMBLE: &str = r#"
import json, re, sys, types
noted = {}
def directive(name):
    def note(first, *more, **named):
        noted.setdefault(name, []).append([first, *more, named])
    return note
kit = types.ModuleType("ramble.appkit")
kit.ExecutableApplication = object
for name in "tags executable workload workload_variable figure_of_merit success_criteria".split():
    setattr(kit, name, directive(name))
kit.__all__ = [name for name in vars(kit) if not name.startswith("__")]
sys.modules["ramble"] = types.ModuleType("ramble")
sys.modules["ramble.appkit"] = kit
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), {"__name__": "application"})
log = open(sys.argv[2]).read()
merits = {}
for name, named in noted["figure_of_merit"]:
    assert set(named) == {"log_file", "fom_regex", "group_name", "units"}, named
    merits[name] = re.search(named["fom_regex"], log).group(named["group_name"])
[[_, named]] = noted["success_criteria"]
assert named["mode"] == "string" and re.search(named["match"], log), named
[[_, command, named]] = noted["executable"]
assert named == {"use_mpi": True}
print(json.dumps({"merits": merits, "command": command}))
"#;

/// Returns a file of the documentation.
fn find_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/campaigns").join(name)
}

/// Makes a command in a folder, with `isochron` on its path.
fn make_command(program: &Path, folder: &Folder) -> Command {
    let mpi = open_mpi();
    let mut path = OsString::from(mpi.isochron.parent().expect("a folder"));
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut command = Command::new(program);
    command
        .current_dir(folder.path(""))
        .env("PATH", path)
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

#[test]
fn reframe_passes_its_test() {
    if !is_whole() {
        return;
    }
    let folder = Folder::new();
    let report = folder.path("report.json");
    let mut command = make_command(&reframe(), &folder);
    command.arg("-c").arg(find_file("isochron_reframe.py"));
    command.args(["-r", "--performance-report", "--prefix", &folder.path("")]);
    command.args(["--report-file", &report]);
    let printed = run(command, HANGS).success();
    assert!(printed.contains("PERFORMANCE REPORT"), "{printed}");
    let report = json(&std::fs::read_to_string(report).expect("a report"));
    let cases = report["runs"][0]["testcases"].as_array().expect("cases");
    assert_eq!(cases.len(), 2, "{report}");
    for case in cases {
        assert_eq!(case["result"], "pass", "{case}");
        for name in ["gflops", "wall"] {
            let values = case["perfvalues"].as_object().expect("values");
            let (_, value) = values
                .iter()
                .find(|(key, _)| key.ends_with(&format!(":{name}")))
                .unwrap_or_else(|| panic!("{case}"));
            assert!(value[0].as_f64().is_some_and(|value| value > 0.0), "{case}");
        }
    }
}

#[test]
fn jube_makes_its_table() {
    if !is_whole() {
        return;
    }
    let folder = Folder::new();
    let jube = Path::new("jube");
    let mut command = make_command(jube, &folder);
    let results = folder.path("jube");
    command.arg("run").arg(find_file("isochron.jube.xml"));
    command.args(["-o", &results]);
    run(command, HANGS).success();
    let mut command = make_command(jube, &folder);
    command.args(["result", &results, "-a"]);
    let printed = run(command, HANGS).success();
    let rows: Vec<Vec<&str>> = printed
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>())
        .filter(|row| row.len() == 4)
        .collect();
    let [_, first, second] = &rows[..] else {
        panic!("{printed}");
    };
    for (row, size) in [(first, "2048"), (second, "4096")] {
        assert_eq!((row[0], row[3]), (size, "true"), "{printed}");
        for value in &row[1..3] {
            assert!(value.parse::<f64>().is_ok_and(|value| value > 0.0), "{printed}");
        }
    }
}

#[test]
fn ramble_finds_its_figures() {
    let folder = Folder::new();
    let mpi = open_mpi();
    let log = mpi.isochron(1, &["mxm", "--size", "64", "--store", "none"]).success();
    let log = folder.write("run.out", &log);
    let mut command = Command::new(python());
    command.args(["-c", RAMBLE]).arg(find_file("ramble/application.py")).arg(log);
    let found: Value = json(&run(command, HANGS).success());
    assert_eq!(found["command"], "isochron mxm --size {size} --verify probe");
    for name in ["speed", "time"] {
        let value = found["merits"][name].as_str().expect("a figure");
        assert!(value.parse::<f64>().is_ok_and(|value| value > 0.0), "{found}");
    }
}

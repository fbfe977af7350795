//! The campaigns of a GPU, at small sizes and on the emulated CUDA.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use isochron_hierarchy::model::ModelFile;
use isochron_tests::emulator::emulate;
use isochron_tests::launch::{HANGS, bench_program, cluster_configs, open_mpi, run};
use serde_json::Value;

use crate::docs::write_program;

/// Numbers of the files, and those that take their place.
const SMALL: [(&str, &str); 14] = [
    ("128", "8"),
    ("512", "32"),
    ("576", "100"),
    ("2048", "24"),
    ("4096", "48"),
    ("8192", "96"),
    ("12288", "192"),
    ("16384", "192"),
    ("24576", "384"),
    ("268435456", "262144"),
    ("32768", "384"),
    ("3623878656", "800000"),
    ("6442450944", "800000"),
    // Rounds.
    ("3", "1"),
];

/// Replaces the numbers of a campaign file.
fn shrink(text: &str) -> String {
    let is_digit = |c: char| c.is_ascii_digit();
    let mut shrunk = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_digit) {
        let (before, from) = rest.split_at(start);
        let (number, after) = from.split_at(from.find(|c| !is_digit(c)).unwrap_or(from.len()));
        // Digits in a name or behind a point are no number.
        let is_number = !before.ends_with(|c: char| c.is_alphanumeric() || c == '.');
        let small = SMALL.iter().find(|(large, _)| is_number && *large == number);
        shrunk.extend([before, small.map_or(number, |(_, small)| small)]);
        rest = after;
    }
    shrunk + rest
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// A folder with small campaigns and the programs that they name.
struct SmallCampaigns {
    folder: tempfile::TempDir,
}

impl SmallCampaigns {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let small = Self { folder };
        for name in ["bench/campaigns", "bin", "cuda"] {
            fs::create_dir_all(small.path(name)).expect("a writable folder");
        }
        symlink(cluster_configs(), small.path("cluster-configs")).expect("a writable folder");
        let mpi = open_mpi();
        let script = format!("#!/bin/sh\nexec {} \"$@\"\n", mpi.mpirun().display());
        write_program(&small.path("bin/mpirun"), &script);
        small
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a program on an emulated GPU, with the programs of campaigns on its path; returns its output.
    fn run(&self, program: &Path, words: &[&dyn AsRef<OsStr>]) -> String {
        let mut command = Command::new(program);
        for word in words {
            command.arg(word);
        }
        let cuda = tempfile::tempdir_in(self.path("cuda")).expect("a writable folder");
        emulate(&mut command, cuda.path());
        let own = [self.path("bin"), program.parent().expect("a folder").to_owned()];
        let others = std::env::var_os("PATH").unwrap_or_default();
        let all = own.into_iter().chain(std::env::split_paths(&others));
        command
            .env("PATH", std::env::join_paths(all).expect("folders"))
            .env("ISOCHRON_CUDA_EMULATOR_MEMORY", "16M")
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        run(command, HANGS).success()
    }

    /// Measures a campaign and draws its figures. Returns its report.
    fn measure(&self, name: &str) -> Value {
        let campaign = Path::new("bench/campaigns").join(name).with_extension("toml");
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let file = self.folder.path().join(&campaign);
        fs::write(&file, shrink(&read(&checkout.join(&campaign)))).expect("a writable folder");
        let results = self.path(name);
        let mpi = open_mpi();
        self.run(&mpi.isochron, &[&"campaign", &"run", &file, &"--dir", &results]);
        self.run(&bench_program(), &[&"figures", &results]);
        let report = self.run(&mpi.isochron, &[&"campaign", &"report", &results, &"--json"]);
        serde_json::from_str(&report).expect("a report")
    }
}

/// Checks that all contenders have values, and all goals a figure.
fn check_whole(report: &Value) {
    for row in report["rows"].as_array().expect("rows") {
        assert!(row["value"]["median"].is_f64(), "{row}");
    }
    for goal in report["goals"].as_array().expect("goals") {
        assert!(goal["ratio"]["median"].is_f64(), "{goal}");
    }
}

#[test]
fn campaigns_of_a_gpu_are_whole_on_an_emulated_one() {
    let small = SmallCampaigns::new();
    for name in ["gpu-updates", "gpu-memory", "gpu-devices", "gpu-ranks"] {
        check_whole(&small.measure(name));
    }
    let picture = read(&small.path("gpu-updates/course.svg"));
    assert!(picture.contains("bound by"), "{picture}");
}

#[test]
fn the_link_is_measured_with_as_many_host_cores_as_there_are() {
    let report = SmallCampaigns::new().measure("gpu-link");
    let rows = report["rows"].as_array().expect("rows");
    let one = rows.iter().find(|row| row["parameters"]["cores"] == 1);
    let one = &one.expect("a row")["results"];
    for speed in ["pinned_up", "pinned_down", "pinned_both", "ordinary_up", "ordinary_down"] {
        let speed = &one[speed]["median"];
        assert!(speed.as_f64().is_some_and(|speed| speed > 0.0), "{one}");
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let eight = rows.iter().find(|row| row["parameters"]["cores"] == 8);
    let has_failed = eight.expect("a row")["failed"] != 0;
    assert_eq!(has_failed, cores < 8, "{report}");
}

#[test]
fn models_of_a_gpu_and_of_cores_become_points_files() {
    let small = SmallCampaigns::new();
    check_whole(&small.measure("gpu-models"));
    let files = fs::read_dir(small.path("gpu-models/models")).expect("a folder");
    let mut names = Vec::new();
    for file in files {
        let path = file.expect("a file").path();
        let points = ModelFile::parse(&read(&path)).expect("a points file");
        assert!(points.points.len() >= 3, "{}", path.display());
        names.push(path.file_name().expect("a name").to_string_lossy().into_owned());
    }
    names.sort();
    assert!(names.iter().any(|name| name.ends_with("-alone.points")), "{names:?}");
    assert!(names.iter().any(|name| name.ends_with("-together.points")), "{names:?}");
    let picture = read(&small.path("gpu-models/speeds.svg"));
    assert!(picture.contains("GFLOP/s") && !picture.contains("NaN"), "{picture}");
}

#[test]
fn without_a_gpu_a_contender_says_what_was_found() {
    let libraries = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(bench_program());
    command.args(["gpu", "copies", "65536"]);
    emulate(&mut command, libraries.path());
    command.env("ISOCHRON_CUDA_EMULATOR_DEVICES", "0");
    let stderr = run(command, HANGS).failure(1);
    assert!(stderr.contains("there is no GPU to measure: a CUDA driver"), "{stderr}");
}

#[test]
fn no_published_result_is_of_an_emulated_gpu() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/results");
    for folder in fs::read_dir(results).expect("a folder") {
        let documents = folder.expect("a file").path().join("documents");
        for file in fs::read_dir(documents).into_iter().flatten() {
            let file = file.expect("a file").path();
            assert!(!read(&file).contains("Emulated CUDA"), "{}", file.display());
        }
    }
}

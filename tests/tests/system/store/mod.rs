//! The model store: runs that begin with the times of earlier ones, and `isochron models`.

mod campaigns;
mod commands;
mod conditions;
mod faults;
mod given;
mod hosts;
mod kernels;
mod libraries;
mod namespaces;
mod runs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use isochron::plan::KnownFrom;
use isochron::report::Report;
use isochron::store::{Identity, StoreFolder, StoredRun};
use isochron_hierarchy::times::Series;
use isochron_tests::launch::{HANGS, Mpi, Outcome, libraries, native_libraries, open_mpi, run};

use crate::command::{Folder, write_platform};

/// Two nodes with three devices of unlike paces, each so slow that nothing else counts.
const SLOW: &str = "--m 64 --n 64 --k 256 --block 8 --panel 8 --json";

/// The same in two steps, of which the store keeps the times too.
const BRIEF: &str = "--m 64 --n 64 --k 16 --block 8 --panel 8 --json";

fn make_folder() -> Folder {
    let folder = Folder::new();
    write_platform(&folder);
    folder
}

fn command(mpi: &Mpi, folder: &Folder, options: &str) -> Command {
    let line = format!("mxm --platform {} {options}", folder.path("slow.toml"));
    let mut command = mpi.line_command(2, &line);
    use_store(&mut command, &folder.path("store"));
    command
}

/// Lets a command use the store at this path, with one BLAS: which library is the fastest may differ from run to
/// run, and with it the identity of the devices.
fn use_store(command: &mut Command, path: &str) {
    command.env("ISOCHRON_STORE", path).env("ISOCHRON_BLAS", "embedded");
}

/// Multiplies in the usual size with more options.
fn multiply(mpi: &Mpi, folder: &Folder, options: &str) -> Report {
    multiply_by(mpi, folder, &format!("{SLOW} {options}"))
}

fn multiply_by(mpi: &Mpi, folder: &Folder, options: &str) -> Report {
    read_report(run(command(mpi, folder, options), HANGS))
}

fn read_report(outcome: Outcome) -> Report {
    let report: Report = serde_json::from_str(&outcome.success()).expect("a report");
    assert_eq!(report.verified, Some(true));
    report
}

/// Returns what was known of every device.
fn list_known(report: &Report) -> Vec<KnownFrom> {
    report
        .nodes
        .iter()
        .flat_map(|node| &node.devices)
        .map(|device| device.known.expect("a run that learns"))
        .collect()
}

fn list_units(report: &Report) -> Vec<f64> {
    report.nodes.iter().flat_map(|node| &node.devices).map(|device| device.units).collect()
}

/// Checks that the first device has more than twice the units of each of the others, which are three times as slow.
fn check_division(report: &Report) {
    let units = list_units(report);
    let others = units[1..].iter();
    assert!(others.copied().all(|other| units[0] > 2.0 * other), "{units:?}");
}

fn count_looks(report: &Report) -> u32 {
    report.balance.as_ref().expect("a balance").iterations
}

/// Returns all notices of a report.
fn list_notices(report: &Report) -> Vec<&String> {
    report.nodes.iter().flat_map(|node| &node.notices).collect()
}

fn segments(folder: &Folder) -> Vec<PathBuf> {
    fs::read_dir(Path::new(&folder.path("store")).join("v4"))
        .into_iter()
        .flatten()
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "segment"))
        .collect()
}

fn read_runs(folder: &Folder) -> Vec<StoredRun> {
    StoreFolder::new(folder.path("store").into(), false)
        .find_all()
        .expect("a folder")
        .into_iter()
        .flat_map(|segment| segment.runs.expect("a whole segment"))
        .collect()
}

/// Changes all runs of the store, each with its key.
fn change_runs(folder: &Folder, change: impl FnMut(&mut StoredRun)) {
    let mut runs = read_runs(folder);
    fs::remove_dir_all(folder.path("store")).expect("removable");
    runs.iter_mut().for_each(change);
    StoreFolder::new(folder.path("store").into(), true).write("changed", &runs).expect("written");
}

/// Multiplies all times of a run.
fn scale_times(run: &mut StoredRun, factor: f64) {
    for time_s in run.samples.iter_mut().flat_map(|sample| &mut sample.seconds) {
        *time_s *= factor;
    }
}

/// Returns the number of notices that have this part.
fn count_notices(report: &Report, part: &str) -> usize {
    list_notices(report).into_iter().filter(|notice| notice.contains(part)).count()
}

/// Returns the number of times that a node was measured, over all nodes.
fn count_measurements(report: &Report) -> u64 {
    report.nodes.iter().map(|node| node.measured.measurements).sum()
}

fn models(folder: &Folder, store: &str, line: &str) -> Outcome {
    let mpi = open_mpi();
    let mut command = Command::new(&mpi.isochron);
    command.arg("models").args(line.split_whitespace());
    use_store(&mut command, &folder.path(store));
    run(command, HANGS)
}

//! Limits on the address space and on threads: a result or an error that says what to do, and never a wait without end.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use isochron_tests::launch::{Mpi, Outcome, is_whole, libraries, open_mpi, run};

use crate::command::Folder;

/// A job of two small ranks that takes longer hangs.
const HANGS: Duration = Duration::from_secs(60);

/// Least limit in MiB under which the program surely leaves both MPI libraries enough to begin.
const MPI_BEGINS: u64 = 200;

/// The limits in MiB that are tried: below MPI's need, at the least, where OpenBLAS would find no buffers, and above.
fn limits() -> Vec<u64> {
    if is_whole() {
        (1..=20).map(|step| 50 * step).chain([1024]).collect()
    } else {
        vec![100, 150, 300, 450]
    }
}

/// Runs a command on two ranks. The address space of the first is limited, or of both.
fn run_limited(mpi: &Mpi, mib: u64, all: bool, line: &str) -> Outcome {
    let program = mpi.isochron.to_str().expect("a name");
    let script = format!("ulimit -v {}; exec \"$0\" {line}", mib << 10);
    let limited = ["-c", &script, program];
    let mut command = mpi.command(1 + usize::from(all), Path::new("bash"), &limited);
    if !all {
        command.args([":", "-n", "1", program]).args(line.split(' '));
    }
    run(command, HANGS)
}

fn check(mpi: &Mpi, mib: u64, all: bool, line: &str) {
    let case = format!("{} under {mib} MiB, all ranks: {all}", mpi.name);
    let Outcome { status, stdout, stderr } = run_limited(mpi, mib, all, line);
    assert!(!stderr.contains("panicked"), "{case}: {stderr}");
    if mib >= MPI_BEGINS {
        assert!(matches!(status, Some(0..=2)), "{case}: {status:?} {stderr}");
        assert!(!stderr.contains("memory allocation of"), "{case}: {stderr}");
        let ends_well = status == Some(0) && stdout.contains("verified by");
        assert!(ends_well || stderr.contains("isochron: "), "{case}: {stderr}");
    } else {
        // Launchers that speak PMI end the job by a signal. Below 100 MiB the system's loader or MPI's start may fail; from there
        // on MPI begins if the program and its libraries leave enough.
        let is_refused = stderr.contains("MPI needs 80 MiB to begin");
        let is_told = mib > 100 && stderr.contains("isochron: ");
        let begins = mib > 100 && status == Some(0);
        assert!(mib < 100 || is_refused || is_told || begins, "{case}: {stderr}");
        assert!(mib > 100 || status != Some(0), "{case}");
    }
}

#[test]
fn every_limit_on_the_address_space_ends_in_a_result_or_an_error() {
    for mpi in libraries() {
        let limits = limits().into_iter();
        for (mib, all) in mpi.take_turns(limits.flat_map(|mib| [(mib, true), (mib, false)])) {
            // If the loader fails on one rank before MPI begins, MPICH's launcher waits for it.
            if all || mib >= 100 || mpi.name == "openmpi" {
                check(&mpi, mib, all, "mxm --size 512 --store none");
            }
        }
    }
}

/// More threads multiply than a library was built for, or than the address space has buffers for.
#[test]
fn more_devices_than_a_library_serves_are_refused_or_served_by_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let platform = folder.path().join("devices.toml");
    let mpi = open_mpi();
    for (devices, blas, mib) in [(160, "openblas", 64), (160, "auto", 64), (300, "auto", 8)] {
        let device =
            |at: usize| format!("[[node.device]]\nname = \"d{at}\"\ncores = 1\npace = 1.1\n");
        let text: String = (0..devices).map(device).collect();
        std::fs::write(&platform, format!("schema = 1\n[[node]]\n{text}")).expect("a file");
        let options = "--size 64 --strategy homogeneous --store none --platform";
        let script =
            format!("ulimit -v {}; exec \"$0\" mxm {options} \"$1\" --blas {blas}", mib << 20);
        let mut command = Command::new("bash");
        command.args(["-c", &script]).args([&mpi.isochron, &platform]);
        let outcome = run(command, HANGS);
        let may_be_refused = blas == "openblas" && outcome.status == Some(2);
        assert!(may_be_refused || outcome.status == Some(0), "{devices} {blas} {outcome:?}");
    }
}

#[test]
fn files_are_read_and_written_under_a_limit() {
    let folder = Folder::new();
    let [a, b, c] = ["a.npy", "b.npy", "c.npy"].map(|name| folder.path(name));
    for mpi in libraries() {
        for file in [&a, &b] {
            mpi.run_line(1, &format!("mxm --size 512 --store none --out {file}")).success();
        }
        let limits = limits().into_iter().filter(|&mib| mib >= MPI_BEGINS);
        for mib in mpi.take_turns(limits) {
            check(&mpi, mib, true, &format!("mxm --a {a} --b {b} --store none --out {c}"));
        }
    }
}

#[test]
fn openblas_without_room_for_its_buffers_is_left_out_with_a_notice() {
    let mpi = open_mpi();
    let line = "mxm --size 256 --store none";
    let unlimited = mpi.run_line(2, line).success();
    if !unlimited.contains("OpenBLAS") {
        eprintln!("skipped: OpenBLAS is not installed, or is not the fastest");
        return;
    }
    let text = run_limited(&mpi, 300, true, line).success();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("BLAS gemm (embedded)"), "{text}");
    let notice = "note: the BLAS library libopenblas.so.0 cannot be used: it needs";
    assert!(text.contains(notice), "{text}");
    assert!(text.contains("raise the limit (`ulimit -v`"), "{text}");
    // A link hides the make.
    let folder = Folder::new();
    let link = folder.path("liblinear.so");
    symlink(find_openblas(), &link).expect("a link");
    for (named, told) in [("openblas", "libopenblas.so.0"), (link.as_str(), link.as_str())] {
        let error = run_limited(&mpi, 300, true, &format!("{line} --blas {named}")).failure(2);
        let error = error.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(error.contains(&format!("{told} cannot be used")), "{error}");
    }
}

/// Asks the system's loader for the file of OpenBLAS.
fn find_openblas() -> PathBuf {
    let listed = Command::new("/sbin/ldconfig").arg("-p").output();
    let listed = String::from_utf8(listed.expect("a list").stdout).expect("names");
    let line = listed.lines().find(|line| line.contains("libopenblas.so.0 "));
    let (_, path) = line.and_then(|line| line.split_once(" => ")).expect("a path");
    path.into()
}

#[test]
fn threads_that_cannot_start_are_an_error_that_names_the_limit() {
    let mpi = open_mpi();
    // The superuser has no limit.
    let script =
        "ulimit -u $1; shift; exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"";
    let program = mpi.isochron.to_str().expect("a name");
    for line in ["mxm --size 64 --store none", "measure naive-gemm --points 2 --max-seconds 1"] {
        let mut command = Command::new("bash");
        command.args(["-c", script, "bash", "1", program]).args(line.split(' '));
        let outcome = run(command, HANGS);
        if outcome.stderr.contains("setpriv: ") {
            eprintln!("skipped: only root may become another user");
            return;
        }
        let error = outcome.failure(1);
        let is_named = error.contains("cannot start a") && error.contains("(`ulimit -u`)");
        assert!(is_named && !error.contains("panicked"), "{error}");
    }
}

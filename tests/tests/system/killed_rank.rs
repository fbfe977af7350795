//! A rank that is killed takes the job with it: no hang, no output file.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use isochron_tests::launch::{Mpi, Running, SOON, cluster_configs, libraries, processes};

#[test]
fn a_killed_rank_ends_the_job_without_an_output_file() {
    for (mpi, victim) in libraries().into_iter().flat_map(|mpi| [(mpi.clone(), 0), (mpi, 1)]) {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("out.npy");
        let platform = cluster_configs().join("emulated-4.toml");
        let [out_name, platform] = [&out, &platform].map(|path| path.to_str().expect("a name"));
        let line = "mxm --size 8192 --strategy homogeneous";
        let line = format!("{line} --platform {platform} --out {out_name}");
        let mut command = mpi.line_command(3, &line);
        command.env("ISOCHRON_LOG", "isochron=info");
        let mut job = Running::start(command);
        job.wait_for("multiplying");
        kill(&mpi, out_name, victim);
        let outcome = job.wait(SOON);
        assert_ne!(outcome.status, Some(0), "{}: {outcome:#?}", mpi.name);
        // MPICH may name another rank, whose library aborts because it cannot read the dead one's memory.
        let all = (outcome.stdout + &outcome.stderr).to_lowercase();
        assert!(
            ["killed", "signal 9", "bad termination"].iter().any(|words| all.contains(words)),
            "{}: {all}",
            mpi.name
        );
        assert!(!out.exists(), "{}: an output file was left behind", mpi.name);
        assert!(processes(&mpi.isochron, out_name).is_empty(), "{}: a rank lives on", mpi.name);
    }
}

#[test]
fn a_rank_killed_while_it_writes_leaves_no_file_under_the_final_name() {
    for mpi in libraries() {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("out.npy");
        let out_name = out.to_str().expect("a name");
        // A large result of little work: writing it is what takes the time.
        let line = "mxm --m 8192 --n 8192 --k 16 --strategy homogeneous --verify none --out";
        let job = Running::start(mpi.line_command(2, &format!("{line} {out_name}")));
        let start = Instant::now();
        while !has_large_file(folder.path()) {
            assert!(start.elapsed() < 6 * SOON, "{}: nothing is written", mpi.name);
            std::thread::sleep(Duration::from_millis(1));
        }
        kill(&mpi, out_name, 0);
        let outcome = job.wait(SOON);
        assert_ne!(outcome.status, Some(0), "{}: {outcome:#?}", mpi.name);
        assert!(!out.exists(), "{}: half a result under its name", mpi.name);
    }
}

/// Returns `true` if a file of the folder has more than a MiB.
fn has_large_file(folder: &Path) -> bool {
    let mut files = folder.read_dir().expect("a folder").flatten();
    files.any(|file| file.metadata().is_ok_and(|file| file.len() > 1 << 20))
}

/// Kills a rank of a job of the command that has `marker` among its arguments.
fn kill(mpi: &Mpi, marker: &str, victim: usize) {
    let ranks = processes(&mpi.isochron, marker);
    assert!(ranks.len() > victim, "{}: all ranks run", mpi.name);
    let killed = Command::new("kill").args(["-KILL", &ranks[victim].to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()));
}

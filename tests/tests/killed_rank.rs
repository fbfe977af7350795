//! A rank that is killed takes the job with it: no hang, no output file.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

use std::process::Command;

use isochron_tests::launch::{Running, SOON, cluster_configs, libraries, processes};

#[test]
fn a_killed_rank_ends_the_job_without_an_output_file() {
    for (mpi, victim) in libraries()
        .into_iter()
        .flat_map(|mpi| [(mpi.clone(), 0), (mpi, 1)])
    {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("out.npy");
        let platform = cluster_configs().join("emulated-4.toml");
        let [out_name, platform] = [&out, &platform].map(|path| path.to_str().expect("a name"));
        let arguments = [
            "mxm",
            "--size",
            "8192",
            "--strategy",
            "homogeneous",
            "--platform",
            platform,
            "--out",
            out_name,
        ];
        let mut command = mpi.command(3, &mpi.isochron, &arguments);
        command.env("ISOCHRON_LOG", "isochron=info");
        let mut job = Running::start(command);
        job.wait_for("multiplying");
        let ranks = processes(&mpi.isochron, out_name);
        assert_eq!(ranks.len(), 3, "{}: all ranks run", mpi.name);
        let killed = Command::new("kill")
            .args(["-KILL", &ranks[victim].to_string()])
            .status();
        assert!(killed.is_ok_and(|status| status.success()));
        let outcome = job.wait(SOON);
        assert_ne!(outcome.status, Some(0), "{}: {outcome:#?}", mpi.name);
        let all = outcome.stdout + &outcome.stderr;
        assert!(
            all.to_lowercase().contains("killed") || all.contains("signal 9"),
            "{}: {all}",
            mpi.name
        );
        assert!(
            !out.exists(),
            "{}: an output file was left behind",
            mpi.name
        );
        assert!(
            processes(&mpi.isochron, out_name).is_empty(),
            "{}: a rank lives on",
            mpi.name
        );
    }
}

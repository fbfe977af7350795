//! Hosts that stand still and links that are cut: the other ranks name them, and the job ends.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use isochron_cluster::EmulatedCluster;
use isochron_tests::launch::{HANGS, Mpi, Running, is_whole, native_libraries, processes};

use crate::silence::{PHASES, SMALL, TIMEOUT, list_lines};
use isochron_tests::cluster;

/// The hosts of each cluster; the second is lost.
const HOSTS: [&str; 2] = ["iso-1", "iso-2"];
/// The ranks on each host.
const RANKS: [usize; 2] = [1, 2];

/// A job whose ranks are held in a phase.
struct Held {
    job: Running,
    mpi: Mpi,
    phase: &'static str,
    /// The words that tell the phase.
    words: &'static str,
    folder: tempfile::TempDir,
}

impl Held {
    fn start(
        cluster: &EmulatedCluster,
        mpi: &Mpi,
        (phase, time, words): (&'static str, usize, &'static str),
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = cluster::command(cluster, mpi, &RANKS);
        command
            .arg("env")
            .arg(format!("ISOCHRON_TEST_STOPPED_AT={phase}:all:{time}"))
            .arg(format!("ISOCHRON_TEST_HELD_IN={}", folder.path().display()))
            .arg(&mpi.isochron)
            .args(SMALL.split(' '))
            .args(["--stall-timeout", TIMEOUT, "--out"])
            .arg(folder.path().join("out.npy"));
        Self { job: Running::start(command), mpi: mpi.clone(), phase, words, folder }
    }

    /// Waits until all ranks have come to the phase.
    fn wait_for_phase(&self) {
        for rank in 0..RANKS.iter().sum() {
            let file = self.folder.path().join(format!("reached-{rank}"));
            self.wait_until(&format!("rank {rank} comes"), || file.exists());
        }
    }

    /// Lets the ranks go on that still can.
    fn release(&self) {
        fs::write(self.folder.path().join("go"), "").expect("a writable folder");
    }

    /// Waits until `is_done`, which `what` tells in words.
    fn wait_until(&self, what: &str, is_done: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_done() {
            assert!(
                start.elapsed() < HANGS,
                "{}: {}",
                self.describe(&format!("no end of the wait until {what}")),
                self.job.stderr()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn describe(&self, what: &str) -> String {
        format!("{what} ({}, {})", self.phase, self.mpi.name)
    }

    /// Lists the ranks on a host.
    fn ranks_on(&self, cluster: &EmulatedCluster, host: &str) -> Vec<u32> {
        let network = &cluster.state().host(host).expect("a host").network;
        let mut ranks = self.ranks();
        ranks.retain(|rank| {
            let link = fs::read_link(format!("/proc/{rank}/ns/net"));
            link.is_ok_and(|link| link == Path::new(network))
        });
        ranks
    }

    fn ranks(&self) -> Vec<u32> {
        let marker = self.folder.path().display().to_string();
        processes(&self.mpi.isochron, &marker)
    }

    /// Checks what the job has left once its cluster is gone.
    fn check(self) {
        let what = self.describe("the job");
        let ranks = self.ranks();
        let outcome = self.job.wait(HANGS);
        assert!(ranks.is_empty(), "{what} leaves {ranks:?}: {outcome:#?}");
        let words = match self.phase {
            // Ranks do not know each other yet.
            "start" => [
                "rank 0 on iso-1 has waited for ",
                " for the start of MPI: another rank has not started, or its host or link is gone; ",
            ],
            _ => [" on iso-2 have been silent for ", self.words],
        };
        let end = format!("; the job ends, after {TIMEOUT} s without progress");
        let is_told = match list_lines(&outcome)[..] {
            [line] => words.iter().all(|words| line.contains(words)) && line.ends_with(&end),
            _ => false,
        };
        assert!(is_told, "{what}: {outcome:#?}");
        // Only a job that has done its work leaves its result.
        let has_result = self.folder.path().join("out.npy").exists();
        assert_eq!(has_result, self.phase == "end", "{what}: {outcome:#?}");
    }
}

/// Starts jobs that are in all phases when `strike` takes the second host away, and checks that their ranks end on all hosts
/// of `left`. Without [`is_whole`], the libraries take turns: `turn` is the first one's number.
fn lose_host(test: &str, turn: usize, left: &[&str], strike: impl FnOnce(&EmulatedCluster)) {
    let Some(cluster) = cluster::bring_up(test, HOSTS.len(), None, &[]) else {
        return;
    };
    let libraries = native_libraries();
    let mut jobs = Vec::new();
    for (number, &phase) in PHASES.iter().enumerate() {
        for (index, mpi) in libraries.iter().enumerate() {
            if is_whole() || (number + turn) % libraries.len() == index {
                let job = Held::start(&cluster, mpi, phase);
                // All starting at once, some could take longer than the ranks may stand still.
                job.wait_for_phase();
                jobs.push(job);
            }
        }
    }
    strike(&cluster);
    jobs.iter().for_each(Held::release);
    jobs.iter_mut().for_each(|held| held.job.wait_for("; the job ends, "));
    for job in &jobs {
        for host in left {
            job.wait_until(&format!("the ranks on {host} end"), || {
                job.ranks_on(&cluster, host).is_empty()
            });
        }
    }
    // Launchers wait on for hosts that do not answer.
    drop(cluster);
    jobs.into_iter().for_each(Held::check);
}

#[test]
fn a_host_that_is_stopped_in_any_phase_is_named_and_the_job_ends() {
    lose_host("stopped", 0, &HOSTS[..1], |cluster| {
        cluster.stop_host("iso-2").expect("a host that stops");
    });
}

#[test]
fn a_host_whose_link_is_cut_in_any_phase_is_named_and_the_job_ends_on_both_sides() {
    lose_host("cut", 1, &HOSTS, |cluster| {
        cluster.cut_link("iso-2").expect("a link that is cut");
    });
}

//! Ranks that are stopped, and libraries that never return: the cause is named, and the job ends.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use isochron_tests::launch::{
    HANGS, Mpi, Outcome, Running, is_whole, libraries, native_libraries, open_mpi, processes,
};

use crate::command::Folder;
use isochron_tests::cluster;

/// Arguments of a small multiplication.
pub(super) const SMALL: &str =
    "mxm --size 256 --block 32 --panel 32 --split c --strategy homogeneous --store none";

/// Seconds without progress after which these jobs end.
pub(super) const TIMEOUT: &str = "10";

/// The phases in which a rank is stopped: the name of each, the number of times that it is entered before the rank stops, and
/// the words that tell it behind "it was".
pub(super) const PHASES: [(&str, usize, &str); 10] = [
    ("start", 1, "starting"),
    ("devices", 1, "looking for devices"),
    ("plan", 1, "measuring and planning"),
    ("matrices", 1, "reading or making matrices"),
    ("multiply", 1, "multiplying"),
    ("step", 1, "multiplying"),
    ("check", 2, "checking the result"),
    ("write", 2, "writing results"),
    // The result has a temporary name.
    ("shared", 1, "writing results"),
    ("end", 1, "ending MPI"),
];

/// A job that stands still, and the words of the line about it.
struct Stalled {
    job: Running,
    mpi: Mpi,
    folder: tempfile::TempDir,
    words: Vec<String>,
}

impl Stalled {
    /// Starts a multiplication on two ranks. `change` makes it stand still.
    fn start(
        mpi: &Mpi,
        words: Vec<String>,
        options: &str,
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("out.npy").display().to_string();
        let line = format!("{SMALL} --stall-timeout {TIMEOUT} --out {out} {options}");
        let mut command = mpi.line_command(2, &line);
        change(&mut command);
        Self { job: Running::start(command), mpi: mpi.clone(), folder, words }
    }

    /// Checks that the job was ended, with one line that names its cause, and that nothing is left.
    fn check(self) {
        let marker = self.folder.path().join("out.npy").display().to_string();
        let outcome = self.job.wait(HANGS);
        // A launcher may report its own killing of the stopped rank in place of the status 1 of the others.
        let what = format!("{} {:?}: {outcome:#?}", self.mpi.name, self.words);
        assert!(!matches!(outcome.status, None | Some(0)), "{what}");
        let lines = list_lines(&outcome);
        let end = format!("; the job ends, after {TIMEOUT} s without progress");
        let told = lines.iter().filter(|line| line.ends_with(&end));
        let told: Vec<_> =
            told.filter(|line| self.words.iter().all(|words| line.contains(words))).collect();
        assert_eq!((told.len(), lines.len()), (1, 1), "{what}");
        let has = |words: &str| self.words.iter().any(|known| known == words);
        // Only a job that has done its work leaves its result. A rank that is killed while it is stopped leaves what it has begun.
        let is_done = has("it was ending MPI") || has("it is writing results");
        let has_begun = has("rank 0 on ") && has("it was writing results");
        let left: Vec<_> = fs::read_dir(self.folder.path())
            .expect("the folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert!(is_done || left.is_empty() || has_begun && is_begun(&left), "{left:?} {what}");
        while !processes(&self.mpi.isochron, &marker).is_empty() {
            std::thread::yield_now();
        }
    }
}

/// Returns `true` for the file of a result that is not whole, and nothing else.
fn is_begun(names: &[OsString]) -> bool {
    let [name] = names else {
        return false;
    };
    name.to_string_lossy().starts_with(".out.npy.partial-")
}

/// Lists the lines that the program itself has written to standard error. A rank that is told of the end says so too if the
/// launcher leaves it the time.
pub(super) fn list_lines(outcome: &Outcome) -> Vec<&str> {
    outcome
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("isochron: "))
        .filter(|line| !line.ends_with(" ends the job"))
        .collect()
}

#[test]
fn a_rank_that_is_stopped_in_any_phase_is_named_and_the_job_ends() {
    let cases = PHASES.iter().flat_map(|&phase| [(phase, 1), (phase, 0)]);
    let cases: Vec<_> = cases
        .filter(|((name, ..), victim)| is_whole() || *victim == 1 || *name == "step")
        .collect();
    let jobs = libraries().into_iter().flat_map(|mpi| {
        let own: Vec<_> = mpi.take_turns(cases.clone()).collect();
        own.into_iter().map(move |((phase, time, words), victim)| {
            let words = vec![
                format!("rank {victim} on "),
                format!("it was {words}"),
                "its process is stopped".to_owned(),
            ];
            Stalled::start(&mpi, words, "", |command| {
                command.env("ISOCHRON_TEST_STOPPED_AT", format!("{phase}:{victim}:{time}"));
            })
        })
    });
    // All at once, since they only wait.
    let jobs: Vec<_> = jobs.collect();
    jobs.into_iter().for_each(Stalled::check);
}

#[test]
fn a_rank_that_goes_on_is_told_and_nothing_is_lost() {
    let jobs = native_libraries().map(|mpi| {
        let marker = format!("--seed={}", std::process::id());
        let mut command = mpi.line_command(2, &format!("{SMALL} --json {marker}"));
        command.env("ISOCHRON_TEST_STOPPED_AT", "step:1");
        (Running::start(command), mpi, marker)
    });
    for (mut job, mpi, marker) in jobs {
        job.wait_for("(its process is stopped)");
        for process in processes(&mpi.isochron, &marker) {
            let process = process.to_string();
            let _ = Command::new("kill").args(["-CONT", &process]).status();
        }
        let outcome = job.wait(HANGS);
        // A job that ends before the next look at the rank says nothing more.
        let lines = list_lines(&outcome);
        let is_told = |line: &&str| line.contains("rank 1 ") && line.contains("is stopped");
        let goes_on = |line: &&str| line.contains(" goes on after ");
        assert!(
            lines.first().is_some_and(is_told)
                && lines.iter().all(|line| is_told(line) || goes_on(line)),
            "{outcome:#?}"
        );
        assert!(outcome.success().contains("\"verified\": true"));
    }
}

#[test]
fn a_report_that_cannot_be_written_after_the_end_of_mpi_is_named() {
    let folder = Folder::new();
    // A pipe that nobody reads stands for a file system that is gone.
    let pipe = folder.make_pipe("report");
    native_libraries()
        .map(|mpi| {
            let words = [
                "rank 0 on ",
                "makes no progress",
                "it is writing results",
                "it uses no processor",
            ];
            let words = words.map(str::to_owned).to_vec();
            Stalled::start(&mpi, words, &format!("--report {pipe}"), |_| {})
        })
        .into_iter()
        .for_each(Stalled::check);
}

#[test]
fn a_rank_behind_a_firewall_is_not_taken_for_a_silent_one() {
    let Some(cluster) = cluster::bring_up("firewall", 2, None, &[]) else {
        return;
    };
    for host in ["iso-1", "iso-2"] {
        let words = "ip rule add pref 10 ipproto udp prohibit".split(' ');
        let blocked = cluster.command(host, words.map(str::to_owned));
        let blocked = blocked.expect("a host").status();
        assert!(blocked.is_ok_and(|status| status.success()), "{host}");
    }
    let mpi = open_mpi();
    let mut command = cluster::command(&cluster, &mpi, &[1, 1]);
    command.args(["-x", "ISOCHRON_TEST_STOPPED_AT"]);
    command.env("ISOCHRON_TEST_STOPPED_AT", "step:1");
    command.arg(&mpi.isochron).args(SMALL.split(' '));
    command.args(["--stall-timeout", TIMEOUT]);
    let mut job = Running::start(command);
    job.wait_for("rank 0 on iso-1 gets no signs of rank 1 on iso-2 (a firewall may drop UDP)");
    // No other line comes before the job has waited six times as long.
    drop(cluster);
    let outcome = job.wait(HANGS);
    let lines = list_lines(&outcome);
    assert!(
        !lines.iter().any(|line| line.contains("silent") || line.contains("the job ends")),
        "{outcome:#?}"
    );
}

/// A BLAS that computes small products, and never returns from larger ones on rank 1: it sleeps, or spins.
const ENDLESS_BLAS: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int is_second(void) {
    const char *names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    for (int i = 0; i < 2; i++) {
        const char *rank = getenv(names[i]);
        if (rank) return strcmp(rank, "1") == 0;
    }
    return 0;
}
void cblas_dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b,
                 int ldb, double beta, double *c, int ldc) {
    long limit = atol(getenv("ENDLESS_FROM"));
    int spins = getenv("SPINS") != NULL;
    if ((long)m * n * k >= limit && is_second()) for (;;) if (!spins) pause();
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int l = 0; l < k; l++) {
                double x = order == 101 ? (ta == 111 ? a[i * lda + l] : a[l * lda + i])
                                        : (ta == 111 ? a[l * lda + i] : a[i * lda + l]);
                double y = order == 101 ? (tb == 111 ? b[l * ldb + j] : b[j * ldb + l])
                                        : (tb == 111 ? b[j * ldb + l] : b[l * ldb + j]);
                sum += x * y;
            }
            double *place = order == 101 ? &c[i * ldc + j] : &c[j * ldc + i];
            *place = alpha * sum + (beta == 0 ? 0 : beta * *place);
        }
}
"#;

/// Builds the library.
fn build_endless_blas(mpi: &Mpi, folder: &Path) -> String {
    let (source, library) = (folder.join("endless.c"), folder.join("libendless.so"));
    fs::write(&source, ENDLESS_BLAS).expect("a writable folder");
    let mut compiler = Command::new(mpi.compiler());
    compiler.args(["-O1", "-shared", "-fPIC", "-o"]);
    let built = compiler.arg(&library).arg(&source).status();
    assert!(built.is_ok_and(|status| status.success()), "the library does not compile");
    library.display().to_string()
}

#[test]
fn a_blas_that_never_returns_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let [first, second] = native_libraries();
    let library = build_endless_blas(&first, folder.path());
    let trying = ("1", "it is trying BLAS libraries");
    let multiplying = ("200000", "it is multiplying, step 1 of ");
    [
        (&first, trying, false),
        (&second, multiplying, false),
        (&second, trying, true),
        (&first, multiplying, true),
    ]
    .map(|(mpi, (limit, words), spins)| {
        let mut words = vec!["rank 1 on ", "makes no progress for 1", words];
        if !spins {
            words.push("it uses no processor");
        }
        let words = words.into_iter().map(str::to_owned).collect();
        Stalled::start(mpi, words, &format!("--blas {library}"), |command| {
            command.env("ENDLESS_FROM", limit);
            if spins {
                command.env("SPINS", "1");
            }
        })
    })
    .into_iter()
    .for_each(Stalled::check);
}

//! Starting programs under a real `mpirun`, and noticing when they hang.

use std::ffi::OsStr;
use std::fmt;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longest time a case may take before it counts as hanging: far more than any needs.
pub const HANGS: Duration = Duration::from_secs(300);

/// The same for all combinations of a table.
pub const HANGS_WHOLE: Duration = Duration::from_secs(3600);

/// The time within which a job that cannot go on must be over on every rank, from its start or from a rank's death.
pub const SOON: Duration = Duration::from_secs(10);

/// Marks of text that Rust prints for programmers, and that no message has.
const DEBUG_MARKS: [&str; 8] = ["Some(", "None", "Ok(", "Err(", "::", " { ", "Errno", "Code("];

/// Checks that the messages of our programs are for their users.
///
/// # Panics
/// When one has the text that Rust prints for programmers.
fn check_messages(stderr: &str, what: &str) {
    for line in stderr.lines() {
        let message = line.strip_prefix("isochron: ").or_else(|| line.strip_prefix("error: "));
        let found = message.and_then(|text| DEBUG_MARKS.iter().find(|mark| text.contains(**mark)));
        if let Some(mark) = found {
            panic!("{what}: {mark:?} in a message to the user: {line}");
        }
    }
}

/// One MPI library and the programs linked with it.
#[derive(Debug, Clone)]
pub struct Mpi {
    /// `openmpi`, `mpich` or `abi`.
    pub name: &'static str,
    mpirun: PathBuf,
    /// The `isochron` command.
    pub isochron: PathBuf,
    /// The `isochron-cases` program.
    pub cases: PathBuf,
    /// The example `stencil` of the library.
    pub stencil: PathBuf,
}

/// The MPI libraries with which a test runs, as `cargo xtask test` has built for them: Open MPI and MPICH, and one with the standard
/// ABI if [all](is_whole) are to run.
///
/// # Panics
/// When they are not in the environment.
pub fn libraries() -> Vec<Mpi> {
    native_libraries().into_iter().chain(is_whole().then(standard_abi)).collect()
}

/// Open MPI and MPICH, which the system has, and with them launchers that start ranks on other hosts, Fortran and mpi4py.
///
/// # Panics
/// When they are not in the environment.
pub fn native_libraries() -> [Mpi; 2] {
    ["openmpi", "mpich"].map(find_mpi)
}

/// Open MPI, for what is the same with every library.
///
/// # Panics
/// When it is not in the environment.
pub fn open_mpi() -> Mpi {
    find_mpi("openmpi")
}

/// An MPI library with the standard ABI.
///
/// # Panics
/// When it is not in the environment.
pub fn standard_abi() -> Mpi {
    find_mpi("abi")
}

fn find_mpi(name: &'static str) -> Mpi {
    let [mpirun, isochron, cases, stencil] = ["MPIRUN", "BIN", "CASES", "STENCIL"]
        .map(|what| variable(&format!("ISOCHRON_{what}_{}", name.to_uppercase())));
    Mpi { name, mpirun, isochron, cases, stencil }
}

/// The Python interpreter that has NumPy.
///
/// # Panics
/// When it is not in the environment.
pub fn python() -> PathBuf {
    variable("ISOCHRON_PYTHON")
}

/// The folder with packages of Python that tests install.
///
/// # Panics
/// When it is not in the environment.
pub fn python_packages() -> PathBuf {
    variable("ISOCHRON_PYTHON_PACKAGES")
}

/// The wheel of the Python package that was built without MPI, which is there if [all](is_whole) is to be run.
///
/// # Panics
/// When it is not in the environment.
pub fn wheel_without_mpi() -> PathBuf {
    variable("ISOCHRON_WHEEL_WITHOUT_MPI")
}

/// The folder with MPICH and an mpi4py for the standard ABI as wheels, which is there if [all](is_whole) is to be run.
///
/// # Panics
/// When it is not in the environment.
pub fn wheels_for_abi() -> PathBuf {
    variable("ISOCHRON_WHEELS_ABI")
}

/// The browser in which reports are opened; `None` if not [all](is_whole) is to be run, or there is no browser.
pub fn browser() -> Option<PathBuf> {
    std::env::var_os("ISOCHRON_BROWSER").map(PathBuf::from)
}

/// The program of ReFrame, which is there if [all](is_whole) is to be run.
///
/// # Panics
/// When it is not in the environment.
pub fn reframe() -> PathBuf {
    variable("ISOCHRON_REFRAME")
}

/// The programs of a Python with PyTorch, which is there if [all](is_whole) is to be run.
///
/// # Panics
/// When they are not in the environment.
pub fn torch_programs() -> PathBuf {
    variable("ISOCHRON_TORCH")
}

/// The program that emulates several hosts.
///
/// # Panics
/// When it is not in the environment.
pub fn cluster_program() -> PathBuf {
    variable("ISOCHRON_CLUSTER")
}

/// The program of contenders and figures of the benchmark campaigns.
///
/// # Panics
/// When it is not in the environment.
pub fn bench_program() -> PathBuf {
    variable("ISOCHRON_BENCH")
}

/// The folder into which the C interface is installed, for both MPI libraries.
///
/// # Panics
/// When it is not in the environment.
pub fn prefix() -> PathBuf {
    variable("ISOCHRON_PREFIX")
}

fn variable(name: &str) -> PathBuf {
    std::env::var_os(name).map_or_else(
        || panic!("{name} is not set: run these tests by `cargo xtask test`"),
        PathBuf::from,
    )
}

/// Returns `true` if all combinations are to be run, and slow proofs at full length: `cargo xtask test --all`.
pub fn is_whole() -> bool {
    std::env::var_os("ISOCHRON_TEST_ALL").is_some_and(|value| value == "1")
}

/// The folder with the platform files.
pub fn cluster_configs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cluster-configs")
}

impl Mpi {
    /// `mpirun -n ranks program arguments`.
    pub fn command<A: AsRef<OsStr>>(
        &self,
        ranks: usize,
        program: &Path,
        arguments: &[A],
    ) -> Command {
        let mut command = Command::new(&self.mpirun);
        if self.name == "openmpi" {
            command.args(["--oversubscribe", "--bind-to", "none"]);
            // What it chooses on one host by itself, after other transports were tried for a while.
            command.env("OMPI_MCA_pml", "ob1");
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
        command.arg("-n").arg(ranks.to_string()).arg(program).args(arguments);
        command
    }

    /// Returns the cases of a test that run with this library. What is not about MPI is dealt to the libraries in turn. If
    /// [all](is_whole) are to run, each runs with every one.
    pub fn take_turns<T>(&self, cases: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
        let own = usize::from(self.name != "openmpi");
        cases
            .into_iter()
            .enumerate()
            .filter(move |(number, _)| is_whole() || number % 2 == own)
            .map(|(_, case)| case)
    }

    /// Returns `true` if the library has the language of a source: the standard ABI is of C alone.
    pub fn has_language(&self, source: &str) -> bool {
        self.name != "abi" || !source.ends_with("f90")
    }

    /// The C compiler.
    ///
    /// # Panics
    /// When it is not in the environment.
    pub fn compiler(&self) -> PathBuf {
        variable(&format!("ISOCHRON_MPICC_{}", self.name.to_uppercase()))
    }

    /// The wheel of the Python package.
    ///
    /// # Panics
    /// When it is not in the environment.
    pub fn wheel(&self) -> PathBuf {
        variable(&format!("ISOCHRON_WHEEL_{}", self.name.to_uppercase()))
    }

    /// The launcher.
    pub fn mpirun(&self) -> &Path {
        &self.mpirun
    }

    /// Runs the `isochron` command on `ranks` ranks.
    pub fn isochron<A: AsRef<OsStr>>(&self, ranks: usize, arguments: &[A]) -> Outcome {
        run(self.command(ranks, &self.isochron, arguments), HANGS)
    }

    /// The command that runs `isochron` with the words of a line on `ranks` ranks.
    pub fn line_command(&self, ranks: usize, line: &str) -> Command {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.command(ranks, &self.isochron, &words)
    }

    /// Runs `isochron` with the words of a line on `ranks` ranks.
    pub fn run_line(&self, ranks: usize, line: &str) -> Outcome {
        run(self.line_command(ranks, line), HANGS)
    }
}

/// The end of a program.
pub struct Outcome {
    /// Its exit status; `None` when a signal ended it.
    pub status: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// Formats the output as the program wrote it, the messages of its ranks last: logs are read, and cut, from their ends.
impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, stdout, stderr } = self;
        match status {
            Some(status) => writeln!(f, "it ended with status {status}")?,
            None => writeln!(f, "a signal ended it")?,
        }
        write!(f, "--- standard output\n{stdout}\n--- standard error\n{stderr}")
    }
}

impl Outcome {
    /// The standard output of a program that succeeded.
    ///
    /// # Panics
    /// When it did not.
    pub fn success(self) -> String {
        assert_eq!(self.status, Some(0), "{self:?}");
        self.stdout
    }

    /// The standard error of a program that ended with `status`.
    ///
    /// # Panics
    /// When it ended otherwise.
    pub fn failure(self, status: i32) -> String {
        assert_eq!(self.status, Some(status), "{self:?}");
        self.stderr
    }
}

/// Runs `command` to its end.
///
/// # Panics
/// When it takes longer than `limit`: it hangs.
pub fn run(command: Command, limit: Duration) -> Outcome {
    Running::start(command).wait(limit)
}

/// A program that runs.
#[derive(Debug)]
pub struct Running {
    child: Child,
    what: String,
    stdout: Captured,
    stderr: Captured,
    /// The folder of Open MPI's files. Launchers that shared one and started together failed: one made it while another
    /// was about to.
    _session: TempDir,
}

impl Running {
    /// Starts `command` in a process group of its own, its output captured.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(mut command: Command) -> Self {
        let what = format!("{command:?}");
        let session = tempfile::tempdir().expect("a folder");
        command
            .env("OMPI_MCA_orte_tmpdir_base", session.path())
            // The backtraces of all ranks would bury their messages.
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{what}: {error}"));
        Self {
            stdout: Captured::read(child.stdout.take().expect("captured")),
            stderr: Captured::read(child.stderr.take().expect("captured")),
            child,
            what,
            _session: session,
        }
    }

    /// The number of the process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// The standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Waits until standard error holds `text`.
    ///
    /// # Panics
    /// When the program ends before, or hangs.
    pub fn wait_for(&mut self, text: &str) {
        let start = Instant::now();
        loop {
            let is_whole = self.stderr.is_whole();
            let seen = self.stderr.text();
            if seen.contains(text) {
                return;
            }
            assert!(!is_whole, "{} ended without {text:?}: {seen}", self.what);
            if start.elapsed() > HANGS {
                self.kill_group();
                panic!("{} hangs without {text:?}: {seen}", self.what);
            }
            pause();
        }
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// When it takes longer than `limit`.
    pub fn wait(mut self, limit: Duration) -> Outcome {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                break status;
            }
            if start.elapsed() > limit {
                self.kill_group();
                panic!("{} hangs: no end after {limit:?}: {}", self.what, self.stderr.text());
            }
            pause();
        };
        let outcome = Outcome {
            status: ExitStatus::code(&status),
            stdout: self.stdout.end(),
            stderr: self.stderr.end(),
        };
        check_messages(&outcome.stderr, &self.what);
        outcome
    }

    fn kill_group(&self) {
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
    }
}

impl Drop for Running {
    /// A case that failed leaves no ranks behind.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill_group();
        }
    }
}

/// Waits a moment for other processes.
fn pause() {
    std::thread::yield_now();
    std::thread::park_timeout(Duration::from_millis(5));
}

/// Output of a program, read while it runs.
#[derive(Debug)]
struct Captured {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Captured {
    /// Starts to read.
    fn read(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut part) {
                shared.lock().expect("no panic").extend_from_slice(&part[..count]);
            }
        });
        Self { bytes, reader }
    }

    /// Returns `true` if there is no more to come.
    fn is_whole(&self) -> bool {
        self.reader.is_finished()
    }

    /// The output so far.
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().expect("no panic")).into_owned()
    }

    /// The whole output, for which this waits.
    fn end(&self) -> String {
        while !self.is_whole() {
            pause();
        }
        self.text()
    }
}

/// Process numbers of the processes whose program is `program` and whose arguments hold `marker`.
///
/// # Panics
/// Without `/proc`.
pub fn processes(program: &Path, marker: &str) -> Vec<u32> {
    let program = program.canonicalize().expect("the program");
    std::fs::read_dir("/proc")
        .expect("/proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            exe == program && String::from_utf8_lossy(&arguments).contains(marker)
        })
        .collect()
}

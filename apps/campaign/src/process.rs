//! One program: started, bounded in time, killed with everything it has started.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use isochron_hierarchy::printable::show_text;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::file::CommandLine;

/// Variable with the campaign's folder, which marks the processes of a repetition.
pub const FOLDER_VARIABLE: &str = "ISOCHRON_CAMPAIGN";

/// Longest time until a wish to stop is seen.
const LOOK: Duration = Duration::from_millis(100);

/// Time that a launcher has to end its ranks before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Time to read what a program that has ended left in its pipes.
const DRAIN: Duration = Duration::from_secs(2);

/// Bytes that are kept of an output: the last ones.
const KEPT: usize = 16 << 20;

/// The end of a program.
#[derive(Debug)]
pub(crate) enum ProcessEnd {
    /// The program ended by itself, or by a signal that the engine did not send.
    Ended(ExitStatus),
    /// It exceeded its time.
    TimedOut,
    /// It could not be started.
    NotStarted(io::Error),
    /// The engine was asked to stop, and has killed it.
    Stopped,
}

/// A program that has ended.
#[derive(Debug)]
pub(crate) struct EndedProcess {
    pub end: ProcessEnd,
    pub took: Duration,
    pub stdout: String,
    pub stderr: String,
}

impl EndedProcess {
    pub fn has_succeeded(&self) -> bool {
        matches!(self.end, ProcessEnd::Ended(status) if status.success())
    }

    /// Returns the last line with words that the program has printed, that of standard error first. Launchers end their messages
    /// with a ruled line.
    pub fn find_last_line(&self) -> Option<String> {
        let last = |printed: &str| {
            let mut lines = printed.lines().map(str::trim);
            lines
                .rfind(|line| line.contains(char::is_alphanumeric))
                .map(|line| show_text(line).into_owned())
        };
        last(&self.stderr).or_else(|| last(&self.stdout))
    }
}

/// Runs a program in `folder` until it ends, `limit` is over or `stop` is set. Then no process that it has started on this
/// host is left: all have the variable [`FOLDER_VARIABLE`] with the value `mark`.
pub(crate) fn run_process(
    line: &CommandLine,
    folder: &Path,
    mark: &Path,
    limit: Duration,
    stop: &AtomicBool,
) -> EndedProcess {
    let start = Instant::now();
    let mut command = Command::new(line.words.first().map_or("", String::as_str));
    command
        .args(line.words.get(1..).unwrap_or_default())
        .envs(&line.env)
        .env(FOLDER_VARIABLE, mark)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A terminal's Ctrl-C is for the engine.
        .process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            return EndedProcess {
                end: ProcessEnd::NotStarted(error),
                took: start.elapsed(),
                stdout: String::new(),
                stderr: String::new(),
            };
        }
    };
    let outputs = [
        child.stdout.take().map(KeptOutput::read),
        child.stderr.take().map(KeptOutput::read),
    ];
    let group = Pid::from_child(&child);
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || {
        let status = child.wait();
        // The receiver waits for it.
        let _ = sender.send((status, Instant::now()));
    });
    let (end, at) = wait(&ended, start, limit, stop, group);
    kill_marked(mark);
    let [stdout, stderr] = outputs.map(|output| output.map(KeptOutput::take).unwrap_or_default());
    EndedProcess {
        end,
        took: at.duration_since(start),
        stdout,
        stderr,
    }
}

type EndOfChild = (io::Result<ExitStatus>, Instant);

/// Waits for the end of a program, or brings it about.
fn wait(
    ended: &Receiver<EndOfChild>,
    start: Instant,
    limit: Duration,
    stop: &AtomicBool,
    group: Pid,
) -> (ProcessEnd, Instant) {
    loop {
        let left = limit.saturating_sub(start.elapsed());
        match ended.recv_timeout(left.min(LOOK)) {
            Ok((Ok(status), at)) => return (ProcessEnd::Ended(status), at),
            Ok((Err(error), at)) => return (ProcessEnd::NotStarted(error), at),
            Err(RecvTimeoutError::Disconnected) => {
                return (
                    ProcessEnd::NotStarted(io::ErrorKind::Other.into()),
                    Instant::now(),
                );
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let end = if stop.load(Ordering::Relaxed) {
            ProcessEnd::Stopped
        } else if start.elapsed() >= limit {
            ProcessEnd::TimedOut
        } else {
            continue;
        };
        let at = Instant::now();
        end_group(ended, group);
        return (end, at);
    }
}

/// Ends a process group: politely first, so that a launcher ends ranks on other hosts.
fn end_group(ended: &Receiver<EndOfChild>, group: Pid) {
    // A group that has gone needs no signal.
    let _ = kill_process_group(group, Signal::TERM);
    if ended.recv_timeout(GRACE).is_err() {
        let _ = kill_process_group(group, Signal::KILL);
        let _ = ended.recv_timeout(GRACE);
    }
}

/// Kills all processes of this host that have a mark, until there are none.
pub(crate) fn kill_marked(mark: &Path) {
    // A process may start another one while the list is read, and one that is killed may take a while to go.
    for round in 0..100 {
        let (marked, unknown) = list_marked(mark);
        // Some program may run without any environment.
        if marked.is_empty() && (unknown == 0 || round >= 10) {
            return;
        }
        for process in marked {
            // It may have ended.
            let _ = kill_process(process, Signal::KILL);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Lists the processes of this host that have a mark in their environment, and counts those that may have it: a process that
/// is changing its program has none, or a part of one, for a moment.
fn list_marked(mark: &Path) -> (Vec<Pid>, usize) {
    let variable = [
        FOLDER_VARIABLE.as_bytes(),
        b"=",
        mark.as_os_str().as_encoded_bytes(),
    ]
    .concat();
    let own = rustix::process::getpid();
    let started = read_start(Path::new("/proc/self"));
    let (mut marked, mut unknown) = (Vec::new(), 0);
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let process = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(process) = process.and_then(Pid::from_raw) else {
            continue;
        };
        // Those of other users cannot be read, and have no mark.
        let Ok(environment) = read_environment(&entry.path()) else {
            continue;
        };
        if environment.last() != Some(&0) {
            // Threads of the kernel and processes that have ended run no program.
            let runs = fs::read_link(entry.path().join("exe")).is_ok();
            unknown += usize::from(runs && read_start(&entry.path()) >= started);
        } else if process != own
            && environment
                .split(|&byte| byte == 0)
                .any(|it| it == variable)
        {
            marked.push(process);
        }
    }
    (marked, unknown)
}

/// Reads the environment of a process: variables that each end with a zero byte.
fn read_environment(process: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(process.join("environ"))?;
    // As much as there is at once: the rest is gone when the program is another one.
    let mut environment = vec![0; 1 << 18];
    let length = file.read(&mut environment)?;
    environment.truncate(length);
    file.read_to_end(&mut environment)?;
    Ok(environment)
}

/// Reads the time at which a process was started, in ticks since the system was; `None` for one that has ended.
pub(crate) fn read_start(process: &Path) -> Option<u64> {
    let line = fs::read_to_string(process.join("stat")).ok()?;
    // The name of the program, in parentheses, may have spaces.
    let (_, fields) = line.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    // Its parent may not have waited for it yet.
    fields.next().filter(|state| !matches!(*state, "X" | "Z"))?;
    fields.nth(18)?.parse().ok()
}

/// The last bytes of an output, which a thread reads.
struct KeptOutput {
    bytes: Arc<Mutex<Vec<u8>>>,
    end: Receiver<()>,
}

impl KeptOutput {
    fn read(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (sender, end) = mpsc::channel::<()>();
        let kept = Arc::clone(&bytes);
        thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(read) = pipe.read(&mut buffer)
                && read > 0
            {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&buffer[..read]);
                let excess = kept.len().saturating_sub(KEPT);
                if excess > KEPT / 4 {
                    kept.drain(..excess);
                }
            }
            drop(sender);
        });
        Self { bytes, end }
    }

    /// Takes what was read up to the end of the pipe. A process that was not found may hold the pipe open.
    fn take(self) -> String {
        let _ = self.end.recv_timeout(DRAIN);
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Returns the exit status or the signal of a program.
pub(crate) fn split_status(status: ExitStatus) -> (Option<i32>, Option<i32>) {
    (status.code(), status.signal())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, limit: Duration, mark: &Path) -> EndedProcess {
        let line = CommandLine {
            words: ["sh", "-c", script].map(str::to_owned).into(),
            env: [("GREETING".to_owned(), "hello".to_owned())].into(),
        };
        run_line(&line, mark, limit, false)
    }

    fn run_line(line: &CommandLine, folder: &Path, limit: Duration, stop: bool) -> EndedProcess {
        run_process(line, folder, folder, limit, &AtomicBool::new(stop))
    }

    #[test]
    fn outputs_status_and_variables_are_the_programs() {
        let folder = tempfile::tempdir().unwrap();
        let ended = run(
            "echo $GREETING; pwd; echo bad >&2; exit 3",
            Duration::MAX,
            folder.path(),
        );
        assert_eq!(
            ended.stdout,
            format!("hello\n{}\n", folder.path().display())
        );
        assert_eq!(ended.stderr, "bad\n");
        assert!(matches!(ended.end, ProcessEnd::Ended(status) if status.code() == Some(3)));
    }

    #[test]
    fn a_program_that_exceeds_its_time_is_killed_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        // Of its children one has a session of its own, and both ignore a polite signal.
        let script = "trap '' TERM; setsid sh -c 'sleep 1000' & sleep 1000 & wait";
        let ended = run(script, Duration::from_millis(300), folder.path());
        assert!(matches!(ended.end, ProcessEnd::TimedOut));
        assert_eq!(list_marked(folder.path()).0, []);
    }

    #[test]
    fn what_a_program_leaves_behind_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let ended = run(
            "setsid sleep 1000 & echo done",
            Duration::MAX,
            folder.path(),
        );
        assert_eq!(ended.stdout, "done\n");
        assert_eq!(list_marked(folder.path()).0, []);
    }

    #[test]
    fn a_program_that_changes_itself_all_the_time_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("again");
        fs::write(&path, "exec sh \"$0\"\n").unwrap();
        for _ in 0..20 {
            run(
                "setsid sh ./again & echo done",
                Duration::MAX,
                folder.path(),
            );
            assert_eq!(list_marked(folder.path()).0, []);
        }
    }

    #[test]
    fn a_wish_to_stop_ends_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let line = CommandLine {
            words: ["sleep", "1000"].map(str::to_owned).into(),
            env: Default::default(),
        };
        let ended = run_line(&line, folder.path(), Duration::MAX, true);
        assert!(matches!(ended.end, ProcessEnd::Stopped));
    }

    #[test]
    fn a_missing_program_is_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let line = CommandLine {
            words: vec!["/no/such/program".to_owned()],
            env: Default::default(),
        };
        let ended = run_line(&line, folder.path(), Duration::MAX, false);
        assert!(matches!(ended.end, ProcessEnd::NotStarted(_)));
    }
}

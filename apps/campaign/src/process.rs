//! One program: started, bounded in time, killed with everything it has started.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::iter;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use isochron_base::printable::show_text;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group,
    set_child_subreaper, waitid, waitpid,
};

use crate::file::CommandLine;
use crate::processes::{HostProcess, read_file};

/// Variable that marks the processes of a repetition: the campaign's folder, the engine's process and a random number.
pub const FOLDER_VARIABLE: &str = "ISOCHRON_CAMPAIGN";

/// Held while a program runs: then all that becomes a child of this process belongs to that program.
static RUNS: Mutex<()> = Mutex::new(());

/// Longest time until a wish to stop is seen.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// Time that a launcher has to end its ranks before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Time that killed processes have to go. One that waits for a slow disk goes once it has read.
const GONE: Duration = Duration::from_secs(10);

/// Time to read what a program that has ended left in its pipes.
const DRAIN: Duration = Duration::from_secs(2);

/// Bytes that are kept of an output: the last ones.
pub(crate) const KEPT: usize = 16 << 20;

/// The end of a program.
#[derive(Debug, Default)]
pub(crate) enum ProcessEnd {
    /// The program ended by itself, or by a signal that the engine did not send.
    Ended(ExitStatus),
    /// It exceeded its time.
    TimedOut,
    /// It could not be started.
    NotStarted(String),
    /// The engine was asked to stop, and has killed it.
    #[default]
    Stopped,
}

/// A program that has ended.
#[derive(Debug, Default)]
pub(crate) struct EndedProcess {
    pub end: ProcessEnd,
    pub took: Duration,
    /// Time before the end was seen in which this process did not look. More than [`LOOK`], it was stopped itself.
    pub unseen: Duration,
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
/// host is left. `results` is the folder of the campaign.
pub(crate) fn run_process(
    line: &CommandLine,
    folder: &Path,
    results: &Path,
    limit: Duration,
    stop: &AtomicBool,
) -> EndedProcess {
    let _alone = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    let own = rustix::process::getpid();
    // What the program leaves becomes a child of this process, whatever environment, group and session it has.
    let _ = set_child_subreaper(Some(own));
    let mut mark = results.as_os_str().to_owned();
    mark.push(format!(":{}-{:x}", own.as_raw_nonzero(), fastrand::u64(..)));
    let start = Instant::now();
    let mut ended = EndedProcess::default();
    let program = line.words.first().map_or("", String::as_str);
    let mut command = Command::new(program);
    command
        .args(line.words.get(1..).unwrap_or_default())
        .envs(&line.env)
        .env(FOLDER_VARIABLE, &mark)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A terminal's Ctrl-C is for the engine.
        .process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            ended.end = ProcessEnd::NotStarted(format!("{program}: {error}"));
            ended.took = start.elapsed();
            return ended;
        }
    };
    let outputs =
        [child.stdout.take().map(KeptOutput::read), child.stderr.take().map(KeptOutput::read)];
    let group = Pid::from_child(&child);
    let since = HostProcess::read(&child.id().to_string()).map_or(u64::MAX, |it| it.start);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let status = child.wait();
        // The receiver waits for it.
        let _ = sender.send((status, Instant::now()));
    });
    let at;
    (ended.end, at, ended.unseen) = wait(&receiver, start, limit, stop, group);
    ended.took = at.duration_since(start);
    end_members(|value| value == mark.as_encoded_bytes(), since);
    [ended.stdout, ended.stderr] =
        outputs.map(|output| output.map(KeptOutput::take).unwrap_or_default());
    ended
}

type EndOfChild = (io::Result<ExitStatus>, Instant);

/// Waits for the end of a program, or brings it about. Returns its time, and that since the last look before.
fn wait(
    ended: &Receiver<EndOfChild>,
    start: Instant,
    limit: Duration,
    stop: &AtomicBool,
    group: Pid,
) -> (ProcessEnd, Instant, Duration) {
    let mut looked = Instant::now();
    loop {
        let left = limit.saturating_sub(start.elapsed());
        if let Ok((status, at)) = ended.recv_timeout(left.clamp(LOOK / 10, LOOK)) {
            let failed = |error: io::Error| ProcessEnd::NotStarted(error.to_string());
            let end = status.map_or_else(failed, ProcessEnd::Ended);
            return (end, at, at.saturating_duration_since(looked));
        }
        let unseen = looked.elapsed();
        looked = Instant::now();
        reap_adopted(group);
        let end = if stop.load(Ordering::Relaxed) {
            ProcessEnd::Stopped
        } else if start.elapsed() >= limit && unseen <= 2 * LOOK {
            ProcessEnd::TimedOut
        } else {
            // Stopped itself, it first looks whether the program has ended meanwhile.
            continue;
        };
        end_group(ended, group);
        return (end, looked, Duration::ZERO);
    }
}

/// Waits for adopted processes that have ended, as others of the program may wait until they have gone. Another child of ours is of
/// our own group.
fn reap_adopted(child: Pid) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let Some(own) =
        HostProcess::read("self").filter(|_| matches!(waitid(WaitId::All, options), Ok(Some(_))))
    else {
        return;
    };
    let ended = HostProcess::list().into_iter().filter(|it| {
        let is_child = it.number == child.as_raw_nonzero().get();
        it.has_ended && it.parent == own.number && it.group != own.group && !is_child
    });
    for process in ended.filter_map(|it| Pid::from_raw(it.number)) {
        let _ = waitpid(Some(process), WaitOptions::NOHANG);
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

/// Ends what an engine that was killed has left of a repetition of the campaign in `folder`, on this host.
pub(crate) fn end_left(folder: &Path) {
    let _alone = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    let start = [folder.as_os_str().as_encoded_bytes(), b":"].concat();
    // A folder may be called as this one with more behind a colon.
    let is_own = |own: &[u8]| own.contains(&b'-') && !own.contains(&b'/') && !own.contains(&b':');
    end_members(|mark| mark.strip_prefix(&start[..]).is_some_and(is_own), u64::MAX);
}

/// Kills the members of a repetition until there are none, for [`GONE`] at most.
fn end_members(is_mark: impl Fn(&[u8]) -> bool, since: u64) {
    // A process may start another one while the list is read, and one that is killed may take a while to go.
    let begin = Instant::now();
    while begin.elapsed() < GONE {
        let members = list_members(&is_mark, since);
        if members.is_empty() {
            return;
        }
        for process in members.into_iter().filter_map(Pid::from_raw) {
            // It may have ended. Its time counts as ours once we have waited for it.
            let _ = kill_process(process, Signal::KILL);
            let _ = waitpid(Some(process), WaitOptions::NOHANG);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Lists the processes of a repetition: those with its mark, those that have become our children since it began, and all that
/// descend from them. Another child of ours is of our own group; what started us is spared.
fn list_members(is_mark: impl Fn(&[u8]) -> bool, since: u64) -> BTreeSet<i32> {
    // Most leave nothing behind. Then no list of all is needed.
    let mut numbers = HostProcess::list_numbers();
    let has_child =
        waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT);
    if has_child.is_err() && !numbers.any(|it| has_mark(it, &is_mark)) {
        return BTreeSet::new();
    }
    let all: BTreeMap<i32, HostProcess> =
        HostProcess::list().into_iter().map(|it| (it.number, it)).collect();
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let parent = |process: &i32| all.get(process).map(|it| it.parent);
    let spared: Vec<i32> = iter::successors(Some(own), parent).collect();
    let group = all.get(&own).map(|it| it.group);
    let is_adopted =
        |it: &HostProcess| it.parent == own && it.start >= since && Some(it.group) != group;
    let is_root = |it: &&HostProcess| {
        !spared.contains(&it.number) && (is_adopted(it) || has_mark(it.number, &is_mark))
    };
    let roots: BTreeSet<i32> = all.values().filter(is_root).map(|it| it.number).collect();
    // Nothing that has started us descends from them.
    let is_member = |process: &i32| {
        !spared.contains(process)
            && iter::successors(Some(*process), parent).any(|it| roots.contains(&it))
    };
    all.keys().copied().filter(is_member).collect()
}

/// Returns `true` if a process can be read and has a mark in its environment.
fn has_mark(process: i32, is_mark: impl Fn(&[u8]) -> bool) -> bool {
    let environment = read_file(&process.to_string(), "environ").unwrap_or_default();
    let start = [FOLDER_VARIABLE, "="].concat();
    let mut variables = environment.split(|&byte| byte == 0);
    variables.any(|it| it.strip_prefix(start.as_bytes()).is_some_and(&is_mark))
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::process::parent_id;

    use super::*;

    fn run(script: &str, limit: Duration, mark: &Path) -> EndedProcess {
        let line = CommandLine {
            words: ["sh", "-c", script].map(str::to_owned).into(),
            env: [("GREETING".to_owned(), "hello".to_owned())].into(),
            ..CommandLine::default()
        };
        run_line(&line, mark, limit, false)
    }

    fn run_line(line: &CommandLine, folder: &Path, limit: Duration, stop: bool) -> EndedProcess {
        run_process(line, folder, folder, limit, &AtomicBool::new(stop))
    }

    /// Lists the processes that sleep for a time that only one test has.
    fn list_sleepers(time: &str) -> Vec<String> {
        let words = HostProcess::list().into_iter().filter_map(|process| {
            let words = fs::read(format!("/proc/{}/cmdline", process.number)).ok()?;
            Some(String::from_utf8_lossy(&words).replace('\0', " "))
        });
        words.filter(|words| words.contains(time)).collect()
    }

    #[test]
    fn outputs_status_and_variables_are_the_programs() {
        let folder = tempfile::tempdir().unwrap();
        let ended = run("echo $GREETING; pwd; echo bad >&2; exit 3", Duration::MAX, folder.path());
        assert_eq!(ended.stdout, format!("hello\n{}\n", folder.path().display()));
        assert_eq!(ended.stderr, "bad\n");
        assert!(matches!(ended.end, ProcessEnd::Ended(status) if status.code() == Some(3)));
    }

    #[test]
    fn a_program_that_exceeds_its_time_is_killed_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        // Of its children one has a session of its own, and both ignore a polite signal.
        let script = "trap '' TERM; setsid sh -c 'sleep 4320' & sleep 4320 & wait";
        let ended = run(script, Duration::from_millis(300), folder.path());
        assert!(matches!(ended.end, ProcessEnd::TimedOut));
        assert_eq!(list_sleepers("4320"), [] as [String; 0]);
    }

    #[test]
    fn what_a_program_leaves_behind_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        // In another session, without the mark, as an orphan, and without anything of it.
        for start in [
            "sleep 4321 &",
            "setsid sleep 4321 &",
            "env -i sleep 4321 &",
            "(env -i setsid sleep 4321 &);",
            "env -i setsid sh -c 'setsid sh -c \"sleep 4321 & sleep 4321\" & sleep 4321' &",
        ] {
            let ended = run(&format!("{start} echo done"), Duration::MAX, folder.path());
            assert_eq!(ended.stdout, "done\n", "{start}");
            assert_eq!(list_sleepers("4321"), [] as [String; 0], "{start}");
            let ended = run(
                &format!("{start} wait; sleep 4321"),
                Duration::from_millis(100),
                folder.path(),
            );
            assert!(matches!(ended.end, ProcessEnd::TimedOut), "{start}");
            assert_eq!(list_sleepers("4321"), [] as [String; 0], "{start}");
        }
    }

    /// Time after which a program hangs.
    const HANGS: Duration = Duration::from_secs(60);

    /// A script that polls until a daemon has gone saw its zombie, and ran into its limit.
    #[test]
    fn an_orphan_that_has_ended_is_gone_for_those_that_wait_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let script = "(setsid sh -c 'echo $$ > pid; sleep 0.05' &); until [ -s pid ]; do sleep 0.01; done; \
                      p=$(cat pid); while kill -0 $p; do sleep 0.01; done 2>&-; echo gone";
        let ended = run(script, HANGS, folder.path());
        assert_eq!(ended.stdout, "gone\n", "{}", ended.stderr);
    }

    #[test]
    fn the_work_of_orphans_is_ours() {
        let folder = tempfile::tempdir().unwrap();
        let times = |process: &str| {
            let own = HostProcess::read(process).unwrap();
            own.own_ticks + own.children_ticks
        };
        // Its parent and the parent of that have ended before it does.
        let work = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; read t < /proc/self/stat; echo $t > time; mv time done";
        let script =
            format!("(setsid sh -c '{work}' &) & while [ ! -e done ]; do sleep 0.01; done");
        let before = times("self");
        let ended = run(&script, Duration::MAX, folder.path());
        assert!(matches!(ended.end, ProcessEnd::Ended(_)));
        let worker = HostProcess::parse(&fs::read_to_string(folder.path().join("done")).unwrap());
        let worker = worker.unwrap().own_ticks;
        let counted = times("self") - before;
        assert!(worker > 0 && counted >= worker, "{counted} of {worker} ticks");
    }

    #[test]
    fn only_what_an_engine_has_started_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().display().to_string();
        let start = |mark: &str, group: i32| {
            let mut command = Command::new("sleep");
            let command = command.arg("1234").env(FOLDER_VARIABLE, mark);
            let process = command.process_group(group).spawn().unwrap();
            // The environment of a process can be read a moment after it has begun.
            while !has_mark(process.id() as i32, |_| true) {
                thread::sleep(Duration::from_millis(1));
            }
            process
        };
        let group = rustix::process::getpgrp().as_raw_nonzero().get();
        let suffixes = ["", "/", ":", ":x", "/b:12-ab", ":12-ab/c", ":12-ab"];
        let marked: Vec<_> = suffixes.map(|suffix| start(&format!("{own}{suffix}"), group)).into();
        end_left(folder.path());
        run("true", Duration::MAX, folder.path());
        for (suffix, mut process) in suffixes.into_iter().zip(marked) {
            let is_there = HostProcess::read(&process.id().to_string()).is_some()
                && process.try_wait().is_ok_and(|end| end.is_none());
            assert_eq!(is_there, suffix != ":12-ab", "{suffix}");
            let _ = process.kill();
            let _ = process.wait();
        }
        // What has started the engine, whatever its mark, and what was its child before.
        let _alone = RUNS.lock().unwrap();
        let mut before = start("", 0);
        let [number, engine, parent] =
            [before.id(), std::process::id(), parent_id()].map(|it| it as i32);
        let since = HostProcess::read(&number.to_string()).unwrap().start;
        let all = list_members(|_| true, 0);
        assert!(all.contains(&number) && !all.contains(&engine) && !all.contains(&parent));
        assert!(list_members(|_| false, since).contains(&number));
        assert!(!list_members(|_| false, since + 1).contains(&number));
        let _ = before.kill();
        let _ = before.wait();
    }

    #[test]
    fn the_end_is_uncertain_while_the_engine_stands_still() {
        let now = Instant::now();
        for (late, is_seen) in
            [(Duration::ZERO, true), (LOOK, true), (Duration::from_secs(6), false)]
        {
            let (sender, receiver) = mpsc::channel();
            sender.send((Ok(ExitStatus::default()), now + late)).unwrap();
            let group = rustix::process::getpid();
            let stop = AtomicBool::new(false);
            let (_, _, unseen) = wait(&receiver, now, Duration::MAX, &stop, group);
            assert_eq!(unseen <= 2 * LOOK, is_seen, "{unseen:?}");
        }
    }

    #[test]
    fn a_program_that_changes_itself_all_the_time_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("again");
        fs::write(&path, "exec sh \"$0\"\n").unwrap();
        for _ in 0..20 {
            run("setsid sh ./again & echo done", Duration::MAX, folder.path());
            assert_eq!(list_sleepers("./again"), [] as [String; 0]);
        }
    }

    #[test]
    fn a_wish_to_stop_ends_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let line = CommandLine {
            words: ["sleep", "1000"].map(str::to_owned).into(),
            ..CommandLine::default()
        };
        let ended = run_line(&line, folder.path(), Duration::MAX, true);
        assert!(matches!(ended.end, ProcessEnd::Stopped));
    }

    #[test]
    fn a_missing_program_is_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let line =
            CommandLine { words: vec!["/no/such/program".to_owned()], ..CommandLine::default() };
        let ended = run_line(&line, folder.path(), Duration::MAX, false);
        assert!(matches!(ended.end, ProcessEnd::NotStarted(_)));
    }
}

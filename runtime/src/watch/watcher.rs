//! The watcher's thread.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use super::activity::{Activity, make_waker, wake_watcher};
use super::cause::ProcessState;
use super::channel::{Channel, Endpoint, Peer};
use super::deaths::Deaths;
use super::judge::{Judge, Said};
use super::process::{is_traced, list_siblings, measure_cpu_s, read_state};
use super::pulse::{Pulse, limit_quiet};
use super::sign::Sign;
use super::start::StartJudge;
use crate::comm::launched::launched_rank;
use crate::comm::{Comm, LocalComm};
use crate::error::Error;
use crate::output::remove_partial_files;

/// Pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// The same where the phase is a new one. Phases of parts of k may be short.
const SHORT_PAUSE: Duration = Duration::from_millis(50);
/// Pauses of the watcher over its CPU time: whatever comes, it costs at most a twentieth of a core.
const REST: u32 = 19;
/// Pause between the last line and the end of this process, which ends the job: a launcher has to pass the line on.
const LAST_LINE: Duration = Duration::from_millis(300);
/// Pause of a rank that is told of the end, in which a launcher may end it. Open MPI takes a second for each of two signals.
const TOLD_END: Duration = Duration::from_secs(5);
/// Bytes of the thread's stack.
const STACK_BYTES: usize = 256 << 10;

/// The settings of a watch.
#[derive(Debug, Clone, Copy)]
pub struct WatchSettings {
    /// Seconds of standstill after which the job ends; infinite for never.
    pub timeout_s: f64,
    /// The same once all ranks have joined.
    pub joined_timeout_s: f64,
    /// Says a line to the users.
    pub say: fn(&str),
    /// Ends this process at once, without the end of MPI.
    pub end: fn(),
}

/// The watch of this rank, which ends when it is dropped.
pub struct RankWatch {
    shared: Arc<Shared>,
    settings: WatchSettings,
    thread: Option<JoinHandle<()>>,
}

/// The rank and its watcher.
struct Shared {
    is_over: AtomicBool,
    /// The other ranks, once they are known.
    joined: Mutex<Option<WatchedRanks>>,
}

/// The ranks of the job.
struct WatchedRanks {
    me: usize,
    judge: Judge,
    /// `None` for a single rank, or where no socket can be had.
    channel: Option<Channel>,
    peers: Vec<Peer>,
    deaths: Deaths,
}

impl RankWatch {
    /// Starts to watch this process, which does not know the other ranks yet. `None` where the system has no thread for it: a
    /// job without watch is better than none.
    pub fn start(settings: WatchSettings) -> Option<Self> {
        let waker = make_waker()?;
        let shared = Arc::new(Shared { is_over: AtomicBool::new(false), joined: Mutex::default() });
        let host = LocalComm::new().host().to_owned();
        let watcher = Watcher {
            waker,
            shared: Arc::clone(&shared),
            settings,
            pulse: Pulse::new(limit_quiet(settings.timeout_s)),
            start: StartJudge::new(launched_rank(), host, settings.timeout_s),
            ranks: None,
            sign: None,
        };
        let thread = std::thread::Builder::new()
            .name("watch".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(|| watcher.run())
            .ok()?;
        Some(Self { shared, settings, thread: Some(thread) })
    }

    /// Joins the watches of all ranks. If a rank has no watch, the watch over all ends, and the head rank says so.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks.
    pub fn join(
        watch: Option<Self>,
        comm: &dyn Comm,
        say: fn(&str),
    ) -> Result<Option<Self>, Error> {
        // Containers of one host name may have networks of their own.
        let network = std::fs::read_link("/proc/self/ns/net").ok();
        let networks = comm.gather(&(comm.host().to_owned(), network))?;
        let endpoint = Endpoint::open(networks.iter().all(|network| *network == networks[0]));
        let hosts: Vec<String> = networks.into_iter().map(|(host, _)| host).collect();
        let me = comm.rank();
        let own = watch.as_ref().map(|_| endpoint.describe(comm.host()));
        let peers = comm.gather(&own)?;
        if let Some(rank) = peers.iter().position(Option::is_none).filter(|_| me == 0) {
            say(&format!(
                "rank {rank} has no memory for another thread: ranks that stand still are not named, and do not end the job"
            ));
        }
        let peers: Option<Vec<Peer>> = peers.into_iter().collect();
        let (Some(watch), Some(peers)) = (watch, peers) else {
            return Ok(None);
        };
        let mut channel = match comm.size() {
            1 => None,
            _ => endpoint.join(&peers, me),
        };
        if let Some(channel) = &mut channel {
            // The first sign comes from here: a rank may stop before its watcher has looked.
            channel.send_once(&Pulse::default().beat(0.0, Activity::read(), measure_cpu_s), false);
        }
        let ranks = WatchedRanks {
            me,
            judge: Judge::new(&hosts, me, watch.settings.joined_timeout_s),
            channel,
            deaths: Deaths::watch(&peers, me),
            peers,
        };
        *lock(&watch.shared.joined) = Some(ranks);
        wake_watcher();
        Ok(Some(watch))
    }
}

impl Drop for RankWatch {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        wake_watcher();
        if let Some(thread) = self.thread.take() {
            // A panic has been reported.
            let _ = thread.join();
        }
    }
}

fn lock(joined: &Mutex<Option<WatchedRanks>>) -> std::sync::MutexGuard<'_, Option<WatchedRanks>> {
    joined.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state of the thread.
struct Watcher {
    /// Wakes this thread.
    waker: BorrowedFd<'static>,
    shared: Arc<Shared>,
    settings: WatchSettings,
    pulse: Pulse,
    start: StartJudge,
    ranks: Option<WatchedRanks>,
    /// The last sign of this rank.
    sign: Option<Sign>,
}

impl Watcher {
    fn run(mut self) {
        let mut last = Instant::now();
        let mut used = Duration::ZERO;
        loop {
            let now = clock_gettime(ClockId::ThreadCPUTime);
            let now = Duration::try_from(now).unwrap_or(used);
            rest(self.waker, &self.shared.is_over, REST * now.saturating_sub(used));
            used = now;
            // The rest may have taken the waker's event.
            if !self.shared.is_over.load(Ordering::Relaxed) {
                self.sleep(self.pause().saturating_sub(last.elapsed()));
            }
            if let Some(ranks) = lock(&self.shared.joined).take() {
                self.ranks = Some(ranks);
            }
            self.tell_death();
            self.listen();
            if self.shared.is_over.load(Ordering::Relaxed) {
                return self.take_leave();
            }
            let elapsed = last.elapsed();
            if elapsed >= self.pause() {
                last = Instant::now();
                self.beat(elapsed.as_secs_f64());
            }
        }
    }

    /// Returns the pause between the last look and the next one: a new phase is told sooner.
    fn pause(&self) -> Duration {
        let told = self.sign.map(|sign| sign.phase);
        if told == Some(Activity::read().phase) { PAUSE } else { SHORT_PAUSE }
    }

    /// Sleeps until this time is over, a datagram comes, a rank of this host dies or this one wakes the watcher.
    fn sleep(&self, time: Duration) {
        let events = self.ranks.iter().flat_map(|ranks| {
            let sockets = ranks.channel.iter().map(Channel::socket);
            sockets.chain(ranks.deaths.descriptor())
        });
        let mut events: Vec<_> = std::iter::once(self.waker)
            .chain(events)
            .map(|event| PollFd::from_borrowed_fd(event, PollFlags::IN))
            .collect();
        // An interrupted sleep is a short one.
        let _ = poll(&mut events, Timespec::try_from(time).ok().as_ref());
        let _ = rustix::io::read(self.waker, &mut [0; 8]);
    }

    /// Says that a rank of this host has died since memory ran out.
    fn tell_death(&mut self) {
        let Some(ranks) = &mut self.ranks else {
            return;
        };
        let Some(rank) = ranks.deaths.take_dead() else {
            return;
        };
        if ranks.deaths.has_killed() && !ranks.judge.has_ended(rank) {
            let host = &ranks.peers[rank].host;
            (self.settings.say)(&format!(
                "rank {rank} on {host} has died, and the system there has killed a process for lack of memory since the start: \
                 give the job more memory, or use more hosts"
            ));
        }
    }

    /// Takes in the datagrams that have come.
    fn listen(&mut self) {
        let Some(ranks) = &mut self.ranks else {
            return;
        };
        let Some(channel) = &mut ranks.channel else {
            return;
        };
        for word in channel.receive() {
            if word.ends_job {
                let host = &ranks.peers[word.rank].host;
                let line = format!("rank {} on {host} ends the job", word.rank);
                end_process(self.settings, TOLD_END, &line);
            }
            ranks.judge.hear(word.rank, word.sign);
        }
    }

    /// Looks at this rank, sends its sign and says what there is to say.
    fn beat(&mut self, elapsed_s: f64) {
        let mut sign = self.pulse.beat(elapsed_s, Activity::read(), measure_cpu_s);
        sign.is_traced = is_traced();
        self.sign = Some(sign);
        let Some(ranks) = &mut self.ranks else {
            let said = self.start.judge(&sign, list_siblings);
            return said.into_iter().for_each(|said| self.say(said));
        };
        if let Some(channel) = &mut ranks.channel {
            channel.send_sign(&sign);
            if !channel.take_drained() {
                ranks.judge.excuse_silence(elapsed_s);
            }
        }
        ranks.judge.hear(ranks.me, sign);
        let (peers, me) = (&ranks.peers, ranks.me);
        let said = ranks.judge.advance(elapsed_s, &mut |rank| look_at(peers, me, rank));
        said.into_iter().for_each(|said| self.say(said));
    }

    fn say(&mut self, said: Said) {
        match said {
            Said::Line(line) => (self.settings.say)(&line),
            Said::End(line) => {
                if !line.is_empty() {
                    (self.settings.say)(&line);
                }
                let channel = self.ranks.as_mut().and_then(|ranks| ranks.channel.as_mut());
                if let (Some(channel), Some(sign)) = (channel, &self.sign) {
                    channel.send_once(sign, true);
                }
                end_process(self.settings, LAST_LINE, "");
            }
        }
    }

    /// Tells the other ranks that this one is watched no longer.
    fn take_leave(&mut self) {
        let channel = self.ranks.as_mut().and_then(|ranks| ranks.channel.as_mut());
        if let Some(channel) = channel {
            let ended =
                Sign { has_ended: true, ..self.pulse.beat(0.0, Activity::read(), measure_cpu_s) };
            channel.send_once(&ended, false);
        }
    }
}

/// Rests for this time, or until the watch is over.
fn rest(waker: BorrowedFd<'_>, is_over: &AtomicBool, time: Duration) {
    let start = Instant::now();
    while !is_over.load(Ordering::Relaxed)
        && let Some(left) = time.checked_sub(start.elapsed()).filter(|left| !left.is_zero())
    {
        let mut waker = [PollFd::from_borrowed_fd(waker, PollFlags::IN)];
        let _ = poll(&mut waker, Timespec::try_from(left).ok().as_ref());
        let _ = rustix::io::read(&waker[0], &mut [0; 8]);
    }
}

/// Ends this process after a pause, in which its incomplete files are removed, with a line if a launcher has not ended it by then.
fn end_process(settings: WatchSettings, pause: Duration, line: &str) {
    // Another thread removes them: their file system may be the cause of the standstill.
    let _ = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(remove_partial_files);
    std::thread::sleep(pause);
    if !line.is_empty() {
        (settings.say)(line);
    }
    (settings.end)();
}

/// Looks at the process of a rank, if it is one of this host.
fn look_at(peers: &[Peer], me: usize, rank: usize) -> ProcessState {
    let (own, other) = (&peers[me], &peers[rank]);
    if other.has_processes_of(own) { read_state(other.process) } else { ProcessState::Unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_watch_ends_a_long_rest() {
        let waker = make_waker().unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let resting = scope.spawn(|| rest(waker, &is_over, Duration::from_secs(86_400)));
            // A new phase does not end it.
            wake_watcher();
            is_over.store(true, Ordering::Relaxed);
            while !resting.is_finished() {
                wake_watcher();
            }
        });
    }
}

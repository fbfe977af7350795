//! The clocks of the hosts, brought to the clock of the head rank's host.
//!
//! Ranks on one host read the same clock. The lowest rank of every other host asks the head rank for its time, at the
//! beginning of the run and at the end. Halfway between question and answer the two clocks differ by the difference of their
//! readings, with an error of at most half of the round trip, whichever of the two messages took longer. The fastest of some
//! round trips counts. Between the two comparisons the difference is interpolated; before and after them it is constant.

use isochron_core::Error;
use isochron_core::comm::{Comm, Message, Transfer};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Round trips of a comparison.
const ROUND_TRIPS: usize = 16;

/// Nanoseconds in a second.
const SECOND_NS: u64 = 1_000_000_000;

/// Returns the time of this host in nanoseconds since some moment, the same for all processes.
pub fn read_clock() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // This clock starts at 0 with the host.
    time.tv_sec.unsigned_abs() * SECOND_NS + time.tv_nsec.unsigned_abs()
}

/// A comparison of a host's clock with that of the head rank's host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    /// The time of the comparison, by the host's own clock.
    pub at_ns: u64,
    /// Nanoseconds by which the host's clock is ahead.
    pub ahead_ns: i64,
    /// Most nanoseconds by which `ahead_ns` may be wrong.
    pub error_ns: u64,
}

/// The clock of a host, compared twice.
#[derive(Debug, Clone, Copy, Default)]
pub struct RankClock {
    /// The comparison at the beginning of the run.
    pub first: ClockReading,
    /// The comparison at the end.
    pub last: ClockReading,
}

impl RankClock {
    /// Converts a time of this host to the clock of the head rank's host.
    pub fn to_head_ns(self, own_ns: u64) -> u64 {
        let Self { first, last } = self;
        let at_ns = own_ns.clamp(first.at_ns, last.at_ns.max(first.at_ns));
        let since_ns = (at_ns - first.at_ns) as f64;
        let span_ns = last.at_ns.saturating_sub(first.at_ns).max(1) as f64;
        let change_ns = (last.ahead_ns - first.ahead_ns) as f64 * since_ns / span_ns;
        let ahead_ns = first.ahead_ns + change_ns.round() as i64;
        own_ns.saturating_add_signed(-ahead_ns)
    }

    /// Returns the most nanoseconds by which a time between the two comparisons may be wrong, if the clocks drift evenly.
    pub fn error_ns(self) -> u64 {
        self.first.error_ns.max(self.last.error_ns)
    }
}

/// Compares the clock of this rank's host with that of the head rank's host. `hosts` are those of the ranks.
///
/// # Errors
/// Returns the errors of messages.
///
/// # Collective
/// All ranks.
pub fn compare_clocks(comm: &dyn Comm, hosts: &[String]) -> Result<ClockReading, Error> {
    let rank = comm.rank();
    let first_ranks = list_first_ranks(hosts);
    if first_ranks.iter().all(|&first| first == 0) {
        let at_ns = read_clock();
        return Ok(ClockReading { at_ns, ..ClockReading::default() });
    }
    let mut mine = ClockReading { at_ns: read_clock(), ..ClockReading::default() };
    for other in (1..hosts.len()).filter(|&other| first_ranks[other] == other) {
        if rank == 0 {
            answer_rank(comm, other)?;
        } else if rank == other {
            mine = ask_head(comm)?;
        }
    }
    Ok(comm.gather(&mine)?[first_ranks[rank]])
}

/// Returns the lowest rank on the host of each rank.
fn list_first_ranks(hosts: &[String]) -> Vec<usize> {
    let first_rank = |host: &String| hosts.iter().position(|other| other == host);
    hosts.iter().filter_map(first_rank).collect()
}

/// Asks the head rank for its time, some times, and returns the most precise comparison.
fn ask_head(comm: &dyn Comm) -> Result<ClockReading, Error> {
    let mut best = ask_once(comm)?;
    for _ in 1..ROUND_TRIPS {
        let next = ask_once(comm)?;
        if next.error_ns < best.error_ns {
            best = next;
        }
    }
    Ok(best)
}

fn ask_once(comm: &dyn Comm) -> Result<ClockReading, Error> {
    let (question, answer) = (Message::plain(0, 0, 0..1), Message::plain(0, 1, 0..1));
    let asked_ns = read_clock();
    let buffers = vec![vec![0_u64], vec![0]];
    let buffers = Transfer::start(comm, buffers, &[question], &[answer])?.finish()?;
    let told_ns = read_clock();
    Ok(compare(asked_ns, buffers[1][0], told_ns))
}

/// Compares by the times of a question and its answer, and the time that was told.
fn compare(asked_ns: u64, head_ns: u64, told_ns: u64) -> ClockReading {
    let round_trip_ns = told_ns - asked_ns;
    let at_ns = asked_ns + round_trip_ns / 2;
    ClockReading {
        at_ns,
        ahead_ns: at_ns.wrapping_sub(head_ns).cast_signed(),
        error_ns: round_trip_ns.div_ceil(2),
    }
}

/// Tells a rank the time of the head rank, as often as [`ask_head`] asks.
fn answer_rank(comm: &dyn Comm, rank: usize) -> Result<(), Error> {
    let message = [Message::plain(rank, 0, 0..1)];
    for _ in 0..ROUND_TRIPS {
        Transfer::start(comm, vec![vec![0_u64]], &[], &message)?.finish()?;
        Transfer::start(comm, vec![vec![read_clock()]], &message, &[])?.finish()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host's clock that was ahead when the head's clock showed 0, and gains on it.
    struct MadeUpClock {
        ahead_ns: i64,
        gained: f64,
    }

    impl MadeUpClock {
        /// Returns the time of this clock when the head's shows `head_ns`.
        fn read(&self, head_ns: u64) -> u64 {
            let ahead_ns = self.ahead_ns + (self.gained * head_ns as f64).round() as i64;
            head_ns.saturating_add_signed(ahead_ns)
        }

        /// Compares it by a question that travels for `there_ns` and an answer for `back_ns`.
        fn compare(&self, head_ns: u64, there_ns: u64, back_ns: u64) -> ClockReading {
            let [asked_ns, told_ns] = [head_ns - there_ns, head_ns + back_ns];
            compare(self.read(asked_ns), head_ns, self.read(told_ns))
        }
    }

    #[test]
    fn times_are_right_within_half_of_the_fastest_round_trip() {
        let [begin, end] = [50 * SECOND_NS, 350 * SECOND_NS];
        for ahead_ns in [-40 * SECOND_NS as i64, 0, 7, 123_456_789_012_345] {
            for gained in [-1e-4, 0.0, 2e-5] {
                let clock = MadeUpClock { ahead_ns, gained };
                for [there_ns, back_ns] in [[20_000, 20_000], [0, 90_000], [70_000, 1]] {
                    let host = RankClock {
                        first: clock.compare(begin, there_ns, back_ns),
                        last: clock.compare(end, back_ns, there_ns),
                    };
                    assert!(host.error_ns() <= 45_010, "{host:?}");
                    for head_ns in (begin..=end).step_by(SECOND_NS as usize * 10) {
                        let found_ns = host.to_head_ns(clock.read(head_ns));
                        let wrong_ns = found_ns.abs_diff(head_ns);
                        assert!(wrong_ns <= host.error_ns() + 2, "{wrong_ns} {host:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_difference_stays_as_it_was_compared_outside_of_the_comparisons() {
        let at = |at_ns, ahead_ns| ClockReading { at_ns, ahead_ns, error_ns: 0 };
        let host = RankClock { first: at(1_000, 100), last: at(2_000, 200) };
        let times = [0, 90, 500, 1_000, 1_500, 2_000, 9_000].map(|own_ns| host.to_head_ns(own_ns));
        assert_eq!(times, [0, 0, 400, 900, 1_350, 1_800, 8_800]);
    }

    #[test]
    fn the_order_of_times_stays() {
        let host =
            RankClock { first: compare(1_000, 40, 1_100), last: compare(90_000, 89_900, 90_010) };
        let times: Vec<u64> = (0..100_000).map(|own_ns| host.to_head_ns(own_ns)).collect();
        assert!(times.is_sorted());
    }

    #[test]
    fn the_lowest_rank_of_a_host_speaks_for_it() {
        let hosts = ["a", "b", "a", "c", "b"].map(str::to_owned);
        assert_eq!(list_first_ranks(&hosts), [0, 1, 0, 3, 1]);
    }
}

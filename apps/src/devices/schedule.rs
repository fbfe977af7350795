//! The measurements of a run in their order, and the seconds that each may take.

use std::collections::BTreeMap;
use std::time::Instant;

use isochron_core::Error;
use isochron_core::comm::Comm;
use isochron_devices::DeviceInfo;

use crate::terminal_line::{TerminalLine, describe_interval};

/// Part of the budget that the measurements left can divide even if earlier ones have overrun theirs.
const LEAST_PART: f64 = 0.1;

/// The measurements of a run: how many there are, and how many are done.
pub struct Schedule {
    start: Instant,
    /// Seconds for all measurements; infinite without a budget.
    budget_s: f64,
    begun: usize,
    total: usize,
    /// The widest confidence interval of the last measurement, as a part of the time, and its level; `None` before the
    /// first, and if no device has a time.
    interval: Option<(f64, f64)>,
    progress: TerminalLine,
}

impl Schedule {
    /// Makes the schedule of `total` measurements that share `budget_s` seconds, counted from `start`.
    pub fn new(start: Instant, budget_s: f64, total: usize, is_head: bool) -> Self {
        Self {
            start,
            budget_s,
            begun: 0,
            total,
            interval: None,
            progress: TerminalLine::of_rank(is_head),
        }
    }

    /// Begins the next measurement and shows which one it is. Returns the seconds that it may take: an equal part of
    /// the rest of the budget.
    pub fn begin_next(&mut self, what: &str) -> f64 {
        let left = self.total - self.begun;
        self.begun += 1;
        let spent_s = self.start.elapsed().as_secs_f64();
        self.progress.show(&self.describe(what, spent_s));
        divide_rest(self.budget_s, spent_s, left)
    }

    /// Takes in the widest confidence interval of the last measurement, as a part of the time, and its level.
    pub fn note_interval(&mut self, widest: Option<f64>, confidence: f64) {
        self.interval = widest.map(|widest| (widest, confidence));
    }

    /// Describes the progress after these seconds, the most important first: a narrow terminal cuts the end.
    fn describe(&self, what: &str, spent_s: f64) -> String {
        let Self { begun, total, .. } = *self;
        let mut text = format!("measuring: {begun} of {total}");
        let left_s = (self.budget_s - spent_s).max(0.0);
        if left_s.is_finite() {
            text += &format!(", at most {left_s:.0} s left");
        }
        if let Some((widest, confidence)) = self.interval {
            text += &describe_interval(widest, confidence);
        }
        format!("{text}, now {what}")
    }
}

fn divide_rest(budget_s: f64, spent_s: f64, left: usize) -> f64 {
    (budget_s - spent_s).max(LEAST_PART * budget_s) / left.max(1) as f64
}

/// A rank's host and the names of its devices.
pub type RankDevices = (String, Vec<String>);

/// Returns the devices of every rank.
///
/// # Collective
/// All ranks, each with its own devices.
pub fn gather_names(comm: &dyn Comm, infos: &[DeviceInfo]) -> Result<Vec<RankDevices>, Error> {
    let names: Vec<String> = infos.iter().map(|info| info.name.clone()).collect();
    comm.gather(&(comm.host().to_owned(), names))
}

/// The devices of this rank's host, which are measured alone one after the other. All hosts are measured at once.
pub struct HostTurns {
    rank: usize,
    devices: Vec<HostDevice>,
    /// Number of turns: the most devices of a host.
    pub count: usize,
}

/// A device of this rank's host.
struct HostDevice {
    rank: usize,
    /// Its index in the rank's team.
    index: usize,
    name: String,
}

impl HostTurns {
    /// Lists the devices on the host of `rank`; `all` are those of each rank.
    pub fn of_rank(rank: usize, all: &[RankDevices]) -> Self {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let mut devices = Vec::new();
        for (other, (host, names)) in all.iter().enumerate() {
            *counts.entry(host).or_default() += names.len();
            let here = names.iter().filter(|_| *host == all[rank].0);
            devices.extend(here.enumerate().map(|(index, name)| HostDevice {
                rank: other,
                index,
                name: name_device(all.len(), other, name),
            }));
        }
        Self {
            rank,
            devices,
            count: counts.into_values().max().unwrap_or(0),
        }
    }

    /// Returns `true` if this host has several devices.
    pub fn has_several(&self) -> bool {
        self.devices.len() > 1
    }

    /// Returns the index of the device that has this turn, if it is this rank's.
    pub fn own_device(&self, turn: usize) -> Option<usize> {
        self.devices
            .get(turn)
            .filter(|d| d.rank == self.rank)
            .map(|d| d.index)
    }

    /// Returns the name of the device that has this turn on this host.
    pub fn device_name(&self, turn: usize) -> &str {
        let device = self.devices.get(turn);
        device.map_or("devices of other hosts", |device| &device.name)
    }
}

/// Returns the name of a rank's device, with the rank if there are several ranks.
pub fn name_device(ranks: usize, rank: usize, name: &str) -> String {
    match ranks {
        1 => name.to_owned(),
        _ => format!("rank {rank} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_divided_over_the_measurements_that_are_left() {
        assert_eq!(divide_rest(40.0, 0.0, 16), 2.5);
        // Time that small sizes leave goes to larger ones, and time that one takes too much comes from the others.
        assert_eq!(divide_rest(40.0, 8.0, 8), 4.0);
        assert_eq!(divide_rest(40.0, 36.0, 2), 2.0);
        assert_eq!(divide_rest(40.0, 100.0, 2), 2.0);
        assert_eq!(divide_rest(f64::INFINITY, 1e9, 3), f64::INFINITY);
        // Whatever each takes of its part, all together take the budget.
        let spent_s = (1..=17).rev().fold(0.0, |spent_s, left| {
            spent_s + divide_rest(40.0, spent_s, left) * [1.0, 0.25][left % 2]
        });
        assert!(spent_s <= 40.0, "{spent_s}");
    }

    #[test]
    fn the_progress_tells_the_time_left_and_the_last_interval() {
        let mut schedule = Schedule::new(Instant::now(), 40.0, 16, false);
        schedule.begun = 3;
        assert_eq!(
            schedule.describe("a", 10.0),
            "measuring: 3 of 16, at most 30 s left, now a"
        );
        schedule.note_interval(Some(0.012), 0.95);
        assert_eq!(
            schedule.describe("a", 50.0),
            "measuring: 3 of 16, at most 0 s left, ±1.2 % at 95 %, now a"
        );
        schedule.budget_s = f64::INFINITY;
        assert_eq!(
            schedule.describe("a", 50.0),
            "measuring: 3 of 16, ±1.2 % at 95 %, now a"
        );
        // Updates that took too long have no interval.
        schedule.note_interval(None, 0.95);
        assert_eq!(schedule.describe("a", 50.0), "measuring: 3 of 16, now a");
    }

    #[test]
    fn the_devices_of_a_host_take_turns_while_other_hosts_measure_theirs() {
        let ranks = [("a", 1), ("b", 1), ("a", 2)];
        let ranks = ranks.map(|(host, n)| (host.to_owned(), vec!["cpu".to_owned(); n]));
        let all: Vec<HostTurns> = (0..3)
            .map(|rank| HostTurns::of_rank(rank, &ranks))
            .collect();
        let expected = [
            [Some(0), None, None],
            [Some(0), None, None],
            [None, Some(0), Some(1)],
        ];
        for (turns, expected) in all.iter().zip(expected) {
            assert_eq!([0, 1, 2].map(|turn| turns.own_device(turn)), expected);
        }
        assert!(all.iter().all(|turns| turns.count == 3));
        assert_eq!(
            [0, 1, 2].map(|rank| all[rank].has_several()),
            [true, false, true]
        );
        assert_eq!(all[0].device_name(2), "rank 2 cpu");
        assert_eq!(all[1].device_name(2), "devices of other hosts");
    }
}

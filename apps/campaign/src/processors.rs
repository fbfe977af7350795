//! Processor time that others use on this host.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;

use crate::processes::HostProcess;
use crate::record::UNCLEAR;

/// Part of the host's processor time that others may use.
const SHARE: f64 = 0.1;

/// Seconds of processor time that say nothing: the system counts in hundredths.
const UNSURE_S: f64 = 0.1;

/// Processor times up to a moment.
#[derive(Debug)]
pub(crate) struct ProcessorTimes {
    /// Processor time of all processes of the host, with the time that other virtual machines took.
    host_s: f64,
    stolen_s: f64,
    /// Processor time of this process and of its children that have ended.
    own_s: f64,
    processors: usize,
    /// Processor time of each other process, by its number and start, with that of its children that have ended.
    others_s: HashMap<(i32, u64), f64>,
}

impl ProcessorTimes {
    /// Reads the times of this host; zeros where the system does not tell them.
    pub fn read() -> Self {
        let host = fs::read_to_string("/proc/stat").unwrap_or_default();
        let own = HostProcess::read("self").unwrap_or_default();
        Self::new(&host, own, &HostProcess::list())
    }

    fn new(host: &str, own: HostProcess, all: &[HostProcess]) -> Self {
        let times = host.lines().next().unwrap_or_default().split_whitespace();
        let times_s = times.skip(1).map(|ticks| count_seconds(ticks.parse().unwrap_or(0)));
        let times_s: Vec<f64> = times_s.collect();
        let idle_s: f64 = times_s.iter().skip(3).take(2).sum();
        let processors = host.lines().filter(|line| line.starts_with("cpu"));
        Self {
            // Guests are counted among the users.
            host_s: times_s.iter().take(8).sum::<f64>() - idle_s,
            stolen_s: times_s.get(7).copied().unwrap_or(0.0),
            own_s: count_seconds(own.own_ticks + own.children_ticks),
            processors: processors.count().saturating_sub(1),
            others_s: all
                .iter()
                .filter(|process| process.number != own.number)
                .map(time_process)
                .collect(),
        }
    }

    /// Describes the time that others used from `before` to these times; `None` if it was little.
    ///
    /// A process that exists at both times does not belong to the repetition. A process that came or went without being our child
    /// may belong to it: a batch system or a service may do the command's work.
    pub fn describe_others(&self, before: &Self, took: Duration) -> Option<String> {
        let whole_s = self.processors as f64 * took.as_secs_f64();
        let is_much = |time_s: f64| time_s > UNSURE_S && time_s / whole_s > SHARE;
        let others_s = (self.host_s - before.host_s) - (self.own_s - before.own_s);
        if !is_much(others_s) {
            return None;
        }
        let stayed_s = self.others_s.iter();
        let stayed_s =
            stayed_s.filter_map(|(name, time_s)| Some(time_s - before.others_s.get(name)?));
        let mark = if is_much(stayed_s.sum::<f64>() + self.stolen_s - before.stolen_s) {
            "disturbed: other processes".to_owned()
        } else {
            format!("{UNCLEAR}processes that came or went")
        };
        let percent = 100.0 * others_s / whole_s;
        Some(format!("{mark} used {percent:.0} % of this host's processors"))
    }
}

/// Returns the number and start of a process, and the processor time of it and of its children that have ended. The first process
/// waits for what others leave behind, which was not its own.
fn time_process(it: &HostProcess) -> ((i32, u64), f64) {
    let children = if it.number == 1 { 0 } else { it.children_ticks };
    ((it.number, it.start), count_seconds(it.own_ticks + children))
}

fn count_seconds(ticks: u64) -> f64 {
    ticks as f64 / clock_ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the times of a host with two processors, in ticks: of all processes, stolen, and of the engine's children. `all`
    /// has the numbers, starts, own times and times of children of processes.
    fn times(
        busy: u32,
        stolen: u32,
        children: u32,
        all: &[(i32, u64, u64, u64)],
    ) -> ProcessorTimes {
        let host = format!("cpu  {busy} 0 0 500 7 0 0 {stolen} 99 0\ncpu0 1 0\ncpu1 1 0\nintr 5\n");
        let own = format!("12 (a (b) c) S 1 12 12 0 -1 0 0 0 0 0 3 2 {children} 0 20 0");
        let own = HostProcess::parse(&own).unwrap();
        let make = |&(number, start, own_ticks, children_ticks)| HostProcess {
            number,
            start,
            own_ticks,
            children_ticks,
            ..HostProcess::default()
        };
        let all: Vec<HostProcess> = all.iter().map(make).chain([own]).collect();
        ProcessorTimes::new(&host, own, &all)
    }

    #[test]
    fn only_what_others_used_counts() {
        let second = Duration::from_secs(1);
        let before = times(1000, 0, 100, &[(1, 1, 5, 50), (7, 3, 10, 20)]);
        let disturbed = "disturbed: other processes used 50 % of this host's processors";
        let unclear = "unclear: processes that came or went used 50 % of this host's processors";
        for (busy, stolen, children, now, expected) in [
            // Two processors were busy for a second, all by our children.
            (1200, 0, 300, (7, 3, 10, 20), None),
            // Half of that by one that was there before, by its children, or on another machine.
            (1200, 0, 200, (7, 3, 110, 20), Some(disturbed)),
            (1200, 0, 200, (7, 3, 10, 120), Some(disturbed)),
            (1100, 100, 200, (7, 3, 10, 20), Some(disturbed)),
            // By processes that a batch system or a service may have had: their time is with nobody, with one that has come, with
            // one that has the number of one before, or with the first process of the system.
            (1200, 0, 200, (7, 3, 10, 20), Some(unclear)),
            (1200, 0, 200, (9, 8, 50, 50), Some(unclear)),
            (1200, 0, 200, (7, 9, 5, 100), Some(unclear)),
            (1200, 0, 200, (1, 1, 5, 150), Some(unclear)),
        ] {
            let after = times(busy, stolen, children, &[now]);
            let told = after.describe_others(&before, second);
            assert_eq!(told.as_deref(), expected, "{after:?}");
        }
        // Within a moment the system counts too coarsely.
        let moment = times(1005, 0, 100, &[]);
        let told = moment.describe_others(&before, Duration::from_millis(50));
        assert_eq!(told, None);
    }
}

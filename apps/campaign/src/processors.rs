//! Processor time that others use on this host.

use std::fs;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;

/// Part of the host's processor time that others may use.
const SHARE: f64 = 0.1;

/// Seconds of processor time that say nothing: the system counts in hundredths.
const UNSURE_S: f64 = 0.1;

/// Processor times up to a moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProcessorTimes {
    /// Processor time of all processes of the host, with the time that other virtual machines took.
    host_s: f64,
    /// Processor time of this process and of its children that have ended.
    own_s: f64,
    processors: usize,
}

impl ProcessorTimes {
    /// Reads the times of this host; zeros where the system does not tell them.
    pub fn read() -> Self {
        let host = fs::read_to_string("/proc/stat").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        Self::parse(&host, &own, clock_ticks_per_second() as f64)
    }

    fn parse(host: &str, own: &str, ticks_per_s: f64) -> Self {
        let all = host.lines().next().unwrap_or_default();
        let all: Vec<f64> = all
            .split_whitespace()
            .skip(1)
            .map(|ticks| ticks.parse().unwrap_or(0.0))
            .collect();
        let idle: f64 = all.iter().skip(3).take(2).sum();
        // Guests are counted among the users.
        let all: f64 = all.iter().take(8).sum();
        // The name of the program, in brackets, may have blanks.
        let own = own.rsplit_once(')').map_or("", |(_, rest)| rest);
        let own = own.split_whitespace().skip(11).take(4);
        let own: f64 = own.map(|ticks| ticks.parse().unwrap_or(0.0)).sum();
        Self {
            host_s: (all - idle) / ticks_per_s,
            own_s: own / ticks_per_s,
            processors: host
                .lines()
                .filter(|line| line.starts_with("cpu"))
                .count()
                .saturating_sub(1),
        }
    }

    /// Describes the time that others used from `before` to these times; `None` if it was little.
    pub fn describe_others(&self, before: &Self, took: Duration) -> Option<String> {
        let others_s = (self.host_s - before.host_s) - (self.own_s - before.own_s);
        let share = others_s / (self.processors as f64 * took.as_secs_f64());
        (others_s > UNSURE_S && share > SHARE).then(|| {
            format!(
                "disturbed: other processes used {:.0} % of this host's processors",
                100.0 * share
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(busy: u32, idle: u32, children: u32) -> ProcessorTimes {
        let host = format!("cpu  {busy} 0 0 {idle} 7 0 0 0 99 0\ncpu0 1 0\ncpu1 1 0\nintr 5\n");
        let own = format!("12 (a (b) c) S 1 12 12 0 -1 0 0 0 0 0 3 2 {children} 0 20 0");
        ProcessorTimes::parse(&host, &own, 100.0)
    }

    #[test]
    fn only_what_others_used_counts() {
        let before = times(1000, 500, 100);
        let second = Duration::from_secs(1);
        // Two processors were busy for a second, all by our children.
        assert_eq!(times(1200, 500, 300).describe_others(&before, second), None);
        // Half of that by others.
        let warning = times(1200, 500, 200).describe_others(&before, second);
        assert_eq!(
            warning.unwrap(),
            "disturbed: other processes used 50 % of this host's processors"
        );
        // Within a moment the system counts too coarsely.
        assert_eq!(
            times(1005, 500, 100).describe_others(&before, Duration::from_millis(50)),
            None
        );
    }
}

//! The times of one rank's sweeps.

use std::time::Instant;

use crate::error::Error;

/// Collects the times of the current sweep, and those of sweeps that no decision has seen.
#[derive(Debug, Default)]
pub(super) struct SweepTimes {
    begun: Option<Instant>,
    seconds: f64,
    units: u64,
    is_ignored: bool,
    /// Seconds of each sweep that no decision has seen; `None` for one to ignore.
    pub done: Vec<Option<f64>>,
    /// The first wrong call since the last decision.
    fault: Option<Error>,
}

impl SweepTimes {
    pub fn begin(&mut self) {
        if self.begun.replace(Instant::now()).is_some() {
            self.note_fault("begin", "a second time", "call end first");
        }
    }

    pub fn end(&mut self) {
        match self.begun.take() {
            Some(begun) => self.seconds += begun.elapsed().as_secs_f64(),
            None => self.note_fault("end", "without begin", "call begin before the work"),
        }
    }

    pub fn record(&mut self, units: u64, seconds: f64) {
        if self.check_seconds(seconds) {
            self.units = self.units.saturating_add(units);
            self.seconds += seconds;
        }
    }

    /// Returns `true` if this is a time. Other numbers are wrong calls.
    pub fn check_seconds(&mut self, seconds: f64) -> bool {
        let is_time = seconds >= 0.0 && seconds.is_finite();
        if !is_time {
            self.note_fault("seconds", seconds, "a time is a number of at least 0");
        }
        is_time
    }

    pub fn ignore(&mut self) {
        self.is_ignored = true;
    }

    fn note_fault(&mut self, name: &'static str, value: impl ToString, reason: &str) {
        self.fault.get_or_insert_with(|| Error::parameter(name, value, reason));
    }

    /// Ends the sweep, in which this rank had `part` units.
    pub fn end_sweep(&mut self, part: u64) {
        if self.begun.take().is_some() {
            self.note_fault("begin", "without end", "call end before balance");
        }
        let scale = match std::mem::take(&mut self.units) {
            0 => 1.0,
            units => part as f64 / units as f64,
        };
        let seconds = std::mem::take(&mut self.seconds) * scale;
        let is_ignored = std::mem::take(&mut self.is_ignored);
        self.done.push((!is_ignored).then_some(seconds.min(f64::MAX)));
    }

    /// Returns the sweeps that no decision has seen.
    ///
    /// # Errors
    /// Returns the first wrong call since the last decision; the sweeps are forgotten then.
    pub fn take(&mut self) -> Result<Vec<Option<f64>>, Error> {
        let done = std::mem::take(&mut self.done);
        self.fault.take().map_or(Ok(done), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_sweep_add_up_and_stand_for_the_whole_part() {
        let mut times = SweepTimes::default();
        times.record(10, 1.0);
        times.record(30, 5.0);
        times.end_sweep(80);
        times.record(0, 0.5);
        times.end_sweep(80);
        times.end_sweep(80);
        times.record(80, 9.0);
        times.ignore();
        times.end_sweep(80);
        assert_eq!(times.take().unwrap(), [Some(12.0), Some(0.5), Some(0.0), None]);
        times.begin();
        times.end();
        times.end_sweep(80);
        assert!(times.take().unwrap()[0] > Some(0.0));
    }

    #[test]
    fn wrong_calls_are_told_once_with_their_words() {
        for seconds in [-1.0, f64::NAN, f64::INFINITY] {
            let mut times = SweepTimes::default();
            times.record(1, seconds);
            times.end_sweep(1);
            let text = times.take().unwrap_err().to_string();
            assert!(text.contains(&format!("seconds = {seconds}")), "{text}");
            assert!(times.take().unwrap().is_empty());
        }
        let mut times = SweepTimes::default();
        times.end();
        assert!(times.take().unwrap_err().to_string().contains("without begin"));
        times.begin();
        times.begin();
        assert!(times.take().unwrap_err().to_string().contains("a second time"));
        times.end_sweep(1);
        assert!(times.take().unwrap_err().to_string().contains("without end"));
    }
}

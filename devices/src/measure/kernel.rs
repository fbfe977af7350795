//! Repetitions of a kernel, until its mean time is known well enough.

use isochron_hierarchy::times::Measurement;

use super::MeasureConfig;
use super::deadline::{CAREFREE, HOPELESS};
use super::repeat::{InStep, repeat_until_confident};
use crate::contract::DeviceError;
use crate::kernel::{KernelRun, RunEnd};

/// Returns the seconds after which a single run is stopped.
#[must_use]
pub fn limit_run_s(config: &MeasureConfig) -> f64 {
    HOPELESS * config.max_seconds
}

/// Measures a kernel with `d` units: prepares them, warms them up by a run, and repeats until the mean time has the
/// precision asked for, or the repetitions or the time are used up.
///
/// A run that is stopped because it takes too long makes the size hopeless. Its [measurement](Measurement::at_least)
/// is the time until then. A first run that takes more than a sixteenth of the time is not repeated as a warm-up, and
/// counts.
///
/// `in_step` has the last word on every repetition: the kernels of several processes that share memory slow each other
/// down, so they repeat in step. With 0 units there is nothing to measure.
///
/// # Errors
/// Returns [`DeviceError::Measure`] for a configuration out of range; [`DeviceError::Kernel`];
/// [`DeviceError::KernelMemory`] if the units do not fit.
///
/// # References
/// Clarke's thesis, section 3.1.4, algorithm 1.
pub fn measure_kernel(
    run: &mut dyn KernelRun,
    d: u64,
    config: &MeasureConfig,
    in_step: &mut InStep<'_>,
) -> Result<Measurement, DeviceError> {
    config.validate()?;
    if d == 0 {
        return Ok(Measurement::default());
    }
    run.initialize(d)?;
    let first = match run.execute() {
        Ok(first) => first,
        Err(error) => {
            // It says more than one of the end.
            let _ = run.finalize();
            return Err(error);
        }
    };
    let mut times =
        KernelTimes { first, carefree_s: CAREFREE * config.max_seconds, stopped_s: None };
    let found = match times.first {
        RunEnd::Stopped(time_s) => Ok(Measurement::at_least(d, time_s)),
        RunEnd::Done(_) => repeat_until_confident(&[d], config, &mut || times.take(run), in_step)
            .map(|mut measured| measured.swap_remove(0)),
    };
    let ended = run.finalize();
    let found = times.stopped_s.map(|time_s| Measurement::at_least(d, time_s)).map_or(found, Ok)?;
    ended.map(|()| found)
}

/// The times of a kernel's runs.
struct KernelTimes {
    /// The run that warms up.
    first: RunEnd,
    /// Seconds up to which it is not counted.
    carefree_s: f64,
    /// Seconds of a run that was stopped.
    stopped_s: Option<f64>,
}

impl KernelTimes {
    /// Returns the time of the next run.
    fn take(&mut self, run: &mut dyn KernelRun) -> Result<Vec<f64>, DeviceError> {
        let first = std::mem::replace(&mut self.first, RunEnd::Done(0.0));
        let next = match first {
            RunEnd::Done(time_s) if time_s <= self.carefree_s => run.execute()?,
            counted => counted,
        };
        match next {
            RunEnd::Done(time_s) => Ok(vec![time_s]),
            RunEnd::Stopped(time_s) => {
                self.stopped_s = Some(time_s);
                let reason = format!("a run was stopped after {time_s} s");
                let kernel = run.name().to_owned();
                Err(DeviceError::Kernel { kernel, reason })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::times::MeasureOutcome;

    use super::*;
    use crate::measure::repeat_alone;

    /// Runs with these seconds in turn, which are stopped beyond 4 s.
    struct Recorded(Vec<f64>, usize, Vec<&'static str>);

    impl KernelRun for Recorded {
        fn name(&self) -> &str {
            "recorded"
        }

        fn complexity(&mut self, d: u64) -> Result<f64, DeviceError> {
            Ok(d as f64)
        }

        fn initialize(&mut self, _d: u64) -> Result<(), DeviceError> {
            self.2.push("initialize");
            Ok(())
        }

        fn execute(&mut self) -> Result<RunEnd, DeviceError> {
            let time_s = self.0[self.1.min(self.0.len() - 1)];
            self.1 += 1;
            Ok(if time_s > 4.0 { RunEnd::Stopped(time_s) } else { RunEnd::Done(time_s) })
        }

        fn finalize(&mut self) -> Result<(), DeviceError> {
            self.2.push("finalize");
            Ok(())
        }
    }

    fn measure(times_s: &[f64]) -> (Measurement, usize) {
        let mut run = Recorded(times_s.to_vec(), 0, Vec::new());
        let config = MeasureConfig { max_seconds: 2.0, ..MeasureConfig::default() };
        let found = measure_kernel(&mut run, 3, &config, &mut repeat_alone).unwrap();
        assert_eq!(found.repetitions_s.len(), found.sample.reps as usize);
        assert_eq!(run.2, ["initialize", "finalize"]);
        (found, run.1)
    }

    #[test]
    fn a_short_first_run_warms_up_and_a_long_one_counts() {
        let (found, runs) = measure(&[0.1, 0.0625]);
        assert_eq!((found.sample.seconds, found.sample.reps, runs), (0.0625, 3, 4));
        let (found, runs) = measure(&[0.25]);
        assert_eq!((found.sample.seconds, found.sample.reps, runs), (0.25, 3, 3));
        let (found, runs) = measure(&[3.0]);
        assert_eq!((found.sample.seconds, found.sample.reps, runs), (3.0, 1, 1));
        assert_eq!(found.outcome, MeasureOutcome::OutOfTime);
    }

    #[test]
    fn a_run_that_is_stopped_bounds_the_size() {
        assert_eq!(measure(&[5.0]), (Measurement::at_least(3, 5.0), 1));
        let (found, runs) = measure(&[0.25, 0.25, 6.0]);
        assert_eq!((found, runs), (Measurement::at_least(3, 6.0), 3));
    }

    #[test]
    fn no_units_are_not_run() {
        let mut run = Recorded(Vec::new(), 0, Vec::new());
        let config = MeasureConfig::default();
        let found = measure_kernel(&mut run, 0, &config, &mut repeat_alone).unwrap();
        assert_eq!((found, run.1), (Measurement::default(), 0));
    }
}

//! How often to repeat: until the mean of every device is known well enough.

use super::stats::{Sample, median};
use crate::DeviceError;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// A time beyond this multiple of the median is a disturbance: measured again, and not averaged in.
const SPIKE: f64 = 1.25;

/// At most this part of the times can be disturbances; what happens more often is how the device is.
const RARE: f64 = 1.0 / 3.0;

/// When a measurement is good enough, and when to give up.
///
/// # References
/// Khaleghzadeh et al., supplement of the HPOPTA paper, section 1, algorithm 1 (`cl`, `eps`, `minReps`, `maxReps`,
/// `maxT`), whose confidence and precision are the defaults; Clarke's thesis, section 3.1.4, for the 3 repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MeasureConfig {
    /// Confidence that the mean lies in its interval, in (0, 1).
    pub confidence: f64,
    /// Half-width of the interval at which to stop, as a fraction of the mean, above 0.
    pub precision: f64,
    /// Repetitions at least, 2 or more.
    pub min_reps: u32,
    /// Repetitions that are needed, at most; with spikes, up to half as many more.
    pub max_reps: u32,
    /// Time after which no further repetition is needed, above 0: seconds of the busiest device or, if that is more,
    /// by the clock on the wall, waiting for nodes in step included.
    pub max_seconds: f64,
}

impl Default for MeasureConfig {
    fn default() -> Self {
        Self {
            confidence: 0.95,
            precision: 0.025,
            min_reps: 3,
            max_reps: 20,
            max_seconds: 10.0,
        }
    }
}

impl MeasureConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// [`DeviceError::Measure`] with the first field that is out of range.
    pub fn validate(&self) -> Result<(), DeviceError> {
        let check = |field, value: f64, valid: bool, must_be| {
            if valid {
                return Ok(());
            }
            Err(DeviceError::Measure {
                field,
                value,
                must_be,
            })
        };
        let confidence = self.confidence;
        let inside = confidence > 0.0 && confidence < 1.0;
        check("confidence", confidence, inside, "between 0 and 1")?;
        let (precision, seconds) = (self.precision, self.max_seconds);
        check("precision", precision, precision > 0.0, "above 0")?;
        check("max_seconds", seconds, seconds > 0.0, "above 0")?;
        let (min, max) = (self.min_reps, self.max_reps);
        check("min_reps", min.into(), min >= 2, "at least 2")?;
        check("max_reps", max.into(), max >= min, "at least min_reps")
    }
}

/// How long an update takes on one device.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Measurement {
    /// Mean time in seconds.
    pub t_s: f64,
    /// Half-width of its confidence interval in seconds; `t_s` itself when one repetition was all there was time for.
    pub ci_s: f64,
    /// Repetitions that were averaged.
    pub reps: u32,
    /// Whether the precision was reached.
    pub reached: bool,
}

/// Whether there is to be another repetition, given whether this node needs one.
pub type InStep<'a> = dyn FnMut(bool) -> bool + 'a;

/// [`InStep`] for a node that measures by itself.
pub fn alone(needed: bool) -> bool {
    needed
}

/// Repeats `sample`, which returns the time of each of `n_devices` devices in one common repetition, until the mean of
/// every device is known to the precision, or the repetitions or the time are used up.
///
/// A time of more than 1.25 times the median of its device is a disturbance (a page being moved, another program): it
/// is not averaged in, and so measured again. Where more than a third of the times are so long, they are the device's
/// own, and all count. Without devices nothing is repeated.
///
/// `in_step` has the last word on every repetition, so that several nodes can repeat in step, for as long as any of
/// them needs to; with [`alone`] this node's need decides. What is repeated for the others counts as well.
///
/// Two deviations from the paper: the precision counts from `min_reps` repetitions on, not from one more; and the
/// time limit holds from the first repetition, so that an update which alone exceeds it is not repeated. Then
/// [`Measurement::reached`] is false.
///
/// # Errors
/// [`DeviceError::Measure`] for a configuration out of range; the errors of `sample`, at once.
///
/// # References
/// Khaleghzadeh et al., supplement of the HPOPTA paper, section 1, algorithm 1.
pub fn repeat_until_confident(
    n_devices: usize,
    config: &MeasureConfig,
    sample: &mut dyn FnMut() -> Result<Vec<f64>, DeviceError>,
    in_step: &mut InStep<'_>,
) -> Result<Vec<Measurement>, DeviceError> {
    config.validate()?;
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); n_devices];
    if n_devices == 0 {
        return Ok(Vec::new());
    }
    let start = Instant::now();
    let most = config.max_reps.saturating_add(config.max_reps.div_ceil(2)) as usize;
    loop {
        let busy_s = times.iter().map(|t| t.iter().sum()).fold(0.0, f64::max);
        let spent_s = start.elapsed().as_secs_f64().max(busy_s);
        let over =
            times[0].len() >= most || (spent_s >= config.max_seconds && !times[0].is_empty());
        let enough = |m: Measurement| m.reached || m.reps >= config.max_reps;
        let needed = !over && !times.iter().all(|t| enough(evaluate(t, config)));
        if !in_step(needed) {
            break;
        }
        let repetition = sample()?;
        tracing::trace!(times_s = ?repetition, "repetition");
        assert_eq!(repetition.len(), n_devices, "one time for each device");
        for (device, t_s) in times.iter_mut().zip(repetition) {
            device.push(t_s);
        }
    }
    Ok(times.iter().map(|t| evaluate(t, config)).collect())
}

/// What the times of one device say so far.
fn evaluate(times: &[f64], config: &MeasureConfig) -> Measurement {
    let limit_s = SPIKE * median(times);
    let spikes = times.iter().filter(|&&t| t > limit_s).count();
    let rare = spikes as f64 <= RARE * times.len() as f64;
    let counts = |t: &f64| *t <= limit_s || !rare;
    let sample: Sample = times.iter().copied().filter(counts).collect();
    let (t_s, half_width_s) = (sample.mean(), sample.half_width(config.confidence));
    let reps = u32::try_from(sample.count()).unwrap_or(u32::MAX);
    Measurement {
        t_s,
        ci_s: if half_width_s.is_finite() {
            half_width_s
        } else {
            t_s
        },
        reps,
        reached: reps >= config.min_reps && half_width_s <= config.precision * t_s,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replays repetitions, then repeats the last one; tells how many were asked for.
    fn replay(config: &MeasureConfig, reps: &[&[f64]]) -> (Vec<Measurement>, usize) {
        let mut asked = 0;
        let mut sample = || {
            asked += 1;
            Ok(reps[(asked - 1).min(reps.len() - 1)].to_vec())
        };
        let found = repeat_until_confident(reps[0].len(), config, &mut sample, &mut alone);
        (found.unwrap(), asked)
    }

    #[test]
    fn equal_times_stop_at_the_minimum() {
        let (found, asked) = replay(&MeasureConfig::default(), &[&[0.5, 0.25]]);
        assert_eq!(asked, 3);
        assert_eq!(found[1].t_s, 0.25);
        assert!(
            found
                .iter()
                .all(|m| m.reached && m.reps == 3 && m.ci_s == 0.0)
        );
    }

    #[test]
    fn the_least_certain_device_decides() {
        let noisy: &[&[f64]] = &[&[0.2, 0.1], &[0.2, 0.12], &[0.2, 0.11], &[0.2, 0.11]];
        let (found, asked) = replay(&MeasureConfig::default(), noisy);
        assert!(asked > 4 && asked < 20, "{asked}");
        assert!(found.iter().all(|m| m.reached));
        assert!(found[1].ci_s <= 0.025 * found[1].t_s);
        // The steady device was averaged over the same repetitions.
        assert_eq!(found[0].reps as usize, asked);
    }

    #[test]
    fn hopeless_noise_ends_at_the_maximum() {
        let mut odd = false;
        let mut asked = 0;
        let mut sample = || {
            asked += 1;
            odd = !odd;
            Ok(vec![if odd { 0.125 } else { 0.375 }])
        };
        let config = MeasureConfig::default();
        let found = repeat_until_confident(1, &config, &mut sample, &mut alone).unwrap();
        assert_eq!(asked, 20);
        assert!(!found[0].reached);
        assert_eq!((found[0].t_s, found[0].reps), (0.25, 20));
    }

    #[test]
    fn a_spike_is_measured_again() {
        let (found, asked) = replay(
            &MeasureConfig::default(),
            &[&[1.0], &[60.0 / 8.0], &[1.0], &[1.0]],
        );
        assert_eq!(asked, 4);
        assert_eq!((found[0].t_s, found[0].reps), (1.0, 3));
        assert!(found[0].reached);
    }

    #[test]
    fn a_slow_update_is_not_repeated() {
        let (found, asked) = replay(&MeasureConfig::default(), &[&[0.1, 11.0]]);
        assert_eq!(asked, 1);
        let once = |t_s| Measurement {
            t_s,
            ci_s: t_s,
            reps: 1,
            reached: false,
        };
        assert_eq!(found, [once(0.1), once(11.0)]);
    }

    #[test]
    fn an_error_ends_it_at_once() {
        let mut asked = 0;
        let mut sample = || {
            asked += 1;
            Err(DeviceError::Panic {
                message: "burnt".to_owned(),
            })
        };
        let config = MeasureConfig::default();
        assert!(repeat_until_confident(1, &config, &mut sample, &mut alone).is_err());
        assert_eq!(asked, 1);
    }

    #[test]
    fn what_is_repeated_for_others_counts() {
        let mut asked = 0;
        let mut sample = || {
            asked += 1;
            Ok(vec![if asked <= 3 { 1.0 } else { 1.125 }])
        };
        let mut needs = Vec::new();
        let mut in_step = |needed| {
            needs.push(needed);
            needs.len() <= 6
        };
        let config = MeasureConfig::default();
        let found = repeat_until_confident(1, &config, &mut sample, &mut in_step).unwrap();
        assert_eq!((found[0].reps, found[0].t_s), (6, 1.0625));
        assert_eq!(needs[..4], [true, true, true, false]);
    }

    #[test]
    fn nobody_needs_a_repetition() {
        let mut sample = || panic!("nobody asked for it");
        let config = MeasureConfig::default();
        let found = repeat_until_confident(1, &config, &mut sample, &mut |_| false).unwrap();
        assert_eq!(found, [Measurement::default()]);
    }

    #[test]
    fn configurations_out_of_range_name_the_field() {
        let default = MeasureConfig::default();
        assert!(default.validate().is_ok());
        let broken = [
            (
                "confidence",
                MeasureConfig {
                    confidence: 1.0,
                    ..default
                },
            ),
            (
                "precision",
                MeasureConfig {
                    precision: f64::NAN,
                    ..default
                },
            ),
            (
                "min_reps",
                MeasureConfig {
                    min_reps: 1,
                    ..default
                },
            ),
            (
                "max_reps",
                MeasureConfig {
                    max_reps: 2,
                    ..default
                },
            ),
            (
                "max_seconds",
                MeasureConfig {
                    max_seconds: 0.0,
                    ..default
                },
            ),
        ];
        for (field, config) in broken {
            let error = config.validate().unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
    }
}

//! The inter-device partitioning algorithm.
//!
//! # Deviations
//!
//! * **first points of IDPA**: the paper measures one column (step 1). Here each device measures a
//!   sixteenth of an even share, because so small a measurement says little about the speeds to come.
//! * **first distribution of IDPA**: the paper starts evenly (step 2). Here [`Strategy::Fpm`](super::Strategy::Fpm) starts
//!   with GPA's division by the first points, because between unlike devices an even one is the most
//!   expensive. The configuration can ask for the paper's start by [`BalanceStart::Even`].
//! * **IDPA, later calls**: the paper starts each call from the beginning (section 3). Here a later call
//!   starts with the points of the earlier ones ([`DeviceModels`]), because INPA calls IDPA in every
//!   iteration and the devices stay the same. A slice of another height counts with its area. Then no
//!   first points are measured.
//! * **single devices**: the paper balances any number of devices (section 3). Here a single one is
//!   measured once, because there is nothing to divide.

use serde::{Deserialize, Serialize};

use super::dpa::{Balanced, Dpa};
use super::{
    BalanceConfig, BalanceError, BalanceStart, BalanceStep, DeviceModels, EndReason,
    MeasuredDivision, imbalance,
};
use crate::times::{Quality, Sample};

/// Inter-device partitioning algorithm: divides the columns of a node's sub-matrix into vertical
/// slices, one per device, that all take equally long. One unit is one matrix column (of the
/// sub-matrix's height).
///
/// 1. Every device measures a few columns; the times become the first point of its model.
/// 2. The initial division follows.
/// 3. Every device measures its slice, all at the same time.
/// 4. If the times differ by at most `epsilon`, this is the solution; otherwise the points are added
///    to the models.
/// 5. The GPA computes the next division from the models.
/// 6. Back to 3.
///
/// The [`DeviceModels`] of an earlier call for another sub-matrix of the same node replace steps 1 and 2.
///
/// It also ends in other cases, and with the best slices measured; see [`Dpa`].
///
/// # Example
/// ```
/// use isochron_hierarchy::balance::{BalanceConfig, BalanceStep, Idpa};
/// use isochron_hierarchy::times::Sample;
///
/// let mut idpa = Idpa::new(BalanceConfig::default(), 2, 64, 640, None);
/// let balance = loop {
///     match idpa.step() {
///         BalanceStep::Done(balance) => break balance,
///         BalanceStep::Measure(columns) => {
///             // A few cores, and a GPU that is seven times as fast.
///             let devices = [(columns[0], 100.0), (columns[1], 700.0)];
///             idpa.observe(&devices.map(|(d, speed)| Sample::measured(d, d as f64 / speed, 3, 0.0)))?;
///         }
///     }
/// };
/// assert_eq!(balance.slices, [80, 560]);
/// # Ok::<(), isochron_hierarchy::balance::BalanceError>(())
/// ```
///
/// # References
/// Clarke et al. 2012, section 3 (IDPA); Clarke's thesis, section 5.2.2.
#[derive(Debug, Clone)]
pub struct Idpa {
    start: BalanceStart,
    n_devices: usize,
    dpa: Dpa,
    /// The times of each iteration of `dpa`.
    seen: Vec<Vec<Sample>>,
    /// Columns of each device in step 1, if step 1 is still to come.
    first_points: Option<u64>,
    /// Rows of the sub-matrix.
    rows: u64,
    /// Knowledge of the devices so far.
    models: DeviceModels,
}

/// The result of an [`Idpa`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceBalance {
    /// Columns of each device.
    pub slices: Vec<u64>,
    /// Time of each device with its slice. It is predicted if the slices were not measured, with the
    /// repetitions and the interval of the last measurement. All times are 0 if nothing is known.
    pub times: Vec<Sample>,
    /// The node's time in seconds: that of the device that finishes last.
    pub time_s: f64,
    /// That device's standard error in seconds.
    pub error_s: f64,
    /// That device's repetitions.
    pub reps: u32,
    /// `true` if measuring a device was given up, so that `time_s` is a lower bound.
    pub cut_off: bool,
    /// The [`imbalance`] of the times.
    pub imbalance: f64,
    /// Number of measured divisions.
    pub iterations: u32,
    /// `true` if the returned slices were measured to be balanced, or if there was no work.
    pub converged: bool,
    /// `true` if these slices were measured.
    pub measured: bool,
    /// The reason why balancing ended.
    pub why: EndReason,
    /// Every measured division, in order.
    pub history: Vec<MeasuredDivision>,
    /// Devices whose time falls with their columns by the configured [`Fit`](crate::model::Fit), if the
    /// partitioner is made for times that increase. The slices may then be far from the best.
    pub falling: Vec<usize>,
    /// Knowledge of the devices, for the next call.
    pub models: DeviceModels,
    /// Rows of the sub-matrix.
    rows: u64,
}

impl DeviceBalance {
    /// Merges a second measurement of the same slices into the times, and updates the models. New times
    /// replace predicted ones.
    ///
    /// # Panics
    /// If there is not one time for each device.
    #[must_use]
    pub fn refine_times(self, times: &[Sample]) -> Self {
        assert_eq!(times.len(), self.slices.len(), "one time for each device");
        let measured = self.measured || times.iter().any(|time| time.reps > 0);
        let times: Vec<Sample> = self
            .times
            .iter()
            .zip(times)
            .zip(&self.slices)
            .map(|((before, again), &columns)| {
                if self.measured {
                    before.merge(&again.counted_as(columns))
                } else if again.reps > 0 {
                    again.counted_as(columns)
                } else {
                    *before
                }
            })
            .collect();
        let mut models = self.models;
        for (device, time) in times.iter().enumerate() {
            if time.units > 0 && time.seconds > 0.0 && time.reps > 0 {
                let point = time.counted_as(time.units * self.rows).to_point();
                models.learn(device, point, self.measured);
            }
        }
        let last = find_slowest(&times);
        let times_s: Vec<f64> = times.iter().map(|time| time.seconds).collect();
        Self {
            time_s: last.seconds,
            error_s: last.error_s,
            reps: last.reps,
            cut_off: last.is_bound(),
            imbalance: imbalance(&times_s),
            times,
            models,
            measured,
            ..self
        }
    }

    /// Returns the node's time for INPA: that of the device that finishes last.
    pub fn to_sample(&self) -> Sample {
        find_slowest(&self.times)
    }
}

impl Idpa {
    /// Starts a balancing of `columns` matrix columns, each of `rows` rows, over `n_devices` devices.
    ///
    /// `known` are the [models](DeviceBalance::models) of an earlier call.
    ///
    /// # Panics
    /// If `n_devices` is 0, or `known` does not hold that many devices.
    pub fn new(
        config: BalanceConfig,
        n_devices: usize,
        rows: u64,
        columns: u64,
        known: Option<&DeviceModels>,
    ) -> Self {
        let mut dpa = Dpa::new(config, n_devices, columns);
        let is_functional = dpa.is_functional();
        let wanted = is_functional && n_devices > 1 && columns > 0 && known.is_none();
        let few = match config.start {
            BalanceStart::Even => 1,
            BalanceStart::FirstPoints => (columns / (16 * n_devices as u64)).max(1),
        };
        if let Some(known) = known {
            dpa = dpa.with_prior(&known.speeds);
            if is_functional {
                start_with_points(&mut dpa, known, rows);
            }
        }
        Self {
            start: config.start,
            n_devices,
            dpa,
            seen: Vec::new(),
            first_points: wanted.then_some(few),
            rows: rows.max(1),
            models: known.cloned().unwrap_or_else(|| DeviceModels::unknown(n_devices)),
        }
    }

    /// Returns the columns that each device shall measure next, or the result. Asking twice changes
    /// nothing.
    pub fn step(&self) -> BalanceStep<Vec<u64>, DeviceBalance> {
        if let Some(few) = self.first_points {
            return BalanceStep::Measure(vec![few; self.n_devices]);
        }
        match self.dpa.step() {
            BalanceStep::Measure(columns) => BalanceStep::Measure(columns),
            BalanceStep::Done(balanced) => BalanceStep::Done(self.make_result(balanced)),
        }
    }

    /// Takes one time for each device, for the columns that [`step`](Self::step) returned, in whatever units it was
    /// measured.
    ///
    /// # Errors
    /// Returns [`BalanceError::NotMeasuring`], [`BalanceError::WrongLength`], [`BalanceError::WrongTotal`] or
    /// [`BalanceError::InvalidTime`], after which the request stands; [`BalanceError::Partition`] if the models do not
    /// admit a division.
    pub fn observe(&mut self, times: &[Sample]) -> Result<(), BalanceError> {
        if let Some(few) = self.first_points {
            self.dpa.seed_all(few, times)?;
            self.learn(times.iter().map(|time| time.counted_as(few)));
            if self.start == BalanceStart::FirstPoints {
                self.dpa.start_from_points()?;
            }
            self.first_points = None;
            return Ok(());
        }
        let BalanceStep::Measure(columns) = self.dpa.step() else {
            return Err(BalanceError::NotMeasuring);
        };
        let (wanted, got) = (columns.len(), times.len());
        if got != wanted {
            return Err(BalanceError::WrongLength { wanted, got });
        }
        let slices: Vec<Sample> = times
            .iter()
            .zip(columns)
            .map(|(time, columns)| match columns {
                0 => Sample::default(),
                _ => time.counted_as(columns),
            })
            .collect();
        self.dpa.observe(&slices)?;
        self.learn(slices.iter().copied());
        self.seen.push(slices);
        Ok(())
    }

    /// Adds the points of these slices to what is known.
    fn learn(&mut self, slices: impl Iterator<Item = Sample>) {
        for (device, time) in slices.enumerate() {
            if time.units > 0 {
                let point = time.counted_as(time.units * self.rows).to_point();
                self.models.learn(device, point, false);
            }
        }
    }

    fn make_result(&self, balanced: Balanced) -> DeviceBalance {
        let times: Vec<Sample> = match balanced.measured {
            Some(iteration) => self.seen[iteration].clone(),
            None => {
                // A prediction is no more certain than the measurements behind it.
                let none = vec![Sample::default(); self.n_devices];
                self.seen
                    .last()
                    .unwrap_or(&none)
                    .iter()
                    .zip(&balanced.times_s)
                    .zip(&balanced.units)
                    .map(|((measured, &t_s), &columns)| measured.counted_as(columns).predict(t_s))
                    .collect()
            }
        };
        let last = find_slowest(&times);
        DeviceBalance {
            slices: balanced.units,
            times,
            time_s: last.seconds,
            error_s: last.error_s,
            reps: last.reps,
            cut_off: last.is_bound(),
            imbalance: balanced.imbalance,
            iterations: balanced.iterations,
            converged: balanced.converged,
            measured: balanced.measured.is_some(),
            why: balanced.why,
            history: balanced.history,
            falling: balanced.falling,
            models: self.models.clone(),
            rows: self.rows,
        }
    }
}

/// Seeds the parts with the points known of the devices, and starts with the division that they suggest.
fn start_with_points(dpa: &mut Dpa, known: &DeviceModels, rows: u64) {
    for device in 0..known.n_devices() {
        for point in known.points_of_height(device, rows) {
            // A point that scaling has made unusable is not worth an error.
            let _ = dpa.seed(device, point);
        }
    }
    // Models that admit no division leave the one in proportion to the speeds.
    let _ = dpa.start_from_points();
}

/// Returns the time of the device that finishes last. It is a bound if the time of any device is one,
/// because that device may finish later.
fn find_slowest(times: &[Sample]) -> Sample {
    let last =
        times.iter().copied().max_by(|a, b| a.seconds.total_cmp(&b.seconds)).unwrap_or_default();
    if times.iter().any(Sample::is_bound) {
        Sample { quality: Quality::AtLeast, ..last }
    } else {
        last
    }
}

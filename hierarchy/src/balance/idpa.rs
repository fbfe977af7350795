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
    MeasuredDivision, Observation, imbalance,
};

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
/// use isochron_hierarchy::balance::{BalanceConfig, Idpa, Observation, BalanceStep};
///
/// let mut idpa = Idpa::new(BalanceConfig::default(), 2, (64, 640), None);
/// let balance = loop {
///     match idpa.step() {
///         BalanceStep::Done(balance) => break balance,
///         BalanceStep::Measure(columns) => {
///             // A few cores, and a GPU that is seven times as fast.
///             let times_s = [columns[0] as f64 / 100.0, columns[1] as f64 / 700.0];
///             idpa.observe(&times_s.map(|t_s| Observation::measured(t_s, 3, 0.0)))?;
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
    observations: Vec<Vec<Observation>>,
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
    pub times: Vec<Observation>,
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
    pub fn refine_times(self, times: &[Observation]) -> Self {
        assert_eq!(times.len(), self.slices.len(), "one time for each device");
        let measured = self.measured || times.iter().any(|time| time.reps > 0);
        let times: Vec<Observation> = (self.times.iter().zip(times))
            .map(|(before, again)| match (self.measured, again.reps) {
                (true, _) => before.merge(again),
                (false, 0) => *before,
                (false, _) => *again,
            })
            .collect();
        let mut models = self.models;
        for (device, (&columns, time)) in self.slices.iter().zip(&times).enumerate() {
            if columns > 0 && time.t_s > 0.0 && time.reps > 0 {
                models.learn(device, time.to_point(columns * self.rows), self.measured);
            }
        }
        let last = find_slowest(&times);
        let times_s: Vec<f64> = times.iter().map(|time| time.t_s).collect();
        Self {
            time_s: last.t_s,
            error_s: last.error_s,
            reps: last.reps,
            cut_off: last.is_floor,
            imbalance: imbalance(&times_s),
            times,
            models,
            measured,
            ..self
        }
    }

    /// Returns the node's time as an observation for INPA: that of the device that finishes last.
    pub fn to_observation(&self) -> Observation {
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
        (rows, columns): (u64, u64),
        known: Option<&DeviceModels>,
    ) -> Self {
        let mut dpa = Dpa::new(config, n_devices, columns);
        let is_functional = config.rule().is_functional();
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
            observations: Vec::new(),
            first_points: wanted.then_some(few),
            rows: rows.max(1),
            models: known
                .cloned()
                .unwrap_or_else(|| DeviceModels::unknown(n_devices)),
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

    /// Takes one time for each device, for the columns that [`step`](Self::step) returned.
    ///
    /// # Errors
    /// As [`Dpa::observe`].
    pub fn observe(&mut self, times: &[Observation]) -> Result<(), BalanceError> {
        if let Some(few) = self.first_points {
            self.dpa.seed_all(few, times)?;
            self.learn(&vec![few; self.n_devices], times);
            if self.start == BalanceStart::FirstPoints {
                self.dpa.start_from_points()?;
            }
            self.first_points = None;
            return Ok(());
        }
        let BalanceStep::Measure(columns) = self.dpa.step() else {
            return Err(BalanceError::NotMeasuring);
        };
        self.dpa.observe(&columns, times)?;
        self.learn(&columns, times);
        let busy = columns
            .iter()
            .zip(times)
            .map(|(&d, &time)| if d == 0 { Observation::default() } else { time });
        self.observations.push(busy.collect());
        Ok(())
    }

    /// Adds the points of these slices to what is known.
    fn learn(&mut self, columns: &[u64], times: &[Observation]) {
        for (device, (&columns, time)) in columns.iter().zip(times).enumerate() {
            if columns > 0 {
                let point = time.to_point(columns * self.rows);
                self.models.learn(device, point, false);
            }
        }
    }

    fn make_result(&self, balanced: Balanced) -> DeviceBalance {
        let times: Vec<Observation> = match balanced.measured {
            Some(iteration) => self.observations[iteration].clone(),
            None => {
                // A prediction is no more certain than the measurements behind it.
                let none = vec![Observation::default(); self.n_devices];
                self.observations
                    .last()
                    .unwrap_or(&none)
                    .iter()
                    .zip(&balanced.times_s)
                    .map(|(measured, &t_s)| measured.scale_to(t_s))
                    .collect()
            }
        };
        let last = find_slowest(&times);
        DeviceBalance {
            slices: balanced.units,
            times,
            time_s: last.t_s,
            error_s: last.error_s,
            reps: last.reps,
            cut_off: last.is_floor,
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

/// Returns the time of the device that finishes last. It is a floor if the time of any device is one,
/// because that device may finish later.
fn find_slowest(times: &[Observation]) -> Observation {
    let last = times.iter().copied().max_by(|a, b| a.t_s.total_cmp(&b.t_s));
    Observation {
        is_floor: times.iter().any(|time| time.is_floor),
        ..last.unwrap_or_default()
    }
}

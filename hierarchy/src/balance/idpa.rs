//! The inter-device partitioning algorithm.

use serde::{Deserialize, Serialize};

use super::dpa::{Balanced, Dpa};
use super::{
    BalanceConfig, BalanceError, BalanceStart, BalanceStep, EndReason, MeasuredDivision,
    Observation, Strategy, imbalance,
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
/// Deviations from the paper: those of [`Inpa`](super::Inpa), and
/// * with a *prior*, relative speeds from an earlier call for another sub-matrix of the same node,
///   there are no first points, and the first division is in proportion to it. INPA calls IDPA once in
///   each of its iterations, and the devices' relation changes little between them.
/// * the few columns are a sixteenth of an even share, where the paper measures one column;
/// * a single device is measured once and that is all.
///
/// # Example
/// ```
/// use isochron_hierarchy::balance::{BalanceConfig, Idpa, Observation, BalanceStep};
///
/// let mut idpa = Idpa::new(BalanceConfig::default(), 2, 640, None);
/// let balance = loop {
///     match idpa.step() {
///         BalanceStep::Done(balance) => break balance,
///         BalanceStep::Measure(columns) => {
///             // A few cores, and a GPU that is seven times as fast.
///             let time = |(&d, speed): (&u64, f64)| Observation::measured(d as f64 / speed, 3, 0.0);
///             idpa.observe(&columns.iter().zip([100.0, 700.0]).map(time).collect::<Vec<_>>())?;
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
    /// Columns of each device in step 1, if that is still to come.
    first_points: Option<u64>,
}

/// Where an [`Idpa`] ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceBalance {
    /// Columns of each device.
    pub slices: Vec<u64>,
    /// Time of each device with its slice: measured, or predicted where the slices were not measured
    /// (with the repetitions and the interval of the last measurement), or all 0 where nothing is
    /// known.
    pub times: Vec<Observation>,
    /// Seconds of the device that finishes last, which is the node's time.
    pub time_s: f64,
    /// That device's half-width of the confidence interval in seconds.
    pub ci_s: f64,
    /// That device's repetitions.
    pub reps: u32,
    /// Whether measuring a device was given up: `time_s` is the least that the node takes.
    #[serde(default)]
    pub cut_off: bool,
    /// The [`imbalance`] of the times.
    pub imbalance: f64,
    /// Number of measured divisions.
    pub iterations: u32,
    /// Whether the search ended with slices that it had measured to be balanced (or there was no work).
    pub converged: bool,
    /// Whether these slices were measured.
    pub measured: bool,
    /// Why balancing ended.
    pub why: EndReason,
    /// Every measured division, in order.
    pub history: Vec<MeasuredDivision>,
    /// Relative speeds of the devices, for the next call's `prior`.
    pub prior: Vec<f64>,
}

impl DeviceBalance {
    /// The same slices, measured once more: the times of both measurements together (those of this one, if
    /// the slices were not measured before), and the speeds that follow from them.
    ///
    /// # Panics
    /// If there is not one time for each device.
    #[must_use]
    pub fn refined(self, times: &[Observation]) -> Self {
        assert_eq!(times.len(), self.slices.len(), "one time for each device");
        let measured = self.measured || times.iter().any(|time| time.reps > 0);
        let times: Vec<Observation> = self
            .times
            .iter()
            .zip(times)
            .map(|(before, again)| match (self.measured, again.reps) {
                (true, _) => before.merge(again),
                (false, 0) => *before,
                (false, _) => *again,
            })
            .collect();
        let mut prior = self.prior;
        for ((speed, &columns), time) in prior.iter_mut().zip(&self.slices).zip(&times) {
            if columns > 0 && time.t_s > 0.0 {
                *speed = columns as f64 / time.t_s;
            }
        }
        let last = slowest(&times);
        let times_s: Vec<f64> = times.iter().map(|time| time.t_s).collect();
        Self {
            time_s: last.t_s,
            ci_s: last.ci_s,
            reps: last.reps,
            cut_off: last.is_floor,
            imbalance: imbalance(&times_s),
            times,
            prior,
            measured,
            ..self
        }
    }

    /// The node's time as INPA wants it: that of the device that finishes last.
    #[must_use]
    pub fn observation(&self) -> Observation {
        Observation {
            t_s: self.time_s,
            reps: self.reps,
            ci_s: self.ci_s,
            is_floor: self.cut_off,
            cost_s: slowest(&self.times).cost_s,
        }
    }
}

impl Idpa {
    /// A balancing of `columns` matrix columns over `n_devices` devices. `prior`: relative speeds of
    /// the devices, [`DeviceBalance::prior`] of an earlier call; a speed of 0 is unknown.
    ///
    /// # Panics
    /// If `n_devices` is 0, or `prior` does not hold one speed for each device.
    #[must_use]
    pub fn new(
        config: BalanceConfig,
        n_devices: usize,
        columns: u64,
        prior: Option<&[f64]>,
    ) -> Self {
        let dpa = Dpa::new(config, n_devices, columns);
        let wanted =
            config.strategy == Strategy::Fpm && n_devices > 1 && columns > 0 && prior.is_none();
        let few = match config.start {
            BalanceStart::Even => 1,
            BalanceStart::FirstPoints => (columns / (16 * n_devices as u64)).max(1),
        };
        let first_points = wanted.then_some(few);
        let dpa = match prior {
            Some(prior) => dpa.with_prior(prior),
            None => dpa,
        };
        Self {
            start: config.start,
            n_devices,
            dpa,
            observations: Vec::new(),
            first_points,
        }
    }

    /// The columns that each device shall measure next, or the result. Asking twice changes nothing.
    #[must_use]
    pub fn step(&self) -> BalanceStep<Vec<u64>, DeviceBalance> {
        if let Some(few) = self.first_points {
            return BalanceStep::Measure(vec![few; self.n_devices]);
        }
        match self.dpa.step() {
            BalanceStep::Measure(columns) => BalanceStep::Measure(columns),
            BalanceStep::Done(balanced) => BalanceStep::Done(self.result(balanced)),
        }
    }

    /// Takes one time for each device, of what [`step`](Self::step) asked for.
    ///
    /// # Errors
    /// As [`Dpa::observe`].
    pub fn observe(&mut self, times: &[Observation]) -> Result<(), BalanceError> {
        if let Some(few) = self.first_points {
            self.dpa.seed_all(few, times)?;
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
        let busy = |(&d, &time): (&u64, &Observation)| {
            if d == 0 { Observation::default() } else { time }
        };
        self.observations
            .push(columns.iter().zip(times).map(busy).collect());
        Ok(())
    }

    fn result(&self, balanced: Balanced) -> DeviceBalance {
        let times: Vec<Observation> = match balanced.measured {
            Some(iteration) => self.observations[iteration].clone(),
            None => {
                // A prediction is no surer than the measurements that it comes from.
                let last = self.observations.last();
                let predicted = |(device, &t_s): (usize, &f64)| {
                    let measured = last.map(|times| times[device]).unwrap_or_default();
                    measured.taking(t_s)
                };
                balanced.times_s.iter().enumerate().map(predicted).collect()
            }
        };
        let last = slowest(&times);
        DeviceBalance {
            slices: balanced.units,
            times,
            time_s: last.t_s,
            ci_s: last.ci_s,
            reps: last.reps,
            cut_off: last.is_floor,
            imbalance: balanced.imbalance,
            iterations: balanced.iterations,
            converged: balanced.converged,
            measured: balanced.measured.is_some(),
            why: balanced.why,
            history: balanced.history,
            prior: balanced.prior,
        }
    }
}

/// The time of the device that finishes last; a floor if that of any device is one, for then another may.
fn slowest(times: &[Observation]) -> Observation {
    let last = times.iter().copied().max_by(|a, b| a.t_s.total_cmp(&b.t_s));
    Observation {
        is_floor: times.iter().any(|time| time.is_floor),
        ..last.unwrap_or_default()
    }
}

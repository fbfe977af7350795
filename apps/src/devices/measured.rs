//! The measurements of the job's devices.

use std::sync::Arc;
use std::time::Instant;

use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_core::internal::{MeasureRounds, prepare_updates};
use isochron_core::session::Session;
use isochron_devices::measure::{InStep, UpdateOperands, repeat_alone};
use isochron_devices::{
    Depth, DeviceError, DeviceInfo, ElementType, MeasureConfig, Measurement, Scalar, measure_team,
};
use serde::{Deserialize, Serialize};

use super::peak::{Peak, measure_peak};
use super::schedule::{HostTurns, RankDevices, Schedule};

/// The measurements of all ranks' devices.
pub struct JobMeasurements {
    /// The type of the elements.
    pub element: ElementType,
    /// Number of ranks.
    pub ranks: usize,
    /// The devices, by rank.
    pub devices: Vec<DeviceMeasurements>,
}

/// The measurements of one device.
#[derive(Serialize, Deserialize)]
pub struct DeviceMeasurements {
    /// The rank that drives it.
    pub rank: usize,
    /// The rank's host.
    pub host: String,
    #[serde(flatten)]
    pub info: DeviceInfo,
    /// The speed that its speeds are compared with.
    pub peak: Peak,
    /// Its updates, by ascending size.
    pub sizes: Vec<SizeMeasurements>,
}

/// The update `C (n×n) += A (n×b) · B (b×n)` of one device in the middle of a long job, when C is already there.
#[derive(Serialize, Deserialize)]
pub struct SizeMeasurements {
    pub n: usize,
    /// `2·n²·b`, or `8·n²·b` of complex numbers.
    pub flop: f64,
    /// The update while the other devices were idle.
    pub alone: Measurement,
    /// The update while each of the host's other devices did the same, started at the same moment; `null` without others.
    pub together: Option<Measurement>,
}

/// The names of a size's measurements.
pub const MEASUREMENT_NAMES: [&str; 2] = ["alone", "together"];

impl SizeMeasurements {
    /// Returns the measurement alone, and the one together if there is one.
    pub fn measurements(&self) -> [Option<Measurement>; 2] {
        [Some(self.alone), self.together]
    }

    /// Returns the speed together over the speed alone, if both are known.
    pub fn relative_speed(&self) -> Option<f64> {
        let together = self.together.filter(|together| !together.is_bound())?;
        (!self.alone.is_bound()).then(|| self.alone.t_s / together.t_s)
    }
}

/// The measurements to make.
pub struct MeasurePlan<'a> {
    /// The devices of each rank.
    pub devices: &'a [RankDevices],
    /// The sizes n of the update, ascending.
    pub sizes: &'a [usize],
    /// The inner dimension b of the update.
    pub block: usize,
    /// The repetitions for a size that may take these seconds.
    pub config: &'a dyn Fn(usize, f64) -> MeasureConfig,
    /// Seconds for all measurements, infinite without a budget, and their beginning.
    pub budget_s: f64,
    pub start: Instant,
}

impl MeasurePlan<'_> {
    /// Measures every device at every size: alone on its host and, if there are several, together with the host's others.
    ///
    /// # Errors
    /// On every rank, when any rank fails: those of [`prepare_updates`] and of [`measure_team`].
    ///
    /// # Collective
    /// All ranks of the session.
    pub fn measure<T: Scalar>(&self, session: &mut Session) -> Result<JobMeasurements, Error> {
        let comm = Arc::clone(session.comm());
        let turns = HostTurns::of_rank(comm.rank(), self.devices);
        let together = usize::from(turns.count > 1);
        let total = turns.count + self.sizes.len() * (turns.count + together);
        let mut run = MeasureRun {
            plan: self,
            comm: Arc::clone(&comm),
            session,
            turns,
            schedule: Schedule::new(self.start, self.budget_s, total, comm.rank() == 0),
            operands: UpdateOperands::<T>::default(),
        };
        let mut devices = run.measure_peaks()?;
        for &n in self.sizes {
            run.measure_size(n, &mut devices)?;
        }
        Ok(JobMeasurements {
            element: T::TYPE,
            ranks: comm.size(),
            devices: comm.gather(&devices)?.into_iter().flatten().collect(),
        })
    }
}

/// A plan that is carried out.
struct MeasureRun<'a, T> {
    plan: &'a MeasurePlan<'a>,
    comm: Arc<dyn Comm>,
    session: &'a mut Session,
    turns: HostTurns,
    schedule: Schedule,
    operands: UpdateOperands<T>,
}

impl<T: Scalar> MeasureRun<'_, T> {
    /// Measures the peak of each device; returns this rank's devices, with no sizes yet.
    fn measure_peaks(&mut self) -> Result<Vec<DeviceMeasurements>, Error> {
        let mut devices = Vec::new();
        for turn in 0..self.turns.count {
            let what = format!("the peak of {}", self.turns.device_name(turn));
            let limit_s = self.schedule.begin_next(&what);
            let own = self.turns.own_device(turn);
            let peak = own
                .map(|index| measure_peak(self.session.team(), index, limit_s, &mut self.operands));
            let peak = agree(self.comm.as_ref(), peak.transpose().map_err(Error::from))?;
            devices.extend(own.zip(peak).map(|(index, peak)| DeviceMeasurements {
                rank: self.comm.rank(),
                host: self.comm.host().to_owned(),
                info: self.session.devices()[index].clone(),
                peak,
                sizes: Vec::new(),
            }));
        }
        Ok(devices)
    }

    /// Measures the devices at size `n`, first together and then each alone.
    fn measure_size(&mut self, n: usize, devices: &mut [DeviceMeasurements]) -> Result<(), Error> {
        let slices = vec![n; devices.len()];
        let depth = Depth::endless(self.plan.block);
        prepare_updates(self.session, &mut self.operands, n, &slices, depth)?;
        let together = self.measure_together(n, &slices)?;
        for turn in 0..self.turns.count {
            let what = format!("{} alone, n = {n}", self.turns.device_name(turn));
            let limit_s = self.schedule.begin_next(&what);
            let mut slices = vec![0; devices.len()];
            let mut found = Ok(Vec::new());
            if let Some(index) = self.turns.own_device(turn) {
                slices[index] = n;
                found = self.measure_updates(n, &slices, limit_s, &mut repeat_alone);
            }
            let found = self.end_measurement(n, found)?;
            if let Some((index, alone)) = self
                .turns
                .own_device(turn)
                .and_then(|i| Some((i, *found.get(i)?)))
            {
                devices[index].sizes.push(SizeMeasurements {
                    n,
                    flop: T::TYPE.flop() * (n * n) as f64 * self.plan.block as f64,
                    alone,
                    together: together.get(index).copied(),
                });
            }
        }
        Ok(())
    }

    /// Measures all devices of each host that has several, in step; returns those of this rank.
    fn measure_together(&mut self, n: usize, slices: &[usize]) -> Result<Vec<Measurement>, Error> {
        if self.turns.count < 2 {
            return Ok(Vec::new());
        }
        let limit_s = (self.schedule).begin_next(&format!("all devices together, n = {n}"));
        let comm = Arc::clone(&self.comm);
        let mut rounds = MeasureRounds::new(comm.as_ref());
        let mut found = Ok(Vec::new());
        if self.turns.has_several() {
            found = self.measure_updates(n, slices, limit_s, &mut |needed| {
                rounds.ask_for_round(needed)
            });
        }
        // A rank that has nothing to measure, or that failed, takes part too.
        while rounds.ask_for_round(false) {}
        self.end_measurement(n, found)
    }

    /// Ends a measurement of size `n` on all ranks, each with the times of its devices, and notes the widest interval for
    /// the line of progress.
    fn end_measurement(
        &mut self,
        n: usize,
        found: Result<Vec<Measurement>, DeviceError>,
    ) -> Result<Vec<Measurement>, Error> {
        let comm = self.comm.as_ref();
        let found = agree(comm, found.map_err(Error::from))?;
        let widest = comm.gather(&widest_interval(&found))?;
        let widest = widest.into_iter().flatten().reduce(f64::max);
        let confidence = (self.plan.config)(n, f64::INFINITY).confidence;
        self.schedule.note_interval(widest, confidence);
        Ok(found)
    }

    /// Measures an update of `n` rows and of `slices[i]` columns on device i of this rank.
    fn measure_updates(
        &mut self,
        n: usize,
        slices: &[usize],
        limit_s: f64,
        in_step: &mut InStep<'_>,
    ) -> Result<Vec<Measurement>, DeviceError> {
        let depth = Depth::endless(self.plan.block);
        let config = (self.plan.config)(n, limit_s);
        let team = self.session.team();
        measure_team(team, n, slices, depth, &config, &mut self.operands, in_step)
    }
}

/// Returns the largest half-width of confidence intervals, as a part of the time.
fn widest_interval(found: &[Measurement]) -> Option<f64> {
    found
        .iter()
        .filter(|found| !found.is_bound() && found.t_s > 0.0)
        .map(|found| found.ci_s / found.t_s)
        .reduce(f64::max)
}

/// Made-up measurements, for tests.
#[cfg(test)]
pub mod made_up {
    use super::super::peak::OperandsIn;
    use super::*;
    use isochron_devices::{DeviceClock, DeviceKind, MeasureOutcome};

    /// Makes two devices that are half as fast together as alone, and too slow for the last size together.
    pub fn make_test_measurements() -> JobMeasurements {
        JobMeasurements {
            element: ElementType::F64,
            ranks: 1,
            devices: ["fast/one", "slow"].map(make_device).into(),
        }
    }

    fn make_device(name: &str) -> DeviceMeasurements {
        let [fast, half, slow] = [-10, -9, -8].map(|power| make_precise(2.0_f64.powi(power)));
        DeviceMeasurements {
            rank: 0,
            host: "vm".to_owned(),
            info: DeviceInfo {
                blas: "made up".to_owned(),
                cores: vec![0, 2],
                pinned: true,
                ..DeviceInfo::new(name, DeviceKind::Cpu, DeviceClock::Cores)
            },
            peak: Peak {
                gflops: 1.0,
                size: 256,
                operands: OperandsIn::HostMemory,
            },
            sizes: vec![
                make_size(64, fast, half),
                make_size(128, slow, Measurement::lower_bound(10.0)),
            ],
        }
    }

    fn make_precise(t_s: f64) -> Measurement {
        Measurement {
            t_s,
            ci_s: 0.01 * t_s,
            reps: 5,
            outcome: MeasureOutcome::Precise,
            ..Measurement::default()
        }
    }

    fn make_size(n: usize, alone: Measurement, together: Measurement) -> SizeMeasurements {
        SizeMeasurements {
            n,
            flop: 2.0 * (n * n * 64) as f64,
            alone,
            together: Some(together),
        }
    }
}

//! The parts that are measured: the kernel of each rank, or each of its devices.

use std::collections::BTreeMap;

use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_core::internal::{KnownTimes, repeat_in_step};
use isochron_core::store::{JobStore, KernelSource};
use isochron_devices::kernel::KernelRun;
use isochron_devices::{DeviceError, DeviceInfo, MeasureConfig};
use isochron_hierarchy::model::{Point, SurfacePoint};
use isochron_hierarchy::times::Measurement;
use serde::{Deserialize, Serialize};

/// Height and width in units. Models in one dimension have sizes of width 1.
pub type Size = (u64, u64);

/// The headers of one file.
pub type PointsHeaders = BTreeMap<String, String>;

/// A kernel on its rank, or a device: it has a model of its own.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct MeasuredPart {
    pub rank: usize,
    pub host: String,
    /// The core that a kernel is bound to.
    pub core: Option<u32>,
    /// The device; `None` for a kernel.
    pub device: Option<DeviceInfo>,
    /// CPU quota of its host, in cores.
    pub quota_cores: Option<f64>,
    /// The headers of its file.
    pub headers: PointsHeaders,
    /// The name of its file, without the ending.
    pub stem: String,
}

/// The units that a part computes while a size is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartUnits {
    pub units: u64,
    /// `true` if its time does not count: the size is hopeless to it, and it computes as a load for its neighbours.
    pub is_load: bool,
}

/// The end of a part's measurement at a size.
#[derive(Debug)]
pub enum PartEnd {
    /// It was measured.
    Measured(Measurement),
    /// There is no memory for its units. One of the parts of a rank has the reason.
    NoMemory(Option<Error>),
    /// It was not measured, because other parts found no memory.
    NotRun,
}

/// The parts of a rank at work.
pub trait MeasuredWork {
    /// Measures the parts at a size, each with its units, while all ranks do the same, in step. If a part was not run,
    /// another one that counts found no memory.
    ///
    /// # Errors
    /// Every rank fails if any does.
    ///
    /// # Collective
    /// All ranks.
    fn measure(
        &mut self,
        comm: &dyn Comm,
        size: Size,
        units: &[PartUnits],
        config: &MeasureConfig,
    ) -> Result<Vec<PartEnd>, Error>;

    /// Returns the useful work of a size.
    ///
    /// # Errors
    /// Returns the errors of the kernel, on this rank alone.
    fn complexity(&mut self, size: Size) -> Result<f64, Error>;

    /// Saves all that was measured so far elsewhere than in the points files. If that cannot be done, it is a notice at the
    /// end.
    ///
    /// # Errors
    /// Returns the errors of messages.
    ///
    /// # Collective
    /// All ranks.
    fn save(&mut self, comm: &dyn Comm) -> Result<(), Error>;

    /// Ends the work. Returns this rank's notices, one line each.
    ///
    /// # Errors
    /// Returns the errors of messages.
    ///
    /// # Collective
    /// All ranks.
    fn end(&mut self, comm: &dyn Comm) -> Result<Vec<String>, Error>;
}

/// Work that is ready to be measured on every rank.
pub struct OpenWork {
    /// This rank's work.
    pub work: Box<dyn MeasuredWork>,
    /// The parts of all ranks.
    pub parts: Vec<MeasuredPart>,
    /// The options that decide on times and on their precision.
    pub measured_with: String,
    /// Measurements of a size, one after the other.
    pub turns: usize,
}

impl MeasuredPart {
    /// Returns its device, its rank and its host in words.
    pub fn describe(&self) -> String {
        let device = self.device.as_ref();
        let device = device.map_or(String::new(), |device| format!("{} of ", device.name));
        format!("{device}rank {} on {}", self.rank, self.host)
    }

    /// Adds headers, each in one line, and the quota of the host if there is one.
    pub fn add_headers(&mut self, headers: impl Iterator<Item = (&'static str, String)>) {
        let quota = self.quota_cores.map(|cores| ("quota", format!("{cores:.2} cores")));
        for (key, value) in headers.chain(quota) {
            let value = value.replace(['\n', '\r'], " ");
            self.headers.insert(key.to_owned(), value);
        }
    }
}

/// The kernel of this rank, whose times go to the model store.
pub struct StoredKernel {
    /// The kernel.
    pub run: Box<dyn KernelRun>,
    /// The job's model store.
    pub store: JobStore<KernelSource>,
    /// Unusual findings about the store, one line each.
    pub notices: Vec<String>,
}

impl StoredKernel {
    /// Measures `d` units of this rank's kernel while all ranks do the same, in step. The store gets the times if they are
    /// `kept`.
    ///
    /// # Errors
    /// On every rank, returns the errors of [`repeat_in_step`].
    ///
    /// # Collective
    /// All ranks.
    pub fn measure_in_step(
        &mut self,
        comm: &dyn Comm,
        d: u64,
        kept: bool,
        config: &MeasureConfig,
    ) -> Result<Measurement, Error> {
        let found = repeat_in_step(comm, self.run.as_mut(), d, config, false);
        let found = agree(comm, found.map_err(Error::from))?;
        self.store.keep_times(comm, found.to_series().filter(|_| kept))?;
        Ok(found)
    }

    /// Finds the stored times of every rank's kernel.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks.
    pub fn find_known(&mut self, comm: &dyn Comm) -> Result<Vec<KnownTimes>, Error> {
        let (known, words) = self.store.find_kernels(comm)?;
        self.notices.extend(words);
        Ok(known)
    }

    /// Writes the times that were kept so far; that they cannot be written is a notice.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks.
    pub fn save_times(&mut self, comm: &dyn Comm) -> Result<(), Error> {
        for reason in self.store.save(comm)? {
            if !self.notices.contains(&reason) {
                self.notices.push(reason);
            }
        }
        Ok(())
    }
}

impl MeasuredWork for StoredKernel {
    fn measure(
        &mut self,
        comm: &dyn Comm,
        _size: Size,
        units: &[PartUnits],
        config: &MeasureConfig,
    ) -> Result<Vec<PartEnd>, Error> {
        let [PartUnits { units, is_load }] = *units else {
            panic!("a rank has one kernel");
        };
        let end = match repeat_in_step(comm, self.run.as_mut(), units, config, is_load) {
            Ok(found) => {
                let series = found.to_series();
                Ok((PartEnd::Measured(found), series))
            }
            Err(error @ DeviceError::KernelMemory { .. }) => {
                Ok((PartEnd::NoMemory(Some(error.into())), None))
            }
            Err(error) => Err(error.into()),
        };
        let (end, series) = agree(comm, end)?;
        self.store.keep_times(comm, series.filter(|_| !is_load))?;
        Ok(vec![end])
    }

    fn complexity(&mut self, (d, _): Size) -> Result<f64, Error> {
        Ok(self.run.complexity(d)?)
    }

    fn save(&mut self, comm: &dyn Comm) -> Result<(), Error> {
        self.save_times(comm)
    }

    fn end(&mut self, comm: &dyn Comm) -> Result<Vec<String>, Error> {
        self.save_times(comm)?;
        Ok(self.notices.clone())
    }
}

/// Describes the limits of measuring.
pub fn describe_repetitions(config: &MeasureConfig) -> String {
    format!(
        "{} to {} repetitions, precision {} at {}, at most {} s",
        config.min_reps, config.max_reps, config.precision, config.confidence, config.max_seconds
    )
}

/// Makes the point of a measurement: with 0 repetitions if it is a bound.
pub fn make_point((m, n): Size, found: &Measurement) -> SurfacePoint {
    SurfacePoint { m, n, t_s: found.sample.seconds, reps: found.sample.reps, ci_s: found.ci_s }
}

/// Returns a point of a model in one dimension.
pub fn flatten_point(point: &SurfacePoint) -> Point {
    Point { d: point.m, t_s: point.t_s, reps: point.reps, ci_s: point.ci_s }
}

/// Returns a point of a model in one dimension as one of a surface of width 1.
pub fn widen_point(point: &Point) -> SurfacePoint {
    SurfacePoint { m: point.d, n: 1, t_s: point.t_s, reps: point.reps, ci_s: point.ci_s }
}

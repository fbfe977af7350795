//! Dynamic partitioning: work is divided over the ranks by benchmarks of a kernel of the program's own, from nothing.
//!
//! A kernel does the work of one iteration of the program's main loop for some units, without its messages.
//! [`Session::benchmark`] measures it with a number of units of each rank's own. [`Session::partition`] divides units by such
//! measurements until all ranks take the same time. After that the program runs its loop on its part. If speeds may change
//! while it runs, a [`Rebalancer`](crate::rebalance::Rebalancer) divides by the times of the loop itself.
//!
//! # Example
//! ```
//! use isochron::devices::kernel::{Interrupt, Kernel, KernelError};
//! use isochron::partition::PartitionConfig;
//! use isochron::prelude::*;
//!
//! /// A unit is the sum of 1000 numbers.
//! struct Sums(Vec<f64>, f64);
//!
//! impl Kernel for Sums {
//!     fn complexity(&self, d: u64) -> f64 {
//!         1000.0 * d as f64
//!     }
//!
//!     fn initialize(&mut self, d: u64) -> Result<(), KernelError> {
//!         self.0 = vec![1.0; 1000 * d as usize];
//!         Ok(())
//!     }
//!
//!     fn execute(&mut self, interrupt: &Interrupt) -> Result<(), KernelError> {
//!         self.1 = self.0.iter().sum();
//!         interrupt.check()
//!     }
//!
//!     fn finalize(&mut self) -> Result<(), KernelError> {
//!         self.0 = Vec::new();
//!         Ok(())
//!     }
//! }
//!
//! let mut session = Session::builder().build(connect()?)?;
//! let mut kernel = Sums(Vec::new(), 0.0);
//! let mut partition = session.partition(500, &PartitionConfig::default(), Vec::new())?;
//! while !partition.iterate(&mut kernel)? {}
//! assert_eq!(partition.units().iter().sum::<u64>(), 500);
//! # Ok::<(), isochron::Error>(())
//! ```
//!
//! # References
//! Clarke's thesis, appendix A.2 (`fupermod_benchmark`), A.3 (`fupermod_model`) and A.5 (`fupermod_partition_iterate`).

pub(crate) mod benchmark;
pub(crate) mod config;
mod own_model;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use isochron_devices::internal::HomeProcess;
use isochron_devices::kernel::{Kernel, KernelRun};
use isochron_hierarchy::balance::{BalanceStep, Balanced, Dpa};
use isochron_hierarchy::model::Point;
use isochron_hierarchy::times::{Measurement, Sample};

pub use self::config::{BenchmarkConfig, PartitionConfig};
pub use self::own_model::TimeModel;

use self::benchmark::{KernelSeat, repeat_in_step};
use self::own_model::divide_by;
use crate::comm::{CollectiveCall, Comm, agree, share_outcome};
use crate::error::Error;
use crate::session::Session;

impl Session {
    /// Measures a kernel of the program's own with `d` units of this rank, while all ranks do the same, each with its own `d`.
    /// They repeat in step, as long as one of them needs another repetition, because ranks that share a host slow each other down.
    /// The calling thread is bound to the first core of this rank's share of its host meanwhile, unless that is
    /// [switched off](BenchmarkConfig::unbound), the host has fewer cores than ranks, or a CPU quota leaves only some of them.
    ///
    /// Returns the units, the mean seconds of a run, the repetitions, and the half-width of the confidence interval in seconds. A
    /// run that was stopped, since it took twice as long as the [limit](isochron_devices::MeasureConfig::max_seconds), is a
    /// point of 0 repetitions with a lower bound in seconds. 0 units give a point of 0 s and 0 repetitions.
    ///
    /// # Deviations
    /// * **ranks in step**: FuPerMod synchronises the ranks that share a node, by a communicator of the caller's (appendix
    ///   A.2). Here all ranks of the session repeat in step, because the loop runs on all of them at once.
    /// * **end of a long run**: FuPerMod runs the kernel in a thread that is terminated, under a mutex (appendix A.2). Here
    ///   the kernel looks at a flag, because a thread that is terminated may hold memory and locks.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Device`] if the kernel fails on any rank, or a number of the configuration is out of
    /// range; [`Error::Settings`] for ranks with different configurations.
    ///
    /// # Collective
    /// All ranks, with the same configuration.
    ///
    /// # References
    /// Clarke's thesis, appendix A.2.
    pub fn benchmark(
        &mut self,
        kernel: &mut dyn Kernel,
        d: u64,
        config: &BenchmarkConfig,
    ) -> Result<Point, Error> {
        let seat = KernelSeat::of_node(&self.node);
        let found = seat.measure(&*self.comm, kernel, d, config)?;
        Ok(found.to_point(d))
    }

    /// Begins to divide `total` units over the ranks, evenly as long as nothing is measured. Without `models` the points of each
    /// rank make a model by [`fit`](PartitionConfig::fit). With models, one for each rank, the models divide.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Parameter`] or [`Error::Device`] for a number of the configuration that is out of
    /// range, and for models that are not one for each rank; [`Error::Settings`] for ranks with different totals or configurations.
    ///
    /// # Deviations
    /// * **first division**: it is even, also by models of the program that know some points already, because FuPerMod's dynamic
    ///   partitioning starts from nothing (appendix A.5).
    ///
    /// # Collective
    /// All ranks, with the same total, configuration and number of models.
    ///
    /// # References
    /// Clarke's thesis, appendix A.3 and A.5.
    pub fn partition(
        &mut self,
        total: u64,
        config: &PartitionConfig,
        models: Vec<Box<dyn TimeModel>>,
    ) -> Result<DynamicPartition, Error> {
        let seat = KernelSeat::of_node(&self.node);
        DynamicPartition::begin(Arc::clone(&self.comm), seat, total, config, models)
    }
}

/// A division of units over the ranks, made by benchmarks of a kernel of the program's own. The [module](self) has an example.
pub struct DynamicPartition {
    comm: Arc<dyn Comm>,
    seat: KernelSeat,
    config: PartitionConfig,
    /// On rank 0.
    dpa: Option<Dpa>,
    /// The program's models of all ranks; none if the fit of the points divides.
    models: Vec<Box<dyn TimeModel>>,
    step: BalanceStep<Vec<u64>, Balanced>,
    /// The division that was measured last, and its seconds.
    measured: (Vec<u64>, Vec<f64>),
    home: HomeProcess,
}

impl fmt::Debug for DynamicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamicPartition")
            .field("rank", &self.comm.rank())
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

impl DynamicPartition {
    fn begin(
        comm: Arc<dyn Comm>,
        seat: KernelSeat,
        total: u64,
        config: &PartitionConfig,
        models: Vec<Box<dyn TimeModel>>,
    ) -> Result<Self, Error> {
        let call = CollectiveCall::new(&*comm, "partitioning")
            .with("units", &total)
            .with("models", &models.len())
            .with_fields(config);
        let (entered, ()) = call.enter_with(config.check(models.len(), comm.size()))?;
        drop(entered);
        let dpa = (comm.rank() == 0)
            .then(|| Dpa::new(config.balance(), comm.size(), total).in_granules(config.granule));
        let step = comm.share(0, dpa.as_ref().map(Dpa::step))?;
        let units = match &step {
            BalanceStep::Measure(units) => units.clone(),
            BalanceStep::Done(balanced) => balanced.units.clone(),
        };
        let none_s = vec![0.0; units.len()];
        Ok(Self {
            comm,
            seat,
            config: config.clone(),
            dpa,
            models,
            step,
            measured: (units, none_s),
            home: HomeProcess::current(),
        })
    }

    /// Measures the kernel with this rank's units of the next division, while all ranks do the same; gathers the points, updates
    /// the models, and divides anew. Returns `true` once the partition has ended. After that it does nothing.
    ///
    /// It has ended if the times are balanced, if the next division was measured before, or after
    /// [`max_iterations`](PartitionConfig::max_iterations) divisions. The result is then the measured division of least time, or
    /// the next one if that promises less: see [`Dpa`].
    ///
    /// After an error the next call measures the same division again.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Device`] if the kernel fails on any rank; [`Error::OwnModel`] if a model fails, or its
    /// times fall or are not finite; [`Error::Balance`] if the models do not admit a division, or a time is 0; [`Error::Forked`] in a forked
    /// child of the process that has made the partition.
    ///
    /// # Collective
    /// All ranks.
    ///
    /// # References
    /// Clarke's thesis, appendix A.5 (`fupermod_partition_iterate`), section 4.3.
    pub fn iterate(&mut self, kernel: &mut dyn Kernel) -> Result<bool, Error> {
        self.iterate_by(|partition, d| {
            let Self { comm, seat, config, .. } = partition;
            seat.measure(&**comm, kernel, d, &config.benchmark())
        })
    }

    /// Iterates with a kernel that tells its own times: for tests, in which made-up times alone decide.
    #[doc(hidden)]
    pub fn iterate_run(&mut self, run: &mut dyn KernelRun) -> Result<bool, Error> {
        self.iterate_by(|Self { comm, config, .. }, d| {
            let found = repeat_in_step(&**comm, run, d, &config.measure, false);
            agree(&**comm, found.map_err(Error::from))
        })
    }

    fn iterate_by(
        &mut self,
        measure: impl FnOnce(&Self, u64) -> Result<Measurement, Error>,
    ) -> Result<bool, Error> {
        self.home.check("partition")?;
        let BalanceStep::Measure(units) = &self.step else {
            return Ok(true);
        };
        let units = units.clone();
        let shared = Arc::clone(&self.comm);
        let comm = &*shared;
        let _call = CollectiveCall::new(comm, "iterating a partition").enter()?;
        let found = comm.gather(&measure(self, units[comm.rank()])?)?;
        agree(comm, self.update_models(&units, &found))?;
        let step = self.dpa.as_mut().map(|dpa| {
            observe(dpa, &mut self.models, &self.config, &units, &found)?;
            Ok(dpa.step())
        });
        self.step = share_outcome(comm, 0, step)?;
        let times_s = found.iter().map(|found| found.sample.seconds).collect();
        self.measured = (units, times_s);
        Ok(self.has_ended())
    }

    /// Hands the points of all ranks to the program's models.
    fn update_models(&mut self, units: &[u64], found: &[Measurement]) -> Result<(), Error> {
        let points = units.iter().zip(found).map(|(&d, found)| found.to_point(d));
        for (rank, (model, point)) in self.models.iter_mut().zip(points).enumerate() {
            if point.d > 0 {
                model.update(&point).map_err(|reason| Error::OwnModel { rank, reason })?;
            }
        }
        Ok(())
    }

    /// The ranks among which it divides.
    pub fn comm(&self) -> &Arc<dyn Comm> {
        &self.comm
    }

    /// Returns `true` if there is nothing more to measure.
    pub fn has_ended(&self) -> bool {
        matches!(self.step, BalanceStep::Done(_))
    }

    /// Returns the units of each rank: even before the first measurement, then of the division that was measured last, and at
    /// the end those of the result.
    pub fn units(&self) -> &[u64] {
        self.result().map_or(&self.measured.0, |balanced| &balanced.units)
    }

    /// Returns the seconds of each rank for its [units](Self::units): measured, or predicted if the result was not measured. A rank
    /// without units has 0 s, and so have all before the first measurement.
    pub fn times_s(&self) -> &[f64] {
        self.result().map_or(&self.measured.1, |balanced| &balanced.times_s)
    }

    /// Returns the result with its history, and the reason why it has ended; `None` before the end.
    pub fn result(&self) -> Option<&Balanced> {
        match &self.step {
            BalanceStep::Measure(_) => None,
            BalanceStep::Done(balanced) => Some(balanced),
        }
    }
}

/// Tells the algorithm the times of a division. Models of the program's own make the next one.
fn observe(
    dpa: &mut Dpa,
    models: &mut [Box<dyn TimeModel>],
    config: &PartitionConfig,
    units: &[u64],
    found: &[Measurement],
) -> Result<(), Error> {
    let samples = found.iter().zip(units).map(|(found, &d)| found.sample.counted_as(d));
    let samples: Vec<Sample> = samples.collect();
    if models.is_empty() {
        return Ok(dpa.observe(&samples)?);
    }
    let next = divide_by(models, units.iter().sum(), config.granule)?;
    Ok(dpa.observe_divided(&samples, next)?)
}

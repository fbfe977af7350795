//! A session: the ranks of a job, the devices of each rank's node, and what they do together.

mod balance;
mod claims;
mod devices;
mod find;
mod gpus;
mod load;
mod memory;
mod platform;
mod rank_gpu;
mod report;
mod saved;
mod slices;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use isochron_devices::BlasChoice;
use isochron_devices::DeviceInfo;
use isochron_devices::DeviceTeam;
use isochron_devices::Element;
use isochron_devices::ElementType;
use isochron_devices::Grouping;
use isochron_devices::MeasureConfig;
use isochron_devices::MeasureTally;
use isochron_devices::ThreadPlace;
use isochron_devices::blas;
use isochron_devices::measure::UpdateOperands;
use isochron_devices::topology::Topology;
use isochron_hierarchy::balance::BalanceConfig;
use num_complex::{Complex32, Complex64};

pub use find::FoundDevices;
pub use platform::{Cores, DeviceSpec, NodeSpec, Platform};
pub use report::{BalanceReport, DeviceReport, NodeReport, Report, VerifyReport};
pub use saved::{PlannedDevice, PlannedNode, SavedPlan};

use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::matrix::Matrix;
use crate::multiply::{self, Execution, MakePart, Plan, Problem, Scalars, Split};
use balance::{Balancer, MEASUREMENT_SHARE};
use load::Load;

/// How a session is set up.
#[derive(Debug, Clone, Default)]
pub struct SessionConfig {
    /// The platform file; without one every rank uses what it finds on its host.
    pub platform: Option<PathBuf>,
    /// Which cores of a rank form one device; without it what the platform file says of the node, or
    /// [`Grouping::Auto`].
    pub grouping: Option<Grouping>,
    /// Which BLAS the CPU devices call.
    pub blas: BlasChoice,
    /// How often a measurement is repeated.
    pub measure: MeasureConfig,
}

/// The ranks of a job and this rank's devices.
///
/// ```
/// use isochron::comm::LocalComm;
/// use isochron::matrix::{Generator, Matrix};
/// use isochron::multiply::{Problem, Scalars};
/// use isochron::session::{Session, SessionConfig};
/// use isochron_hierarchy::balance::BalanceConfig;
///
/// let comm = LocalComm::new(); // or `comm::connect()` under mpirun
/// let mut session = Session::new(&comm, &SessionConfig::default())?;
/// let problem = Problem::new(96, 80, 64, 16)?;
/// let plan = session.plan(problem, &BalanceConfig::default())?;
/// let a = Matrix::generate(plan.a(), 0, Generator::Uniform { seed: 1 })?;
/// let b = Matrix::generate(plan.b(), 0, Generator::Uniform { seed: 2 })?;
/// let mut c = session.zeros(&plan)?;
/// let execution = session.multiply(&plan, Scalars { alpha: 1.0, beta: 0.0 }, (&a, &b), &mut c)?;
/// assert!(execution.wall_s > 0.0);
/// # Ok::<(), isochron::Error>(())
/// ```
pub struct Session<'c> {
    comm: &'c dyn Comm,
    team: DeviceTeam,
    measure: MeasureConfig,
    node_name: String,
    notices: Vec<String>,
    place: (usize, usize),
    load: Load,
}

impl<'c> Session<'c> {
    /// Finds or makes the devices of every rank's node.
    ///
    /// # Errors
    /// On every rank, when any rank cannot: [`Error::File`] for the platform file, [`Error::Device`] for
    /// hardware that fails, [`Error::Parameter`] for devices that ask for what is not there or another device has.
    ///
    /// # Collective
    /// All ranks, with the same configuration.
    pub fn new(comm: &'c dyn Comm, config: &SessionConfig) -> Result<Self, Error> {
        let span = tracing::info_span!("discover", rank = comm.rank());
        let _entered = span.enter();
        let platform = config
            .platform
            .as_deref()
            .map(|path| Platform::load(comm, path))
            .transpose()?;
        let mut node = platform
            .map(|mut platform| platform.nodes.swap_remove(comm.rank()))
            .unwrap_or_default();
        let topology = Topology::discover().map(Arc::new).map_err(Error::from);
        let topology = agree(comm, topology)?;
        let mut notices = topology.notices();
        for notice in &notices {
            tracing::info!(host = comm.host(), "{notice}");
        }
        let place = place_on_host(comm, &topology)?;
        let gpus = gpus::mine(comm, &topology, &node, &mut notices)?;
        let made = (|| {
            config.measure.validate()?;
            let blas = blas::choose_blas(&config.blas)?;
            let grouping = config.grouping.or(node.group).unwrap_or_default();
            let parts = (&topology, &blas);
            devices::make_team(&node, place, grouping, &gpus, parts, &mut notices)
        })();
        let mut team = agree(comm, made)?;
        let load = Load::new(comm, &topology, team.infos())?;
        team.set_share_of_time(load.share);
        let node_name = std::mem::take(&mut node.name);
        Ok(Self {
            comm,
            team,
            measure: config.measure,
            node_name,
            notices,
            place,
            load,
        })
    }

    /// The session's ranks.
    pub fn comm(&self) -> &'c dyn Comm {
        self.comm
    }

    /// This rank's devices.
    pub fn devices(&self) -> &[DeviceInfo] {
        self.team.infos()
    }

    /// This rank's devices at work: to measure them outside of a multiplication.
    pub fn team(&mut self) -> &mut DeviceTeam {
        &mut self.team
    }

    /// Where the threads of each device are bound, and where they ran so far.
    pub fn threads(&self) -> Vec<Vec<ThreadPlace>> {
        self.team.threads()
    }

    /// Name of this rank's node in the platform file; empty without one.
    pub fn node_name(&self) -> &str {
        &self.node_name
    }

    /// What is unusual about this rank's host and what it means, one line each: [`Topology::notices`], and why GPUs that
    /// may be there are not used.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// This rank's index among the ranks of its host that share its cores, and their number.
    pub fn place_on_host(&self) -> (usize, usize) {
        self.place
    }

    /// Measures and partitions: who computes what.
    ///
    /// # Errors
    /// On every rank: [`Error::Memory`] when the matrices or a measurement do not fit, [`Error::Device`] or [`Error::Balance`] when measuring fails.
    ///
    /// # Collective
    /// All ranks, with the same arguments.
    pub fn plan(&mut self, problem: Problem, config: &BalanceConfig) -> Result<Plan, Error> {
        memory::check_total(self.comm, problem.matrix_bytes())?;
        let mut config = *config;
        // So many of them that the fewest repetitions are a small part.
        let fewest = f64::from(self.measure.min_reps) / MEASUREMENT_SHARE;
        config.reps = self.measure.min_reps;
        let kernel_width = problem.kernel_width(fewest.ceil() as usize, self.comm.size());
        config.steps = problem.k().div_ceil(kernel_width) as u64;
        let alone = self.comm.size() == 1 && self.team.len() == 1;
        if problem.flop() == 0.0 || alone {
            // There is nothing to compute, or nothing to divide.
            config.strategy = isochron_hierarchy::balance::Strategy::Homogeneous;
        }
        match problem.element() {
            ElementType::F32 => self.balancer::<f32>(problem, config, kernel_width).plan(),
            ElementType::F64 => self.balancer::<f64>(problem, config, kernel_width).plan(),
            ElementType::C32 => self
                .balancer::<Complex32>(problem, config, kernel_width)
                .plan(),
            ElementType::C64 => self
                .balancer::<Complex64>(problem, config, kernel_width)
                .plan(),
        }
    }

    fn balancer<T>(
        &mut self,
        problem: Problem,
        config: BalanceConfig,
        kernel_width: usize,
    ) -> Balancer<'_, T> {
        Balancer {
            comm: self.comm,
            team: &mut self.team,
            measure: self.measure,
            config,
            problem,
            kernel_width,
            operands: UpdateOperands::default(),
            measured: MeasureTally::default(),
            start: Instant::now(),
            k_total: problem.k(),
            links: None,
            load: self.load,
            byte_s: Vec::new(),
        }
    }

    /// Bytes of host memory that this rank needs for a plan: its own and its devices'.
    fn memory_needed(&mut self, plan: &Plan) -> Result<u64, Error> {
        let rank = self.comm.rank();
        let devices = self
            .team
            .memory_needed(&plan.job_shape(rank), plan.slices())?;
        Ok(plan.memory_bytes(rank).saturating_add(devices))
    }

    /// Bytes of its own memory that each device needs.
    fn device_memory(&self, plan: &Plan) -> Result<Vec<u64>, Error> {
        let rank = self.comm.rank();
        let needs = self.team.job_needs(&plan.job_shape(rank), plan.slices())?;
        Ok(needs.iter().map(|needs| needs.own_bytes).collect())
    }

    /// This rank's part of a C of zeros, for `beta = 0`. Each device writes its own columns first, so that they lie in the
    /// memory next to it; of [`Matrix::zeros`] they would come to lie there while the multiplication is timed.
    ///
    /// # Errors
    /// [`Error::Allocation`] when the memory cannot be had; [`Error::Device`] when the plan is another session's.
    pub fn zeros<T: Element>(&mut self, plan: &Plan) -> Result<Matrix<T>, Error> {
        let c = Matrix::zeros(plan.c(), self.comm.rank())?;
        // Where k is split the devices compute elsewhere, and C is summed by this thread.
        if *plan.split() != Split::C || c.part().is_empty() {
            return Ok(c);
        }
        Ok(c.zeroed_by(|c| self.team.scale(T::ZERO, c, plan.slices()))?)
    }

    /// Multiplies as planned, `C = alpha·op(A)·op(B) + beta·C`, matrices of the type that the plan is for.
    ///
    /// # Errors
    /// As [`multiply::multiply`].
    ///
    /// # Collective
    /// All ranks, with the same plan and scalars.
    pub fn multiply<T: Element>(
        &mut self,
        plan: &Plan,
        scalars: Scalars<T>,
        operands: (&Matrix<T>, &Matrix<T>),
        c: &mut Matrix<T>,
    ) -> Result<Execution, Error> {
        multiply::multiply(self.comm, &mut self.team, plan, scalars, operands, c)
    }

    /// Multiplies as planned, with A and B in parts of k that `make` makes or reads when it is their turn, where they do not
    /// fit the memory whole ([`Problem::in_parts`]).
    ///
    /// ```
    /// use isochron::comm::LocalComm;
    /// use isochron::matrix::{Generator, Matrix};
    /// use isochron::multiply::{PartOfK, Problem, Scalars};
    /// use isochron::session::{Session, SessionConfig};
    /// use isochron_hierarchy::balance::BalanceConfig;
    ///
    /// let comm = LocalComm::new();
    /// let mut session = Session::new(&comm, &SessionConfig::default())?;
    /// let problem = Problem::new(96, 80, 640, 16)?.with_panel(64)?.in_parts();
    /// let plan = session.plan(problem, &BalanceConfig::default())?.with_k_parts(2)?;
    /// let mut make = |part: &PartOfK| {
    ///     let a = Matrix::generate(part.a(), 0, Generator::Uniform { seed: 1 })?;
    ///     let b = Matrix::generate(part.b(), 0, Generator::Uniform { seed: 2 })?;
    ///     Ok((a, b))
    /// };
    /// let mut c = session.zeros(&plan)?;
    /// session.multiply_in_parts(&plan, Scalars { alpha: 1.0, beta: 0.0 }, &mut make, &mut c)?;
    /// # Ok::<(), isochron::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`multiply::multiply_in_parts`].
    ///
    /// # Collective
    /// All ranks, with the same plan and scalars.
    pub fn multiply_in_parts<T: Element>(
        &mut self,
        plan: &Plan,
        scalars: Scalars<T>,
        make: &mut MakePart<'_, T>,
        c: &mut Matrix<T>,
    ) -> Result<Execution, Error> {
        multiply::multiply_in_parts(self.comm, &mut self.team, plan, scalars, make, c)
    }
}

/// This rank's index among the [`sharers`] of its host, and their number.
fn place_on_host(comm: &dyn Comm, topology: &Topology) -> Result<(usize, usize), Error> {
    let all = sharers(comm, topology)?;
    let before = all.iter().filter(|&&rank| rank < comm.rank());
    Ok((before.count(), all.len()))
}

/// The ranks of this host that may use the same processing units as this one, itself among them. Ranks that the launcher
/// has bound to cores of their own share with nobody.
///
/// # Collective
/// All ranks.
fn sharers(comm: &dyn Comm, topology: &Topology) -> Result<Vec<usize>, Error> {
    let mine = (comm.host().to_owned(), topology.allowed_pus());
    let all = comm.gather(&mine)?.into_iter().enumerate();
    let same = all.filter(|(_, other)| *other == mine);
    Ok(same.map(|(rank, _)| rank).collect())
}

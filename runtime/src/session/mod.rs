//! A session: the ranks of a job and the devices of each rank's node, which plan and multiply together.

mod any_gemm;
pub(crate) mod bind;
mod builder;
mod copier;
mod directed;
mod document;
pub(crate) mod find;
mod gemm;
mod given;
mod join;
pub(crate) mod kernel_store;
mod known;
mod libraries;
mod log;
mod measuring;
mod memory;
mod overrun;
mod platform;
mod report;
pub(crate) mod updates;

use std::any::Any;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use isochron_devices::internal::{HeatSensors, HostShare, Load};
use isochron_devices::{DeviceInfo, DeviceTeam, ElementType, MeasureConfig, Scalar};
use isochron_hierarchy::balance::BalanceConfig;
use num_complex::{Complex32, Complex64};
use tracing::dispatcher::DefaultGuard;

pub use any_gemm::{AnyGemm, GemmWork};
pub use builder::{LogLevel, SessionBuilder};
pub use document::{PlanDocument, PredictedDevice, PredictedNode, Prediction};
pub use gemm::{Gemm, GemmConfig, GemmRun};
pub use isochron_devices::internal::HostScope;
pub use platform::{Cores, DeviceSpec, NodeSpec, Platform};
pub use report::{
    Account, BalanceReport, DeviceReport, KnownFrom, LoadedPlan, NodeReport, Report, VerifyReport,
};

use crate::comm::{CollectiveCall, Comm, LinkLadder, agree};
use crate::error::Error;
use crate::matrix::{HeldMatrix, Matrix};
use crate::multiply::{
    Element, Execution, Factors, MakePart, Making, MultiplyRun, Plan, PlannedNode, Problem,
    RunMemory, RunRecord, Scalars,
};
use crate::progress::Observer;
use copier::SegmentCopier;
use given::GivenModels;
use known::{JobStore, KnownDevice};
use log::LineLog;
use measuring::{Decided, NodeMeasurer, PlanMeasurer, PlanningTask};
use memory::AvailableMemory;

/// The ranks of a job and this rank's devices.
///
/// ```
/// use isochron::prelude::*;
///
/// let mut session = Session::builder().build(connect()?)?; // every rank of the job; one without mpirun
/// let problem = Problem::new(96, 80, 64, 16)?;
/// let plan = session.plan(problem, &BalanceConfig::default())?;
/// let rank = session.comm().rank();
/// let a: Matrix = Matrix::generate(plan.a(), rank, Generator::Uniform { seed: 1 })?;
/// let b = Matrix::generate(plan.b(), rank, Generator::Uniform { seed: 2 })?;
/// let mut c = session.zeros(&plan)?;
/// let execution = session.multiply(&plan, Scalars::PRODUCT, (&a, &b), &mut c)?;
/// assert!(execution.wall_s > 0.0);
/// # Ok::<(), isochron::Error>(())
/// ```
pub struct Session {
    comm: Arc<dyn Comm>,
    team: DeviceTeam,
    measure: MeasureConfig,
    /// Name of this rank's node in the platform file; empty without one.
    node_name: String,
    /// The origin of the choice of this rank's BLAS; `None` if it was named.
    blas_known: Option<KnownFrom>,
    /// Unusual facts about this rank's host and their consequences, one line each: [`Topology::notices`], and the
    /// reasons why GPUs are not used.
    notices: Vec<String>,
    load: Load,
    /// Number of threads with which each rank of this host computes.
    threads: Vec<usize>,
    log: Option<LineLog>,
    observer: Option<Rc<dyn Observer>>,
    /// Multiplications that learn keep their times and decisions.
    keeps_records: bool,
    /// Multiplications that learn leave C where their last step was computed.
    leaves_c: bool,
    /// The record whose decisions the next multiplication repeats.
    replay: Option<RunRecord>,
    /// The memory that was available when the last plan was made.
    available: AvailableMemory,
    /// The [`RunMemory`] that was reserved for the next multiplication.
    reserved: Option<Box<dyn Any>>,
    /// The model store, on the head rank.
    store: Option<JobStore>,
    copier: SegmentCopier,
    /// The links between ranks, as far as they are known.
    links: LinkLadder,
    /// The models given by hand, on the head rank.
    given: Option<GivenModels>,
    /// `true` if there are some.
    has_models: bool,
    /// The sensors of this rank's devices.
    heat: HeatSensors,
    /// This rank's cores and GPUs. Dropped last: devices have them until they are dropped.
    _share: HostShare,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let devices = self.devices().iter().map(|device| &device.name);
        f.debug_struct("Session")
            .field("rank", &self.comm.rank())
            .field("ranks", &self.comm.size())
            .field("devices", &devices.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Begins to set up a session.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// Tells `observer` from now on how far this rank has come, as [`SessionBuilder::observer`] does from the start.
    pub fn observe_progress(&mut self, observer: Rc<dyn Observer>) {
        self.observer = Some(observer);
    }

    /// Passes this thread's events to the session's log, if it has one, until the guard is dropped.
    fn begin_log(&self) -> Option<DefaultGuard> {
        self.log.as_ref().map(LineLog::begin)
    }

    /// The session's ranks.
    pub fn comm(&self) -> &Arc<dyn Comm> {
        &self.comm
    }

    /// This rank's devices.
    pub fn devices(&self) -> &[DeviceInfo] {
        self.team.infos()
    }

    /// This rank's devices at work, for measurements outside of a multiplication.
    pub fn team(&mut self) -> &mut DeviceTeam {
        &mut self.team
    }

    /// Measures and partitions: decides which rank and device computes which part.
    ///
    /// # Errors
    /// On every rank: [`Error::Parameter`] when epsilon is no positive number, [`Error::Memory`] when the matrices or a
    /// measurement do not fit, [`Error::Device`] or
    /// [`Error::Balance`] when measuring fails.
    ///
    /// # Collective
    /// All ranks, with the same arguments.
    pub fn plan(&mut self, problem: Problem, config: &BalanceConfig) -> Result<Plan, Error> {
        let _log = self.begin_log();
        let comm = Arc::clone(&self.comm);
        let _call = CollectiveCall::new(comm.as_ref(), "planning")
            .with_fields(&problem)
            .with_fields(config)
            .enter()?;
        memory::check_total(self.comm.as_ref(), problem.matrix_bytes())?;
        let places = PlacedMatrices {
            suit: &|plan| plan,
            count_lent: &|_| 0,
        };
        self.plan_beside(problem, config, &places)
    }

    /// Plans as [`plan`](Self::plan) does, for matrices that are held already.
    fn plan_beside(
        &mut self,
        problem: Problem,
        config: &BalanceConfig,
        places: &PlacedMatrices<'_>,
    ) -> Result<Plan, Error> {
        gemm::check_epsilon(config.epsilon)?;
        self.reserved = None;
        let start = Instant::now();
        let Decided {
            decision,
            slices,
            measured,
            links,
            look,
            falls,
            known,
            ..
        } = match problem.element() {
            ElementType::F32 => self.decide::<f32>(problem, *config),
            ElementType::F64 => self.decide::<f64>(problem, *config),
            ElementType::C32 => self.decide::<Complex32>(problem, *config),
            ElementType::C64 => self.decide::<Complex64>(problem, *config),
        }?;
        if falls {
            self.note_falling_times(config);
        }
        let mut node = self.describe_node(&slices, measured);
        for (device, from) in node.devices.iter_mut().zip(known) {
            device.known = Some(from);
        }
        let made = Making::now(start.elapsed().as_secs_f64(), self.measure);
        let described = self.comm.gather(&(node, made))?;
        let (nodes, mades): (Vec<PlannedNode>, Vec<Making>) = described.into_iter().unzip();
        let made = mades[0].clone();
        let plan = Plan::new(problem, decision, links, nodes, made).with_look(look);
        let plan = (places.suit)(plan);
        let count_lent = places.count_lent;
        self.fit_to_memory(plan, count_lent)
    }

    /// Makes a plan fit the memory, and notes how much there is.
    ///
    /// # Collective
    /// All ranks, with the same plan.
    fn fit_to_memory(
        &mut self,
        plan: Plan,
        count_lent: &dyn Fn(&Plan) -> u64,
    ) -> Result<Plan, Error> {
        let comm = Arc::clone(&self.comm);
        let (plan, available) =
            memory::fit_to_memory(comm.as_ref(), &mut self.team, plan, count_lent)?;
        self.available = available;
        Ok(plan)
    }

    /// Looks at the memory of all hosts again, just before the matrices of a plan are made. Other programs may have taken
    /// some since it was planned.
    ///
    /// # Errors
    /// On every rank: [`Error::Memory`] with the memory that was available when it was planned, and now.
    ///
    /// # Collective
    /// All ranks, with the same plan, before any of them makes a matrix.
    pub fn check_memory(&mut self, plan: &Plan) -> Result<(), Error> {
        let comm = Arc::clone(&self.comm);
        let _call = CollectiveCall::new(comm.as_ref(), "looking at the memory")
            .with_long("plan", "a plan", plan)
            .enter()?;
        plan.check_ranks(comm.size())?;
        memory::look_again(comm.as_ref(), &mut self.team, plan, &self.available)
    }

    /// Notes that a model of this rank's times suits the partitioner badly.
    fn note_falling_times(&mut self, config: &BalanceConfig) {
        let notice = format!(
            "times fall with the size by --fit {}, and {} is made for times that grow: the parts may be far from the best",
            config.fit, config.partitioner
        );
        tracing::warn!("{notice}");
        self.note_once(notice);
    }

    /// Decides for elements of type `T`.
    fn decide<T: Scalar>(
        &mut self,
        problem: Problem,
        config: BalanceConfig,
    ) -> Result<Decided, Error> {
        let (shared, measure) = (Arc::clone(&self.comm), self.measure);
        let comm = shared.as_ref();
        let task = PlanningTask::new(comm, &self.team, problem, config, measure)?;
        let known = self.find_known(&problem, task.kernel_width);
        let known = if self.has_models {
            agree(comm, known)?
        } else {
            // Without files nothing can fail.
            known?
        };
        let node = NodeMeasurer::<T>::new(
            comm,
            &mut self.team,
            self.observer.as_deref(),
            measure,
            task,
        );
        let links = self.links.clone();
        let mut decided = PlanMeasurer::new(node, self.load, links, known).decide()?;
        decided.decision.config = config;
        self.links.clone_from(&decided.ladder);
        if let Some(store) = &mut self.store {
            store.keep_links(&self.links);
            let seen = std::mem::take(&mut decided.seen);
            store.keep_measured(&problem, task.kernel_width, seen);
        }
        Ok(decided)
    }

    /// Finds the knowledge of each rank's devices, on the head rank; empty without any. Notes unusual findings.
    fn find_known(
        &mut self,
        problem: &Problem,
        width: usize,
    ) -> Result<Vec<Vec<KnownDevice>>, Error> {
        if let Some(given) = &self.given {
            return given.find_devices(problem.element(), width);
        }
        let Some(store) = &self.store else {
            return Ok(Vec::new());
        };
        let (known, words) = store.find_devices(problem, width);
        self.notices.extend(words);
        Ok(known)
    }

    /// Writes the times of this session's multiplications to the model store, if it is used and they learnt. A later call
    /// replaces what this one has written, so that a session counts as one run.
    ///
    /// The head rank writes. Then one rank of each other host adds the same file to the store of its host, unless that
    /// store has it because it is shared. A host that cannot keep them is no error of the job: it becomes a notice of the
    /// head rank.
    ///
    /// # Errors
    /// On every rank: [`Error::Settings`] if not all ranks call it, and those of [`Comm`].
    ///
    /// # Collective
    /// All ranks.
    pub fn save_models(&mut self) -> Result<(), Error> {
        let shared = Arc::clone(&self.comm);
        let comm = shared.as_ref();
        let _call = CollectiveCall::new(comm, "saving models").enter()?;
        let store = self.store.as_mut();
        let saved = store.map(|store| store.save(comm.host()));
        let written = match saved.transpose() {
            Ok(written) => written.flatten(),
            Err(error) => {
                self.note_once(format!("models are not kept: {error}"));
                None
            }
        };
        if let Some((path, _)) = &written {
            tracing::info!(path = %path.display(), "models are kept");
        }
        let reasons = self
            .copier
            .copy(comm, written.map(|(_, segment)| segment))?;
        if comm.rank() == 0 {
            reasons
                .into_iter()
                .for_each(|reason| self.note_once(reason));
        }
        Ok(())
    }

    /// Adds a notice, unless there is the same one.
    fn note_once(&mut self, notice: String) {
        if !self.notices.contains(&notice) {
            self.notices.push(notice);
        }
    }

    /// Returns the unusual facts about this rank's host and devices, one line each.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Makes this rank's part of a C of zeros, for `beta = 0`.
    ///
    /// Each device writes its own columns first, so that they lie in the memory next to it. With [`Matrix::zeros`] they
    /// would move there while the multiplication is timed. If the run may change the division, there is room for more
    /// columns on both sides, which takes addresses but no memory: the part then grows without being copied.
    ///
    /// # Errors
    /// [`Error::Allocation`] when memory is missing; [`Error::Spread`] for a plan of another number of ranks, and
    /// [`Error::Device`] when it is another session's.
    pub fn zeros<T: Scalar>(&mut self, plan: &Plan) -> Result<Matrix<T>, Error> {
        plan.check_ranks(self.comm.size())?;
        let rank = self.comm.rank();
        let k_is_split = plan.division().shares().is_some();
        let c = if plan.look().is_some() && !k_is_split {
            // Borders between the columns may move in mid-run.
            Matrix::zeros_with_room(plan.c(), rank, 0)?
        } else {
            Matrix::zeros(plan.c(), rank)?
        };
        // If k is split, the devices compute elsewhere and this thread sums C.
        if k_is_split || c.part().is_empty() {
            return Ok(c);
        }
        let slices = plan.slices(self.comm.rank());
        Ok(c.zeroed_by(|c| self.team.scale(T::ZERO, c, &slices))?)
    }

    /// Makes the memory that the next multiplication of this plan needs beside its matrices, so that the multiplication does
    /// not begin with that. Without this call each one makes its own; a [prepared](Self::prepare_gemm) product keeps it. The next
    /// plan frees it.
    ///
    /// ```
    /// use isochron::prelude::*;
    ///
    /// let mut session = Session::builder().build(LocalComm::new())?;
    /// let plan = session.plan(Problem::new(96, 80, 64, 16)?, &BalanceConfig::default())?;
    /// session.reserve::<f64>(&plan)?;
    /// let a: Matrix = Matrix::generate(plan.a(), 0, Generator::Uniform { seed: 1 })?;
    /// let b = Matrix::generate(plan.b(), 0, Generator::Uniform { seed: 2 })?;
    /// let mut c = session.zeros(&plan)?;
    /// session.multiply(&plan, Scalars::PRODUCT, (&a, &b), &mut c)?;
    /// # Ok::<(), isochron::Error>(())
    /// ```
    ///
    /// # Errors
    /// On every rank: [`Error::Shape`] for a plan of another element type, [`Error::Spread`] for one of another number of ranks,
    /// [`Error::Allocation`] when memory is missing; [`Error::Device`] when the plan is another session's.
    ///
    /// # Collective
    /// All ranks, with the same plan.
    pub fn reserve<T: Element>(&mut self, plan: &Plan) -> Result<(), Error> {
        let comm = Arc::clone(&self.comm);
        let _call = CollectiveCall::new(comm.as_ref(), "reserving memory")
            .with("element", &T::TYPE)
            .with_long("plan", "a plan", plan)
            .enter()?;
        plan.check_ranks(comm.size())?;
        let mut memory = self.take_reserved::<T>();
        agree(
            &*comm,
            T::make(&mut memory, &mut self.team, plan, comm.rank()),
        )?;
        self.reserved = Some(Box::new(memory));
        Ok(())
    }

    /// Takes the memory that was reserved for elements of this type, or none. That of another type is freed.
    fn take_reserved<T: Element>(&mut self) -> RunMemory<T> {
        self.reserved
            .take()
            .and_then(|memory| memory.downcast().ok())
            .map_or_else(RunMemory::default, |memory| *memory)
    }

    /// Multiplies `C = alpha·op(A)·op(B) + beta·C` as planned, for matrices of the plan's element type.
    ///
    /// # Errors
    /// As [`multiply`](crate::multiply::multiply()).
    ///
    /// # Collective
    /// All ranks, with the same plan and scalars.
    pub fn multiply<T: Element>(
        &mut self,
        plan: &Plan,
        scalars: Scalars<T>,
        operands: (&HeldMatrix<'_, T>, &HeldMatrix<'_, T>),
        c: &mut HeldMatrix<'_, T>,
    ) -> Result<Execution, Error> {
        let work = (plan, scalars, Factors::Held(operands));
        let mut memory = self.take_reserved();
        self.run(work, c, &mut memory)
    }

    /// Multiplies as planned, with A and B in parts of k, for memory that cannot hold them whole
    /// ([`Problem::in_parts`]). `make` makes or reads each part in its turn.
    ///
    /// ```
    /// use isochron::multiply::PartOfK;
    /// use isochron::prelude::*;
    ///
    /// let mut session = Session::builder().build(LocalComm::new())?;
    /// let problem = Problem::new(96, 80, 640, 16)?.with_panel(64)?.in_parts();
    /// let plan = session.plan(problem, &BalanceConfig::default())?.with_k_parts(2)?;
    /// let mut make = |part: &PartOfK| {
    ///     let a: Matrix = Matrix::generate(part.a(), 0, Generator::Uniform { seed: 1 })?;
    ///     let b = Matrix::generate(part.b(), 0, Generator::Uniform { seed: 2 })?;
    ///     Ok((a, b))
    /// };
    /// let mut c = session.zeros(&plan)?;
    /// session.multiply_in_parts(&plan, Scalars::PRODUCT, &mut make, &mut c)?;
    /// # Ok::<(), isochron::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`multiply_in_parts`](crate::multiply::multiply_in_parts).
    ///
    /// # Collective
    /// All ranks, with the same plan and scalars.
    pub fn multiply_in_parts<T: Element>(
        &mut self,
        plan: &Plan,
        scalars: Scalars<T>,
        make: &mut MakePart<'_, T>,
        c: &mut HeldMatrix<'_, T>,
    ) -> Result<Execution, Error> {
        let work = (plan, scalars, Factors::Made(make));
        let mut memory = self.take_reserved();
        self.run(work, c, &mut memory)
    }

    fn multiplication<'s>(&'s mut self, plan: &'s Plan) -> MultiplyRun<'s> {
        MultiplyRun::new(self.comm.as_ref(), &mut self.team, plan)
            .with_observer(self.observer.as_deref())
    }
}

/// The places of matrices that the program holds already.
struct PlacedMatrices<'p> {
    /// Suits a plan to them.
    suit: &'p dyn Fn(Plan) -> Plan,
    /// Counts the bytes of those on this rank that a plan needs no memory for.
    count_lent: &'p dyn Fn(&Plan) -> u64,
}

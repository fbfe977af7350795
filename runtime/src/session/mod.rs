//! A session: the ranks of a job and the devices of each rank's node, which plan and multiply together.

pub(crate) mod bind;
mod builder;
pub(crate) mod find;
mod join;
mod log;
pub(crate) mod models;
mod planning;
pub(crate) mod updates;

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use isochron_devices::internal::RankNode;
use isochron_devices::{DeviceInfo, DeviceTeam, MeasureConfig, Scalar};
use tracing::dispatcher::DefaultGuard;

pub use crate::input::platform::{Cores, DeviceSpec, NodeSpec, PlatformSpec};
pub use builder::{LogLevel, SessionBuilder};
pub use isochron_devices::internal::HostScope;
pub(crate) use planning::PlacedMatrices;

use crate::comm::Comm;
use crate::error::Error;
use crate::matrix::Matrix;
use crate::plan::Plan;
use crate::progress::Observer;
use log::LineLog;
use models::SessionModels;

/// The ranks of a job and this rank's devices.
///
/// ```
/// use isochron::prelude::*;
///
/// let mut session = Session::builder().build(connect()?)?; // every rank of the job; one without mpirun
/// let plan = session.plan(Problem::new(96, 80, 64, 16)?, &BalanceConfig::default())?;
/// let mut product = session.prepare(plan, RunConfig::default())?;
/// let (plan, rank) = (product.plan(), session.comm().rank());
/// let a: Matrix = Matrix::generate(plan.a(), rank, Generator::Uniform { seed: 1 })?;
/// let b = Matrix::generate(plan.b(), rank, Generator::Uniform { seed: 2 })?;
/// let mut c = product.zeros(&mut session)?;
/// let run = product.run(&mut session, Scalars::PRODUCT, Factors::of(&a, &b), &mut c)?;
/// assert!(run.execution.wall_s > 0.0);
/// # Ok::<(), isochron::Error>(())
/// ```
pub struct Session {
    pub(crate) comm: Arc<dyn Comm>,
    pub(crate) node: RankNode,
    measure: MeasureConfig,
    pub(crate) models: SessionModels,
    pub(crate) observer: Option<Rc<dyn Observer>>,
    log: Option<LineLog>,
    /// Unusual facts about this rank's host and their consequences, one line each: [`Topology::notices`], and the
    /// reasons why GPUs are not used.
    ///
    /// [`Topology::notices`]: isochron_devices::Topology::notices
    notices: Vec<String>,
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

    /// Makes a session of existing devices. It searches neither the host nor the model store, and binds no thread.
    pub fn of_team(comm: impl Into<Arc<dyn Comm>>, team: DeviceTeam) -> Self {
        Self {
            comm: comm.into(),
            node: RankNode::of_team(team),
            measure: MeasureConfig::default(),
            models: SessionModels::default(),
            observer: None,
            log: None,
            notices: Vec::new(),
        }
    }

    /// Tells `observer` from now on how far this rank has come, as [`SessionBuilder::observer`] does from the start.
    pub fn observe_progress(&mut self, observer: Rc<dyn Observer>) {
        self.observer = Some(observer);
    }

    /// Passes this thread's events to the session's log, if it has one, until the guard is dropped.
    pub(crate) fn begin_log(&self) -> Option<DefaultGuard> {
        self.log.as_ref().map(LineLog::begin)
    }

    /// The session's ranks.
    pub fn comm(&self) -> &Arc<dyn Comm> {
        &self.comm
    }

    /// This rank's devices.
    pub fn devices(&self) -> &[DeviceInfo] {
        self.node.team.infos()
    }

    /// This rank's devices at work, for measurements outside of a multiplication.
    pub fn team(&mut self) -> &mut DeviceTeam {
        &mut self.node.team
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

    /// Makes this rank's part of a C of zeros where the plan has it, written by the devices.
    pub(crate) fn make_zeros<T: Scalar>(&mut self, plan: &Plan) -> Result<Matrix<T>, Error> {
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
        let slices = plan.slices(rank);
        Ok(c.zeroed_by(|c| self.node.team.scale(T::ZERO, c, &slices))?)
    }
}

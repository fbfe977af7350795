//! The settings with which a session is built.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use isochron_devices::{BlasChoice, ElementType, Grouping, MeasureConfig};

use super::log::LineLog;
use super::{HostScope, Session};
use crate::comm::{Comm, Settings, add_fields, add_setting};
use crate::error::Error;
use crate::input::platform::{NodeSpec, PlatformSource, PlatformSpec};
use crate::plan::{Plan, PlannedNode};
use crate::progress::Observer;
use crate::store::StoreMode;

/// The least important events that a log takes, as [`SessionBuilder::log`] says.
pub use tracing::Level as LogLevel;

/// The settings of a [`Session`] that is to be built. Each has a default.
///
/// ```
/// use isochron::prelude::*;
///
/// // A host of two unlike devices: one core as it is, and one that is made four times slower.
/// let node = NodeSpec::new("desk")
///     .with_device(DeviceSpec::new("fast").on_cores(Cores::Count(1)).slowed(1.0))
///     .with_device(DeviceSpec::new("slow").on_cores(Cores::Count(1)).slowed(4.0));
/// let session = Session::builder()
///     .node(node)
///     .blas(BlasChoice::Embedded)
///     .log(LogLevel::WARN, |_level, line| eprintln!("isochron: {line}"))
///     .build(LocalComm::new())?;
/// assert_eq!(session.devices().len(), 2);
/// # Ok::<(), isochron::Error>(())
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct SessionBuilder {
    pub(super) platform: PlatformSource,
    pub(super) grouping: Option<Grouping>,
    pub(super) blas: BlasChoice,
    pub(super) element: ElementType,
    pub(super) measure: MeasureConfig,
    pub(super) store: StoreMode,
    pub(super) models: Option<PathBuf>,
    pub(super) reserved: Vec<u32>,
    pub(super) host_scope: HostScope,
    pub(super) log: Option<LineLog>,
    pub(super) observer: Option<Rc<dyn Observer>>,
}

impl SessionBuilder {
    /// Takes the nodes from a platform file, one for each rank: in the order of ranks, unless they name their hosts. By default every rank uses the devices that it finds on its
    /// host.
    pub fn platform_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.platform = PlatformSource::File(path.into());
        self
    }

    /// Takes the nodes from a platform in memory, one for each rank as in a file, the same on all ranks.
    pub fn platform(mut self, platform: PlatformSpec) -> Self {
        self.platform = PlatformSource::Whole(platform);
        self
    }

    /// Takes this rank's node. All ranks give one, each its own.
    pub fn node(mut self, node: NodeSpec) -> Self {
        self.platform = PlatformSource::Own(node);
        self
    }

    /// Sets the rule by which cores form one device. The default is that of the node, or [`Grouping::Auto`].
    pub fn grouping(mut self, grouping: Grouping) -> Self {
        self.grouping = Some(grouping);
        self
    }

    /// Sets the BLAS that the CPU devices call. The default is the fastest one. Ranks with equal processors, numbers of cores and
    /// libraries take the same: the one that an earlier run has chosen, by the [store](Self::store), or else the fastest on the
    /// lowest of these ranks, which measures once in a process.
    pub fn blas(mut self, blas: BlasChoice) -> Self {
        self.blas = blas;
        self
    }

    /// Sets the type of the elements for which libraries are compared, `f64` by default. Products of other types can be
    /// computed as well.
    pub fn element(mut self, element: ElementType) -> Self {
        self.element = element;
        self
    }

    /// Takes the BLAS that a plan names for this rank, if the choice is left to [`BlasChoice::Auto`]. Without it the plan may
    /// be refused: if two libraries are equally fast, either may be chosen.
    pub fn blas_of(mut self, plan: &Plan, rank: usize) -> Self {
        let planned = plan.nodes().get(rank).and_then(PlannedNode::blas);
        if let (BlasChoice::Auto, Some(name)) = (&self.blas, planned) {
            self.blas = BlasChoice::AutoAs(name.to_owned());
        }
        self
    }

    /// Sets repetitions and precision of a measurement.
    pub fn measure(mut self, measure: MeasureConfig) -> Self {
        self.measure = measure;
        self
    }

    /// Sets the use of the [model store](crate::store). A library keeps nothing in its user's folders unasked: the default is
    /// not to use it.
    pub fn store(mut self, store: StoreMode) -> Self {
        self.store = store;
        self
    }

    /// Sets a folder with a full model of every device. They replace measurements and what the store knows. They are points
    /// files as `isochron measure mxm` and `isochron measure gemm` write them.
    pub fn models(mut self, folder: impl Into<PathBuf>) -> Self {
        self.models = Some(folder.into());
        self
    }

    /// Leaves these cores of the host, by their logical numbers, to threads of the host program. All ranks of a host reserve
    /// the same ones. No thread that the session starts runs there, neither its own nor those of libraries: if there are more
    /// ranks than other cores, the threads are bound to all other cores together.
    ///
    /// The session uses the other cores that the threads of this process may use when it is built. So the program binds its
    /// threads to the reserved cores afterwards.
    pub fn reserved_cores(mut self, cores: impl IntoIterator<Item = u32>) -> Self {
        self.reserved = cores.into_iter().collect();
        self.reserved.sort_unstable();
        self.reserved.dedup();
        self
    }

    /// Sets the processes and sessions among which the session divides its host. By default these are all that the launcher
    /// has started there, and all sessions of this process.
    ///
    /// ```
    /// use isochron::prelude::*;
    ///
    /// // Two sessions that compute one after the other, each with all cores.
    /// let builder = Session::builder().host_scope(HostScope::Comm);
    /// let first = builder.clone().build(LocalComm::new())?;
    /// let second = builder.build(LocalComm::new())?;
    /// assert_eq!(first.devices().len(), second.devices().len());
    /// # Ok::<(), isochron::Error>(())
    /// ```
    pub fn host_scope(mut self, scope: HostScope) -> Self {
        self.host_scope = scope;
        self
    }

    /// Passes events of the session's calls to `write`, line by line, down to this level. Without it the session logs to
    /// the [`tracing`] subscriber of the program, if it has one. No global subscriber is set.
    pub fn log(
        mut self,
        level: LogLevel,
        write: impl Fn(LogLevel, &str) + Send + Sync + 'static,
    ) -> Self {
        self.log = Some(LineLog::new(level, write));
        self
    }

    /// Tells `observer` how far this rank has come with measuring and multiplying. `Rc` because it is called from this
    /// thread alone.
    ///
    /// ```
    /// use std::cell::RefCell;
    /// use std::rc::Rc;
    ///
    /// use isochron::prelude::*;
    ///
    /// #[derive(Default)]
    /// struct Steps(RefCell<Vec<usize>>);
    /// impl Observer for Steps {
    ///     fn observe(&self, progress: Progress) {
    ///         if let Progress::Multiplying { step, steps: 3 } = progress {
    ///             self.0.borrow_mut().push(step);
    ///         }
    ///     }
    /// }
    ///
    /// let seen = Rc::new(Steps::default());
    /// let mut session = Session::builder().observer(seen.clone()).build(LocalComm::new())?;
    /// let problem = Problem::new(32, 32, 48, 16)?.with_panel(16)?;
    /// let plan = session.plan(problem, &BalanceConfig::default())?;
    /// let a: Matrix = Matrix::generate(plan.a(), 0, Generator::Uniform { seed: 1 })?;
    /// let b = Matrix::generate(plan.b(), 0, Generator::Uniform { seed: 2 })?;
    /// let mut product = session.prepare(plan, RunConfig::default())?;
    /// let mut c = product.zeros(&mut session)?;
    /// product.run(&mut session, Scalars::PRODUCT, Factors::of(&a, &b), &mut c)?;
    /// assert_eq!(*seen.0.borrow(), [0, 1, 2]);
    /// # Ok::<(), isochron::Error>(())
    /// ```
    pub fn observer(mut self, observer: Rc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Finds or makes the devices of every rank's node.
    ///
    /// # Errors
    /// Fails on every rank when any rank fails: [`Error::File`] for the platform file or a model, [`Error::Device`] for
    /// hardware that fails, [`Error::Parameter`] for devices that name missing hardware or another device's, and for
    /// reserved cores that the host does not have; [`Error::Settings`] for settings that differ between ranks.
    ///
    /// # Collective
    /// All ranks, with the same settings. Nodes may differ, and reserved cores may differ between hosts.
    pub fn build(self, comm: impl Into<Arc<dyn Comm>>) -> Result<Session, Error> {
        Session::build(self, comm.into())
    }

    /// Returns the settings that are the same on all ranks, as text. The platform, the cores that form a device and the BLAS
    /// may differ; the kind of the platform and the reserved cores are compared by host.
    pub(super) fn describe(&self) -> Settings {
        let Self {
            platform: _,
            grouping: _,
            blas: _,
            element,
            measure,
            store,
            models,
            reserved: _,
            host_scope,
            log: _,
            observer: _,
        } = self;
        let mut settings = Settings::new();
        add_fields(&mut settings, measure);
        add_setting(&mut settings, "element", element);
        add_setting(&mut settings, "store", &store.to_string());
        let models = models.as_ref().map(|folder| folder.display().to_string());
        add_setting(&mut settings, "models", &models);
        add_setting(&mut settings, "host_scope", &host_scope.to_string());
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_shows_its_ranks_and_devices() {
        let session = Session::builder()
            .blas(BlasChoice::Embedded)
            .build(crate::comm::LocalComm::new())
            .unwrap();
        let text = format!("{session:?}");
        assert!(text.starts_with("Session { rank: 0, ranks: 1, devices: ["), "{text}");
    }
}

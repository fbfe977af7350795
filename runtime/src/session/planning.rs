//! Plans: made for a problem, or taken from a file.

use isochron_devices::with_element;
use std::sync::Arc;
use std::time::Instant;

use isochron_devices::{MeasureTally, Scalar};
use isochron_hierarchy::balance::BalanceConfig;

use super::Session;
use crate::comm::{CollectiveCall, agree};
use crate::error::Error;
use crate::plan::measuring::{self, Decided, PlanningTask, Ranks};
use crate::plan::{
    Making, Plan, PlannedDevice, PlannedNode, PredictedNode, Prediction, Problem, find_difference,
};
use crate::plan::{check_epsilon, check_hpopta, host_memory};

/// The places of matrices that the program holds already.
pub(crate) struct PlacedMatrices<'p> {
    /// Suits a plan to them.
    pub suit: &'p dyn Fn(Plan) -> Plan,
    /// Counts the bytes of those on this rank that a plan needs no memory for.
    pub count_lent: &'p dyn Fn(&Plan) -> u64,
}

impl Session {
    /// Measures and partitions: decides which rank and device computes which part. [`prepare`](Self::prepare) takes the plan.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Parameter`] when epsilon is no positive number, or HPOPTA lacks measured times that divide
    /// the columns of C, or has another fit or layout than these; [`Error::Memory`] when the
    /// matrices or a measurement do not fit, [`Error::Device`] or [`Error::Balance`] when measuring fails.
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
        host_memory::check_total(self.comm.as_ref(), problem.matrix_bytes())?;
        let places = PlacedMatrices { suit: &|plan| plan, count_lent: &|_| 0 };
        self.plan_beside(problem, config, &places)
    }

    /// Plans as [`plan`](Self::plan) does, for matrices that are held already.
    pub(crate) fn plan_beside(
        &mut self,
        problem: Problem,
        config: &BalanceConfig,
        places: &PlacedMatrices<'_>,
    ) -> Result<Plan, Error> {
        check_epsilon(config.epsilon)?;
        check_hpopta(config, problem.split())?;
        let start = Instant::now();
        let Decided { decision, slices, measured, network, look, falls, known, .. } =
            with_element!(problem.element(), T => self.decide::<T>(problem, *config))?;
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
        let plan = Plan::new(problem, decision, network, nodes, made).with_look(look);
        self.fit_to_memory((places.suit)(plan), places.count_lent)
    }

    /// Makes a plan fit the memory. The plan returned holds the available memory and its predictions.
    ///
    /// # Collective
    /// All ranks, with the same plan.
    fn fit_to_memory(
        &mut self,
        plan: Plan,
        count_lent: &dyn Fn(&Plan) -> u64,
    ) -> Result<Plan, Error> {
        let comm = Arc::clone(&self.comm);
        let plan =
            host_memory::fit_to_memory(comm.as_ref(), &mut self.node.team, plan, count_lent)?;
        self.predict(plan)
    }

    /// Adds predictions to a plan.
    ///
    /// # Collective
    /// All ranks, with the same plan.
    fn predict(&self, plan: Plan) -> Result<Plan, Error> {
        let comm = self.comm.as_ref();
        let mine = agree(comm, self.predict_node(&plan))?;
        let prediction = Prediction::new(&plan, comm.gather(&mine)?);
        Ok(plan.with_prediction(prediction))
    }

    fn predict_node(&self, plan: &Plan) -> Result<PredictedNode, Error> {
        let rank = self.comm.rank();
        let needs = self.node.team.job_needs(&plan.job_shape(rank), &plan.slices(rank))?;
        let host_bytes = needs.iter().map(|needs| needs.host_bytes).sum();
        let own_bytes: Vec<u64> = needs.iter().map(|needs| needs.own_bytes).collect();
        Ok(PredictedNode::new(plan, rank, host_bytes, &own_bytes))
    }

    /// Takes over a plan that was [read](Plan::load), if it was made for these ranks and devices. Nothing is measured. The plan
    /// becomes leaner if memory is short. [`prepare`](Self::prepare) does the same; this call is for programs that show the plan
    /// first.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Plan`] with the difference when the plan was made for other ranks, hosts, nodes
    /// or devices, and [`Error::Plan`] or [`Error::Parameter`] when it is impossible; [`Error::Memory`] when the
    /// matrices do not fit.
    ///
    /// # Collective
    /// All ranks, with the same plan.
    pub fn adopt(&mut self, plan: Plan) -> Result<Plan, Error> {
        let _log = self.begin_log();
        let comm = Arc::clone(&self.comm);
        let _call = CollectiveCall::new(comm.as_ref(), "adopting a plan")
            .with_long("plan", "a plan", &plan)
            .enter()?;
        self.fit_given(plan)
    }

    /// Takes over a plan from a file, as [`adopt`](Self::adopt) does.
    pub(crate) fn fit_given(&mut self, plan: Plan) -> Result<Plan, Error> {
        self.check_given(&plan)?;
        self.fit_to_memory(plan, &|_| 0)
    }

    /// Looks at the memory of all hosts again, just before the matrices of a plan are made: other programs may have taken some
    /// since it was planned.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Memory`] if the plan no longer fits, with the memory that was available when it
    /// was made, and now.
    ///
    /// # Collective
    /// All ranks, with the same plan, before any of them makes a matrix.
    pub fn check_memory(&mut self, plan: &Plan) -> Result<(), Error> {
        let comm = Arc::clone(&self.comm);
        let _call = CollectiveCall::new(comm.as_ref(), "looking at the memory")
            .with_long("plan", "a plan", plan)
            .enter()?;
        plan.check_ranks(comm.size())?;
        self.look_again(plan)
    }

    fn look_again(&mut self, plan: &Plan) -> Result<(), Error> {
        host_memory::look_again(self.comm.as_ref(), &mut self.node.team, plan)
    }

    /// Checks that a plan is possible, and was made for these ranks and devices.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Plan`], [`Error::Parameter`].
    ///
    /// # Collective
    /// All ranks, with the same plan.
    fn check_given(&self, plan: &Plan) -> Result<(), Error> {
        plan.check()?;
        let slices = vec![0; self.node.team.len()];
        let mine = self.describe_node(&slices, MeasureTally::default());
        let here = self.comm.gather(&mine)?;
        find_difference(plan.nodes(), &here)
            .map_or(Ok(()), |difference| Err(Error::Plan(difference)))
    }

    /// Describes this rank's node with these columns for its devices.
    fn describe_node(&self, slices: &[usize], measured: MeasureTally) -> PlannedNode {
        let devices = self.node.team.infos().iter().zip(slices);
        let devices = devices.map(|(info, &columns)| PlannedDevice::new(info, columns));
        PlannedNode {
            rank: self.comm.rank(),
            host: self.comm.host().to_owned(),
            name: self.node.name().to_owned(),
            measured,
            devices: devices.collect(),
        }
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
        let task = PlanningTask::new(comm, &self.node.team, problem, config, measure)?;
        let known = self.find_known(&problem, task.kernel_width);
        let known = if self.models.are_given {
            agree(comm, known)?
        } else {
            // Without files nothing can fail.
            known?
        };
        let ranks = Ranks::<T>::new(
            comm,
            &mut self.node.team,
            self.observer.as_deref(),
            measure,
            task,
            (self.models.network.clone(), self.node.load.message_cost),
        );
        let mut decided = measuring::decide(ranks, known)?;
        decided.decision.config = config;
        self.models.network.clone_from(&decided.probe);
        if let Some(store) = &mut self.models.store {
            store.keep_network(comm.implementation(), &self.models.network);
            let seen = std::mem::take(&mut decided.seen);
            store.keep_measured(&problem, task.kernel_width, seen);
        }
        Ok(decided)
    }
}

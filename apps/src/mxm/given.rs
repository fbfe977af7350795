//! The plan that a file gives, alone or with the decisions of its run.

use isochron_core::Error;
use isochron_core::comm::Comm;
use isochron_core::plan::Plan;
use isochron_core::product::RunRecord;
use isochron_core::session::Session;

use super::options::MxmArguments;

/// A plan that is used without measuring.
pub(super) enum GivenPlan {
    /// The plan of `--load-plan`.
    Saved(Plan),
    /// The record of `--replay`: a plan with the decisions of its run.
    Recorded(RunRecord),
}

impl GivenPlan {
    /// Reads the file that the options name, if they name one.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn load(comm: &dyn Comm, arguments: &MxmArguments) -> Result<Option<Self>, Error> {
        if let Some(path) = &arguments.replay {
            let record = RunRecord::load(comm, path).map_err(blame_record)?;
            return Ok(Some(Self::Recorded(record)));
        }
        let saved = arguments.load_plan.as_deref();
        Ok(saved.map(|path| Plan::load(comm, path)).transpose()?.map(Self::Saved))
    }

    /// The plan.
    pub(super) fn plan(&self) -> &Plan {
        match self {
            Self::Saved(plan) => plan,
            Self::Recorded(record) => record.plan(),
        }
    }

    /// Takes the plan over.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn adopt(&self, session: &mut Session) -> Result<Plan, Error> {
        match self {
            Self::Saved(plan) => session.adopt(plan.clone()),
            Self::Recorded(record) => session.adopt_record(record),
        }
    }

    /// Names the kind of the file in the reason why its plan is refused.
    pub(super) fn name_file(&self, error: Error) -> Error {
        match self {
            Self::Saved(_) => error,
            Self::Recorded(_) => blame_record(error),
        }
    }
}

fn blame_record(error: Error) -> Error {
    match error {
        Error::Plan(reason) => Error::Record(reason),
        error => error,
    }
}

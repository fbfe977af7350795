//! `isochron health`: the devices of the job that are slower than those like them, and the likely cause.

mod devices;
pub(crate) mod document;
mod heat_map;
mod sizes;

use std::sync::Arc;

use clap::{Args, ValueHint};
use isochron_core::Error;
use isochron_core::comm::Comm;
use isochron_core::store::StoreMode;
use isochron_devices::blas::BlasChoice;
use isochron_hierarchy::balance::BalanceStep;
use isochron_hierarchy::health::{Health, HealthCheck, HealthRule, RoundRequest};

use crate::choices::NodeArguments;
use crate::failure::Failure;
use crate::lines::{count, output_width};
use crate::named_values::{name_all, name_blas};
use crate::numbers::parse_positive;
use crate::output::Answer;
use crate::terminal_line::TerminalLine;
use crate::watch::WatchArguments;
use devices::HealthDevices;
use document::HealthDocument;

/// The exit status of a job with a device that failed, and of one that could not be checked.
const FAILED: u8 = 2;

/// The devices, and the time for their measurements.
#[derive(Args)]
pub struct HealthArguments {
    #[command(flatten)]
    node: NodeArguments,
    /// BLAS of the cores: auto, embedded, openblas, mkl, blis or a library's path
    #[arg(long, default_value_t = BlasChoice::default())]
    #[arg(value_parser = name_blas(), hide_possible_values = true, value_hint = ValueHint::AnyPath)]
    blas: BlasChoice,
    /// Seconds that the measurements may take, about; they take half or less if no device is suspicious
    #[arg(long, value_name = "S", default_value_t = 45.0, value_parser = parse_positive)]
    seconds: f64,
    /// Use of the model store: none, read (a device with fewer than three others like it is compared with its earlier
    /// times), or read-write (times of devices that are not slow are added too)
    #[arg(long, value_name = "USE", default_value_t = StoreMode::ReadWrite)]
    #[arg(value_parser = name_all::<StoreMode>(), hide_possible_values = true)]
    store: StoreMode,
    #[command(flatten)]
    pub watch: WatchArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command on every rank; the head rank has an answer. Its exit status is that of the job's health.
pub fn run(comm: &Arc<dyn Comm>, arguments: &HealthArguments) -> Result<Option<Answer>, Failure> {
    check_devices(comm, arguments).map_err(|failure| Failure {
        status: FAILED,
        ..failure
    })
}

fn check_devices(
    comm: &Arc<dyn Comm>,
    arguments: &HealthArguments,
) -> Result<Option<Answer>, Failure> {
    let session = arguments
        .node
        .set_up_session()
        .blas(arguments.blas.clone())
        .store(arguments.store)
        .build(Arc::clone(comm))?;
    let progress = TerminalLine::of_rank(comm.rank() == 0);
    progress.show("health: choosing sizes");
    let mut devices = HealthDevices::open(session, comm.as_ref(), arguments.seconds)?;
    let mut head =
        (comm.rank() == 0).then(|| HealthCheck::new(HealthRule::default(), devices.list_checked()));
    while let Some(request) = share_request(comm.as_ref(), head.as_ref())? {
        progress.show(&describe_progress(request));
        let round = devices.measure_round(comm.as_ref(), request)?;
        if let Some(check) = &mut head {
            check.observe(round);
        }
    }
    let found = head.as_ref().and_then(|check| match check.step() {
        BalanceStep::Done(found) => Some(found),
        BalanceStep::Measure(_) => None,
    });
    let health = found
        .as_ref()
        .map(|found| found.iter().map(|device| device.health));
    devices.keep_times(comm.as_ref(), health.map(Iterator::collect))?;
    let failures = devices.gather_failures(comm.as_ref())?;
    let notices = devices.gather_notices(comm.as_ref())?;
    let Some(found) = found else {
        return Ok(None);
    };
    let document = HealthDocument::new(&devices, found, &failures, notices);
    let format = |document: &HealthDocument| document.format(output_width());
    let answer = Answer::new(arguments.json, &document, format)?;
    Ok(Some(match find_status(document.health()) {
        0 => answer,
        status => answer.with_failure(Failure {
            message: String::new(),
            status,
        }),
    }))
}

/// Shares the head rank's request for a round; `None` at the end.
///
/// # Collective
/// All ranks.
fn share_request(
    comm: &dyn Comm,
    check: Option<&HealthCheck>,
) -> Result<Option<RoundRequest>, Error> {
    comm.share(
        0,
        check.map(|check| match check.step() {
            BalanceStep::Measure(request) => Some(request),
            BalanceStep::Done(_) => None,
        }),
    )
}

fn describe_progress(request: RoundRequest) -> String {
    let done = count(request.done as u64, "round");
    let rounds = HealthRule::default().rounds;
    if request.done < rounds {
        format!("health: {done} of {rounds} done")
    } else {
        format!("health: {done} of {} done, a second look", 2 * rounds)
    }
}

/// Returns the exit status for the health of a job.
fn find_status(health: Health) -> u8 {
    match health {
        Health::Healthy => 0,
        Health::Slow => 1,
        Health::Failed => FAILED,
        Health::Unknown => 3,
    }
}

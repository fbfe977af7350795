//! `isochron health`: the devices of the job that are slower than those like them, and the likely cause.

mod devices;
pub(crate) mod document;
mod heat_map;
mod history;
mod prometheus;
mod sizes;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, ValueHint};
use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_core::internal::watch::{RankPhase, enter};
use isochron_core::store::{StoreMode, read_clock_s};
use isochron_devices::blas::BlasChoice;
use isochron_devices::measure::ProductCount;
use isochron_hierarchy::balance::BalanceStep;
use isochron_hierarchy::health::{DeviceHealth, Health, HealthCheck, ROUNDS, RoundRequest};

use crate::choices::NodeArguments;
use crate::failure::Failure;
use crate::lines::{count, output_width};
use crate::links::document::LinksDocument;
use crate::links::members::{Members, WhileComputing};
use crate::named_values::{name_all, name_blas};
use crate::numbers::parse_positive;
use crate::output::{Answer, create_file};
use crate::terminal_line::TerminalLine;
use crate::watch::WatchArguments;
use devices::HealthDevices;
use document::HealthDocument;
use history::PastChecks;

/// The exit status of a job with a device that failed, and of one that could not be checked.
pub const FAILED: u8 = 2;

/// The devices, and the time for their measurements.
#[derive(Args)]
pub struct HealthArguments {
    #[command(flatten)]
    node: NodeArguments,
    /// BLAS of the cores: auto, embedded, openblas, mkl, blis or a library's path
    #[arg(long, default_value_t = BlasChoice::default())]
    #[arg(value_parser = name_blas(), hide_possible_values = true, value_hint = ValueHint::AnyPath)]
    blas: BlasChoice,
    /// Seconds that the measurements may take; they take half or less if no device is suspicious
    #[arg(long, value_name = "S", default_value_t = 45.0, value_parser = parse_seconds)]
    seconds: f64,
    /// Use of the model store: none, read (a device with fewer than three others like it is compared with its earlier
    /// times), or read-write (times of devices that are not slow are added too)
    #[arg(long, value_name = "USE", default_value_t = StoreMode::ReadWrite)]
    #[arg(value_parser = name_all::<StoreMode>(), hide_possible_values = true)]
    store: StoreMode,
    /// File of earlier checks, to which this one is added: devices and links that have changed by 1 % against themselves are told with
    /// the day
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// File for the metrics of the check, as Prometheus's node exporter reads them from its folder of text files (*.prom)
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,
    #[command(flatten)]
    watch: WatchArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Reads seconds that have an end.
fn parse_seconds(text: &str) -> Result<f64, String> {
    parse_positive(text).and_then(|seconds| {
        let is_finite = seconds.is_finite();
        is_finite.then_some(seconds).ok_or_else(|| "expected a number above 0".to_owned())
    })
}

impl HealthArguments {
    /// Returns how the ranks are watched.
    pub fn watch(&self) -> WatchArguments {
        self.watch.of_check(self.seconds)
    }
}

/// Runs the command on every rank; the head rank has an answer. Its exit status is that of the job's health.
pub fn run(comm: &Arc<dyn Comm>, arguments: &HealthArguments) -> Result<Option<Answer>, Failure> {
    let metrics = create_file(arguments.prometheus.as_deref().filter(|_| comm.rank() == 0));
    let metrics = agree(comm.as_ref(), metrics)?;
    let history = arguments.history.as_deref().filter(|_| comm.rank() == 0);
    let mut history = agree(comm.as_ref(), history.map(PastChecks::open).transpose())?;
    let session = arguments
        .node
        .set_up_session()
        .blas(arguments.blas.clone())
        .store(arguments.store)
        .build(Arc::clone(comm))?;
    let progress = TerminalLine::of_rank(comm.rank() == 0);
    progress.show("health: choosing sizes");
    let mut devices = HealthDevices::open(session, comm.as_ref(), arguments.seconds)?;
    let mut head = (comm.rank() == 0).then(|| HealthCheck::new(devices.list_checked()));
    // A device that hangs is a standstill, and no work of unknown length.
    enter(RankPhase::Plan);
    while let Some(request) = share_request(comm.as_ref(), head.as_ref(), &devices)? {
        progress.show(&describe_progress(request));
        let round = devices.measure_round(comm.as_ref(), request)?;
        if let Some(check) = &mut head {
            check.observe(round);
        }
    }
    progress.show("health: products of whole numbers");
    let products = devices.count_products(comm.as_ref())?;
    let failures = devices.gather_failures(comm.as_ref())?;
    let found = head.as_ref().map(|check| mark_unwell(check.judge(), &products, &failures));
    let health = found.as_ref().map(|found| found.iter().map(|device| device.health));
    devices.keep_times(comm.as_ref(), health.map(Iterator::collect))?;
    progress.show("health: links between the hosts");
    let links = check_links(comm.as_ref(), &mut devices)?;
    let mut notices = devices.gather_notices(comm.as_ref())?;
    let (Some(found), Some(check)) = (found, head) else {
        return Ok(None);
    };
    if links.is_none() && devices.count_hosts() > 1 {
        notices.push(
            "the seconds were over before the links between the hosts were checked".to_owned(),
        );
    }
    let is_cut = devices.is_cut() || matches!(check.step(), BalanceStep::Measure(_));
    if is_cut {
        notices.push(devices.describe_cut(arguments.seconds));
    }
    let mut document = HealthDocument::new(&devices, found, &failures, &products, links, notices);
    if let Some(history) = &mut history {
        document.changes = history.add(document.list_times(), read_clock_s())?;
    }
    let recent = |device: &str| history.as_ref().and_then(|history| history.find_recent(device));
    document.find_slow_hosts(recent);
    if let Some(metrics) = metrics {
        metrics.fill(&document.format_metrics(read_clock_s()))?;
    }
    let format = |document: &HealthDocument| document.format(output_width());
    let answer = Answer::new(arguments.json, &document, format)?;
    Ok(Some(match find_status(document.health(), is_cut) {
        0 => answer,
        status => answer.with_failure(Failure { message: String::new(), status }),
    }))
}

/// Marks the devices that computed a product wrongly, or that failed meanwhile.
fn mark_unwell(
    mut found: Vec<DeviceHealth>,
    products: &[ProductCount],
    failures: &[Option<String>],
) -> Vec<DeviceHealth> {
    for ((device, products), failure) in found.iter_mut().zip(products).zip(failures) {
        device.health = match (failure, products.wrong) {
            (Some(_), _) => Health::Failed,
            (None, 0) => device.health,
            _ => device.health.max(Health::Wrong),
        };
    }
    found
}

/// Checks the links between the hosts, if there are several and the seconds of the check are not over.
///
/// # Collective
/// All ranks.
fn check_links(
    comm: &dyn Comm,
    devices: &mut HealthDevices,
) -> Result<Option<LinksDocument>, Error> {
    let members = Members::find(comm)?;
    if !members.are_hosts {
        return Ok(None);
    }
    let are_alike = devices.are_own_and_alike();
    let deadline = devices.deadline();
    let is_over = || Instant::now() >= deadline;
    let mut computing = |work: &mut dyn FnMut()| devices.compute_meanwhile(work);
    let computing: Option<&mut WhileComputing<'_>> =
        if are_alike { Some(&mut computing) } else { None };
    members.check(comm, &mut |_| {}, &is_over, computing)
}

/// Shares the head rank's request for a round; `None` at the end of the check, or of its seconds.
///
/// # Collective
/// All ranks.
fn share_request(
    comm: &dyn Comm,
    check: Option<&HealthCheck>,
    devices: &HealthDevices,
) -> Result<Option<RoundRequest>, Error> {
    comm.share(
        0,
        check.map(|check| match check.step() {
            BalanceStep::Measure(request) if !devices.is_over() => Some(request),
            _ => None,
        }),
    )
}

fn describe_progress(request: RoundRequest) -> String {
    let done = count(request.done as u64, "round");
    if request.done < ROUNDS {
        format!("health: {done} of {ROUNDS} done")
    } else {
        format!("health: {done} of {} done, a second look", 2 * ROUNDS)
    }
}

/// Returns the exit status for the health of a job, whose check may have been cut off.
fn find_status(health: Health, is_cut: bool) -> u8 {
    match health {
        Health::Unknown if is_cut => FAILED,
        Health::Healthy => 0,
        Health::Slow | Health::Wrong => 1,
        Health::Failed => FAILED,
        Health::Unknown => 3,
    }
}

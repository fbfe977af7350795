//! `isochron simulate`: the prediction of a plan beside the replay of its messages by SimGrid.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use isochron_core::plan::{Plan, PlanCandidate, SearchedPlan};
use isochron_hierarchy::balance::{BalanceConfig, Strategy};
use isochron_hierarchy::layout::{Arrangement, LayoutError};
use isochron_hierarchy::network::describe_platform;
use serde::Serialize;

use crate::documents::FormatVersion;
use crate::failure::Failure;
use crate::named_values::name_all;
use crate::output::{Answer, make_folder};
use crate::plan::{PlannedArguments, tabulate};

/// The exit status without `smpirun`.
const NOT_REPLAYED: u8 = 3;

/// The command line.
#[derive(Args)]
pub struct SimulateArguments {
    #[command(flatten)]
    planned: PlannedArguments,
    /// Parts: homogeneous (equal) or fpm (by models) [default: those of the fastest candidate]
    #[arg(long, value_parser = name_all::<Strategy>(), hide_possible_values = true)]
    strategy: Option<Strategy>,
    /// Layout, as `plan` lists it: br, or such as "kl in 2x3" [default: that of the fastest candidate]
    #[arg(long, value_parser = parse_layout)]
    layout: Option<Arrangement>,
    /// New or empty folder for the platform and the traces
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A plan, and its seconds by SimGrid.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct SimulateDocument {
    /// Version of the format.
    schema: FormatVersion<1>,
    /// The plan, with its predictions.
    candidate: PlanCandidate,
    /// Seconds of the whole by SimGrid; `null` without `smpirun`.
    simulated_s: Option<f64>,
    /// The simulated seconds over the predicted ones; `null` without `smpirun`.
    ratio: Option<f64>,
}

/// Runs the command.
pub fn run(arguments: &SimulateArguments) -> Result<Answer, Failure> {
    let folder = arguments.out.as_path();
    let is_used = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if is_used {
        return Err(Failure::of_file(folder, "is not empty: choose another --out"));
    }
    let found = arguments.choose()?;
    make_folder(folder)?;
    write_files(folder, &found.ahead.plan)?;
    let simulated_s = replay(folder)?;
    let candidate = PlanCandidate::new(&found);
    let ratio = simulated_s.map(|simulated_s| simulated_s / candidate.wall_s);
    let document = SimulateDocument { schema: FormatVersion, candidate, simulated_s, ratio };
    let answer = Answer::new(arguments.json, &document, format_document)?;
    Ok(match simulated_s {
        Some(_) => answer,
        None => answer.with_failure(Failure {
            message: "smpirun is not installed, so nothing was replayed: install SimGrid (Debian and Ubuntu: libsimgrid-dev)"
                .to_owned(),
            status: NOT_REPLAYED,
        }),
    })
}

impl SimulateArguments {
    /// Returns the fastest candidate of the given strategy and layout.
    fn choose(&self) -> Result<SearchedPlan, Failure> {
        let is_wanted = |config: &BalanceConfig| {
            self.strategy.is_none_or(|strategy| strategy == config.strategy)
                && self.layout.is_none_or(|layout| layout == config.layout)
        };
        let found = self.planned.load()?.list_candidates(&self.planned.problems()?, is_wanted)?;
        found.into_iter().next().ok_or_else(|| {
            Failure::input("--strategy, --layout: no candidate of `isochron plan` has both")
        })
    }
}

fn parse_layout(text: &str) -> Result<Arrangement, LayoutError> {
    Arrangement::try_from(text.to_owned())
}

/// Writes the platform, the host of each process, the names of the traces, and the traces.
fn write_files(folder: &Path, plan: &Plan) -> Result<(), Failure> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| Failure::of_file(&path, error))
    };
    let (mut hosts, mut traces) = (String::new(), String::new());
    for rank in 0..plan.n_ranks() {
        for (place, actions) in plan.replay(rank).iter().enumerate() {
            let name = format!("rank{rank}-{place}.trace");
            write(&name, actions)?;
            hosts += &format!("{rank}\n");
            traces += &format!("{name}\n");
        }
    }
    write("hosts", &hosts)?;
    write("traces", &traces)?;
    let network = plan.network();
    let platform = network.map(|network| describe_platform(network, plan.n_ranks()));
    write("platform.xml", &platform.unwrap_or_default())
}

/// Replays the files and returns the simulated seconds; `None` without SimGrid.
fn replay(folder: &Path) -> Result<Option<f64>, Failure> {
    let line = ["-platform", "platform.xml", "-hostfile", "hosts", "-replay", "traces"];
    let output = match Command::new("smpirun").args(line).current_dir(folder).output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::run(format!("smpirun: {error}"))),
    };
    let told = String::from_utf8_lossy(&output.stderr);
    let seconds = told.rsplit_once("Simulation time ");
    let seconds = seconds.and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    match seconds.filter(|_| output.status.success()) {
        Some(seconds) => Ok(Some(seconds)),
        None => Err(Failure::run(format!("smpirun, {}: {}", output.status, told.trim_end()))),
    }
}

fn format_document(document: &SimulateDocument) -> String {
    let table = tabulate([&document.candidate].into_iter());
    match (document.simulated_s, document.ratio) {
        (Some(simulated_s), Some(ratio)) => {
            format!(
                "{table}\nsimulated by SimGrid: {simulated_s:.3} s, {ratio:.3} times the prediction\n"
            )
        }
        _ => table.to_string(),
    }
}

//! A prepared product in a program's own memory, against the same product through `isochron mxm`.

use serde::{Deserialize, Serialize};

use crate::goal::check_most;
use crate::launch::MxmLauncher;
use crate::markdown::format_table;
use crate::process::run_program;
use crate::results::{CampaignResults, Origin, ResultsPage, list_in_turn};
use crate::statistics::{MedianRange, median};

/// The contestants: the command, and a program whose matrices lie as planned, or block-cyclically.
const CONTESTANTS: [&str; 3] = [MXM, "planned", "cyclic"];
const MXM: &str = "mxm";

/// The goal of a call's time over the multiplication's of the command.
const GOAL: f64 = 1.05;

/// The size of the campaign.
#[derive(clap::Args)]
pub struct PreparedArguments {
    /// Rounds; in each all contestants take their turn
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Sizes: m = n = k
    #[arg(long, value_delimiter = ',', default_values_t = [1024, 2048, 4096])]
    sizes: Vec<usize>,
    /// Ranks
    #[arg(long, default_value_t = 2)]
    ranks: usize,
    /// Calls in each program, of which the first warms up
    #[arg(long, default_value_t = 6)]
    calls: usize,
    /// Only make the table from the samples that are kept
    #[arg(long)]
    table_only: bool,
}

/// The file of results.
#[derive(Serialize, Deserialize)]
pub struct PreparedResults {
    #[serde(flatten)]
    origin: Origin,
    ranks: usize,
    samples: Vec<PreparedSample>,
}

/// The times of a program.
#[derive(Serialize, Deserialize)]
struct PreparedSample {
    round: usize,
    size: usize,
    who: String,
    #[serde(flatten)]
    times: CallTimes,
}

/// Seconds of calls, and of the multiplications in them.
#[derive(Serialize, Deserialize)]
struct CallTimes {
    calls_s: Vec<f64>,
    multiplications_s: Vec<f64>,
}

/// Runs the campaign, or makes its table only.
pub fn run(arguments: &PreparedArguments) -> anyhow::Result<()> {
    let fresh = (!arguments.table_only).then(|| measure(arguments));
    PreparedResults::publish(fresh.transpose()?)
}

fn measure(arguments: &PreparedArguments) -> anyhow::Result<PreparedResults> {
    let launcher = MxmLauncher::from_environment()?;
    let mut samples = Vec::new();
    for round in 0..arguments.rounds {
        for &size in &arguments.sizes {
            for &who in list_in_turn(&CONTESTANTS, round) {
                let times = match who {
                    MXM => run_mxm(&launcher, arguments.ranks, size)?,
                    layout => run_calls(&launcher, arguments, size, layout)?,
                };
                eprintln!("round {round} {who} {size}: {:?}", times.calls_s);
                let who = who.to_owned();
                samples.push(PreparedSample {
                    round,
                    size,
                    who,
                    times,
                });
            }
        }
    }
    let PreparedArguments {
        rounds,
        ranks,
        calls,
        ..
    } = *arguments;
    let sizes: Vec<String> = arguments.sizes.iter().map(usize::to_string).collect();
    let sizes = sizes.join(",");
    let command = format!(
        "cargo xtask bench prepared --rounds {rounds} --sizes {sizes} --ranks {ranks} --calls {calls}"
    );
    Ok(PreparedResults {
        origin: Origin::new(command),
        ranks,
        samples,
    })
}

/// Runs the command, whose call is the multiplication alone.
fn run_mxm(launcher: &MxmLauncher, ranks: usize, size: usize) -> anyhow::Result<CallTimes> {
    let size = size.to_string();
    let options = ["--size", &size, "--store", "none"];
    let report = launcher.run_mxm(ranks, &options.map(str::to_owned))?;
    Ok(CallTimes {
        calls_s: vec![report.wall_s],
        multiplications_s: vec![report.wall_s],
    })
}

/// Runs the program whose matrices lie in this way.
fn run_calls(
    launcher: &MxmLauncher,
    arguments: &PreparedArguments,
    size: usize,
    layout: &str,
) -> anyhow::Result<CallTimes> {
    let mut command = launcher.mpirun(arguments.ranks, launcher.options);
    launcher.add_example(&mut command, "prepared");
    command.args([
        size.to_string(),
        arguments.calls.to_string(),
        layout.to_owned(),
    ]);
    let (output, _) = run_program(&mut command)?;
    Ok(serde_json::from_str(&output)?)
}

impl PreparedSample {
    /// Returns the median of the calls' seconds after the first.
    fn call_s(&self) -> f64 {
        median(after_first(&self.times.calls_s))
    }

    /// Returns the same of the multiplications.
    fn multiplication_s(&self) -> f64 {
        median(after_first(&self.times.multiplications_s))
    }
}

/// Leaves out the first of several times.
fn after_first(times_s: &[f64]) -> &[f64] {
    &times_s[usize::from(times_s.len() > 1)..]
}

impl PreparedResults {
    fn list(&self, size: usize, who: &str, seconds: fn(&PreparedSample) -> f64) -> Vec<f64> {
        let wanted = self
            .samples
            .iter()
            .filter(|x| x.size == size && x.who == who);
        wanted.map(seconds).collect()
    }

    fn list_sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.samples.iter().map(|sample| sample.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Returns the time of a call over that of the command, and over its own multiplication.
    fn compare(&self, size: usize, layout: &str) -> [MedianRange; 2] {
        let calls = self.list(size, layout, PreparedSample::call_s);
        let alone = self.list(size, layout, PreparedSample::multiplication_s);
        let command = self.list(size, MXM, PreparedSample::call_s);
        [command, alone].map(|below| MedianRange::of_ratios(&calls, &below))
    }
}

impl CampaignResults for PreparedResults {
    const PAGE: ResultsPage = ResultsPage { name: "prepared" };

    fn format_tables(&self) -> anyhow::Result<String> {
        let more = format!(", on {} ranks", self.ranks);
        let origin = Self::PAGE.describe_origin(&self.origin, "", &more);
        let sizes = self.list_sizes();
        let cases = sizes
            .iter()
            .flat_map(|&size| CONTESTANTS[1..].iter().map(move |&layout| (size, layout)));
        let goals = cases.clone().map(|(size, layout)| {
            let goal = format!("{size}, {layout}: a call / the multiplication of `mxm`");
            check_most(&goal, self.compare(size, layout)[0], GOAL)
        });
        let rows = cases.map(|(size, layout)| {
            let ratios = self.compare(size, layout).map(|ratio| ratio.text(2));
            let [command, alone] = ratios;
            [size.to_string(), layout.to_owned(), command, alone]
        });
        let header = [
            "m = n = k",
            "matrices",
            "call / `mxm`",
            "call / its multiplication",
        ];
        Ok(format!(
            "{origin}\n\n{}\n{}",
            format_table(["goal", "found", "met"], goals),
            format_table(header, rows),
        ))
    }
}

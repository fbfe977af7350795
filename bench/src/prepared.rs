//! A prepared product in a program's own memory, against the same product through `isochron mxm`.

use isochron_devices::ElementType;
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

/// The most turns of a contestant in a round.
const MOST_TURNS: usize = 4;

/// The size of the campaign.
#[derive(clap::Args)]
pub struct PreparedArguments {
    /// Rounds; in each all contestants take their turn, with short products up to four
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Sizes: m = n = k
    #[arg(long, value_delimiter = ',', default_values_t = [1024, 2048, 4096])]
    sizes: Vec<usize>,
    /// The one of the sizes that is multiplied in the other types too: f32 and c64
    #[arg(long, default_value_t = 2048)]
    size_of_types: usize,
    /// Ranks
    #[arg(long, default_value_t = 2)]
    ranks: usize,
    /// Calls in each program; the first warms up. The command runs half as often
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
    /// The number of its turn with this product.
    round: usize,
    size: usize,
    element: String,
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
        for (size, element) in arguments.list_cases() {
            let turns = arguments.count_turns((size, element));
            let element: &str = element.into();
            for turn in round * turns..(round + 1) * turns {
                for &who in list_in_turn(&CONTESTANTS, turn) {
                    let times = match who {
                        MXM => run_mxm(&launcher, arguments, size, element)?,
                        layout => run_calls(&launcher, arguments, size, element, layout)?,
                    };
                    eprintln!("turn {turn} {who} {size} {element}: {:?}", times.calls_s);
                    samples.push(PreparedSample {
                        round: turn,
                        size,
                        element: element.to_owned(),
                        who: who.to_owned(),
                        times,
                    });
                }
            }
        }
    }
    let PreparedArguments {
        rounds,
        ranks,
        calls,
        size_of_types,
        ..
    } = *arguments;
    let sizes: Vec<String> = arguments.sizes.iter().map(usize::to_string).collect();
    let sizes = sizes.join(",");
    let command = format!(
        "cargo xtask bench prepared --rounds {rounds} --sizes {sizes} --size-of-types {size_of_types} --ranks {ranks} --calls {calls}"
    );
    Ok(PreparedResults {
        origin: Origin::new(command),
        ranks,
        samples,
    })
}

impl PreparedArguments {
    /// Counts the turns of every contestant in a round: the shorter a product, the more its time differs from one process to
    /// the next.
    fn count_turns(&self, case: (usize, ElementType)) -> usize {
        let longest = self.list_cases().map(count_flop).fold(0.0, f64::max);
        ((longest / count_flop(case)) as usize).clamp(1, MOST_TURNS)
    }

    /// Lists the products: each size in f64, and one of them in the other types.
    fn list_cases(&self) -> impl Iterator<Item = (usize, ElementType)> {
        self.sizes.iter().flat_map(|&size| {
            let elements = if size == self.size_of_types {
                &[ElementType::F64, ElementType::F32, ElementType::C64][..]
            } else {
                &[ElementType::F64]
            };
            elements.iter().map(move |&element| (size, element))
        })
    }
}

/// Counts the real operations of a product.
fn count_flop((size, element): (usize, ElementType)) -> f64 {
    (size as f64).powi(3) * element.flop()
}

/// Runs the command some times. Its call is the multiplication alone.
fn run_mxm(
    launcher: &MxmLauncher,
    arguments: &PreparedArguments,
    size: usize,
    element: &str,
) -> anyhow::Result<CallTimes> {
    let size = size.to_string();
    let options = ["--size", &size, "--type", element, "--store", "none"];
    let options = options.map(str::to_owned);
    let runs = 0..arguments.calls.div_ceil(2);
    let calls_s = runs
        .map(|_| Ok(launcher.run_mxm(arguments.ranks, &options)?.wall_s))
        .collect::<anyhow::Result<Vec<f64>>>()?;
    Ok(CallTimes {
        multiplications_s: calls_s.clone(),
        calls_s,
    })
}

/// Runs the program whose matrices lie in this way.
fn run_calls(
    launcher: &MxmLauncher,
    arguments: &PreparedArguments,
    size: usize,
    element: &str,
    layout: &str,
) -> anyhow::Result<CallTimes> {
    let mut command = launcher.mpirun(arguments.ranks, launcher.options);
    launcher.add_example(&mut command, "prepared");
    command.args([
        size.to_string(),
        arguments.calls.to_string(),
        layout.to_owned(),
        element.to_owned(),
    ]);
    let (output, _) = run_program(&mut command)?;
    Ok(serde_json::from_str(&output)?)
}

impl PreparedSample {
    /// Returns the size and the type of the elements.
    fn case(&self) -> (usize, &str) {
        (self.size, &self.element)
    }

    /// Returns the median of the calls' seconds, of a program's after the first.
    fn call_s(&self) -> f64 {
        match &*self.who {
            MXM => median(&self.times.calls_s),
            _ => median(after_first(&self.times.calls_s)),
        }
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
    fn list(
        &self,
        case: (usize, &str),
        who: &str,
        seconds: fn(&PreparedSample) -> f64,
    ) -> Vec<f64> {
        self.samples
            .iter()
            .filter(|sample| sample.case() == case && sample.who == who)
            .map(seconds)
            .collect()
    }

    /// Lists the sizes and types of elements, in the order in which they were measured.
    fn list_cases(&self) -> Vec<(usize, &str)> {
        let mut cases = Vec::new();
        for case in self.samples.iter().map(PreparedSample::case) {
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
        cases
    }

    /// Returns the time of a call over that of the command, and over its own multiplication.
    fn compare(&self, case: (usize, &str), layout: &str) -> [MedianRange; 2] {
        let calls = self.list(case, layout, PreparedSample::call_s);
        let alone = self.list(case, layout, PreparedSample::multiplication_s);
        let command = self.list(case, MXM, PreparedSample::call_s);
        [command, alone].map(|below| MedianRange::of_ratios(&calls, &below))
    }
}

impl CampaignResults for PreparedResults {
    const PAGE: ResultsPage = ResultsPage { name: "prepared" };

    fn format_tables(&self) -> anyhow::Result<String> {
        let more = format!(", on {} ranks", self.ranks);
        let origin = Self::PAGE.describe_origin(&self.origin, "", &more);
        let cases = self.list_cases();
        let cases = cases
            .iter()
            .flat_map(|&case| CONTESTANTS[1..].iter().map(move |&layout| (case, layout)));
        let goals = cases.clone().map(|(case, layout)| {
            let (size, element) = case;
            let goal = format!("{size} {element}, {layout}: a call / the multiplication of `mxm`");
            check_most(&goal, self.compare(case, layout)[0], GOAL)
        });
        let rows = cases.map(|(case, layout)| {
            let ratios = self.compare(case, layout).map(|ratio| ratio.text(2));
            let [command, alone] = ratios;
            let (size, element) = case;
            [
                size.to_string(),
                element.to_owned(),
                layout.to_owned(),
                command,
                alone,
            ]
        });
        let header = [
            "m = n = k",
            "type",
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

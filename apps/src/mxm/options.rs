//! The options of `isochron mxm`.

use std::path::PathBuf;

use clap::{Arg, Args, ValueEnum, ValueHint};
use isochron_core::Error;
use isochron_core::internal::{check_hpopta, read_forced_changes};
use isochron_core::matrix::Op;
use isochron_core::session::SessionBuilder;
use isochron_core::store::StoreMode;
use isochron_devices::blas::BlasChoice;
use isochron_devices::{ElementType, MeasureConfig};
use isochron_hierarchy::balance::{BalanceConfig, Strategy};
use isochron_hierarchy::layout::{Arrangement, Grid, Method};
use isochron_hierarchy::learn::Tuning;
use isochron_hierarchy::partition::Partitioner;
use isochron_hierarchy::printable::show_path;
use isochron_hierarchy::problem::Split;
use num_complex::Complex64;

use crate::choices::{
    BalancingArguments, NodeArguments, check_readers, give, name_strategies, refuse_given,
};
use crate::measuring::{MeasuringArguments, show_default};
use crate::named_values::{name_all, name_blas};
use crate::numbers::{parse_complex, parse_whole};
use crate::watch::WatchArguments;

/// The matrices, the balancing and the output.
#[derive(Args)]
#[command(mut_args(|argument| show_readers(show_default(argument, &MeasureConfig::default()))))]
pub struct MxmArguments {
    /// m, n and k at once
    #[arg(long, value_parser = parse_whole::<usize, 0>, conflicts_with_all = ["m", "n", "k", "a", "b"])]
    pub(super) size: Option<usize>,
    /// Rows of A and C
    #[arg(long, value_parser = parse_whole::<usize, 0>, requires = "n", requires = "k", conflicts_with_all = ["a", "b"])]
    pub(super) m: Option<usize>,
    /// Columns of B and C
    #[arg(long, value_parser = parse_whole::<usize, 0>, requires = "m", requires = "k", conflicts_with_all = ["a", "b"])]
    pub(super) n: Option<usize>,
    /// Columns of A and rows of B
    #[arg(long, value_parser = parse_whole::<usize, 0>, requires = "m", requires = "n", conflicts_with_all = ["a", "b"])]
    pub(super) k: Option<usize>,
    /// File with A, m×k (.npy or .mtx)
    #[arg(long, requires = "b", value_name = "FILE")]
    pub(super) a: Option<PathBuf>,
    /// File with B, k×n
    #[arg(long, requires = "a", value_name = "FILE")]
    pub(super) b: Option<PathBuf>,
    /// File with the C that is added, m×n
    #[arg(long, value_name = "FILE")]
    pub(super) c: Option<PathBuf>,
    /// File for the result (.npy or .mtx)
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// Factor of A*B, such as -1.5, or 2-0.5i for complex matrices
    #[arg(long, default_value = "1", allow_hyphen_values = true, value_parser = parse_complex)]
    pub(super) alpha: Complex64,
    /// Factor of C [default: 0, or 1 with --c]
    #[arg(long, allow_hyphen_values = true, value_parser = parse_complex)]
    pub(super) beta: Option<Complex64>,
    /// Type of the elements: f32, f64, c32 or c64 (complex numbers in single and double precision) [default: that
    /// of the files, without files f64]
    #[arg(long = "type", value_name = "TYPE", value_parser = name_all::<ElementType>(), hide_possible_values = true)]
    pub(super) element: Option<ElementType>,
    /// Block size b: a unit of work is the update of a b×b block of C [default: the largest of 128, 64 and 32 that
    /// leaves each rank 256 blocks of C, or 32]
    #[arg(long, value_parser = parse_whole::<usize, 0>)]
    pub(super) block: Option<usize>,
    /// Width of the panels that are sent and multiplied at a time [default: the best for the measured network]
    #[arg(long, value_parser = parse_whole::<usize, 0>)]
    pub(super) panel: Option<usize>,
    /// Form of A: n (itself), t (its transpose) or c (its conjugate transpose); m, n and k remain those of the product
    /// [default: n]
    #[arg(long, value_name = "OP", value_parser = name_all::<Op>(), hide_possible_values = true)]
    pub(super) op_a: Option<Op>,
    /// Form of B, as for A [default: n]
    #[arg(long, value_name = "OP", value_parser = name_all::<Op>(), hide_possible_values = true)]
    pub(super) op_b: Option<Op>,
    /// Dimension divided over the nodes: c (panels of A and B are sent), k (parts of C are summed) or auto
    #[arg(long, default_value_t = Split::default())]
    #[arg(value_parser = name_all::<Split>(), hide_possible_values = true)]
    pub(super) split: Split,
    /// Print the plan and stop before anything is allocated
    #[arg(long, conflicts_with_all = ["out", "report"])]
    pub(super) plan: bool,
    /// File for the plan (JSON)
    #[arg(long, value_name = "FILE", help_heading = ABOUT_RUN)]
    pub(super) save_plan: Option<PathBuf>,
    /// File with a plan for these hosts, devices and options, which is used without measuring
    #[arg(long, value_name = "FILE", help_heading = ABOUT_RUN)]
    pub(super) load_plan: Option<PathBuf>,
    /// File for the timeline of the run, which Perfetto shows (JSON)
    #[arg(long, value_name = "FILE", help_heading = ABOUT_RUN, conflicts_with = "plan")]
    pub(super) trace: Option<PathBuf>,
    /// Use of the model store: none, read, or read-write, which adds this run's times
    #[arg(long, value_name = "USE", default_value_t = StoreMode::ReadWrite)]
    #[arg(value_parser = name_all::<StoreMode>(), hide_possible_values = true)]
    pub(super) store: StoreMode,
    /// Folder with a full model of every device, which replaces measuring: points files as `isochron measure mxm` or
    /// gemm writes them
    #[arg(long, value_name = "DIR", conflicts_with = "load_plan")]
    pub(super) models: Option<PathBuf>,
    #[command(flatten)]
    pub(super) node: NodeArguments,
    /// Strategy of balancing: homogeneous, single-cpm, multi-cpm, fpm or adaptive (learns while it multiplies)
    /// [default: adaptive]
    #[arg(long, value_parser = name_all::<Strategy>(), hide_possible_values = true)]
    pub(super) strategy: Option<Strategy>,
    /// Layout of the nodes' areas: kl, br (also fpm-br), cartesian, cartesian-sums, recursive, or with fpm fpm-kl
    /// (heights and widths of equal times) [default: br, with --grid kl]
    #[arg(long, value_parser = name_all::<Method>(), hide_possible_values = true)]
    pub(super) layout: Option<Method>,
    /// Rows and columns of nodes, one place for each, for kl, cartesian, cartesian-sums and fpm-kl: C is divided, and
    /// no node is left out. Nodes stand by falling area along the rows
    #[arg(long, value_name = "ROWSxCOLS")]
    pub(super) grid: Option<Grid>,
    /// BLAS of the CPU devices: auto (that of a plan, else the store's choice, else the fastest), embedded,
    /// openblas, mkl, blis or a library's path
    #[arg(long, default_value_t = BlasChoice::default())]
    #[arg(value_parser = name_blas(), hide_possible_values = true, value_hint = ValueHint::AnyPath)]
    pub(super) blas: BlasChoice,
    /// Check of the result; with exact, the generated matrices hold whole numbers
    #[arg(long, value_enum, default_value_t = Verify::Probe)]
    pub(super) verify: Verify,
    /// Seed of the generated matrices and of the check
    #[arg(long, default_value_t = 1, value_parser = parse_whole::<u64, 0>)]
    pub(super) seed: u64,
    #[command(flatten)]
    pub watch: WatchArguments,
    /// File for the report (JSON)
    #[arg(long, value_name = "FILE", help_heading = ABOUT_RUN)]
    pub(super) report: Option<PathBuf>,
    /// Print the report (JSON) instead of the summary
    #[arg(long)]
    pub(super) json: bool,
    /// Print one line in place of the summary or the plan, and no progress; --json is as without
    #[arg(long)]
    pub(super) quiet: bool,
    #[command(flatten)]
    pub(super) measuring: MeasuringArguments,
    #[command(flatten)]
    pub(super) balancing: BalancingArguments,
}

/// The strategies that measure before the run.
const MEASURING: &[Strategy] = &[Strategy::SingleCpm, Strategy::MultiCpm, Strategy::Fpm];
/// The strategies that know times before the run.
const KNOWING: &[Strategy] =
    &[Strategy::SingleCpm, Strategy::MultiCpm, Strategy::Fpm, Strategy::Adaptive];

/// The options that not all strategies read, with those that do. Before a run that learns there is a look of the fewest
/// repetitions, which takes any precision.
const READERS: [(&str, &[Strategy]); 10] = [
    ("epsilon", MEASURING),
    ("max-iterations", &[Strategy::MultiCpm, Strategy::Fpm]),
    ("fit", &[Strategy::Fpm]),
    ("partitioner", &[Strategy::Fpm]),
    ("min-reps", KNOWING),
    ("max-reps", KNOWING),
    ("confidence", MEASURING),
    ("precision", MEASURING),
    ("max-seconds", KNOWING),
    ("models", KNOWING),
];

/// The heading of options that name a file about the run.
const ABOUT_RUN: &str = "Files about a run";

/// Sets options apart in the help that the default strategy does not read, each with the strategies that do.
fn show_readers(argument: Arg) -> Arg {
    let name = argument.get_id().as_str().replace('_', "-");
    let readers = READERS.iter().find(|(option, _)| *option == name);
    match (readers, argument.get_help()) {
        (Some((_, readers)), Some(help)) if !readers.contains(&Strategy::default()) => {
            let help = format!("{help} ({})", name_strategies(readers));
            argument.help(help).help_heading("Options of other strategies than the default")
        }
        _ => argument,
    }
}

/// The check of the result.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Verify {
    /// No check
    None,
    /// A random probe with a derived bound
    Probe,
    /// An exact check of whole numbers
    Exact,
}

impl MxmArguments {
    /// Returns the strategy of a run without a plan.
    pub(super) fn strategy(&self) -> Strategy {
        self.strategy.unwrap_or_default()
    }

    /// Refuses options that the strategy does not read, or that a plan has decided.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] with the first of them.
    pub(super) fn check_readers(&self) -> Result<(), Error> {
        let models = self.models.as_deref().map(show_path);
        let options = self.balancing.list_given().into_iter();
        let options = options.chain(self.measuring.list_given()).chain([give("models", models)]);
        if self.load_plan.is_some() {
            refuse_given(options, "with a plan nothing is measured or divided anew")?;
        } else {
            check_readers(self.strategy(), &READERS, options)?;
        }
        if self.layout == Some(Method::FpmKl) && self.load_plan.is_none() {
            if self.strategy() != Strategy::Fpm {
                let reason = format!("an option of fpm, not of {}", self.strategy());
                return Err(Error::parameter("layout", Method::FpmKl, reason));
            }
            let partitioner = self.balancing.make_config().partitioner;
            if partitioner != Partitioner::Gpa {
                let reason = "fpm-kl divides columns by gpa";
                return Err(Error::parameter("partitioner", partitioner, reason));
            }
        }
        check_hpopta(&self.balance_config(), self.split)
    }

    /// Begins to set up the session of the run.
    pub(super) fn set_up_session(&self) -> SessionBuilder {
        let measure = self.measuring.apply_to(MeasureConfig::default());
        let settings = self.node.set_up_session().blas(self.blas.clone());
        let settings = settings.measure(measure).store(self.store);
        match &self.models {
            Some(folder) => settings.models(folder),
            None => settings,
        }
    }

    /// Returns the arrangement of the areas by the options, on top of a plan's.
    pub(super) fn arrangement(&self, planned: Option<Arrangement>) -> Arrangement {
        let method = match self.grid {
            Some(_) => Method::Kl,
            None => Method::default(),
        };
        let default = planned.unwrap_or(Arrangement { method, grid: None });
        Arrangement {
            method: self.layout.unwrap_or(default.method),
            grid: self.grid.or(default.grid),
        }
    }

    /// Returns the settings of balancing.
    pub(super) fn balance_config(&self) -> BalanceConfig {
        BalanceConfig {
            strategy: self.strategy(),
            layout: self.arrangement(None),
            adaptive: Tuning { force_every: read_forced_changes(), ..Default::default() },
            ..self.balancing.make_config()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};
    use strum::VariantArray as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        mxm: MxmArguments,
    }

    fn check(words: &[&str]) -> Result<(), Error> {
        let words = [&["mxm", "--size", "64"], words].concat();
        let line = Line::try_parse_from(words).expect("a command line");
        line.mxm.check_readers()
    }

    fn pick_value(option: &str) -> &'static str {
        match option {
            "fit" => "akima",
            "partitioner" => "npa",
            "confidence" | "precision" | "epsilon" => "0.5",
            _ => "7",
        }
    }

    #[test]
    fn every_option_that_a_strategy_does_not_read_is_refused_by_name() {
        for (option, readers) in READERS {
            let value = pick_value(option);
            let words = [&format!("--{option}"), value];
            for &strategy in Strategy::VARIANTS {
                let chosen = strategy.to_string();
                let told = check(&[words[0], words[1], "--strategy", &chosen])
                    .err()
                    .map(|error| error.to_string());
                let of = name_strategies(readers);
                let refused = format!("{option} = {value}: an option of {of}, not of {strategy}");
                let expected = (!readers.contains(&strategy)).then_some(refused);
                assert_eq!(told, expected, "{words:?}");
            }
            // The help tells the same.
            let command = Line::command();
            let mut arguments = command.get_arguments();
            let argument = arguments.find(|argument| argument.get_long() == Some(option));
            let heading = argument.expect("an option").get_help_heading().unwrap_or("");
            let is_apart = heading.contains("other strategies");
            assert_eq!(is_apart, !readers.contains(&Strategy::default()), "{option}");
        }
    }

    /// Options of a run with a plan that are read, or compared with the plan or each other.
    const READ_WITH_A_PLAN: &str = "size m n k a b c out alpha beta type block panel op-a op-b split plan save-plan load-plan \
         trace platform group strategy layout grid blas verify store seed stall-timeout report json quiet help";

    #[test]
    fn every_option_that_a_plan_has_decided_is_refused_by_name() {
        for argument in Line::command().get_arguments() {
            let option = argument.get_long().expect("a long name");
            // Models beside a plan are no command line.
            if option == "models" || READ_WITH_A_PLAN.split(' ').any(|read| read == option) {
                continue;
            }
            let value = pick_value(option);
            let told = check(&["--load-plan", "a.json", &format!("--{option}"), value]);
            let told = told.expect_err(option).to_string();
            assert!(told.starts_with(&format!("{option} = {value}: ")), "{told}");
        }
    }

    #[test]
    fn hpopta_takes_measured_times_alone_and_divides_columns() {
        let hpopta = ["--strategy", "fpm", "--partitioner", "hpopta"];
        for given in [&[][..], &["--fit", "raw-piecewise"], &["--split", "c"]] {
            check(&[&hpopta[..], given].concat()).expect("accepted");
        }
        for given in [
            ["--fit", "piecewise-speed"],
            ["--fit", "akima"],
            ["--layout", "kl"],
            ["--grid", "1x2"],
            ["--split", "k"],
        ] {
            let told = check(&[&hpopta[..], &given].concat()).expect_err("refused").to_string();
            assert!(told.starts_with("partitioner = hpopta: "), "{told}");
        }
    }

    #[test]
    fn fpm_kl_is_refused_where_nothing_reads_it() {
        let refuse = |words: &[&str]| check(words).expect_err("refused").to_string();
        let told = refuse(&["--layout", "fpm-kl"]);
        assert_eq!(told, "layout = fpm-kl: an option of fpm, not of adaptive");
        let of_fpm = ["--layout", "fpm-kl", "--strategy", "fpm"];
        check(&of_fpm).expect("accepted");
        let told = refuse(&[&of_fpm[..], &["--partitioner", "npa"]].concat());
        assert_eq!(told, "partitioner = npa: fpm-kl divides columns by gpa");
    }
}

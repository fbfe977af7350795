//! The options of `isochron mxm`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use isochron_core::internal::read_forced_changes;
use isochron_core::matrix::Op;
use isochron_core::session::SessionBuilder;
use isochron_core::store::StoreMode;
use isochron_devices::blas::BlasChoice;
use isochron_devices::{ElementType, MeasureConfig};
use isochron_hierarchy::balance::{BalanceConfig, Strategy};
use isochron_hierarchy::layout::Method;
use isochron_hierarchy::learn::Tuning;
use isochron_hierarchy::problem::Split;
use num_complex::Complex64;

use crate::choices::{BalancingArguments, NodeArguments};
use crate::measuring::{MeasuringArguments, show_default};
use crate::named_values::{name_all, name_blas};
use crate::numbers::{parse_complex, parse_whole};
use crate::watch::WatchArguments;

/// The matrices, the balancing and the output.
#[derive(Args)]
#[command(mut_args(|argument| show_default(argument, &MeasureConfig::default())))]
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
    /// Width of the panels that are sent and multiplied at a time [default: the best for the measured links]
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
    #[arg(long, value_name = "FILE")]
    pub(super) save_plan: Option<PathBuf>,
    /// File with a plan for these hosts, devices and options, which is used without measuring
    #[arg(long, value_name = "FILE")]
    pub(super) load_plan: Option<PathBuf>,
    /// File for the times and decisions of a run that learns (JSON)
    #[arg(long, value_name = "FILE", conflicts_with = "plan")]
    pub(super) record: Option<PathBuf>,
    /// File with a record, whose run is repeated with the same decisions and without measuring
    #[arg(long, value_name = "FILE", conflicts_with_all = ["plan", "load_plan"])]
    pub(super) replay: Option<PathBuf>,
    /// File for the timeline of the run, which Perfetto shows (protobuf)
    #[arg(long, value_name = "FILE", conflicts_with = "plan")]
    pub(super) trace: Option<PathBuf>,
    /// Use of the model store: none, read, or read-write, which adds this run's times
    #[arg(long, value_name = "USE", default_value_t = StoreMode::ReadWrite)]
    #[arg(value_parser = name_all::<StoreMode>(), hide_possible_values = true)]
    pub(super) store: StoreMode,
    /// Folder with a full model of every device, which replaces measuring: points files as `isochron measure mxm` or
    /// gemm writes them
    #[arg(long, value_name = "DIR", conflicts_with_all = ["load_plan", "replay"])]
    pub(super) models: Option<PathBuf>,
    #[command(flatten)]
    pub(super) node: NodeArguments,
    /// Strategy of balancing: homogeneous, single-cpm, multi-cpm, fpm or adaptive (learns while it multiplies)
    #[arg(long, default_value_t = Strategy::default())]
    #[arg(value_parser = name_all::<Strategy>(), hide_possible_values = true)]
    pub(super) strategy: Strategy,
    /// Layout of the nodes' areas: kl, br, cartesian, cartesian-sums or recursive
    #[arg(long, default_value_t = Method::default())]
    #[arg(value_parser = name_all::<Method>(), hide_possible_values = true)]
    pub(super) layout: Method,
    /// BLAS of the CPU devices: auto (that of a plan or record, else the store's choice, else the fastest), embedded,
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
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Print the report (JSON) instead of the summary
    #[arg(long)]
    pub(super) json: bool,
    /// Print one line in place of the summary or the plan, and no progress; --json is as without
    #[arg(long)]
    pub(super) quiet: bool,
    #[command(
        flatten,
        next_help_heading = "Balancing before the run (fpm; the first two also multi-cpm)"
    )]
    pub(super) balancing: BalancingArguments,
    #[command(flatten)]
    pub(super) measuring: MeasuringArguments,
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
    /// Begins to set up the session of the run.
    pub(super) fn set_up_session(&self) -> SessionBuilder {
        // A run that is repeated takes nothing from the store, and adds nothing.
        let store = match self.replay {
            Some(_) => StoreMode::None,
            None => self.store,
        };
        let measure = self.measuring.apply_to(MeasureConfig::default());
        let settings = self.node.set_up_session().blas(self.blas.clone());
        let settings = settings.measure(measure).store(store);
        match &self.models {
            Some(folder) => settings.models(folder),
            None => settings,
        }
    }

    /// Returns the settings of balancing.
    pub(super) fn balance_config(&self) -> BalanceConfig {
        BalanceConfig {
            strategy: self.strategy,
            layout: self.layout,
            adaptive: Tuning {
                force_every: read_forced_changes(),
                ..Default::default()
            },
            ..self.balancing.make_config()
        }
    }
}

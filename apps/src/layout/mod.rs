//! `isochron layout`: a matrix in rectangles, by areas or by models.

mod choice;
mod measured;

use std::path::PathBuf;

use clap::Args;
use isochron_hierarchy::layout::{Layout, LayoutError, Method, arrange, arrange_in};
use isochron_hierarchy::model::Fit;
use isochron_hierarchy::partition::{PartitionError, Partitioner};
use serde::Serialize;

use self::choice::{Columns, LayoutMethod, name_methods, parse_columns};
use crate::documents::FormatVersion;
use crate::failure::Failure;
use crate::named_values::name_all;
use crate::numbers::{parse_number, parse_whole};
use crate::output::Answer;
use crate::points;
use crate::table::TextTable;

/// The areas or models to arrange, and the method.
#[derive(Args)]
pub struct LayoutArguments {
    /// Relative areas, one a node
    #[arg(
        value_name = "AREA",
        required_unless_present = "models",
        conflicts_with = "models",
        value_parser = parse_number
    )]
    areas: Vec<f64>,
    /// Files with a model of each node in place of areas. Points files have lines `d t [reps [ci]]`, d
    /// in blocks. Surface files, for fpm-kl, have the first line `# format: isochron-surface 1`, then
    /// lines `m n t [reps [ci]]`: seconds for m rows and n columns of blocks
    #[arg(long, num_args = 1.., value_name = "FILE")]
    models: Vec<PathBuf>,
    /// Method that arranges the areas, or areas of equal times by models [default: br, with --models
    /// fpm-br]. By areas: kl (columns of equally many nodes as they come), br (columns of the least sum
    /// of half-perimeters), cartesian (a grid that keeps the largest time small), cartesian-sums (a
    /// grid by the sums of its rows and columns), recursive (rectangles by cuts). Only with --models:
    /// fpm-br (1.5D: equal times, arranged as br), fpm-kl (by models of height and width, in columns)
    #[arg(long, value_parser = name_methods(), hide_possible_values = true)]
    method: Option<LayoutMethod>,
    /// Columns for kl, cartesian, cartesian-sums and fpm-kl, from left to right, each with its nodes
    /// from top to bottom, counted from 0: 0,1/2,3. Without it, kl and fpm-kl take equally many nodes
    /// as they come, the others a grid that suits the areas
    #[arg(long, value_name = "I,.../...", allow_hyphen_values = true, value_parser = parse_columns)]
    columns: Option<Columns>,
    /// Model made of the points: cpm, piecewise-speed, piecewise-time, akima or raw-piecewise
    /// [default: piecewise-speed]
    #[arg(long, value_parser = name_all::<Fit>(), hide_possible_values = true)]
    fit: Option<Fit>,
    /// Partitioner that finds areas of equal times by points files: gpa or npa [default: gpa]
    #[arg(long, visible_alias = "partitioner", value_name = "PARTITIONER")]
    #[arg(value_parser = name_all::<Partitioner>(), hide_possible_values = true)]
    dividing: Option<Partitioner>,
    /// Rows of the matrix, in blocks
    #[arg(long, default_value_t = 64, value_parser = parse_whole::<u64, 0>)]
    rows: u64,
    /// Columns of the matrix, in blocks
    #[arg(long, default_value_t = 64, value_parser = parse_whole::<u64, 0>)]
    cols: u64,
    /// Most lines of the picture, which keeps its proportions
    #[arg(long, default_value_t = 12, value_parser = parse_whole::<u16, 3>)]
    lines: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Times of a layout by its models.
#[derive(Default, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct Times {
    /// Seconds of each node, by its model.
    times_s: Vec<f64>,
    /// The longest of these times, in seconds.
    max_time_s: f64,
    /// Partitioner that found the areas.
    #[serde(skip_serializing_if = "Option::is_none")]
    dividing: Option<Partitioner>,
    /// Imbalance of the times, for methods that iterate.
    #[serde(skip_serializing_if = "Option::is_none")]
    imbalance: Option<f64>,
    /// `true` if the iterations ended by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    converged: Option<bool>,
    /// Number of iterations.
    #[serde(skip_serializing_if = "Option::is_none")]
    iterations: Option<u32>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct LayoutAnswer<'a> {
    /// Version of the format.
    schema: FormatVersion<1>,
    #[serde(flatten)]
    layout: &'a Layout,
    /// Sum of the half-perimeters, in blocks.
    half_perimeters: u64,
    /// Sum of half-perimeters of squares of these areas, in blocks.
    lower_bound: f64,
    /// The method.
    method: String,
    #[serde(flatten)]
    times: Option<&'a Times>,
}

impl Times {
    fn new(times_s: Vec<f64>) -> Self {
        Self { max_time_s: times_s.iter().copied().fold(0.0, f64::max), times_s, ..Self::default() }
    }
}

/// Runs the command.
pub fn run(arguments: &LayoutArguments) -> Result<Answer, Failure> {
    let by_models = !arguments.models.is_empty();
    let default =
        if by_models { LayoutMethod::FpmBr } else { LayoutMethod::Areas(Method::default()) };
    let method = arguments.method.unwrap_or(default);
    if arguments.columns.is_some() && !method.takes_columns() {
        return Err(Failure::input(format!(
            "--columns: goes with --method kl, cartesian, cartesian-sums and fpm-kl, and this is {method}"
        )));
    }
    let (layout, times) = if by_models {
        let (layout, times) = measured::arrange_by_models(arguments, method)?;
        (layout, Some(times))
    } else {
        (arrange_areas(arguments, method)?, None)
    };
    let answer = LayoutAnswer {
        schema: FormatVersion,
        half_perimeters: layout.half_perimeter_sum(),
        lower_bound: layout.lower_bound(),
        layout: &layout,
        method: method.to_string(),
        times: times.as_ref(),
    };
    Answer::new(arguments.json, &answer, |answer| {
        format_text(arguments, answer.layout, answer.times)
    })
}

impl LayoutArguments {
    /// Makes the failure of a layout, with the file or the flag that caused it.
    fn explain_refusal(&self, error: &LayoutError) -> Failure {
        let flag = match error {
            LayoutError::Partition(error @ PartitionError::TooLarge { .. }) => {
                return points::refuse(&self.models, "--dividing", error);
            }
            LayoutError::Partition(error) => {
                return points::refuse(&self.models, "--rows, --cols", error);
            }
            LayoutError::NoSuchNode { .. }
            | LayoutError::Repeated { .. }
            | LayoutError::NotArranged { .. }
            | LayoutError::Ragged { .. }
            | LayoutError::IdleInGrid { .. } => "--columns",
            LayoutError::TooLarge { .. } => "--rows, --cols",
            _ if self.models.is_empty() => "AREA",
            _ => "--models",
        };
        Failure::input(format!("{flag}: {error}"))
    }
}

fn arrange_areas(arguments: &LayoutArguments, method: LayoutMethod) -> Result<Layout, Failure> {
    let (areas, rows, cols) = (&arguments.areas, arguments.rows, arguments.cols);
    let method = match method {
        LayoutMethod::Areas(method) if method != Method::FpmKl => method,
        _ => {
            return Err(Failure::input(
                "--method: fpm-br and fpm-kl need models of the nodes; give --models in place of areas",
            ));
        }
    };
    if let Some((flag, _)) =
        [("--fit", arguments.fit.is_some()), ("--dividing", arguments.dividing.is_some())]
            .into_iter()
            .find(|(_, given)| *given)
    {
        return Err(Failure::input(format!("{flag}: goes with --models")));
    }
    let layout = match &arguments.columns {
        Some(columns) => arrange_in(method, columns, areas, rows, cols),
        None => arrange(method, areas, rows, cols),
    };
    layout.map_err(|error| arguments.explain_refusal(&error))
}

fn format_text(arguments: &LayoutArguments, layout: &Layout, times: Option<&Times>) -> String {
    let mut text = format!(
        "{}\n{}\nsum of half-perimeters {} blocks; squares of such areas have {:.1}\n",
        layout.picture(80, arguments.lines.into()),
        tabulate(arguments, layout, times),
        layout.half_perimeter_sum(),
        layout.lower_bound()
    );
    if let Some(times) = times {
        text += &format!("longest {:.6} s\n", times.max_time_s);
        if let (Some(imbalance), Some(iterations)) = (times.imbalance, times.iterations) {
            let imbalance = 100.0 * imbalance;
            text += &format!("imbalance {imbalance:.1} % after {iterations} iterations\n");
        }
    }
    text
}

/// Makes a table with one line for each node.
fn tabulate(arguments: &LayoutArguments, layout: &Layout, times: Option<&Times>) -> TextTable {
    let heading = match times {
        Some(_) => "node|area|row|col|rows|cols|blocks|time s",
        None => "node|area|row|col|rows|cols|blocks",
    };
    let mut table = TextTable::new(0, heading);
    for (node, rect) in layout.rects().iter().enumerate() {
        // Models find the area; without models it was asked for.
        let area = arguments
            .areas
            .get(node)
            .map(f64::to_string)
            .unwrap_or_else(|| rect.area().to_string());
        let numbers = [rect.row, rect.col, rect.rows, rect.cols, rect.area()];
        let mut cells = vec![node.to_string(), area];
        cells.extend(numbers.map(|number| number.to_string()));
        cells.extend(times.map(|times| format!("{:.6}", times.times_s[node])));
        table.add_row(cells);
    }
    table
}

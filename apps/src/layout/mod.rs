//! `isochron layout`: a matrix in zones, by areas or by models.

mod choice;
mod measured;

use std::path::PathBuf;

use clap::Args;
use isochron_hierarchy::layout::{Layout, LayoutError, Method, Rect, Zones, arrange, kl};
use isochron_hierarchy::model::Fit;
use isochron_hierarchy::partition::{PartitionError, Partitioner};
use serde::Serialize;

use self::choice::{Columns, How};
use crate::failure::Failure;
use crate::output;
use crate::points;
use crate::table::Table;

/// What to arrange.
#[derive(Args)]
pub struct Arguments {
    /// Relative areas, one a node
    #[arg(
        value_name = "AREA",
        required_unless_present = "models",
        conflicts_with = "models"
    )]
    areas: Vec<f64>,
    /// Files with a model of each node in place of areas: points files (lines `d t [reps [ci]]`, d in
    /// blocks), for fpm-kl surface files (first line `# format: isochron-surface 1`, then lines
    /// `m n t [reps [ci]]`: seconds for m rows and n columns of blocks)
    #[arg(long, num_args = 1.., value_name = "FILE")]
    models: Vec<PathBuf>,
    /// How: kl (columns of equally many nodes as they come), br (columns of the least sum of
    /// half-perimeters), cartesian (a grid, by approximate areas), recursive (rectangles by cuts), corner
    /// (rectangles and L-shaped zones), row-slices or column-slices, by areas or by models of them; with
    /// --models also fpm-br (1.5D: equal times, arranged as br) or fpm-kl (by models of height and width,
    /// in columns) [default: br, with --models fpm-br]
    #[arg(long)]
    method: Option<How>,
    /// Columns for kl and fpm-kl, from left to right, each with its nodes from top to bottom, counted
    /// from 0: 0,1/2,3 [default: equally many nodes as they come]
    #[arg(long, value_name = "I,.../...")]
    columns: Option<Columns>,
    /// Model made of the points: cpm, piecewise-speed, piecewise-time, akima or raw-piecewise
    /// [default: piecewise-speed]
    #[arg(long)]
    fit: Option<Fit>,
    /// Partitioner that finds areas of equal times by points files: gpa, npa or hpopta [default: gpa]
    #[arg(long, visible_alias = "partitioner", value_name = "PARTITIONER")]
    dividing: Option<Partitioner>,
    /// Rows of the matrix, in blocks
    #[arg(long, default_value_t = 64)]
    rows: u64,
    /// Columns of the matrix, in blocks
    #[arg(long, default_value_t = 64)]
    cols: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Zones, and what they were made from.
struct Arranged {
    zones: Zones,
    /// The areas asked for.
    areas: Vec<f64>,
    times: Option<Times>,
}

/// What the models say about zones made from them.
#[derive(Serialize)]
struct Times {
    times_s: Vec<f64>,
    max_time_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dividing: Option<Partitioner>,
    #[serde(skip_serializing_if = "Option::is_none")]
    imbalance: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    converged: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iterations: Option<u32>,
}

#[derive(Serialize)]
struct Answer<'a> {
    rows: u64,
    cols: u64,
    /// Of zones that are all rectangles only, as are their half-perimeters.
    #[serde(skip_serializing_if = "Option::is_none")]
    rects: Option<&'a [Rect]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    half_perimeters: Option<u64>,
    lower_bound: f64,
    method: How,
    zones: &'a [Vec<Rect>],
    cost: u64,
    #[serde(flatten)]
    times: Option<&'a Times>,
}

/// Runs the command; what it prints.
pub fn run(arguments: &Arguments) -> Result<String, Failure> {
    let by_models = !arguments.models.is_empty();
    let default = if by_models {
        How::FpmBr
    } else {
        How::Of(Method::default())
    };
    let method = arguments.method.unwrap_or(default);
    if arguments.columns.is_some() && !method.takes_columns() {
        return Err(Failure::input(format!(
            "--columns: goes with --method kl and fpm-kl, and this is {method}"
        )));
    }
    let arranged = if by_models {
        measured::arranged(arguments, method)?
    } else {
        by_areas(arguments, method)?
    };
    if arguments.json {
        json(method, &arranged)
    } else {
        Ok(text(&arranged))
    }
}

impl Arguments {
    /// The failure of a layout, with the file or the flag that it comes from.
    fn refused(&self, error: &LayoutError) -> Failure {
        let flag = match error {
            LayoutError::Partition(error @ PartitionError::TooLarge { .. }) => {
                return points::refused(&self.models, "--dividing", error);
            }
            LayoutError::Partition(error) => {
                return points::refused(&self.models, "--rows, --cols", error);
            }
            LayoutError::NoSuchNode { .. }
            | LayoutError::Repeated { .. }
            | LayoutError::NotArranged { .. } => "--columns",
            LayoutError::TooLarge { .. } => "--rows, --cols",
            _ if self.models.is_empty() => "AREA",
            _ => "--models",
        };
        Failure::input(format!("{flag}: {error}"))
    }
}

fn by_areas(arguments: &Arguments, method: How) -> Result<Arranged, Failure> {
    let (areas, rows, cols) = (&arguments.areas, arguments.rows, arguments.cols);
    let How::Of(method) = method else {
        return Err(Failure::input(
            "--method: fpm-br and fpm-kl need models of the nodes; give --models in place of areas",
        ));
    };
    let flags = [
        ("--fit", arguments.fit.is_some()),
        ("--dividing", arguments.dividing.is_some()),
    ];
    if let Some((flag, _)) = flags.into_iter().find(|(_, given)| *given) {
        return Err(Failure::input(format!("{flag}: goes with --models")));
    }
    let zones = match &arguments.columns {
        Some(columns) => kl(areas, &columns.0, rows, cols).map(Zones::from),
        None => arrange(method, areas, rows, cols),
    };
    Ok(Arranged {
        zones: zones.map_err(|error| arguments.refused(&error))?,
        areas: areas.clone(),
        times: None,
    })
}

fn json(method: How, arranged: &Arranged) -> Result<String, Failure> {
    let zones = &arranged.zones;
    let layout = Layout::try_from(zones.clone()).ok();
    output::json(&Answer {
        rows: zones.rows(),
        cols: zones.cols(),
        rects: layout.as_ref().map(Layout::rects),
        half_perimeters: layout.as_ref().map(Layout::half_perimeter_sum),
        lower_bound: zones.lower_bound(),
        method,
        zones: zones.zones(),
        cost: zones.cost(),
        times: arranged.times.as_ref(),
    })
}

fn text(arranged: &Arranged) -> String {
    let zones = &arranged.zones;
    let mut text = format!(
        "{}\n{}\nsum of half-perimeters {} blocks; squares of such areas have {:.1}\n",
        zones.picture(40),
        table(arranged),
        zones.cost(),
        zones.lower_bound()
    );
    if let Some(times) = &arranged.times {
        text += &format!("longest {:.6} s\n", times.max_time_s);
        if let (Some(imbalance), Some(iterations)) = (times.imbalance, times.iterations) {
            let imbalance = 100.0 * imbalance;
            text += &format!("imbalance {imbalance:.1} % after {iterations} iterations\n");
        }
    }
    text
}

/// A line for each rectangle; an L has two, and a node without blocks an empty one.
fn table(arranged: &Arranged) -> Table {
    let mut heading = vec!["node", "area", "row", "col", "rows", "cols", "blocks"];
    if arranged.times.is_some() {
        heading.push("time s");
    }
    let mut table = Table::new(0, &heading);
    let nodes = arranged.zones.zones().iter().zip(&arranged.areas);
    for (node, (zone, area)) in nodes.enumerate() {
        let nothing = [Rect::default()];
        let rects: &[Rect] = if zone.is_empty() { &nothing } else { zone };
        for rect in rects {
            let &Rect {
                row,
                col,
                rows,
                cols,
            } = rect;
            let numbers = [row, col, rows, cols, rect.area()].map(|number| number.to_string());
            let mut cells = vec![node.to_string(), area.to_string()];
            cells.extend(numbers);
            if let Some(times) = &arranged.times {
                cells.push(format!("{:.6}", times.times_s[node]));
            }
            table.row(cells);
        }
    }
    table
}

//! `isochron layout`: areas as rectangles.

use clap::Args;
use isochron_hierarchy::layout::{Rect, columns};
use serde::Serialize;

use crate::failure::Failure;
use crate::table::Table;

/// What to arrange.
#[derive(Args)]
pub struct Arguments {
    /// Relative areas, one a node
    #[arg(required = true, value_name = "AREA")]
    areas: Vec<f64>,
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

#[derive(Serialize)]
struct Answer<'a> {
    rows: u64,
    cols: u64,
    rects: &'a [Rect],
    half_perimeters: u64,
    lower_bound: f64,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments {
        areas, rows, cols, ..
    } = arguments;
    let layout = columns::br(areas, *rows, *cols).map_err(Failure::input)?;
    let half_perimeters = layout.half_perimeter_sum();
    let lower_bound = columns::lower_bound(areas, *rows, *cols);
    if arguments.json {
        let answer = Answer {
            rows: *rows,
            cols: *cols,
            rects: layout.rects(),
            half_perimeters,
            lower_bound,
        };
        println!("{}", serde_json::to_string(&answer).map_err(Failure::run)?);
        return Ok(());
    }
    println!("{}", layout.picture(40));
    let mut table = Table::new(0, &["node", "area", "row", "col", "rows", "cols", "blocks"]);
    for (node, (rect, area)) in layout.rects().iter().zip(areas).enumerate() {
        let Rect {
            row,
            col,
            rows,
            cols,
        } = rect;
        let numbers = [*row, *col, *rows, *cols, rect.area()].map(|number| number.to_string());
        table.row(
            [node.to_string(), area.to_string()]
                .into_iter()
                .chain(numbers)
                .collect(),
        );
    }
    println!("{table}");
    println!("sum of half-perimeters {half_perimeters} blocks, at least {lower_bound:.1}");
    Ok(())
}

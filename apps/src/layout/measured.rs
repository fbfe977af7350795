//! Layouts by models.

use isochron_hierarchy::layout::{
    FpmKl, FpmKlConfig, Layout, LayoutError, Method, SpeedSurface, by_models, fpm_kl, kl_columns,
};
use isochron_hierarchy::model::Surface;

use super::{Arranged, LayoutArguments, LayoutMethod, Times};
use crate::failure::Failure;
use crate::points::{borrow_models, read_models, read_surface};

/// Arranges nodes by the models in the files that the arguments name.
pub fn arrange_by_models(
    arguments: &LayoutArguments,
    method: LayoutMethod,
) -> Result<Arranged, Failure> {
    match method {
        LayoutMethod::Areas(method) => arrange_by_area(arguments, method),
        LayoutMethod::FpmBr => arrange_by_area(arguments, Method::Br),
        LayoutMethod::FpmKl if arguments.fit.is_some() => Err(Failure::input(
            "--fit: does not go with --method fpm-kl, whose surfaces are linear between points",
        )),
        LayoutMethod::FpmKl if arguments.dividing.is_some() => Err(Failure::input(
            "--dividing: does not go with --method fpm-kl, which divides columns by gpa",
        )),
        LayoutMethod::FpmKl => arrange_by_sides(arguments),
    }
}

/// Finds areas of equal times and arranges them by a method.
fn arrange_by_area(arguments: &LayoutArguments, method: Method) -> Result<Arranged, Failure> {
    let LayoutArguments { rows, cols, .. } = *arguments;
    let models = read_models(&arguments.models, arguments.fit.unwrap_or_default())?;
    let models = borrow_models(&models);
    let dividing = arguments.dividing.unwrap_or_default();
    let columns = arguments.columns.as_ref().map(|columns| &columns.0[..]);
    let layout = by_models(method, columns, dividing, &models, rows, cols);
    let layout = layout.map_err(|error| arguments.explain_refusal(&error))?;
    let times = models.iter().zip(layout.areas());
    let times_s: Vec<f64> = times.map(|(model, d)| model.time_s(d as f64)).collect();
    Ok(Arranged {
        areas: found_areas(&layout),
        layout,
        times: Some(Times {
            max_time_s: times_s.iter().copied().fold(0.0, f64::max),
            times_s,
            dividing: Some(dividing),
            imbalance: None,
            converged: None,
            iterations: None,
        }),
    })
}

/// Finds heights and widths of equal times in the columns given, or in columns of equally many nodes as
/// they come.
fn arrange_by_sides(arguments: &LayoutArguments) -> Result<Arranged, Failure> {
    let LayoutArguments { rows, cols, .. } = *arguments;
    let surfaces: Vec<Surface> = arguments
        .models
        .iter()
        .map(|path| read_surface(path))
        .collect::<Result<_, _>>()?;
    let found = divide_sides(arguments, &surfaces, rows, cols);
    let found = found.map_err(|error| arguments.explain_refusal(&error))?;
    Ok(Arranged {
        areas: found_areas(&found.layout),
        layout: found.layout,
        times: Some(Times {
            max_time_s: found.times_s.iter().copied().fold(0.0, f64::max),
            times_s: found.times_s,
            dividing: None,
            imbalance: Some(found.imbalance),
            converged: Some(found.converged),
            iterations: Some(found.iterations),
        }),
    })
}

fn divide_sides(
    arguments: &LayoutArguments,
    surfaces: &[Surface],
    rows: u64,
    cols: u64,
) -> Result<FpmKl, LayoutError> {
    let columns = match &arguments.columns {
        Some(columns) => columns.0.clone(),
        None => kl_columns(&even_speeds(surfaces, rows, cols), rows, cols)?,
    };
    let surfaces: Vec<&dyn SpeedSurface> = surfaces
        .iter()
        .map(|surface| surface as &dyn SpeedSurface)
        .collect();
    fpm_kl(&surfaces, &columns, rows, cols, &FpmKlConfig::default())
}

/// Returns each node's speed on an equal part of the matrix with the matrix's proportions.
fn even_speeds(surfaces: &[Surface], rows: u64, cols: u64) -> Vec<f64> {
    let side = (surfaces.len() as f64).sqrt();
    surfaces
        .iter()
        .map(|surface| surface.speed(rows as f64 / side, cols as f64 / side))
        .collect()
}

fn found_areas(layout: &Layout) -> Vec<f64> {
    layout.areas().iter().map(|&area| area as f64).collect()
}

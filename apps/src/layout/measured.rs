//! Layouts by models.

use isochron_core::internal::refuse_hpopta;
use isochron_hierarchy::layout::{
    FpmKl, FpmKlConfig, Layout, LayoutError, Method, SpeedSurface, by_models, fpm_kl, kl_columns,
};
use isochron_hierarchy::model::Surface;

use super::{LayoutArguments, LayoutMethod, Times};
use crate::failure::Failure;
use crate::points::{borrow_models, make_models, read_all_points, read_surface};

/// Arranges nodes by the models in the files that the arguments name.
pub fn arrange_by_models(
    arguments: &LayoutArguments,
    method: LayoutMethod,
) -> Result<(Layout, Times), Failure> {
    match method {
        LayoutMethod::Areas(Method::FpmKl) => arrange_by_sides(arguments),
        LayoutMethod::Areas(method) => arrange_by_area(arguments, method),
        LayoutMethod::FpmBr => arrange_by_area(arguments, Method::Br),
    }
}

/// Finds areas of equal times and arranges them by a method.
fn arrange_by_area(
    arguments: &LayoutArguments,
    method: Method,
) -> Result<(Layout, Times), Failure> {
    let LayoutArguments { rows, cols, .. } = *arguments;
    let dividing = arguments.dividing.unwrap_or_default();
    refuse_hpopta(dividing)?;
    let points = read_all_points(&arguments.models)?;
    let models = make_models(&arguments.models, &points, arguments.fit.unwrap_or_default())?;
    let models = borrow_models(&models);
    let columns = arguments.columns.as_deref();
    let layout = by_models(method, columns, dividing, &models, rows, cols);
    let layout = layout.map_err(|error| arguments.explain_refusal(&error))?;
    let areas = models.iter().zip(layout.areas());
    let times = Times {
        dividing: Some(dividing),
        ..Times::new(areas.map(|(model, d)| model.time_s(d as f64)).collect())
    };
    Ok((layout, times))
}

/// Finds heights and widths of equal times in the columns given, or in columns of equally many nodes as
/// they come.
fn arrange_by_sides(arguments: &LayoutArguments) -> Result<(Layout, Times), Failure> {
    if arguments.fit.is_some() {
        return Err(Failure::input(
            "--fit: does not go with --method fpm-kl, whose surfaces are linear between points",
        ));
    }
    if arguments.dividing.is_some() {
        return Err(Failure::input(
            "--dividing: does not go with --method fpm-kl, which divides columns by gpa",
        ));
    }
    let surfaces = arguments.models.iter().map(|path| read_surface(path));
    let surfaces: Vec<Surface> = surfaces.collect::<Result<_, _>>()?;
    let found = divide_sides(arguments, &surfaces);
    let found = found.map_err(|error| arguments.explain_refusal(&error))?;
    let times = Times {
        imbalance: Some(found.imbalance),
        converged: Some(found.converged),
        iterations: Some(found.iterations),
        ..Times::new(found.times_s)
    };
    Ok((found.layout, times))
}

fn divide_sides(arguments: &LayoutArguments, surfaces: &[Surface]) -> Result<FpmKl, LayoutError> {
    let LayoutArguments { rows, cols, .. } = *arguments;
    let columns = match &arguments.columns {
        Some(columns) => columns.clone(),
        None => kl_columns(&even_speeds(surfaces, rows, cols), rows, cols)?,
    };
    let surfaces: Vec<&dyn SpeedSurface> =
        surfaces.iter().map(|surface| surface as &dyn SpeedSurface).collect();
    fpm_kl(&surfaces, &columns, rows, cols, &FpmKlConfig::default())
}

/// Returns each node's speed on an equal part of the matrix with the matrix's proportions.
fn even_speeds(surfaces: &[Surface], rows: u64, cols: u64) -> Vec<f64> {
    let side = (surfaces.len() as f64).sqrt();
    surfaces.iter().map(|surface| surface.speed(rows as f64 / side, cols as f64 / side)).collect()
}

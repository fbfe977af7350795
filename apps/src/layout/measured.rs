//! Zones by models.

use isochron_hierarchy::layout::{
    FpmKlConfig, LayoutError, Method, SpeedSurface, Zones, by_models, by_models_in, fpm_kl,
    kl_columns,
};
use isochron_hierarchy::model::Surface;

use super::{Arguments, Arranged, How, Times};
use crate::failure::Failure;
use crate::points::{borrowed, models, surface};

pub fn arranged(arguments: &Arguments, method: How) -> Result<Arranged, Failure> {
    match method {
        How::Of(method) => by_area(arguments, method),
        How::FpmBr => by_area(arguments, Method::Br),
        How::FpmKl if arguments.fit.is_some() => Err(Failure::input(
            "--fit: does not go with --method fpm-kl, whose surfaces are linear between points",
        )),
        How::FpmKl if arguments.dividing.is_some() => Err(Failure::input(
            "--dividing: does not go with --method fpm-kl, which divides columns by gpa",
        )),
        How::FpmKl => by_sides(arguments),
    }
}

/// Areas of equal times, arranged by any method.
fn by_area(arguments: &Arguments, method: Method) -> Result<Arranged, Failure> {
    let Arguments { rows, cols, .. } = *arguments;
    let models = models(&arguments.models, arguments.fit.unwrap_or_default())?;
    let models = borrowed(&models);
    let dividing = arguments.dividing.unwrap_or_default();
    let zones = match &arguments.columns {
        Some(columns) => by_models_in(&columns.0, dividing, &models, rows, cols).map(Zones::from),
        None => by_models(method, dividing, &models, rows, cols),
    };
    let zones = zones.map_err(|error| arguments.refused(&error))?;
    let times = models.iter().zip(zones.areas());
    let times_s: Vec<f64> = times.map(|(model, d)| model.time_s(d as f64)).collect();
    Ok(Arranged {
        areas: areas(&zones),
        zones,
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

/// Heights and widths of equal times, in columns: those given, or of equally many nodes as they come.
fn by_sides(arguments: &Arguments) -> Result<Arranged, Failure> {
    let Arguments { rows, cols, .. } = *arguments;
    let surfaces: Vec<Surface> = arguments
        .models
        .iter()
        .map(|path| surface(path))
        .collect::<Result<_, _>>()?;
    let refused = |error: LayoutError| arguments.refused(&error);
    let columns = match &arguments.columns {
        Some(columns) => columns.0.clone(),
        None => kl_columns(&even_speeds(&surfaces, rows, cols), rows, cols).map_err(refused)?,
    };
    let surfaces: Vec<&dyn SpeedSurface> = surfaces
        .iter()
        .map(|surface| surface as &dyn SpeedSurface)
        .collect();
    let found = fpm_kl(&surfaces, &columns, rows, cols, &FpmKlConfig::default());
    let found = found.map_err(refused)?;
    let zones = Zones::from(found.layout);
    Ok(Arranged {
        areas: areas(&zones),
        zones,
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

/// The speeds on equal parts of the matrix, of its proportions.
fn even_speeds(surfaces: &[Surface], rows: u64, cols: u64) -> Vec<f64> {
    let side = (surfaces.len() as f64).sqrt();
    let speed = |surface: &Surface| surface.speed(rows as f64 / side, cols as f64 / side);
    surfaces.iter().map(speed).collect()
}

fn areas(zones: &Zones) -> Vec<f64> {
    zones.areas().iter().map(|&area| area as f64).collect()
}

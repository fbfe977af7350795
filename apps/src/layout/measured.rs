//! Zones by models.

use isochron_hierarchy::layout::{
    FpmKlConfig, LayoutError, Method, SpeedSurface, Zones, arrange, fpm_kl, kl_columns,
};
use isochron_hierarchy::model::Surface;
use isochron_hierarchy::partition::{PartitionError, gpa};

use super::{Arguments, Arranged, How, Times};
use crate::failure::Failure;
use crate::points::{borrowed, failed, models, surface};

pub fn arranged(arguments: &Arguments, method: How) -> Result<Arranged, Failure> {
    match method.of_areas() {
        Some(by) => by_area(arguments, by),
        None if arguments.fit.is_some() => Err(Failure::input(
            "--fit: does not go with --method fpm-kl, whose surfaces are linear between points",
        )),
        None => by_sides(arguments),
    }
}

/// Areas of equal times, arranged by any method; as the library's `fpm_br` does for br.
fn by_area(arguments: &Arguments, by: Method) -> Result<Arranged, Failure> {
    let Arguments { rows, cols, .. } = *arguments;
    let models = models(&arguments.models, arguments.fit.unwrap_or_default())?;
    let models = borrowed(&models);
    let total = rows
        .checked_mul(cols)
        .filter(|&total| total <= i64::MAX as u64);
    let total = total.ok_or_else(|| Failure::input(LayoutError::TooLarge { rows, cols }))?;
    let partition = gpa(&models, total).map_err(|error| refused(arguments, &error))?;
    let areas: Vec<f64> = partition.units.iter().map(|&units| units as f64).collect();
    let zones = arrange(by, &areas, rows, cols).map_err(Failure::input)?;
    // Rounding to whole blocks leaves areas that differ a little.
    let times = models.iter().zip(zones.areas());
    let times_s: Vec<f64> = times.map(|(model, d)| model.time_s(d as f64)).collect();
    Ok(Arranged {
        zones,
        areas,
        times: Some(Times {
            max_time_s: times_s.iter().copied().fold(0.0, f64::max),
            times_s,
            imbalance: None,
            converged: None,
            iterations: None,
        }),
    })
}

/// Heights and widths of equal times, in columns of equally many nodes as they come.
fn by_sides(arguments: &Arguments) -> Result<Arranged, Failure> {
    let Arguments { rows, cols, .. } = *arguments;
    let surfaces: Vec<Surface> = arguments
        .models
        .iter()
        .map(|path| surface(path))
        .collect::<Result<_, _>>()?;
    let side = (surfaces.len() as f64).sqrt();
    let speed = |surface: &Surface| surface.speed(rows as f64 / side, cols as f64 / side);
    let speeds: Vec<f64> = surfaces.iter().map(speed).collect();
    let columns = kl_columns(&speeds, rows, cols).map_err(Failure::input)?;
    let surfaces: Vec<&dyn SpeedSurface> = surfaces
        .iter()
        .map(|surface| surface as &dyn SpeedSurface)
        .collect();
    let found = fpm_kl(&surfaces, &columns, rows, cols, &FpmKlConfig::default());
    let found = found.map_err(|error| match &error {
        LayoutError::Partition(inner) => refused(arguments, inner),
        _ => Failure::input(error),
    })?;
    let zones = Zones::from(found.layout);
    Ok(Arranged {
        areas: zones.areas().iter().map(|&area| area as f64).collect(),
        zones,
        times: Some(Times {
            max_time_s: found.times_s.iter().copied().fold(0.0, f64::max),
            times_s: found.times_s,
            imbalance: Some(found.imbalance),
            converged: Some(found.converged),
            iterations: Some(found.iterations),
        }),
    })
}

/// The failure of a partitioner, with the file that it comes from.
fn refused(arguments: &Arguments, error: &PartitionError) -> Failure {
    match error {
        PartitionError::InvalidModel { index, .. } if *index < arguments.models.len() => {
            failed(&arguments.models[*index], error)
        }
        _ => Failure::input(error),
    }
}

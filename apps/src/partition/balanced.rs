//! Divisions by models, which make all devices finish together.

use isochron_hierarchy::model::SpeedModel;
use isochron_hierarchy::partition::{Partition, PartitionError, even, gpa, npa, proportional};

use super::{Algorithm, Answer, Arguments, Division, Search};
use crate::failure::Failure;
use crate::points::{borrowed, models};

pub fn answer(arguments: &Arguments) -> Result<Answer, Failure> {
    let fit = arguments.fit.unwrap_or_default();
    let models = models(&arguments.models, fit)?;
    let models = borrowed(&models);
    let division = divide(arguments.algorithm, &models, arguments.units)
        .map_err(|error| arguments.refused(&error))?;
    let units = division.partition.units;
    // Whatever the split was made from, its times are those of the full models.
    let times_s = models
        .iter()
        .zip(&units)
        .map(|(model, &d)| model.time_s(d as f64));
    let partition = Partition {
        times_s: times_s.collect(),
        units,
    };
    Ok(Answer {
        algorithm: arguments.algorithm,
        max_time_s: partition.max_time_s(),
        active: partition.active(),
        units: partition.units,
        times_s: partition.times_s,
        fit: Some(fit),
        granule: None,
        estimate: None,
        search: division.search,
        nodes: None,
    })
}

fn divide(
    algorithm: Algorithm,
    models: &[&dyn SpeedModel],
    total: u64,
) -> Result<Division, PartitionError> {
    let found = |partition| Division {
        partition,
        ..Division::default()
    };
    match algorithm {
        Algorithm::Even => Ok(found(Partition {
            units: even(models.len(), total),
            times_s: Vec::new(),
        })),
        Algorithm::Cpm => {
            let share = total as f64 / models.len() as f64;
            let speeds: Vec<f64> = models.iter().map(|model| model.speed(share)).collect();
            proportional(&speeds, total).map(found)
        }
        Algorithm::Npa => {
            let solution = npa(models, total)?;
            Ok(Division {
                partition: solution.partition,
                nodes: None,
                search: Some(Search {
                    converged: solution.converged,
                    iterations: Some(solution.iterations),
                }),
            })
        }
        _ => gpa(models, total).map(found),
    }
}

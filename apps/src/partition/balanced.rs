//! Divisions by models, after which all devices finish together.

use isochron_hierarchy::model::SpeedModel;
use isochron_hierarchy::partition::{
    PartitionError, SharesOf, continuous, even, gpa, list_falling, npa_from, proportional,
};

use super::{Amounts, PartitionAlgorithm, PartitionAnswer, PartitionArguments, SearchEnd};
use crate::failure::Failure;
use crate::points::{borrow_models, make_models};

/// Divides the units by models of the points.
///
/// # Errors
/// Fails if a file cannot be read, or the partitioner refuses.
pub fn divide_by_models(arguments: &PartitionArguments) -> Result<PartitionAnswer, Failure> {
    let fit = arguments.fit.unwrap_or_default();
    let models = make_models(&arguments.models, &arguments.read_points()?, fit)?;
    let models = borrow_models(&models);
    let (parts, search) = arguments.accept(run_algorithm(arguments, &models))?;
    // The times are those of the full models, also after a split by constants.
    let times_s = models.iter().zip(parts.to_reals()).map(|(model, d)| model.time_s(d)).collect();
    let grows = matches!(
        arguments.algorithm,
        PartitionAlgorithm::Gpa | PartitionAlgorithm::Npa | PartitionAlgorithm::Continuous
    );
    Ok(PartitionAnswer {
        fit: Some(fit),
        falling: if grows { list_falling(&models, arguments.units) } else { Vec::new() },
        search,
        ..PartitionAnswer::new(arguments.algorithm, parts, times_s)
    })
}

fn run_algorithm(
    arguments: &PartitionArguments,
    models: &[&dyn SpeedModel],
) -> Result<(Amounts, Option<SearchEnd>), PartitionError> {
    let total = arguments.units;
    let units = match arguments.algorithm {
        PartitionAlgorithm::Even => even(models.len(), total),
        PartitionAlgorithm::Cpm => {
            let share = total as f64 / models.len() as f64;
            let speeds: Vec<f64> = models.iter().map(|model| model.speed(share)).collect();
            proportional(&speeds, total)?.units
        }
        PartitionAlgorithm::Gpa => gpa(models, total)?.units,
        PartitionAlgorithm::Npa => {
            let found = npa_from(models, total, arguments.guess.unwrap_or_default())?;
            let search = SearchEnd {
                converged: found.converged,
                iterations: Some(found.iterations),
                shares_of: Some(found.shares_of),
                residual: Some(found.residual),
            };
            let units = found.partition.units;
            return Ok((Amounts::Whole { units }, Some(search)));
        }
        PartitionAlgorithm::Continuous => {
            let shares = continuous(models, total)?.shares;
            return Ok((Amounts::Real { shares }, None));
        }
        sizes => unreachable!("{sizes} divides sizes"),
    };
    Ok((Amounts::Whole { units }, None))
}

/// Describes the end of a search in words.
pub fn describe_end(search: &SearchEnd) -> String {
    let end = if search.converged { "converged" } else { "not converged" };
    let iterations = match search.iterations {
        Some(1) => " after 1 iteration".to_owned(),
        Some(iterations) => format!(" after {iterations} iterations"),
        None => String::new(),
    };
    match search.shares_of {
        Some(SharesOf::Geometrical) => {
            format!("{end}; divided by the geometric algorithm{iterations} of the numerical one")
        }
        Some(SharesOf::Numerical) | None => format!("{end}{iterations}"),
    }
}

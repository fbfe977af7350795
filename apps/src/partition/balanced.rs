//! Divisions by models, which make all devices finish together.

use isochron_hierarchy::model::SpeedModel;
use isochron_hierarchy::partition::{
    PartitionError, SharesOf, continuous, even, gpa, npa_from, proportional,
};

use super::{Algorithm, Answer, Arguments, Parts, Search};
use crate::failure::Failure;
use crate::points::{borrowed, models};

pub fn answer(arguments: &Arguments) -> Result<Answer, Failure> {
    let fit = arguments.fit.unwrap_or_default();
    let models = models(&arguments.models, fit)?;
    let models = borrowed(&models);
    let (parts, search) = divide(arguments, &models).map_err(|error| arguments.refused(&error))?;
    // Whatever the split was made from, its times are those of the full models.
    let both = models.iter().zip(parts.amounts());
    let times_s = both.map(|(model, d)| model.time_s(d)).collect();
    Ok(Answer {
        fit: Some(fit),
        search,
        ..Answer::new(arguments.algorithm, parts, times_s)
    })
}

fn divide(
    arguments: &Arguments,
    models: &[&dyn SpeedModel],
) -> Result<(Parts, Option<Search>), PartitionError> {
    let total = arguments.units;
    let whole = |units| (Parts::Whole { units }, None);
    match arguments.algorithm {
        Algorithm::Even => Ok(whole(even(models.len(), total))),
        Algorithm::Cpm => {
            let share = total as f64 / models.len() as f64;
            let speeds: Vec<f64> = models.iter().map(|model| model.speed(share)).collect();
            Ok(whole(proportional(&speeds, total)?.units))
        }
        Algorithm::Gpa => Ok(whole(gpa(models, total)?.units)),
        Algorithm::Npa => numerical(arguments, models),
        Algorithm::Continuous => {
            let shares = continuous(models, total)?.shares;
            Ok((Parts::Real { shares }, None))
        }
        Algorithm::Hpopta | Algorithm::HpoptaSearch | Algorithm::Popta | Algorithm::Hipopta => {
            unreachable!("{} divides sizes", arguments.algorithm.name())
        }
    }
}

fn numerical(
    arguments: &Arguments,
    models: &[&dyn SpeedModel],
) -> Result<(Parts, Option<Search>), PartitionError> {
    let solution = npa_from(models, arguments.units, arguments.guess.unwrap_or_default())?;
    let units = solution.partition.units;
    let search = Search {
        converged: solution.converged,
        iterations: Some(solution.iterations),
        shares_of: Some(solution.shares_of),
        residual: Some(solution.residual),
    };
    Ok((Parts::Whole { units }, Some(search)))
}

/// How a search ended, in words.
pub fn ending(search: &Search) -> String {
    let how = match search.converged {
        true => "converged",
        false => "not converged",
    };
    let iterations = match search.iterations {
        Some(1) => " after 1 iteration".to_owned(),
        Some(iterations) => format!(" after {iterations} iterations"),
        None => String::new(),
    };
    match search.shares_of {
        Some(SharesOf::Geometrical) => {
            format!("{how}; divided by the geometric algorithm{iterations} of the numerical one")
        }
        Some(SharesOf::Numerical) | None => format!("{how}{iterations}"),
    }
}

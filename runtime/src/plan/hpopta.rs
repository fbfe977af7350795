//! Limits of HPOPTA in a multiplication.

use isochron_hierarchy::balance::{BalanceConfig, Strategy};
use isochron_hierarchy::layout::Arrangement;
use isochron_hierarchy::model::Fit;
use isochron_hierarchy::partition::Partitioner;
use isochron_hierarchy::problem::Split;

use crate::error::Error;

/// Refuses what does not go with HPOPTA in a multiplication: a fit in place of the measured times, or another division than
/// columns of C.
///
/// # Errors
/// Returns [`Error::Parameter`].
pub fn check_hpopta(config: &BalanceConfig, split: Split) -> Result<(), Error> {
    if (config.strategy, config.partitioner) != (Strategy::Fpm, Partitioner::Hpopta) {
        return Ok(());
    }
    let reason = if config.fit != Fit::RawPiecewise {
        format!("it takes measured times alone, not the fit {}: use gpa or npa", config.fit)
    } else if config.layout != Arrangement::default() || split == Split::K {
        "it divides the columns of C: leave out layout, grid and split".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::parameter("partitioner", config.partitioner, reason))
}

/// Refuses HPOPTA where models stand for measured times.
///
/// # Errors
/// Returns [`Error::Parameter`].
pub fn refuse_hpopta(partitioner: Partitioner) -> Result<(), Error> {
    if partitioner != Partitioner::Hpopta {
        return Ok(());
    }
    let reason = "it takes measured times alone, and models stand for them here: use gpa or npa";
    Err(Error::parameter("partitioner", partitioner, reason))
}

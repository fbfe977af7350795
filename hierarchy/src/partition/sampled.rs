//! HPOPTA for models: they are evaluated at some sizes, and the rest of the units goes to one device.

use super::{Limits, Partition, PartitionError, hpopta};
use crate::model::{ModelError, SpeedModel, TimeFunction};

/// Number of sizes at which HPOPTA evaluates each model.
pub(super) const SIZES: u64 = 1000;

/// Divides multiples of the granule by HPOPTA, or of a thousandth of `total` if that is more, and gives the rest to the device
/// that then finishes first.
pub(super) fn divide_sampled(
    models: &[&dyn SpeedModel],
    total: u64,
    granule: u64,
    limits: &[Limits],
) -> Result<Partition, PartitionError> {
    if models.is_empty() && total > 0 {
        return Err(PartitionError::NoDevices { total });
    }
    // A multiple of the granule, for no more sizes than are fast to divide.
    let granule = granule * total.div_ceil(SIZES).div_ceil(granule).max(1);
    let rest = total % granule;
    let functions: Vec<TimeFunction> = (models.iter().enumerate())
        .map(|(index, model)| sample_model(index, *model, granule, total - rest))
        .collect::<Result<_, _>>()?;
    let Partition { mut units, .. } = hpopta(&functions, limits, total - rest)?;
    add_rest(models, total, rest, limits, &mut units)?;
    let times_s = models.iter().zip(&units);
    let times_s = times_s.map(|(model, &units)| model.time_s(units as f64));
    Ok(Partition { times_s: times_s.collect(), units })
}

fn sample_model(
    index: usize,
    model: &dyn SpeedModel,
    granule: u64,
    max: u64,
) -> Result<TimeFunction, PartitionError> {
    TimeFunction::sample(model, granule, max).map_err(|error| match error {
        ModelError::InvalidPoint { d, t_s } => {
            PartitionError::InvalidModel { index, d: d as f64, time_s: t_s }
        }
        error => unreachable!("a thousand ascending multiples of {granule} units: {error}"),
    })
}

/// Gives the rest of the total to the device that then finishes first, of those that may have it.
pub(super) fn add_rest(
    models: &[&dyn SpeedModel],
    total: u64,
    rest: u64,
    limits: &[Limits],
    units: &mut [u64],
) -> Result<(), PartitionError> {
    if rest == 0 {
        return Ok(());
    }
    let first = (0..models.len())
        .filter(|&index| limits[index].allows(units[index] + rest))
        .map(|index| (index, models[index].time_s((units[index] + rest) as f64)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b));
    let Some((index, _)) = first else {
        return Err(if models.is_empty() {
            PartitionError::NoDevices { total }
        } else {
            PartitionError::BeyondLimits { total, capacity: total - rest, index: 0, lost: rest }
        });
    };
    units[index] += rest;
    Ok(())
}

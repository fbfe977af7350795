//! The choice of a partitioner by name.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantArray};

use super::sampled::divide_sampled;
use super::{Limits, Partition, PartitionError, gpa, npa};
use crate::model::SpeedModel;

/// The algorithm that divides work by speed functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(Display, EnumString, VariantArray, strum::VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = PartitionError, parse_err_fn = unknown_partitioner)]
pub enum Partitioner {
    /// The geometric partitioning algorithm, [`gpa()`]: equal times, for increasing times.
    #[default]
    Gpa,
    /// The numerical partitioning algorithm, [`npa()`]: equal times, for smooth models.
    Npa,
    /// HPOPTA: the minimal largest time, balanced or not, for models of any shape.
    Hpopta,
}

fn unknown_partitioner(name: &str) -> PartitionError {
    PartitionError::UnknownPartitioner(name.to_owned())
}

impl Partitioner {
    /// Divides `total` units over the devices of these models.
    ///
    /// HPOPTA needs discrete times. The models are evaluated at the multiples of a thousandth of `total`,
    /// rounded up to whole units. The rest of `total` goes to the device that then finishes first.
    ///
    /// # Errors
    /// Fails as [`gpa()`], [`npa()`] or [`hpopta()`](super::hpopta()); [`PartitionError::InvalidModel`] for a model without
    /// a finite positive time at one of these multiples.
    pub fn divide(
        self,
        models: &[&dyn SpeedModel],
        total: u64,
    ) -> Result<Partition, PartitionError> {
        match self {
            Self::Gpa => gpa(models, total),
            Self::Npa => npa(models, total).map(|solution| solution.partition),
            Self::Hpopta => {
                let limits = vec![Limits::default(); models.len()];
                divide_sampled(models, total, 1, &limits)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cpm, PiecewiseFpm};
    use crate::partition::sampled::SIZES;

    #[test]
    fn the_rest_of_a_granule_is_divided_too() {
        let (slow, fast) = (Cpm { speed: 10.0 }, Cpm { speed: 30.0 });
        for total in [0, 1, 999, 1000, 1001, 123_457] {
            let partition = Partitioner::Hpopta.divide(&[&slow, &fast], total).expect("valid");
            assert_eq!(partition.units.iter().sum::<u64>(), total);
            let exact_s = total as f64 / 40.0;
            let granule_s = total.div_ceil(SIZES) as f64 / 10.0;
            assert!(partition.max_time_s() <= exact_s + 2.0 * granule_s, "{total}");
            for (units, (time_s, model)) in
                partition.units.iter().zip(partition.times_s.iter().zip([slow, fast]))
            {
                assert_eq!(*time_s, model.time_s(*units as f64));
            }
        }
    }

    #[test]
    fn unknown_names_and_empty_models_are_refused() {
        let error = "geometric".parse::<Partitioner>().expect_err("unknown");
        assert_eq!(
            error.to_string(),
            "unknown partitioner \"geometric\": expected one of gpa, npa, hpopta"
        );
        let (good, empty) = (Cpm { speed: 1.0 }, PiecewiseFpm::new());
        for &partitioner in Partitioner::VARIANTS {
            assert_eq!(partitioner.to_string().parse(), Ok(partitioner));
            assert!(matches!(
                partitioner.divide(&[&good, &empty], 4),
                Err(PartitionError::InvalidModel { index: 1, .. })
            ));
            assert_eq!(
                partitioner.divide(&[], 1999),
                Err(PartitionError::NoDevices { total: 1999 })
            );
        }
    }

    /// A model that has no time beyond 10 units.
    #[derive(Debug)]
    struct Ends;

    impl SpeedModel for Ends {
        fn speed(&self, d: f64) -> f64 {
            if d <= 10.0 { 1.0 } else { 0.0 }
        }

        fn speed_derivative(&self, _d: f64) -> f64 {
            0.0
        }

        fn units_within(&self, t_s: f64) -> f64 {
            t_s.min(10.0)
        }
    }

    #[test]
    fn the_size_that_has_no_time_is_named() {
        let good = Cpm { speed: 1.0 };
        assert_eq!(
            Partitioner::Hpopta.divide(&[&good, &Ends], 3000),
            Err(PartitionError::InvalidModel { index: 1, d: 12.0, time_s: f64::INFINITY })
        );
    }

    #[test]
    fn all_divide_constant_speeds_alike() {
        let (slow, fast) = (Cpm { speed: 10.0 }, Cpm { speed: 30.0 });
        let models: [&dyn SpeedModel; 2] = [&slow, &fast];
        for &partitioner in Partitioner::VARIANTS {
            let divided = partitioner.divide(&models, 100).expect("valid");
            assert_eq!(divided.units, [25, 75]);
        }
    }
}

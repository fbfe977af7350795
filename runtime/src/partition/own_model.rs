//! Models of the program's own.

use std::cell::RefCell;
use std::cmp::Ordering;

use isochron_hierarchy::SplitOptions;
use isochron_hierarchy::balance::BalanceError;
use isochron_hierarchy::model::{Point, SpeedModel};
use isochron_hierarchy::partition::Partition;

use crate::error::Error;

/// A model of a rank's time, of the program's own.
///
/// Every rank has a copy of the model of each rank, and each copy gets the same points. Rank 0 divides by the times of its
/// copies. So copies that differ by rounding do no harm.
///
/// # References
/// Clarke's thesis, appendix A.3 (`fupermod_model`).
pub trait TimeModel {
    /// Returns the seconds that `units` take: any number above 0, also below 1. The time grows with the units, and
    /// is the same until the next `update`.
    ///
    /// # Errors
    /// Returns the reason, in words.
    fn time_s(&mut self, units: f64) -> Result<f64, String>;

    /// Takes a measured point, on all ranks. With 0 repetitions its time is a lower bound: the run was stopped. The points of an
    /// iteration that has failed may come again.
    ///
    /// # Errors
    /// Returns the reason, in words.
    fn update(&mut self, point: &Point) -> Result<(), String>;
}

/// Number of sizes at which a model is checked before it divides.
const CHECKED_SIZES: u32 = 100;

/// Divides units in granules by models of all ranks, so that all take the same time.
///
/// # Errors
/// Returns [`Error::OwnModel`] for a model that fails, or whose times fall or are not finite and above 0.
pub(super) fn divide_by(
    models: &mut [Box<dyn TimeModel>],
    total: u64,
    granule: u64,
) -> Result<Partition, Error> {
    let asked: Vec<AskedModel<'_>> =
        models.iter_mut().map(|model| AskedModel::new(model.as_mut(), total as f64)).collect();
    for model in &asked {
        model.time_s(1.0);
        for part in 1..=CHECKED_SIZES {
            model.time_s(total as f64 * f64::from(part) / f64::from(CHECKED_SIZES));
        }
    }
    check_answers(&asked)?;
    let functions: Vec<&dyn SpeedModel> = asked.iter().map(|model| model as _).collect();
    let how = SplitOptions { granule, ..SplitOptions::default() };
    let divided = how.divide(&functions, total);
    check_answers(&asked)?;
    Ok(divided.map_err(BalanceError::from)?)
}

fn check_answers(models: &[AskedModel<'_>]) -> Result<(), Error> {
    models.iter().enumerate().try_for_each(|(rank, model)| {
        model.check().map_err(|reason| Error::OwnModel { rank, reason })
    })
}

/// A model of the program with the answers that it has given.
struct AskedModel<'m> {
    model: RefCell<&'m mut dyn TimeModel>,
    /// Units that are divided.
    total: f64,
    /// Units and seconds, or the failure.
    answers: RefCell<Result<Vec<(f64, f64)>, String>>,
}

impl<'m> AskedModel<'m> {
    fn new(model: &'m mut dyn TimeModel, total: f64) -> Self {
        Self { model: RefCell::new(model), total, answers: RefCell::new(Ok(Vec::new())) }
    }

    /// Refuses times that are not finite and above 0, or that fall.
    fn check(&self) -> Result<(), String> {
        let mut answers = self.answers.borrow().clone()?;
        answers.sort_by(|a, b| a.0.total_cmp(&b.0));
        let is_time = |(_, time_s): &&(f64, f64)| time_s.is_finite() && *time_s > 0.0;
        if let Some((d, time_s)) = answers.iter().find(|answer| !is_time(answer)) {
            return Err(format!("it gives {time_s} s for {d} units: give a number above 0"));
        }
        // Rounding errors are no fall.
        let fall = answers.windows(2).find(|pair| pair[1].1 < pair[0].1 * (1.0 - 1e-9));
        fall.map_or(Ok(()), |pair| {
            let [(few, before_s), (many, after_s)] = [pair[0], pair[1]];
            Err(format!(
                "its times fall: {before_s} s for {few} units and {after_s} s for {many}; more units must not take less time"
            ))
        })
    }
}

impl std::fmt::Debug for AskedModel<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AskedModel").field("answers", &self.answers).finish_non_exhaustive()
    }
}

impl SpeedModel for AskedModel<'_> {
    fn speed(&self, d: f64) -> f64 {
        d / self.time_s(d)
    }

    fn time_s(&self, d: f64) -> f64 {
        let mut answers = self.answers.borrow_mut();
        let (Ok(known), true) = (&mut *answers, d > 0.0) else {
            return 0.0;
        };
        match self.model.borrow_mut().time_s(d) {
            Ok(time_s) => {
                known.push((d, time_s));
                time_s
            }
            Err(reason) => {
                *answers = Err(reason);
                0.0
            }
        }
    }

    fn speed_derivative(&self, d: f64) -> f64 {
        let step = 1e-3 * d.max(1.0);
        (self.speed(d + step) - self.speed(d)) / step
    }

    /// Halves the units that are divided, until less than a thousandth of a unit is left. A step behind a whole number of units
    /// leaves that number.
    fn units_within(&self, t_s: f64) -> f64 {
        let (mut low, mut high) = (0.0, self.total);
        if self.time_s(high).partial_cmp(&t_s) != Some(Ordering::Greater) {
            return high;
        }
        while high - low > 1e-3 {
            let middle = f64::midpoint(low, high);
            if middle <= low || middle >= high {
                break;
            }
            if self.time_s(middle) <= t_s {
                low = middle;
            } else {
                high = middle;
            }
        }
        let whole = high.floor();
        if whole > low && self.time_s(whole) <= t_s { whole } else { low }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Formula<F>(F);

    impl<F: FnMut(f64) -> Result<f64, String>> TimeModel for Formula<F> {
        fn time_s(&mut self, units: f64) -> Result<f64, String> {
            (self.0)(units)
        }

        fn update(&mut self, _: &Point) -> Result<(), String> {
            Ok(())
        }
    }

    fn model(time_s: impl Fn(f64) -> f64 + 'static) -> Box<dyn TimeModel> {
        Box::new(Formula(move |units| Ok(time_s(units))))
    }

    /// Returns the largest time of every division of `total` over two models, the least of them.
    fn find_best_s(times_s: [fn(f64) -> f64; 2], total: u64) -> f64 {
        let time_s = |index: usize, d: u64| if d == 0 { 0.0 } else { times_s[index](d as f64) };
        (0..=total).map(|d| time_s(0, d).max(time_s(1, total - d))).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn times_of_any_growing_shape_are_divided_as_by_trying_all() {
        let shapes: [fn(f64) -> f64; 6] = [
            |d| d,
            |d| 3.0 * d + 50.0,
            |d| d * d / 20.0,
            |d| (d / 16.0).ceil(),
            |d| if d <= 40.0 { d } else { 100.0 * d },
            |_| 25.0,
        ];
        for total in [1, 2, 7, 64, 1000] {
            for one in shapes {
                for other in shapes {
                    let models = &mut [model(one), model(other)];
                    let divided = divide_by(models, total, 1).unwrap();
                    assert_eq!(divided.units.iter().sum::<u64>(), total);
                    let best_s = find_best_s([one, other], total);
                    assert!(divided.max_time_s() <= best_s * (1.0 + 1e-6), "{divided:?}, {best_s}");
                }
            }
        }
    }

    #[test]
    fn units_come_in_granules() {
        let models = &mut [model(|d| d), model(|d| 2.0 * d), model(|d| 6.0 * d)];
        assert_eq!(divide_by(models, 100, 10).unwrap().units, [60, 30, 10]);
        assert_eq!(divide_by(models, 105, 10).unwrap().units.iter().sum::<u64>(), 105);
        assert_eq!(divide_by(models, 0, 10).unwrap().units, [0; 3]);
    }

    #[test]
    fn models_that_fall_fail_or_tell_no_time_are_refused_in_words() {
        let refuse = |wrong: Box<dyn TimeModel>, words: &str| {
            let error = divide_by(&mut [model(|d| d), wrong], 200, 1).unwrap_err().to_string();
            assert!(error.starts_with("the model of rank 1: ") && error.contains(words), "{error}");
        };
        refuse(model(|d| 1000.0 - d), "its times fall: 999 s for 1 units and 998 s for 2");
        refuse(model(|d| if d < 120.0 { d } else { d - 100.0 }), "its times fall");
        refuse(model(|_| f64::NAN), "it gives NaN s for 1 units");
        refuse(model(|d| if d < 150.0 { d } else { f64::INFINITY }), "it gives inf s");
        refuse(model(|_| 0.0), "it gives 0 s");
        refuse(Box::new(Formula(|_| Err("no such table".to_owned()))), "no such table");
    }
}

//! Gain of HPOPTA over divisions of equal times, on simulated clusters of like nodes.
//!
//! # References
//! Khaleghzadeh, Reddy and Lastovetsky, supplement of the HPOPTA paper, section 5.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use isochron_hierarchy::SplitOptions;
use isochron_hierarchy::model::{Estimate, Fit, ModelFile, Point, SpeedModel, TimeFunction};
use isochron_hierarchy::partition::{Limits, hipopta};
use serde::Serialize;

use crate::instances::make_rugged;

/// Sizes of the paper's functions of a matrix product: 64² to 80000² in steps of 64².
const SIZES: u64 = 1250;

/// Of [`SIZES`], the units of each device in the least and the largest total.
const LOADS: [f64; 2] = [100.0 / 3.0, 700.0];

/// Sizes of the speeds of CPM, of [`SIZES`]: 4736², 28672² and 44800².
const CPM_SIZES: [u64; 3] = [74, 448, 700];

/// Totals, evenly from the least to the largest. The paper takes every one.
const TOTALS: u32 = 101;

/// Devices of the paper's smallest cluster.
const FEWEST: usize = 24;

/// A cluster.
#[derive(clap::Args)]
pub struct GainArguments {
    /// Devices of all nodes
    devices: usize,
    /// Points files of a node's devices, with all multiples of a size [default: three rugged devices, made up]
    files: Vec<PathBuf>,
}

/// Times of another division over HPOPTA's less one, over all totals.
#[derive(Debug, Serialize)]
struct Gain {
    least_percent: f64,
    mean_percent: f64,
    most_percent: f64,
}

/// The gains on a cluster.
#[derive(Debug, Serialize)]
struct ClusterGains {
    /// The gain over FPM, then over CPM by the speeds at each of [`CPM_SIZES`].
    gains: Vec<Gain>,
    /// Mean time of FPM over HPOPTA's, relative to [`FEWEST`] devices.
    over_fewest: f64,
}

/// Divides the totals over a cluster, and prints the gains as JSON.
///
/// # Errors
/// Fails for devices that make no whole nodes, and for files without the times of all multiples of a size.
pub fn run(arguments: &GainArguments) -> anyhow::Result<()> {
    let node: Vec<TimeFunction> = match &arguments.files[..] {
        [] => make_rugged(3, 3, SIZES)?,
        files => files.iter().map(|file| read_function(file)).collect::<anyhow::Result<_>>()?,
    };
    let [gains, fewest] =
        [arguments.devices, FEWEST].map(|n| compare(&node, n, &list_totals(&node, n)));
    let (gains, fewest) = (gains?, fewest?);
    let over_fewest = (100.0 + gains[0].mean_percent) / (100.0 + fewest[0].mean_percent);
    println!("{}", serde_json::to_string(&ClusterGains { gains, over_fewest })?);
    Ok(())
}

/// Reads the times of a points file by multiples of its smallest size.
fn read_function(path: &Path) -> anyhow::Result<TimeFunction> {
    let name = || path.display().to_string();
    let mut points = ModelFile::parse(&std::fs::read_to_string(path).with_context(name)?)?.points;
    let least = points.first().with_context(name)?.d;
    ensure!(points.iter().all(|point| point.d.is_multiple_of(least)), "{}: other sizes", name());
    points.iter_mut().for_each(|point| point.d /= least);
    TimeFunction::from_points(1, &points, Estimate::Upper).with_context(name)
}

/// Lists the totals of a cluster of nodes of these devices.
fn list_totals(node: &[TimeFunction], devices: usize) -> Vec<u64> {
    let sizes = node.iter().map(TimeFunction::max_units).min().unwrap_or_default();
    let each = (devices as u64 * sizes) as f64 / SIZES as f64;
    let [least, most] = LOADS.map(|load| load * each);
    let step = (most - least) / f64::from(TOTALS - 1);
    (0..TOTALS).map(|index| (least + step * f64::from(index)).round() as u64).collect()
}

/// Compares divisions of these totals on a cluster of nodes of these devices.
fn compare(node: &[TimeFunction], devices: usize, totals: &[u64]) -> anyhow::Result<Vec<Gain>> {
    let is_whole = |function: &TimeFunction| {
        function.points().len() as u64 == function.max_units() && function.max_units() > 0
    };
    ensure!(node.iter().all(is_whole), "a function lacks sizes");
    ensure!(devices.is_multiple_of(node.len()), "{devices} devices make no whole nodes");
    let best_s = totals
        .iter()
        .map(|&total| Ok(hipopta(node, &[], devices / node.len(), total)?.max_time_s()));
    let best_s: Vec<f64> = best_s.collect::<anyhow::Result<_>>()?;
    let fits = [(Fit::default(), None)].into_iter();
    fits.chain(CPM_SIZES.map(|size| (Fit::Cpm, Some(size))))
        .map(|(fit, only)| {
            let models = node.iter().map(|function| fit_times(fit, function, only));
            let models: Vec<_> = models.collect::<anyhow::Result<_>>()?;
            let gains = totals.iter().zip(&best_s).map(|(&total, best_s)| {
                Ok(100.0 * (time_balanced(node, &models, devices, total)? / best_s - 1.0))
            });
            let mut gains: Vec<f64> = gains.collect::<anyhow::Result<_>>()?;
            gains.sort_by(f64::total_cmp);
            Ok(Gain {
                least_percent: gains[0],
                mean_percent: gains.iter().sum::<f64>() / gains.len() as f64,
                most_percent: gains[gains.len() - 1],
            })
        })
        .collect()
}

/// Fits a model to the times of a device, or to the time of one size, of [`SIZES`].
fn fit_times(
    fit: Fit,
    function: &TimeFunction,
    only: Option<u64>,
) -> anyhow::Result<Box<dyn SpeedModel>> {
    let only = only.map(|size| (size * function.max_units() / SIZES).max(1));
    let times = function.points().iter().filter(|(d, _)| only.is_none_or(|only| *d == only));
    let points = times.map(|&(d, t_s)| Point { d, t_s, reps: 1, ci_s: 0.0 });
    Ok(fit.model(&points.collect::<Vec<_>>())?)
}

/// Divides a total in equal times by models of a node's devices, within their sizes. Returns the time of the slowest device.
fn time_balanced(
    node: &[TimeFunction],
    models: &[Box<dyn SpeedModel>],
    devices: usize,
    total: u64,
) -> anyhow::Result<f64> {
    let functions = node.iter().cycle().take(devices);
    let limits = functions.clone().map(TimeFunction::max_units);
    let limits = limits.map(|most| Limits { cap: Some(most), ..Limits::default() }).collect();
    let models: Vec<&dyn SpeedModel> =
        models.iter().map(AsRef::as_ref).cycle().take(devices).collect();
    let how = SplitOptions { limits, ..SplitOptions::default() };
    let units = how.divide(&models, total)?.units;
    let times_s = functions.zip(units).filter_map(|(function, units)| function.time_s(units));
    Ok(times_s.fold(0.0, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_are_those_over_balanced_divisions_of_alike_devices() -> anyhow::Result<()> {
        // Three units are faster than two, by which two devices are balanced.
        let times = TimeFunction::new(1, vec![(1, 1.0), (2, 5.0), (3, 2.0), (4, 9.0)])?;
        for gain in compare(&[times], 2, &[4])? {
            let Gain { least_percent, mean_percent, most_percent } = gain;
            assert_eq!([least_percent, mean_percent, most_percent], [150.0; 3]);
        }
        assert!(compare(&[TimeFunction::new(1, vec![(2, 1.0)])?], 2, &[4]).is_err());
        Ok(())
    }

    #[test]
    fn hpopta_is_never_slower_and_its_gain_does_not_depend_on_the_devices() -> anyhow::Result<()> {
        let node = make_rugged(3, 3, 125)?;
        let [few, many] = [FEWEST, 2 * FEWEST].map(|n| compare(&node, n, &list_totals(&node, n)));
        let (few, many) = (few?, many?);
        assert!(few.iter().chain(&many).all(|gain| gain.least_percent >= 0.0), "{many:?}");
        assert!(few[0].most_percent > few[0].mean_percent && few[0].mean_percent > 1.0);
        let change = (100.0 + many[0].mean_percent) / (100.0 + few[0].mean_percent);
        assert!((change - 1.0).abs() < 0.05, "{change}");
        assert!(compare(&node, 4, &[9]).is_err());
        Ok(())
    }
}

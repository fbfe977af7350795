//! Predictions for the cluster Rosebud: the best grid of computers for a multiplication, and its time.
//!
//! The times of sequential products are the report's (Tables 2 and 3). It prints no speed of a link: [`BYTES_PER_S`] is assumed.
//!
//! Reference: Alonso, Reddy and Lastovetsky, "Experimental study of six different implementations of parallel matrix multiplication on
//! heterogeneous computational clusters of multicore processors", UCD-CSI-2009-2, 2009.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use isochron_hierarchy::model::SpeedModel;
use isochron_hierarchy::network::Network;
use isochron_hierarchy::predict::{GridProduct, Platform, TIE, timeof};
use serde::Serialize;

const TIMES: &str = include_str!("../../cluster-configs/data/rosebud-dgemm.csv");

/// Seconds of sequential products on rosebud05 and rosebud06 with 8 threads, with the digits of Table 3.
const TABLE_3: [(f64, f64); 10] = [
    (594.0, 0.034),
    (1188.0, 0.12),
    (2376.0, 0.75),
    (4752.0, 5.37),
    (7128.0, 17.84),
    (9504.0, 41.7),
    (11880.0, 81.43),
    (14256.0, 138.55),
    (16632.0, 216.37),
    (19008.0, 646.34),
];

/// Sizes of the report.
const SIZES: [u64; 19] = [
    594, 1188, 2376, 4752, 7128, 9504, 11880, 14256, 16632, 19008, 21384, 23760, 26136, 28512,
    30888, 33264, 35640, 38016, 40392,
];

/// The computers by falling speed (Table 1), as the rows of the data name them, with their threads.
const COMPUTERS: [(&str, &str); 8] = [
    ("rosebud05/rosebud06", "8"),
    ("rosebud05/rosebud06", "8"),
    ("rosebud07/rosebud08", "4"),
    ("rosebud07/rosebud08", "4"),
    ("rosebud03/rosebud04", "2"),
    ("rosebud03/rosebud04", "2"),
    ("rosebud01/rosebud02", "1"),
    ("rosebud01/rosebud02", "1"),
];

/// Side of a block in elements: the best one of the report.
pub const BLOCK: u64 = 99;

/// Bytes per second between computers. An assumption: a message in turn of blocks of 99×99 over 1 Gbit Ethernet by Open MPI 1.2.
const BYTES_PER_S: f64 = 20e6;

/// The sizes to predict.
#[derive(clap::Args)]
pub struct RosebudArguments {
    /// Rows and columns of the matrices; without, all sizes of the report, a line each: size, rows and columns of the grid, seconds
    size: Option<u64>,
}

/// The best grid of computers.
#[derive(Debug, Serialize)]
struct BestGrid {
    n: u64,
    p: usize,
    q: usize,
    seconds: f64,
}

/// The speed of a computer at sequential products, in updates of a block by two blocks per second. `d` blocks of C have the memory of a
/// sequential product of `99·√d`.
#[derive(Debug, Clone)]
pub struct ProductSpeed {
    /// Size, and operations per second.
    pub knots: Vec<(f64, f64)>,
}

impl SpeedModel for ProductSpeed {
    fn speed(&self, d: f64) -> f64 {
        let size = BLOCK as f64 * d.max(0.0).sqrt();
        let next = self.knots.partition_point(|(knot, _)| *knot <= size);
        let flops = match (self.knots.get(next.wrapping_sub(1)), self.knots.get(next)) {
            (Some(from), Some(to)) => from.1 + (size - from.0) * (to.1 - from.1) / (to.0 - from.0),
            (Some(end), None) | (None, Some(end)) => end.1,
            (None, None) => 0.0,
        };
        flops / (2.0 * (BLOCK as f64).powi(3))
    }

    fn speed_derivative(&self, d: f64) -> f64 {
        let step = 1e-6 * d.max(1.0);
        (self.speed(d + step) - self.speed(d)) / step
    }

    fn units_within(&self, t_s: f64) -> f64 {
        let [mut low, mut high] = [0.0, 1e9];
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if self.time_s(middle) <= t_s { low = middle } else { high = middle }
        }
        low
    }
}

/// Reads the speed functions of the computers, at as many threads as they have cores.
///
/// # Errors
/// Fails for data without a computer.
pub fn read_speeds() -> anyhow::Result<Vec<ProductSpeed>> {
    let mut all: BTreeMap<(&str, &str), BTreeMap<u64, f64>> = BTreeMap::new();
    for row in TIMES.lines().filter(|line| !line.starts_with('#')).skip(1) {
        let fields: Vec<&str> = row.split(',').collect();
        let [computers, threads, n, seconds] = fields[..] else { anyhow::bail!("{row}") };
        all.entry((computers, threads)).or_default().insert(n.parse()?, seconds.parse()?);
    }
    let fastest = all.get_mut(&COMPUTERS[0]).context("no times of the fastest computer")?;
    fastest.extend(TABLE_3.map(|(n, seconds)| (n as u64, seconds)));
    let speeds = COMPUTERS.map(|computer| {
        let times = all.get(&computer).context("no times of a computer")?;
        let knots =
            times.iter().map(|(&n, seconds)| (n as f64, 2.0 * (n as f64).powi(3) / seconds));
        Ok::<_, anyhow::Error>(ProductSpeed { knots: knots.collect() })
    });
    speeds.into_iter().collect()
}

/// Finds the best grid for a size: of all numbers of computers, the fastest first, and all grids of them.
///
/// The parts are in proportion to the speeds that the benchmark finds, the update of a part of C that all computers have alike.
fn find_best(n: u64, speeds: &[ProductSpeed]) -> anyhow::Result<BestGrid> {
    ensure!(n > 0 && n.is_multiple_of(BLOCK), "the size is no multiple of {BLOCK}");
    let blocks = n / BLOCK;
    let bytes = 8.0 * (BLOCK * BLOCK) as f64;
    let even = (blocks * blocks) as f64 / speeds.len() as f64;
    let network = Network::flat(0.0, BYTES_PER_S);
    let mut grids = Vec::new();
    for computers in 1..=speeds.len() {
        let chosen = &speeds[..computers];
        let seen: Vec<f64> = chosen.iter().map(|computer| computer.speed(even)).collect();
        let models = chosen.iter().map(|it| Box::new(it.clone()) as Box<dyn SpeedModel>);
        let platform = Platform { speeds: models.collect(), network: network.clone(), noise: 0.0 };
        let places: Vec<usize> = (0..computers).collect();
        for q in (1..=computers).filter(|&q| computers.is_multiple_of(q)) {
            let product = GridProduct::in_proportion(blocks, &seen, q, bytes);
            let seconds = timeof(&product, &platform, &places)?.seconds;
            grids.push(BestGrid { n, p: computers / q, q, seconds });
        }
    }
    let least_s = grids.iter().map(|grid| grid.seconds).fold(f64::INFINITY, f64::min);
    let best = grids.into_iter().find(|grid| grid.seconds <= (1.0 + TIE) * least_s);
    best.context("no grid")
}

/// Prints the best grid of a size as JSON, or of all sizes as lines.
///
/// # Errors
/// Fails for a size that is no multiple of a block.
pub fn run(arguments: &RosebudArguments) -> anyhow::Result<()> {
    let speeds = read_speeds()?;
    if let Some(n) = arguments.size {
        println!("{}", serde_json::to_string(&find_best(n, &speeds)?)?);
        return Ok(());
    }
    for n in SIZES {
        let BestGrid { n, p, q, seconds } = find_best(n, &speeds)?;
        println!("{n} {p} {q} {seconds:.4}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_those_of_the_tables_and_linear_between_them() -> anyhow::Result<()> {
        let speeds = read_speeds()?;
        let at = |computer: usize, n: f64| {
            speeds[computer].speed((n / BLOCK as f64).powi(2)) * 2.0 * (BLOCK as f64).powi(3)
        };
        let wanted = 2.0 * 9504f64.powi(3) / 41.7;
        assert!((at(1, 9504.0) / wanted - 1.0).abs() < 1e-9);
        let ends = [4752.0, 7128.0].map(|n| at(7, n));
        assert!((at(7, 5940.0) / f64::midpoint(ends[0], ends[1]) - 1.0).abs() < 1e-9);
        // Beyond the last size, where it pages.
        assert_eq!(at(7, 20_000.0), at(7, 9504.0));
        Ok(())
    }

    #[test]
    fn small_products_stay_on_one_computer_and_large_ones_need_memory() -> anyhow::Result<()> {
        let speeds = read_speeds()?;
        let [small, large] = [594, 19008].map(|n| find_best(n, &speeds));
        let (small, large) = (small?, large?);
        assert_eq!((small.p, small.q), (1, 1));
        assert!(large.p * large.q > 1 && large.seconds < 646.34, "{large:?}");
        assert!(find_best(600, &speeds).is_err());
        Ok(())
    }
}

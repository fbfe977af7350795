//! Divisions by measured times of any shape, which need not be balanced.

use isochron_hierarchy::model::{Estimate, ModelError, Point, TimeFunction};
use isochron_hierarchy::partition::{
    HierarchicalPartition, Limits, Partition, SearchOutcome, hipopta, hpopta, hpopta_search, popta,
};
use isochron_hierarchy::printable::show_path;

use super::{
    Amounts, NodeDivision, PartitionAlgorithm, PartitionAnswer, PartitionArguments, SearchEnd,
};
use crate::failure::Failure;

/// Steps of the published search; each may add some forty bytes to its memory.
const WORK_LIMIT: u64 = 10_000_000;

/// Divides the units by the measured times.
///
/// # Errors
/// Fails if a file cannot be read, or the partitioner refuses.
pub fn divide_by_times(arguments: &PartitionArguments) -> Result<PartitionAnswer, Failure> {
    let points = arguments.read_points()?;
    let sizes = points.iter().flatten().map(|point| point.d);
    // Sizes are at least 1, and so is their divisor.
    let granule = arguments.granule.unwrap_or_else(|| sizes.fold(0, gcd));
    let estimate = arguments.estimate.unwrap_or_default();
    let functions = make_functions(arguments, granule, &points, estimate)?;
    let limits = arguments.limits.for_devices(functions.len())?;
    Ok(PartitionAnswer {
        granule: Some(granule),
        estimate: Some(estimate),
        ..run_algorithm(arguments, &functions, &limits)?
    })
}

fn make_functions(
    arguments: &PartitionArguments,
    granule: u64,
    points: &[Vec<Point>],
    estimate: Estimate,
) -> Result<Vec<TimeFunction>, Failure> {
    let mut functions = Vec::new();
    for (path, points) in arguments.models.iter().zip(points) {
        let function = TimeFunction::from_points(granule, points, estimate);
        functions.push(function.map_err(|error| match error {
            ModelError::NotAMultiple { .. } => {
                Failure::of_file(path, format!("--granule: {error}"))
            }
            _ => Failure::of_file(path, error),
        })?);
    }
    Ok(functions)
}

fn run_algorithm(
    arguments: &PartitionArguments,
    functions: &[TimeFunction],
    limits: &[Limits],
) -> Result<PartitionAnswer, Failure> {
    let total = arguments.units;
    let mut search = None;
    let mut nodes = None;
    let Partition { units, times_s } = match arguments.algorithm {
        PartitionAlgorithm::HpoptaSearch => {
            let work_limit = arguments.work_limit.unwrap_or(WORK_LIMIT);
            let found = arguments.accept(hpopta_search(functions, limits, total, work_limit))?;
            search = Some(SearchEnd {
                converged: matches!(found, SearchOutcome::Optimal(_)),
                ..SearchEnd::default()
            });
            let (SearchOutcome::Optimal(found) | SearchOutcome::Unfinished(Some(found))) = found
            else {
                return Err(Failure::run(format!(
                    "--work-limit: the search was given up after {work_limit} steps without having found any \
                     division: allow more, or use --algorithm hpopta, which finds the optimum without a limit"
                )));
            };
            found
        }
        PartitionAlgorithm::Popta => {
            let devices = count_identical(arguments, functions, limits)?;
            arguments.accept(popta(&functions[0], &limits[0], devices, total))?
        }
        PartitionAlgorithm::Hipopta => {
            let n_nodes = arguments.nodes.ok_or_else(|| {
                Failure::input("--nodes: missing; hipopta divides between identical nodes")
            })?;
            let found = arguments.accept(hipopta(functions, limits, n_nodes as usize, total))?;
            let units = found.devices.iter().flat_map(|node| &node.units);
            let times_s = found.devices.iter().flat_map(|node| &node.times_s);
            let all =
                Partition { units: units.copied().collect(), times_s: times_s.copied().collect() };
            nodes = Some(list_nodes(found));
            all
        }
        PartitionAlgorithm::Hpopta => arguments.accept(hpopta(functions, limits, total))?,
        models => unreachable!("{models} divides by models"),
    };
    Ok(PartitionAnswer {
        search,
        nodes,
        ..PartitionAnswer::new(arguments.algorithm, Amounts::Whole { units }, times_s)
    })
}

fn list_nodes(found: HierarchicalPartition) -> Vec<NodeDivision> {
    let Partition { units, times_s } = found.nodes;
    let nodes = units.into_iter().zip(times_s).zip(found.devices);
    nodes.map(|((units, time_s), devices)| NodeDivision { units, time_s, devices }).collect()
}

/// Returns the number of identical devices: that of `--devices`, or of equal files.
fn count_identical(
    arguments: &PartitionArguments,
    functions: &[TimeFunction],
    limits: &[Limits],
) -> Result<usize, Failure> {
    if arguments.devices.is_some() && functions.len() > 1 {
        return Err(Failure::input(
            "--devices: the number of devices of one points file, and --models names several",
        ));
    }
    if let Some(other) = (1..functions.len()).find(|&i| functions[i] != functions[0]) {
        let first = show_path(&arguments.models[0]);
        let reason =
            format!("differs from {first}: popta is for identical devices, hpopta for unlike");
        return Err(Failure::of_file(&arguments.models[other], reason));
    }
    if let Some(other) = (1..limits.len()).find(|&i| limits[i] != limits[0]) {
        let flags = arguments.limits.given_names();
        return Err(Failure::input(format!(
            "{flags}: device {other} differs from device 0: popta is for identical devices, hpopta for \
             unlike"
        )));
    }
    Ok(arguments.devices.map_or(functions.len(), |devices| devices as usize))
}

/// Returns the greatest common divisor; 0 has all divisors.
fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

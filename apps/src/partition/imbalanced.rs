//! Divisions by measured times of any shape, which need not be balanced.

use isochron_hierarchy::model::{Estimate, ModelError, Point, TimeFunction};
use isochron_hierarchy::partition::{
    HierarchicalPartition, Limits, Partition, SearchOutcome, hipopta, hpopta, hpopta_search, popta,
};

use super::{
    Amounts, NodeDivision, PartitionAlgorithm, PartitionAnswer, PartitionArguments, SearchEnd,
};
use crate::failure::Failure;
use crate::points::read_points;

/// Steps of the published search; each may add some forty bytes to its memory.
const WORK_LIMIT: u64 = 10_000_000;

/// The division found by an algorithm, device by device; for several nodes also node by node.
#[derive(Default)]
struct FoundDivision {
    partition: Partition,
    nodes: Option<Vec<NodeDivision>>,
    search: Option<SearchEnd>,
}

/// Divides the units by the measured times.
///
/// # Errors
/// If a file cannot be read, or the partitioner refuses.
pub fn divide_by_times(arguments: &PartitionArguments) -> Result<PartitionAnswer, Failure> {
    let points: Vec<Vec<Point>> = arguments
        .models
        .iter()
        .map(|path| read_points(path))
        .collect::<Result<_, _>>()?;
    let sizes = points.iter().flatten().map(|point| point.d);
    // Sizes are at least 1, and so is their divisor.
    let granule = arguments.granule.unwrap_or_else(|| sizes.fold(0, gcd));
    let estimate = arguments.estimate.unwrap_or_default();
    let functions = make_functions(arguments, granule, &points, estimate)?;
    let limits = arguments.limits.for_devices(functions.len())?;
    let FoundDivision {
        partition,
        nodes,
        search,
    } = run_algorithm(arguments, &functions, &limits)?;
    let Partition { units, times_s } = partition;
    Ok(PartitionAnswer {
        granule: Some(granule),
        estimate: Some(estimate),
        search,
        nodes,
        ..PartitionAnswer::new(arguments.algorithm, Amounts::Whole { units }, times_s)
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
) -> Result<FoundDivision, Failure> {
    let total = arguments.units;
    match arguments.algorithm {
        PartitionAlgorithm::HpoptaSearch => {
            let work_limit = arguments.work_limit.unwrap_or(WORK_LIMIT);
            let search = hpopta_search(functions, limits, total, work_limit);
            let search = search.map_err(|error| arguments.refuse(&error))?;
            FoundDivision::of_search(search, work_limit)
        }
        PartitionAlgorithm::Popta => {
            let devices = count_identical(arguments, functions, limits)?;
            popta(&functions[0], &limits[0], devices, total)
                .map(FoundDivision::of_devices)
                .map_err(|error| arguments.refuse(&error))
        }
        PartitionAlgorithm::Hipopta => {
            let nodes = arguments.nodes.ok_or_else(|| {
                Failure::input("--nodes: missing; hipopta divides between identical nodes")
            })?;
            hipopta(functions, limits, nodes as usize, total)
                .map(FoundDivision::of_nodes)
                .map_err(|error| arguments.refuse(&error))
        }
        PartitionAlgorithm::Hpopta => hpopta(functions, limits, total)
            .map(FoundDivision::of_devices)
            .map_err(|error| arguments.refuse(&error)),
        PartitionAlgorithm::Even
        | PartitionAlgorithm::Cpm
        | PartitionAlgorithm::Gpa
        | PartitionAlgorithm::Npa
        | PartitionAlgorithm::Continuous => {
            unreachable!("{} divides by models", arguments.algorithm.name())
        }
    }
}

impl FoundDivision {
    fn of_devices(partition: Partition) -> Self {
        Self {
            partition,
            ..Self::default()
        }
    }

    fn of_nodes(found: HierarchicalPartition) -> Self {
        let mut partition = Partition::default();
        let mut nodes = Vec::new();
        let totals = found.nodes.units.into_iter().zip(found.nodes.times_s);
        for ((units, time_s), devices) in totals.zip(found.devices) {
            partition.units.extend(&devices.units);
            partition.times_s.extend(&devices.times_s);
            nodes.push(NodeDivision {
                units,
                time_s,
                devices,
            });
        }
        Self {
            partition,
            nodes: Some(nodes),
            search: None,
        }
    }

    fn of_search(search: SearchOutcome, work_limit: u64) -> Result<Self, Failure> {
        let (partition, converged) = match search {
            SearchOutcome::Optimal(partition) => (partition, true),
            SearchOutcome::Unfinished(Some(partition)) => (partition, false),
            SearchOutcome::Unfinished(None) => {
                return Err(Failure::run(format!(
                    "--work-limit: the search was given up after {work_limit} steps without having found any \
                     division: allow more, or use --algorithm hpopta, which finds the optimum without a limit"
                )));
            }
        };
        Ok(Self {
            partition,
            nodes: None,
            search: Some(SearchEnd {
                converged,
                ..SearchEnd::default()
            }),
        })
    }
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
        let first = arguments.models[0].display();
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
    Ok(arguments
        .devices
        .map_or(functions.len(), |devices| devices as usize))
}

/// Returns the greatest common divisor; 0 has all divisors.
fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

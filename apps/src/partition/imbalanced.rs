//! Divisions by measured times of any shape, which need not be balanced.

use isochron_hierarchy::model::{Estimate, ModelError, Point, TimeFunction};
use isochron_hierarchy::partition::{
    HierarchicalPartition, Limits, Partition, Search as Found, hipopta, hpopta, hpopta_search,
    popta,
};

use super::{Algorithm, Answer, Arguments, Node, Parts, Search};
use crate::failure::Failure;
use crate::points::{failed, read};

/// Steps of the published search; each may add some forty bytes to its memory.
const WORK_LIMIT: u64 = 10_000_000;

/// What an algorithm found, device by device; of several nodes, node by node.
#[derive(Default)]
struct Division {
    partition: Partition,
    nodes: Option<Vec<Node>>,
    search: Option<Search>,
}

pub fn answer(arguments: &Arguments) -> Result<Answer, Failure> {
    let points: Vec<Vec<Point>> = arguments
        .models
        .iter()
        .map(|path| read(path))
        .collect::<Result<_, _>>()?;
    let sizes = points.iter().flatten().map(|point| point.d);
    // Sizes are at least 1, and so is their divisor.
    let granule = arguments.granule.unwrap_or_else(|| sizes.fold(0, gcd));
    let estimate = arguments.estimate.unwrap_or_default();
    let functions = functions(arguments, granule, &points, estimate)?;
    let limits = arguments.limits.of_devices(functions.len())?;
    let Division {
        partition,
        nodes,
        search,
    } = divide(arguments, &functions, &limits)?;
    let Partition { units, times_s } = partition;
    Ok(Answer {
        granule: Some(granule),
        estimate: Some(estimate),
        search,
        nodes,
        ..Answer::new(arguments.algorithm, Parts::Whole { units }, times_s)
    })
}

fn functions(
    arguments: &Arguments,
    granule: u64,
    points: &[Vec<Point>],
    estimate: Estimate,
) -> Result<Vec<TimeFunction>, Failure> {
    let both = arguments.models.iter().zip(points);
    both.map(|(path, points)| {
        TimeFunction::from_points(granule, points, estimate).map_err(|error| match error {
            ModelError::NotAMultiple { .. } => failed(path, format!("--granule: {error}")),
            _ => failed(path, error),
        })
    })
    .collect()
}

fn divide(
    arguments: &Arguments,
    functions: &[TimeFunction],
    limits: &[Limits],
) -> Result<Division, Failure> {
    let total = arguments.units;
    let found = |partition| Division {
        partition,
        ..Division::default()
    };
    let refused = |error| arguments.refused(&error);
    match arguments.algorithm {
        Algorithm::HpoptaSearch => {
            let work_limit = arguments.work_limit.unwrap_or(WORK_LIMIT);
            let search = hpopta_search(functions, limits, total, work_limit).map_err(refused)?;
            searched(search, work_limit)
        }
        Algorithm::Popta => {
            let devices = identical(arguments, functions, limits)?;
            popta(&functions[0], &limits[0], devices, total)
                .map(found)
                .map_err(refused)
        }
        Algorithm::Hipopta => {
            let nodes = arguments.nodes.ok_or_else(|| {
                Failure::input("--nodes: missing; hipopta divides between identical nodes")
            })?;
            hipopta(functions, limits, nodes as usize, total)
                .map(hierarchical)
                .map_err(refused)
        }
        Algorithm::Hpopta => hpopta(functions, limits, total).map(found).map_err(refused),
        Algorithm::Even
        | Algorithm::Cpm
        | Algorithm::Gpa
        | Algorithm::Npa
        | Algorithm::Continuous => {
            unreachable!("{} divides by models", arguments.algorithm.name())
        }
    }
}

fn searched(search: Found, work_limit: u64) -> Result<Division, Failure> {
    let (partition, converged) = match search {
        Found::Optimal(partition) => (partition, true),
        Found::Unfinished(Some(partition)) => (partition, false),
        Found::Unfinished(None) => {
            return Err(Failure::run(format!(
                "--work-limit: the search was given up after {work_limit} steps without having found any \
                 division: allow more, or use --algorithm hpopta, which finds the optimum without a limit"
            )));
        }
    };
    Ok(Division {
        partition,
        nodes: None,
        search: Some(Search {
            converged,
            ..Search::default()
        }),
    })
}

/// How many identical devices there are, which `--devices` says or as many equal files.
fn identical(
    arguments: &Arguments,
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
        return Err(failed(&arguments.models[other], reason));
    }
    if let Some(other) = (1..limits.len()).find(|&i| limits[i] != limits[0]) {
        let flags = arguments.limits.names();
        return Err(Failure::input(format!(
            "{flags}: device {other} differs from device 0: popta is for identical devices, hpopta for \
             unlike"
        )));
    }
    Ok(arguments
        .devices
        .map_or(functions.len(), |devices| devices as usize))
}

fn hierarchical(found: HierarchicalPartition) -> Division {
    let join = |partition: &mut Partition, devices: &Partition| {
        partition.units.extend(&devices.units);
        partition.times_s.extend(&devices.times_s);
    };
    let mut partition = Partition::default();
    for devices in &found.devices {
        join(&mut partition, devices);
    }
    let totals = found.nodes.units.into_iter().zip(found.nodes.times_s);
    let nodes = totals.zip(found.devices);
    Division {
        partition,
        nodes: Some(
            nodes
                .map(|((units, time_s), devices)| Node {
                    units,
                    time_s,
                    devices,
                })
                .collect(),
        ),
        search: None,
    }
}

/// Greatest common divisor; 0 has all divisors.
fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

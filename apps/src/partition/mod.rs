//! `isochron partition`: units of work over devices with saved models.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use isochron_hierarchy::model::{ModelFile, PiecewiseFpm, SpeedModel};
use isochron_hierarchy::partition::{gpa, proportional};
use serde::Serialize;

use crate::failure::Failure;
use crate::table::Table;

/// What to partition.
#[derive(Args)]
pub struct Arguments {
    /// Units of work to distribute
    #[arg(long, value_name = "D")]
    units: u64,
    /// Points files, one a device
    #[arg(long, num_args = 1.., required = true, value_name = "FILE")]
    models: Vec<PathBuf>,
    /// How
    #[arg(long, value_enum, default_value_t = Algorithm::Gpa)]
    algorithm: Algorithm,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Algorithm {
    /// In proportion to the constant speeds that the models have at an even share
    Cpm,
    /// The geometric partitioning algorithm on the functional models
    Gpa,
}

#[derive(Serialize)]
struct Answer {
    algorithm: Algorithm,
    units: Vec<u64>,
    times_s: Vec<f64>,
    max_time_s: f64,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let models = arguments
        .models
        .iter()
        .map(|path| load(path))
        .collect::<Result<Vec<_>, _>>()?;
    let functions: Vec<&dyn SpeedModel> = models
        .iter()
        .map(|model| model as &dyn SpeedModel)
        .collect();
    let units = match arguments.algorithm {
        Algorithm::Gpa => {
            gpa(&functions, arguments.units)
                .map_err(Failure::input)?
                .units
        }
        Algorithm::Cpm => {
            let share = arguments.units as f64 / models.len() as f64;
            let speeds: Vec<f64> = functions.iter().map(|model| model.speed(share)).collect();
            proportional(&speeds, arguments.units)
                .map_err(Failure::input)?
                .units
        }
    };
    // Whatever the split was made from, its times are those of the full models.
    let times_s: Vec<f64> = functions
        .iter()
        .zip(&units)
        .map(|(model, &d)| model.time_s(d as f64))
        .collect();
    let max_time_s = times_s.iter().copied().fold(0.0, f64::max);
    let answer = Answer {
        algorithm: arguments.algorithm,
        units,
        times_s,
        max_time_s,
    };
    if arguments.json {
        println!("{}", serde_json::to_string(&answer).map_err(Failure::run)?);
        return Ok(());
    }
    let mut table = Table::new(1, &["model", "units", "time s"]);
    for ((path, units), time_s) in arguments
        .models
        .iter()
        .zip(&answer.units)
        .zip(&answer.times_s)
    {
        table.row(vec![
            path.display().to_string(),
            units.to_string(),
            format!("{time_s:.6}"),
        ]);
    }
    print!("{table}");
    println!("longest {max_time_s:.6} s");
    Ok(())
}

fn load(path: &Path) -> Result<PiecewiseFpm, Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", path.display()));
    let source = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    let file = ModelFile::parse(&source).map_err(|error| failed(&error))?;
    if file.points.is_empty() {
        return Err(failed(&"holds no points"));
    }
    PiecewiseFpm::from_points(file.points).map_err(|error| failed(&error))
}

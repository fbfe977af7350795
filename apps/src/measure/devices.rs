//! The kernel `mxm`: the update of a part of C on every device of the job, as multiplications run it, or on each device while
//! the others of its host are idle.

use isochron_devices::with_element;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_core::internal::{MeasureRounds, keep_samples, prepare_updates};
use isochron_core::plan::Problem;
use isochron_core::session::Session;
use isochron_core::store::{KeyedWork, StoreMode};
use isochron_devices::measure::{InStep, UpdateOperands, repeat_alone};
use isochron_devices::{
    BlasChoice, Depth, DeviceError, ElementType, MeasureConfig, Scalar, measure_team,
};
use isochron_hierarchy::times::{Measurement, Series};

use super::device_parts::{list_parts, list_turns};
use super::part::{MeasuredWork, OpenWork, PartEnd, PartUnits, Size, describe_repetitions};
use crate::choices::NodeArguments;
use crate::named_values::name_all;
use crate::numbers::parse_whole;
use crate::output::name_path;

/// The devices of the kernel mxm.
#[derive(Args)]
#[command(next_help_heading = "Kernel mxm")]
pub struct DeviceArguments {
    #[command(flatten)]
    node: NodeArguments,
    /// Type of the elements: f32, f64, c32 or c64 [default: f64]
    #[arg(long = "type", value_name = "TYPE", value_parser = name_all::<ElementType>(), hide_possible_values = true)]
    element: Option<ElementType>,
    /// Inner dimension of an update: the width of the panels [default: that of a run that learns]
    #[arg(long, value_name = "N", value_parser = parse_whole::<usize, 1>)]
    panel: Option<usize>,
    /// Height of C in blocks, of which sizes are columns [default: C is nearly square]
    #[arg(long, value_name = "N", value_parser = parse_whole::<u64, 1>, conflicts_with = "surface")]
    height: Option<u64>,
    /// Measure surfaces: every height of C with every width, both from --from to --to blocks
    #[arg(long, conflicts_with = "adaptive")]
    pub surface: bool,
    /// Measure each device while the others of its host are idle, one after the other. The model store gets none of these
    /// times
    #[arg(long)]
    alone: bool,
    /// Measure for hours, as in the literature: at least 10000 repetitions of updates up to n = 1024, 100 up to 5120
    /// and 5 beyond. A measurement ends after ten times as many, or after an hour
    #[arg(long, conflicts_with_all = ["budget", "min_reps", "max_reps", "max_seconds"])]
    pub thorough: bool,
}

/// The updates of C that are measured.
#[derive(Clone, Copy)]
struct MeasuredUpdates {
    /// Block size: sizes are in blocks of C.
    block: usize,
    work: KeyedWork,
    is_surface: bool,
    /// Height of C in blocks; `None` if C is nearly square.
    height: Option<u64>,
}

/// The devices of this rank at work on updates of C.
struct TimedWork<T> {
    session: Session,
    operands: UpdateOperands<T>,
    updates: MeasuredUpdates,
    /// The device that is measured alone in each turn; empty if all are measured together.
    turns: Vec<Option<usize>>,
}

impl DeviceArguments {
    /// Returns the file of the devices, with the name of its option.
    pub fn name_platform(&self) -> Option<(&str, &Path)> {
        name_path("--platform", &self.node.platform)
    }

    /// Returns the first option that is given and only for devices.
    pub fn name_given(&self) -> Option<&'static str> {
        let given = [
            (self.node.platform.is_some(), "--platform"),
            (self.node.group.is_some(), "--group"),
            (self.element.is_some(), "--type"),
            (self.panel.is_some(), "--panel"),
            (self.height.is_some(), "--height"),
            (self.surface, "--surface"),
            (self.alone, "--alone"),
            (self.thorough, "--thorough"),
        ];
        let mut given = given.into_iter().filter(|(is_given, _)| *is_given);
        given.next().map(|(_, name)| name)
    }

    /// Makes the devices of all ranks.
    ///
    /// # Errors
    /// On every rank, returns the errors of
    /// [`SessionBuilder::build`](isochron_core::session::SessionBuilder::build).
    ///
    /// # Collective
    /// All ranks.
    pub fn open(
        &self,
        comm: &Arc<dyn Comm>,
        config: &MeasureConfig,
        block: usize,
        blas: &BlasChoice,
        store: StoreMode,
    ) -> Result<OpenWork, Error> {
        let panel = Problem::new(block, block, block, block)?.learning_panel();
        let work = KeyedWork {
            element: self.element.unwrap_or_default(),
            width: self.panel.unwrap_or(panel),
        };
        let session = self
            .node
            .set_up_session()
            .blas(blas.clone())
            .element(work.element)
            .measure(*config)
            .store(match store {
                // A time alone is none of a device beside others.
                StoreMode::ReadWrite if self.alone => StoreMode::Read,
                store => store,
            })
            .build(Arc::clone(comm))?;
        let measured_with = format!(
            "block {block}, panels of {}, {}, {}{}{}",
            work.width,
            work.element,
            self.describe_repetitions(config),
            self.height.map_or(String::new(), |rows| format!(", C {rows} blocks high")),
            if self.alone { ", each device alone" } else { "" }
        );
        let updates =
            MeasuredUpdates { block, work, is_surface: self.surface, height: self.height };
        let headers = [
            ("kernel", "update of mxm, gemm".to_owned()),
            ("block", block.to_string()),
            ("panel", work.width.to_string()),
            ("element", work.element.to_string()),
            ("measured-with", measured_with.clone()),
        ];
        let parts = list_parts(comm.as_ref(), session.devices(), self.alone, &headers)?;
        let turns = if self.alone {
            let places = parts.iter().map(|part| (part.rank, part.host.as_str()));
            list_turns(places, comm.rank())
        } else {
            Vec::new()
        };
        Ok(OpenWork {
            turns: turns.len().max(1),
            work: with_element!(work.element, T => begin_work::<T>(session, updates, turns)),
            parts,
            measured_with,
        })
    }

    fn describe_repetitions(&self, config: &MeasureConfig) -> String {
        if self.thorough {
            let MeasureConfig { precision, confidence, .. } = config;
            format!("thorough, precision {precision} at {confidence}")
        } else {
            describe_repetitions(config)
        }
    }
}

fn begin_work<T: Scalar>(
    session: Session,
    updates: MeasuredUpdates,
    turns: Vec<Option<usize>>,
) -> Box<dyn MeasuredWork> {
    Box::new(TimedWork::<T> { session, operands: UpdateOperands::default(), updates, turns })
}

impl<T: Scalar> TimedWork<T> {
    /// Returns the rows of C, and the columns of each device: its area is its units, of the height asked for, or as nearly square
    /// as whole blocks allow if models have one dimension.
    fn shape_updates(&self, (m, _): Size, units: &[PartUnits]) -> (usize, Vec<usize>) {
        let square = if self.updates.is_surface { m } else { m.isqrt() };
        let height = self.updates.height.unwrap_or(square);
        let block = self.updates.block as u64;
        let columns = units.iter().map(|units| {
            let elements = u128::from(units.units) * u128::from(block) / u128::from(height.max(1));
            usize::try_from(elements).unwrap_or(usize::MAX)
        });
        let rows = usize::try_from(height.saturating_mul(block)).unwrap_or(usize::MAX);
        (rows, columns.collect())
    }

    /// Measures all devices of the job together, in step.
    fn measure_together(
        &mut self,
        comm: &dyn Comm,
        size: Size,
        units: &[PartUnits],
        config: &MeasureConfig,
    ) -> Result<Vec<PartEnd>, Error> {
        let counts = units.iter().any(|units| !units.is_load);
        let mut rounds = MeasureRounds::new(comm);
        let found = self.measure_updates(size, units, config, &mut |needed| {
            rounds.ask_for_round(needed && counts)
        });
        // A rank that has nothing to repeat, or that failed, takes part too.
        while rounds.ask_for_round(false) {}
        let found = agree(comm, found.map_err(Error::from))?;
        self.keep_times(units, &found)?;
        Ok(found.into_iter().map(PartEnd::Measured).collect())
    }

    /// Measures the device of this rank that has a turn, if there is one, while the others of its host are idle. `units` are
    /// those of its devices.
    fn measure_alone(
        &mut self,
        comm: &dyn Comm,
        size: Size,
        units: &[PartUnits],
        config: &MeasureConfig,
    ) -> Result<Vec<PartEnd>, Error> {
        let found = if units.iter().all(|units| units.is_load) {
            Ok(vec![Measurement::default(); units.len()])
        } else {
            self.measure_updates(size, units, config, &mut repeat_alone)
        };
        let found = agree(comm, found.map_err(Error::from))?;
        Ok(found.into_iter().map(PartEnd::Measured).collect())
    }

    /// Measures the updates of these units.
    fn measure_updates(
        &mut self,
        size: Size,
        units: &[PartUnits],
        config: &MeasureConfig,
        in_step: &mut InStep<'_>,
    ) -> Result<Vec<Measurement>, DeviceError> {
        let (rows, columns) = self.shape_updates(size, units);
        let depth = Depth::endless(self.updates.work.width);
        let team = self.session.team();
        measure_team(team, rows, &columns, depth, config, &mut self.operands, in_step)
    }

    /// Writes the operands of the updates, if every host has room.
    fn prepare(&mut self, size: Size, units: &[PartUnits]) -> Result<(), Error> {
        let (rows, columns) = self.shape_updates(size, units);
        let depth = Depth::endless(self.updates.work.width);
        prepare_updates(&mut self.session, &mut self.operands, rows, &columns, depth)
    }

    /// Keeps the times of a measurement for the model store.
    fn keep_times(&mut self, units: &[PartUnits], found: &[Measurement]) -> Result<(), Error> {
        let block = (self.updates.block * self.updates.block) as u64;
        let series: Vec<Option<Series>> = units
            .iter()
            .zip(found)
            .map(|(part, found)| {
                let series = found.to_series().filter(|_| !part.is_load)?;
                // A size is as many whole blocks, however nearly square they were laid.
                let units = part.units.saturating_mul(block);
                Some(Series { units, ..series })
            })
            .collect();
        keep_samples(&mut self.session, self.updates.work, &series)
    }
}

/// Returns the units of this rank's devices while the device `own` has a turn: none for the others.
fn idle_others(units: &[PartUnits], own: Option<usize>) -> Vec<PartUnits> {
    let of_device = units.iter().enumerate().map(|(index, units)| {
        if Some(index) == own && !units.is_load {
            *units
        } else {
            PartUnits { units: 0, is_load: true }
        }
    });
    of_device.collect()
}

/// Ends the parts of a host that lacks memory, if any of them counts. The others may be measured.
///
/// # Errors
/// On every rank, returns every other error.
///
/// # Collective
/// All ranks, with the same error.
fn end_without_memory(
    comm: &dyn Comm,
    error: Error,
    units: &[PartUnits],
) -> Result<Vec<PartEnd>, Error> {
    let is_here = matches!(&error, Error::Memory { host, .. } if *host == comm.host());
    let counts = is_here && units.iter().any(|units| !units.is_load);
    if !comm.gather(&counts)?.contains(&true) {
        return Err(error);
    }
    let mut error = Some(error);
    let ends = units.iter().map(|units| {
        if is_here && !units.is_load { PartEnd::NoMemory(error.take()) } else { PartEnd::NotRun }
    });
    Ok(ends.collect())
}

impl<T: Scalar> MeasuredWork for TimedWork<T> {
    fn measure(
        &mut self,
        comm: &dyn Comm,
        size: Size,
        units: &[PartUnits],
        config: &MeasureConfig,
    ) -> Result<Vec<PartEnd>, Error> {
        if self.turns.is_empty() {
            return match self.prepare(size, units) {
                Ok(()) => self.measure_together(comm, size, units, config),
                Err(error) => end_without_memory(comm, error, units),
            };
        }
        let mut ends: Vec<PartEnd> = units.iter().map(|_| PartEnd::NotRun).collect();
        for own in self.turns.clone() {
            let units = idle_others(units, own);
            if let Err(error) = self.prepare(size, &units) {
                return end_without_memory(comm, error, &units);
            }
            let mut found = self.measure_alone(comm, size, &units, config)?;
            if let Some(own) = own {
                ends[own] = found.swap_remove(own);
            }
        }
        Ok(ends)
    }

    fn complexity(&mut self, (m, n): Size) -> Result<f64, Error> {
        let MeasuredUpdates { block, work, .. } = self.updates;
        Ok(T::TYPE.flop() * m as f64 * n as f64 * (block * block) as f64 * work.width as f64)
    }

    fn save(&mut self, _comm: &dyn Comm) -> Result<(), Error> {
        self.session.save_models()
    }

    fn end(&mut self, _comm: &dyn Comm) -> Result<Vec<String>, Error> {
        self.session.save_models()?;
        Ok(self.session.notices().to_vec())
    }
}

//! The kernel `mxm`: the update of a part of C on every device of the job, as multiplications run it.

use std::sync::Arc;

use clap::Args;
use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_core::internal::{MeasureRounds, keep_samples, prepare_updates};
use isochron_core::multiply::Problem;
use isochron_core::session::Session;
use isochron_core::store::{KeyedWork, StoreMode, StoredSample};
use isochron_devices::internal::cpu_quota_cores;
use isochron_devices::measure::UpdateOperands;
use isochron_devices::{
    BlasChoice, Depth, DeviceInfo, ElementType, MeasureConfig, Measurement, Scalar, measure_team,
};
use num_complex::{Complex32, Complex64};

use super::part::{
    MeasuredPart, MeasuredWork, OpenWork, PartEnd, PartUnits, Size, describe_repetitions,
};
use crate::choices::NodeArguments;
use crate::devices::measured::MEASUREMENT_NAMES;
use crate::devices::points::{describe_device, name_stem};
use crate::devices::schedule::name_device;
use crate::named_values::name_all;
use crate::numbers::parse_whole;

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
    /// Measure surfaces: every height of C with every width, both from --from to --to blocks
    #[arg(long, conflicts_with = "adaptive")]
    pub surface: bool,
}

/// The updates of C that are measured.
#[derive(Clone, Copy)]
struct MeasuredUpdates {
    /// Block size: sizes are in blocks of C.
    block: usize,
    work: KeyedWork,
    is_surface: bool,
}

/// The devices of this rank at work on updates of C.
struct DeviceWork<T> {
    session: Session,
    operands: UpdateOperands<T>,
    updates: MeasuredUpdates,
}

impl DeviceArguments {
    /// Returns the first option that is given and only for devices.
    pub fn name_given(&self) -> Option<&'static str> {
        let given = [
            (self.node.platform.is_some(), "--platform"),
            (self.node.group.is_some(), "--group"),
            (self.element.is_some(), "--type"),
            (self.panel.is_some(), "--panel"),
            (self.surface, "--surface"),
        ];
        let mut given = given.into_iter().filter(|(is_given, _)| *is_given);
        given.next().map(|(_, name)| name)
    }

    /// Makes the devices of all ranks.
    ///
    /// # Errors
    /// On every rank, when any rank fails: those of
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
            .store(store)
            .build(Arc::clone(comm))?;
        let measured_with = format!(
            "block {block}, panels of {}, {}, {}",
            work.width,
            work.element,
            describe_repetitions(config)
        );
        let updates = MeasuredUpdates {
            block,
            work,
            is_surface: self.surface,
        };
        let parts = list_parts(comm.as_ref(), session.devices(), updates, &measured_with)?;
        Ok(OpenWork {
            work: match work.element {
                ElementType::F32 => begin_work::<f32>(session, updates),
                ElementType::F64 => begin_work::<f64>(session, updates),
                ElementType::C32 => begin_work::<Complex32>(session, updates),
                ElementType::C64 => begin_work::<Complex64>(session, updates),
            },
            parts,
            measured_with,
        })
    }
}

fn begin_work<T: Scalar>(session: Session, updates: MeasuredUpdates) -> Box<dyn MeasuredWork> {
    Box::new(DeviceWork::<T> {
        session,
        operands: UpdateOperands::default(),
        updates,
    })
}

/// Lists the devices of all ranks.
///
/// # Collective
/// All ranks, each with its devices.
fn list_parts(
    comm: &dyn Comm,
    devices: &[DeviceInfo],
    MeasuredUpdates { block, work, .. }: MeasuredUpdates,
    measured_with: &str,
) -> Result<Vec<MeasuredPart>, Error> {
    let mine = devices.iter().map(|device| MeasuredPart {
        rank: comm.rank(),
        host: comm.host().to_owned(),
        device: Some(device.clone()),
        quota_cores: cpu_quota_cores(),
        ..MeasuredPart::default()
    });
    let mut parts = comm.gather(&mine.collect::<Vec<_>>())?.concat();
    let neighbours: Vec<Vec<String>> = (0..parts.len())
        .map(|part| list_neighbours(&parts, part, comm.size()))
        .collect();
    for (part, neighbours) in parts.iter_mut().zip(neighbours) {
        let Some(device) = &part.device else { continue };
        let word = MEASUREMENT_NAMES[usize::from(!neighbours.is_empty())];
        part.stem = name_stem(comm.size(), part.rank, &device.name, word);
        let beside = if neighbours.is_empty() {
            "nothing".to_owned()
        } else {
            neighbours.join(", ")
        };
        let mut headers = describe_device(device, &part.host, &beside);
        headers.extend([
            ("kernel", "update of mxm, gemm".to_owned()),
            ("block", block.to_string()),
            ("panel", work.width.to_string()),
            ("element", work.element.to_string()),
            ("rank", format!("{} of {}", part.rank, comm.size())),
            ("measured-with", measured_with.to_owned()),
        ]);
        part.add_headers(headers.into_iter());
    }
    Ok(parts)
}

/// Returns the names of the other devices on the host of a device.
fn list_neighbours(parts: &[MeasuredPart], index: usize, ranks: usize) -> Vec<String> {
    let others = parts.iter().enumerate();
    others
        .filter(|(other, part)| *other != index && part.host == parts[index].host)
        .filter_map(|(_, part)| {
            let device = part.device.as_ref()?;
            Some(name_device(ranks, part.rank, &device.name))
        })
        .collect()
}

impl<T: Scalar> DeviceWork<T> {
    /// Returns the rows of C, and the columns of each device: its area is its units, as nearly square as whole blocks
    /// allow if models have one dimension.
    fn shape_updates(&self, (m, _): Size, units: &[PartUnits]) -> (usize, Vec<usize>) {
        let height = if self.updates.is_surface {
            m
        } else {
            m.isqrt()
        };
        let block = self.updates.block as u64;
        let columns = units.iter().map(|units| {
            let elements = u128::from(units.units) * u128::from(block) / u128::from(height.max(1));
            usize::try_from(elements).unwrap_or(usize::MAX)
        });
        let rows = usize::try_from(height.saturating_mul(block)).unwrap_or(usize::MAX);
        (rows, columns.collect())
    }

    /// Keeps the times of the last measurement for the model store.
    fn keep_times(&mut self, units: &[PartUnits], found: &[Measurement]) -> Result<(), Error> {
        let samples = units.iter().zip(found).zip(self.operands.times_s()).map(
            |((units, found), times_s)| {
                let seconds = if found.is_bound() {
                    vec![found.t_s]
                } else {
                    times_s.clone()
                };
                (!units.is_load).then(|| self.make_sample(units.units, seconds, found.is_bound()))
            },
        );
        let samples: Vec<Option<StoredSample>> = samples.collect();
        keep_samples(&mut self.session, self.updates.work, &samples)
    }

    fn make_sample(&self, units: u64, seconds: Vec<f64>, at_least: bool) -> StoredSample {
        let block = (self.updates.block * self.updates.block) as u64;
        StoredSample {
            units: units.saturating_mul(block),
            seconds,
            at_least,
        }
    }
}

/// Ends the parts of a host that lacks memory, if any of them counts. The others may be measured.
///
/// # Errors
/// On every rank, every other error.
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
        if is_here && !units.is_load {
            PartEnd::NoMemory(error.take())
        } else {
            PartEnd::NotRun
        }
    });
    Ok(ends.collect())
}

impl<T: Scalar> MeasuredWork for DeviceWork<T> {
    fn measure(
        &mut self,
        comm: &dyn Comm,
        size: Size,
        units: &[PartUnits],
        config: &MeasureConfig,
    ) -> Result<Vec<PartEnd>, Error> {
        let (rows, columns) = self.shape_updates(size, units);
        let depth = Depth::endless(self.updates.work.width);
        let operands = &mut self.operands;
        let prepared = prepare_updates(&mut self.session, operands, rows, &columns, depth);
        if let Err(error) = prepared {
            return end_without_memory(comm, error, units);
        }
        let counts = units.iter().any(|units| !units.is_load);
        let mut rounds = MeasureRounds::new(comm);
        let team = self.session.team();
        let found = measure_team(
            team,
            rows,
            &columns,
            depth,
            config,
            operands,
            &mut |needed| rounds.ask_for_round(needed && counts),
        );
        // A rank that has nothing to repeat, or that failed, takes part too.
        while rounds.ask_for_round(false) {}
        let found = agree(comm, found.map_err(Error::from))?;
        self.keep_times(units, &found)?;
        Ok(found.into_iter().map(PartEnd::Measured).collect())
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

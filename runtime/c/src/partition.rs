//! Work divided over the ranks by benchmarks of a kernel of the program.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use isochron::devices::kernel::{KernelTable, LibraryKernel};
use isochron::hierarchy::model::Point;
use isochron::partition::{DynamicPartition, TimeModel};

use crate::balancer::check_ranks;
use crate::handles::{self, HandleKind, SessionHandle};
use crate::pointers::{self, to_size};
use crate::settings::{read_benchmark, read_partition};
use crate::status::{CallFailure, agree_on, call};
use crate::structs::{SizedStruct, read_structs, write_struct};

/// A division of work over the ranks, made by benchmarks of a kernel of the program.
#[derive(Debug)]
pub struct PartitionHandle(());

impl HandleKind for PartitionHandle {
    type Object = DynamicPartition;
    const KIND: &'static str = "partition";
}

/// The measured time of a kernel. Set struct_size to sizeof(isochron_point_t). Later versions may append fields.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct PointTable {
    /// Bytes of this struct.
    pub struct_size: i64,
    /// Units.
    pub units: i64,
    /// Mean seconds of a run.
    pub seconds: f64,
    /// Repetitions; 0 if a run took too long and was stopped: seconds is a lower bound then.
    pub repetitions: i64,
    /// Half-width of the confidence interval of the mean, in seconds.
    pub half_width_s: f64,
}

// SAFETY: integers and floats, with the size first.
unsafe impl SizedStruct for PointTable {
    const NAME: &'static str = "isochron_point_t";
    const SIZES: &'static [usize] = &[size_of::<Self>()];
}

impl PointTable {
    fn of(point: &Point) -> Self {
        Self {
            struct_size: size_of::<Self>() as i64,
            units: point.d as i64,
            seconds: point.t_s,
            repetitions: point.reps.into(),
            half_width_s: point.ci_s,
        }
    }
}

/// A model of a rank's time, of the program's own. Set struct_size to sizeof(isochron_model_t). Every rank has a copy of the
/// model of each rank, and each copy gets the same points. Rank 0 divides by the times of its copies.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ModelTable {
    /// Bytes of this struct.
    pub struct_size: i64,
    /// Returns the seconds that units take: more than 0, growing with the units, which may be any number between whole ones too.
    pub time: Option<unsafe extern "C" fn(context: *mut c_void, units: f64) -> f64>,
    /// Takes a measured point, on all ranks. Returns 0, or another number for a failure. The points of an iteration that has
    /// failed may come again.
    pub update:
        Option<unsafe extern "C" fn(context: *mut c_void, point: *const PointTable) -> c_int>,
    /// Passed on to both.
    pub context: *mut c_void,
}

// SAFETY: an integer and pointers that may be null, with the size first.
unsafe impl SizedStruct for ModelTable {
    const NAME: &'static str = "isochron_model_t";
    const SIZES: &'static [usize] = &[size_of::<Self>()];
}

/// A model whose functions were checked.
struct OwnModel {
    time: unsafe extern "C" fn(*mut c_void, f64) -> f64,
    update: unsafe extern "C" fn(*mut c_void, *const PointTable) -> c_int,
    context: *mut c_void,
}

impl TimeModel for OwnModel {
    fn time_s(&mut self, units: f64) -> Result<f64, String> {
        // SAFETY: the function and its context are the program's, which has promised that they fit.
        Ok(unsafe { (self.time)(self.context, units) })
    }

    fn update(&mut self, point: &Point) -> Result<(), String> {
        // SAFETY: as above; the point lives until the call returns.
        match unsafe { (self.update)(self.context, &PointTable::of(point)) } {
            0 => Ok(()),
            code => Err(format!("update for {} units returned {code}", point.d)),
        }
    }
}

/// Measures a kernel of the program with this rank's units, while all ranks do the same, each with its own number. They repeat in
/// step, as long as one of them needs another repetition, since ranks that share a host slow each other down. The calling thread
/// is bound to the first core of this rank's share of its host meanwhile, unless the host has fewer cores than ranks, or a CPU quota
/// leaves only some of them. isochron_kernel.h describes kernels; when initialize is called, *context is params. config is null or settings, written as for isochron_open.
///
/// | setting | ranks | meaning |
/// |---|---|---|
/// | min_reps, max_reps | same | fewest and most repetitions (default 3 and 20) |
/// | confidence, precision | same | confidence of the interval (default 0.95), and the half-width at which repeating stops, as a part of the mean (default 0.025) |
/// | max_seconds | same | seconds after which nothing is repeated (default 10); a run of twice as long is interrupted |
/// | unbound | same | true leaves the thread where it may run, for kernels with several threads (default false) |
///
/// 0 units give a point of 0 seconds and 0 repetitions.
///
/// Collective: all ranks of the session, with the same settings.
///
/// # Safety
/// `kernel` is null or points to a kernel, whose functions may be called with these `params`; `config` is null or a string; `point`
/// is null or points to a struct as long as its first field says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_benchmark(
    session: *mut SessionHandle,
    kernel: *const KernelTable,
    params: *mut c_void,
    units: i64,
    config: *const c_char,
    point: *mut PointTable,
) -> c_int {
    call(|| {
        let session = handles::find(session)?;
        let found = session.use_object(|open| {
            // SAFETY: as the caller says.
            let asked = unsafe { read_kernel(kernel, params) }.and_then(|kernel| {
                pointers::check(point, "point")?;
                // SAFETY: as the caller says.
                let config = unsafe { pointers::read_config(config, "config")? };
                Ok((kernel, to_size(units, "units")? as u64, read_benchmark(config)?))
            });
            let (mut kernel, units, config) = agree_on(&**session.comm(), asked)?;
            Ok(open.session.benchmark(&mut kernel, units, &config)?)
        })?;
        // SAFETY: as the caller says.
        unsafe { write_struct(point, "point", &PointTable::of(&found)) }
    })
}

/// Begins to divide units over the ranks by benchmarks of a kernel of the program. Call isochron_partition_iterate until it
/// says that it has ended. Without models (null and 0) the points of each rank make a model by the setting fit. With some, one
/// for each rank, these divide. config is null or settings, written as for isochron_open: those of isochron_benchmark, and these.
///
/// | setting | ranks | meaning |
/// |---|---|---|
/// | epsilon | same | imbalance of the times, beyond their noise, at which it ends (default 0.05) |
/// | max_iterations | same | most divisions that are measured (default 10) |
/// | fit | same | model made of the points: piecewise-speed (the default), piecewise-time, akima, raw-piecewise, cpm |
/// | partitioner | same | gpa (the default) or npa |
/// | granule | same | units are given in multiples of this, and the rest to one rank (default 1) |
///
/// Close the partition by isochron_close_partition.
///
/// Collective: all ranks of the session, with the same units, settings and number of models.
///
/// # Safety
/// `config` is null or a string; `models` is null or has `n_models` structs, whose functions may be called with their contexts until
/// the partition is closed; `partition` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_partition(
    session: *mut SessionHandle,
    units: i64,
    config: *const c_char,
    models: *const ModelTable,
    n_models: i64,
    partition: *mut *mut PartitionHandle,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe { pointers::clear(partition, ptr::null_mut()) };
        let session = handles::find(session)?;
        let comm = session.comm();
        let made = session.use_object(|open| {
            let asked = pointers::check(partition, "partition").and_then(|()| {
                // SAFETY: as the caller says.
                let config = unsafe { pointers::read_config(config, "config")? };
                // SAFETY: as the caller says.
                let models = unsafe { read_models(models, to_size(n_models, "n_models")?)? };
                Ok((to_size(units, "units")? as u64, read_partition(config)?, models))
            });
            let (units, config, models) = agree_on(&**comm, asked)?;
            Ok(open.session.partition(units, &config, models)?)
        })?;
        let handle = handles::keep(Arc::clone(comm), made);
        // SAFETY: as the caller says.
        unsafe { pointers::write(partition, "partition", handle) }
    })
}

/// Measures the kernel with this rank's units of the next division, as isochron_benchmark does; updates the models, and divides
/// anew. Writes 1 to ended if that was the last time, otherwise 0. After the end it does nothing. After a failure the next call
/// measures the same division again.
///
/// Collective: all ranks of the session.
///
/// # Safety
/// `kernel` and `params` are as for isochron_benchmark; `ended` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_partition_iterate(
    partition: *mut PartitionHandle,
    kernel: *const KernelTable,
    params: *mut c_void,
    ended: *mut c_int,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe { pointers::clear(ended, 0) };
        let kept = handles::find(partition)?;
        let has_ended = kept.use_object(|partition| {
            let asked = pointers::check(ended, "ended");
            // SAFETY: as the caller says.
            let asked = asked.and_then(|()| unsafe { read_kernel(kernel, params) });
            Ok(partition.iterate(&mut agree_on(&**kept.comm(), asked)?)?)
        })?;
        // SAFETY: as the caller says.
        unsafe { pointers::write(ended, "ended", c_int::from(has_ended)) }
    })
}

/// Writes the units of each rank and their seconds; seconds may be null. They are even and 0 before the first iteration, then of
/// the division that was measured last, and after the end of the result. A rank without units has 0 seconds. The parts follow each other in the order of the
/// ranks, so the first unit of a part is the sum of the numbers before its own.
///
/// # Safety
/// `units` and `seconds` are null or have `n_ranks` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_partition_units(
    partition: *const PartitionHandle,
    units: *mut i64,
    seconds: *mut f64,
    n_ranks: i64,
) -> c_int {
    call(|| {
        handles::find(partition)?.use_object(|partition| {
            let found = partition.units();
            check_ranks("n_ranks", n_ranks, found.len())?;
            // SAFETY: as the caller says.
            let units = unsafe { pointers::write_slice(units, found.len(), "units")? };
            for (place, &found) in units.iter_mut().zip(found) {
                *place = found as i64;
            }
            if !seconds.is_null() {
                // SAFETY: as the caller says.
                let seconds = unsafe { pointers::write_slice(seconds, found.len(), "seconds")? };
                seconds.copy_from_slice(partition.times_s());
            }
            Ok(())
        })
    })
}

/// Closes a partition.
///
/// # Safety
/// No call of it is under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_close_partition(partition: *mut PartitionHandle) -> c_int {
    call(|| handles::close(partition))
}

/// Reads a kernel of the program.
///
/// # Safety
/// The conditions of [`isochron_benchmark`].
pub(crate) unsafe fn read_kernel(
    kernel: *const KernelTable,
    params: *mut c_void,
) -> Result<LibraryKernel, CallFailure> {
    pointers::check(kernel, "kernel")?;
    // SAFETY: as the caller says.
    unsafe { LibraryKernel::of_table(kernel, "of the program", params) }
        .map_err(|reason| CallFailure::argument("kernel", reason))
}

/// Reads the models of the program.
///
/// # Safety
/// The conditions of [`isochron_partition`].
unsafe fn read_models(
    models: *const ModelTable,
    n_models: usize,
) -> Result<Vec<Box<dyn TimeModel>>, CallFailure> {
    // SAFETY: as the caller says.
    let tables = unsafe { read_structs(models, n_models, "models")? };
    tables
        .into_iter()
        .enumerate()
        .map(|(rank, table)| {
            let refuse = |function| {
                let reason = format!("it has no function {function}");
                CallFailure::argument(&format!("models[{rank}]"), reason)
            };
            let time = table.time.ok_or_else(|| refuse("time"))?;
            let update = table.update.ok_or_else(|| refuse("update"))?;
            Ok(Box::new(OwnModel { time, update, context: table.context }) as Box<dyn TimeModel>)
        })
        .collect()
}

//! Splitting units by measured times, and loops whose times have any shape.

use std::ffi::{c_char, c_int};

use isochron::hierarchy::partition::Limits;
use isochron::hierarchy::split;

use crate::balancer::{BalancerHandle, open_balancer};
use crate::handles::SessionHandle;
use crate::pointers::{self, to_size};
use crate::settings::read_split;
use crate::status::{CallFailure, call};
use crate::structs::read_structs;
use crate::times::{GivenTimes, TimesTable};

/// Splits units over devices by their measured times, so that all finish together. Writes the units of each device and
/// their predicted seconds; times_s may be null. config is null or settings, written as for isochron_open.
///
/// | setting | meaning |
/// |---|---|
/// | fit | model made of the points: piecewise-speed, piecewise-time, akima, raw-piecewise, cpm |
/// | partitioner | gpa or npa, for times that grow with the units; hpopta for times of any shape, with fit=raw-piecewise |
/// | granule | units are given in multiples of this, and the rest to one device |
///
/// Not collective: it needs no session.
///
/// # Safety
/// `devices` is null or has `n_devices` structs, whose arrays are null or have `n_points` numbers; `config` is null or a string;
/// `units` and `times_s` are null or have room for `n_devices` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_split(
    total: i64,
    devices: *const TimesTable,
    n_devices: i64,
    config: *const c_char,
    units: *mut i64,
    times_s: *mut f64,
) -> c_int {
    call(|| {
        let n_devices = to_size(n_devices, "n_devices")?;
        // SAFETY: as the caller says.
        let (given, mut how) = unsafe {
            (
                read_devices(devices, n_devices)?,
                read_split(pointers::read_config(config, "config")?)?,
            )
        };
        how.limits = given.iter().map(limit_units).collect();
        let points: Vec<&[(u64, f64)]> = given.iter().map(|times| &times.points[..]).collect();
        let total = to_size(total, "total")? as u64;
        let parts = split(total, &points, &how).map_err(CallFailure::input)?;
        // SAFETY: as the caller says.
        let units = unsafe { pointers::write_slice(units, n_devices, "units")? };
        for (place, part) in units.iter_mut().zip(&parts.units) {
            *place = *part as i64;
        }
        if !times_s.is_null() {
            // SAFETY: as the caller says.
            let times_s = unsafe { pointers::write_slice(times_s, n_devices, "times_s")? };
            times_s.copy_from_slice(&parts.times_s);
        }
        Ok(())
    })
}

/// Reads the times of all devices.
///
/// # Safety
/// The conditions of [`isochron_split`].
unsafe fn read_devices(
    devices: *const TimesTable,
    n_devices: usize,
) -> Result<Vec<GivenTimes>, CallFailure> {
    // SAFETY: as the caller says.
    let tables = unsafe { read_structs(devices, n_devices, "devices")? };
    let tables = tables.iter().enumerate();
    tables
        // SAFETY: as the caller says.
        .map(|(index, table)| unsafe { table.read_points(&format!("devices[{index}]")) })
        .collect()
}

fn limit_units(times: &GivenTimes) -> Limits {
    Limits { cap: times.max_units, ..Limits::default() }
}

/// Divides the units of a loop as isochron_balancer does, for work whose time is not a smooth function of the units,
/// such as Fourier transforms. mine has the times of this rank. All ranks have times, and each rank gets one of its
/// measured sizes, or nothing. The times may come from other conditions: the first sweeps scale them.
///
/// Collective: all ranks of the session, with the same units, and the same settings except max_local and weight.
///
/// # Safety
/// `mine` is null or points to a struct whose arrays are null or have `n_points` numbers; `config` is null or a string, and
/// `balancer` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_balancer_by_times(
    session: *mut SessionHandle,
    units: i64,
    config: *const c_char,
    mine: *const TimesTable,
    balancer: *mut *mut BalancerHandle,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { open_balancer(session, units, config, Some(mine), balancer) }
}

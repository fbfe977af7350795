//! A loop of the program, balanced over the ranks.

use std::ffi::{c_char, c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use isochron::prelude::{LoopPart, RebalanceConfig, Rebalancer, UnitMemory};
use isochron::rebalance::{MovedBlocks, measure_move_unit_s};

use crate::handles::{self, HandleKind, SessionHandle};
use crate::memory::hand_over;
use crate::pointers::{self, read_sizes, to_size};
use crate::product::to_json;
use crate::settings::read_balancer;
use crate::status::{CallFailure, agree_on, call};
use crate::times::{GivenTimes, TimesTable};

/// A loop of the program, balanced over the ranks.
#[derive(Debug)]
pub struct BalancerHandle(());

impl HandleKind for BalancerHandle {
    type Object = Rebalancer;
    const KIND: &'static str = "balancer";
}

/// Flag of isochron_record: no rank learns from this sweep.
pub const ISOCHRON_IGNORE: c_int = 1;
/// Flag of isochron_record: the seconds were spent moving the program's data by other means than isochron_move.
pub const ISOCHRON_MOVED: c_int = 2;

/// Divides the units of a loop over the ranks of a session. A unit is the smallest piece that can move, such as a row. config
/// is null or settings, written as for isochron_open. Close the balancer by isochron_close_balancer.
///
/// | setting | ranks | meaning |
/// |---|---|---|
/// | granule | same | units are divided in multiples of this (default 1) |
/// | sweeps | same | number of sweeps of the whole loop, if known |
/// | trigger | same | units move when the sweep time exceeds the predicted one by this factor (default 1.05) |
/// | window, cooldown | same | sweeps before a division is judged (default 3); least sweeps between two changes (default 8) |
/// | warm_up, check_every | same | sweeps ignored at the beginning and after a change (default 1); most sweeps between two checks (default 8) |
/// | max_move | same | largest share of all units that may move at once (default 1) |
/// | growth | same | largest growth of a part in one change, as a factor (default 2) |
/// | retry_after | same | sweeps after which a rank without units is tried again (default 100) |
/// | move_unit_s | same | seconds to move a unit, before any move (default: ten times those to compute one); 0 if none has to move |
/// | max_local, weight | may differ | of this rank: its most units; its expected speed beside that of others (default 1) |
///
/// Collective: all ranks of the session, with the same units. The column "ranks" says which settings all of them give alike. A
/// setting that differs and must not is an error on every rank, which names it and its values.
///
/// # Safety
/// `config` is null or a string, and `balancer` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_balancer(
    session: *mut SessionHandle,
    units: i64,
    config: *const c_char,
    balancer: *mut *mut BalancerHandle,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { open_balancer(session, units, config, None, balancer) }
}

/// Opens a balancer, with the times of this rank's work if all ranks have such.
///
/// # Safety
/// The conditions of [`isochron_balancer`]; `mine` is none, null, or points to a struct as [`TimesTable::read`] takes it.
pub(crate) unsafe fn open_balancer(
    session: *mut SessionHandle,
    units: i64,
    config: *const c_char,
    mine: Option<*const TimesTable>,
    balancer: *mut *mut BalancerHandle,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe { pointers::clear(balancer, ptr::null_mut()) };
        let session = handles::find(session)?;
        let comm = session.comm();
        let made = session.use_object(|_| {
            let asked = pointers::check(balancer, "balancer");
            let asked = asked.and_then(|()| {
                // SAFETY: as the caller says.
                let (units, config, mut part) = unsafe { read_loop(units, config)? };
                if let Some(mine) = mine {
                    // SAFETY: as the caller says.
                    add_times(&mut part, unsafe { TimesTable::read(mine, "mine")? });
                }
                Ok((units, config, part))
            });
            let (units, config, part) = agree_on(&**comm, asked)?;
            Ok(Rebalancer::new(Arc::clone(comm), units, &config, part)?)
        })?;
        let handle = handles::keep(Arc::clone(comm), made);
        // SAFETY: as the caller says.
        unsafe { pointers::write(balancer, "balancer", handle) }
    })
}

/// Reads what a balancer divides and its settings.
///
/// # Safety
/// `config` is null or a string.
pub(crate) unsafe fn read_loop(
    units: i64,
    config: *const c_char,
) -> Result<(u64, RebalanceConfig, LoopPart), CallFailure> {
    // SAFETY: as the caller says.
    let config = unsafe { pointers::read_config(config, "config")? };
    let (config, part) = read_balancer(config)?;
    Ok((to_size(units, "units")? as u64, config, part))
}

/// Gives a rank's part its times, and the smaller one of two limits.
fn add_times(part: &mut LoopPart, times: GivenTimes) {
    let limits = part.max_local.into_iter().chain(times.max_units);
    part.max_local = limits.min();
    part.function = Some(times.points);
}

/// Measures the seconds to move a unit of bytes_per_unit bytes between neighbouring ranks, for the setting move_unit_s of
/// isochron_balancer. Without this setting a balancer expects the first move to take ten times the computation of its units, so
/// a loop of a few sweeps moves nothing. Measuring takes some milliseconds. It writes 0 on a single rank.
///
/// Collective: all ranks of the session, with the same bytes_per_unit.
///
/// # Safety
/// `seconds` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_measure_move_unit_s(
    session: *mut SessionHandle,
    bytes_per_unit: i64,
    seconds: *mut f64,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe { pointers::clear(seconds, 0.0) };
        let session = handles::find(session)?;
        let comm = session.comm();
        let measured = session.use_object(|_| {
            let asked = pointers::check(seconds, "seconds");
            let asked = asked.and_then(|()| to_size(bytes_per_unit, "bytes_per_unit"));
            Ok(measure_move_unit_s(&**comm, agree_on(&**comm, asked)?)?)
        })?;
        // SAFETY: as the caller says.
        unsafe { pointers::write(seconds, "seconds", measured) }
    })
}

/// Writes the first unit of this rank's part, counted from 0, and the number of its units. The parts follow each other in
/// the order of the ranks.
///
/// # Safety
/// `first` and `count` are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_part(
    balancer: *const BalancerHandle,
    first: *mut i64,
    count: *mut i64,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe {
            pointers::clear(first, 0);
            pointers::clear(count, 0);
        }
        let part = handles::find(balancer)?.use_object(|balancer| Ok(balancer.part()))?;
        // SAFETY: as the caller says.
        unsafe {
            pointers::write(first, "first", part.start as i64)?;
            pointers::write(count, "count", (part.end - part.start) as i64)
        }
    })
}

/// Writes the ranks that have the units just before and just after this rank's. Ranks without units are skipped. If there is
/// no such rank, or this rank has no units, it writes the value of none, such as MPI_PROC_NULL.
///
/// # Safety
/// `before` and `after` are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_neighbours(
    balancer: *const BalancerHandle,
    none: c_int,
    before: *mut c_int,
    after: *mut c_int,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe {
            pointers::clear(before, none);
            pointers::clear(after, none);
        }
        let found = handles::find(balancer)?.use_object(|balancer| Ok(balancer.neighbours()))?;
        let [above, below] = found.map(|rank| rank.map_or(none, |rank| rank as c_int));
        // SAFETY: as the caller says.
        unsafe {
            pointers::write(before, "before", above)?;
            pointers::write(after, "after", below)
        }
    })
}

/// Starts to time this rank's work in a sweep.
///
/// # Safety
/// No call of the balancer is under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_begin(balancer: *mut BalancerHandle) -> c_int {
    change(balancer, Rebalancer::begin)
}

/// Ends the timing that isochron_begin started. Several pairs in a sweep add up.
///
/// # Safety
/// As isochron_begin.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_end(balancer: *mut BalancerHandle) -> c_int {
    change(balancer, Rebalancer::end)
}

/// Adds the seconds that this rank needed for some of its units, such as the time between two GPU events. The times and
/// the units of a sweep add up. flags is 0, ISOCHRON_IGNORE or ISOCHRON_MOVED.
///
/// A negative or non-finite time makes a later isochron_balance fail on all ranks.
///
/// # Safety
/// As isochron_begin.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_record(
    balancer: *mut BalancerHandle,
    units: i64,
    seconds: f64,
    flags: c_int,
) -> c_int {
    call(|| {
        let balancer = handles::find(balancer)?;
        let units = to_size(units, "units")? as u64;
        balancer.use_object(|balancer| {
            match flags {
                0 => balancer.record(units, seconds),
                ISOCHRON_IGNORE => balancer.ignore_sweep(),
                ISOCHRON_MOVED => balancer.note_move(seconds),
                other => {
                    let reason = format!("{other} is none of 0, ISOCHRON_IGNORE, ISOCHRON_MOVED");
                    return Err(CallFailure::argument("flags", reason));
                }
            }
            Ok(())
        })
    })
}

/// Ends a sweep. Writes 1 to changed if the parts have changed, otherwise 0. Most calls send no message. If a time is
/// invalid, or isochron_begin and isochron_end do not match, on any rank, this or a later call fails on all ranks.
///
/// Collective: all ranks, after every sweep.
///
/// # Safety
/// `changed` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_balance(
    balancer: *mut BalancerHandle,
    changed: *mut c_int,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe { pointers::clear(changed, 0) };
        let balancer = handles::find(balancer)?;
        // The other ranks balance too, even if the answer has no place here.
        let moved = balancer.use_object(|balancer| Ok(balancer.balance()?))?;
        // SAFETY: as the caller says.
        unsafe { pointers::write(changed, "changed", c_int::from(moved)) }
    })
}

/// Writes each rank's share of all units: the weights for ParMETIS, Scotch, Zoltan or p4est. They sum to 1.
///
/// # Safety
/// `shares` is null or has `n_shares` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_shares(
    balancer: *const BalancerHandle,
    shares: *mut f64,
    n_shares: i64,
) -> c_int {
    call(|| {
        let found = handles::find(balancer)?.use_object(|balancer| Ok(balancer.shares()))?;
        check_ranks("n_shares", n_shares, found.len())?;
        // SAFETY: as the caller says.
        let shares = unsafe { pointers::write_slice(shares, found.len(), "shares")? };
        shares.copy_from_slice(&found);
        Ok(())
    })
}

/// Writes the number of units of each rank. The parts follow each other in the order of the ranks, so the first unit of a
/// part is the sum of the numbers before its own.
///
/// # Safety
/// `units` is null or has `n_units` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_units(
    balancer: *const BalancerHandle,
    units: *mut i64,
    n_units: i64,
) -> c_int {
    call(|| {
        let found =
            handles::find(balancer)?.use_object(|balancer| Ok(balancer.units().to_vec()))?;
        check_ranks("n_units", n_units, found.len())?;
        // SAFETY: as the caller says.
        let units = unsafe { pointers::write_slice(units, found.len(), "units")? };
        for (place, found) in units.iter_mut().zip(found) {
            *place = found as i64;
        }
        Ok(())
    })
}

/// Checks that an array of the program has a number for each rank.
pub(crate) fn check_ranks(name: &str, given: i64, ranks: usize) -> Result<(), CallFailure> {
    if given == ranks as i64 {
        return Ok(());
    }
    let reason = format!("{given}, and there are {ranks} ranks");
    Err(CallFailure::argument(name, reason))
}

/// Moves an array after the parts have changed. from has the units of this rank's old part, and to receives those of
/// its new part, bytes_per_unit bytes each. Call it once for each array, before the next sweep.
///
/// from and to are apart, or lie in one array with a place for every unit: if to is from + (new first unit - old first unit) *
/// bytes_per_unit, units that stay are not touched, and the call takes as long as those that move. Otherwise all units of
/// the part are copied.
///
/// Collective: all ranks, with the same bytes_per_unit.
///
/// # Safety
/// `from` has the units of the old part, and `to` has room for those of the new one. In one array nothing else uses the
/// memory from the first of them to the last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_move(
    balancer: *mut BalancerHandle,
    from: *const c_void,
    to: *mut c_void,
    bytes_per_unit: i64,
) -> c_int {
    call(|| {
        let kept = handles::find(balancer)?;
        kept.use_object(|balancer| {
            let parts = [balancer.part_before(), balancer.part()];
            // SAFETY: as the caller says.
            let places = unsafe { read_places(parts, from.cast(), to.cast(), bytes_per_unit) };
            let (memory, bytes) = agree_on(&**kept.comm(), places)?;
            Ok(balancer.migrate_memory(bytes, memory)?)
        })
    })
}

/// Moves blocks of any length after the parts have changed, one for each unit. from has the blocks of this rank's old
/// part, one after the other, and to receives those of its new part. from_bytes and to_bytes have the bytes of each
/// block. Move the lengths first, by isochron_move with 8 bytes per unit.
///
/// Collective: all ranks.
///
/// # Safety
/// `from_bytes` has a number for each unit of the old part, and `to_bytes` for each unit of the new one. `from` and
/// `to` have the sum of these numbers in bytes. `to` overlaps nothing else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_move_blocks(
    balancer: *mut BalancerHandle,
    from: *const c_void,
    from_bytes: *const i64,
    to: *mut c_void,
    to_bytes: *const i64,
) -> c_int {
    call(|| {
        let kept = handles::find(balancer)?;
        kept.use_object(|balancer| {
            let units = [balancer.part_before(), balancer.part()].map(Iterator::count);
            // SAFETY: as the caller says.
            let places = unsafe { read_block_places(units, from, from_bytes, to, to_bytes) };
            let (blocks, to, lengths) = agree_on(&**kept.comm(), places)?;
            let moved = balancer.exchange_blocks(&blocks)?;
            let moved = list_blocks(&moved, &blocks);
            agree_on(&**kept.comm(), check_lengths(&moved, &lengths))?;
            let mut rest = to;
            for block in moved {
                let (place, others) = rest.split_at_mut(block.len());
                place.copy_from_slice(block);
                rest = others;
            }
            Ok(())
        })
    })
}

/// The blocks before a move, the bytes of all blocks after it, and the length of each of these.
type BlockPlaces<'a> = (Vec<&'a [u8]>, &'a mut [u8], Vec<usize>);

/// Returns the memory of blocks that move, with these units before and after.
///
/// # Safety
/// The conditions of [`isochron_move_blocks`].
unsafe fn read_block_places<'a>(
    [before, now]: [usize; 2],
    from: *const c_void,
    from_bytes: *const i64,
    to: *mut c_void,
    to_bytes: *const i64,
) -> Result<BlockPlaces<'a>, CallFailure> {
    // SAFETY: as the caller says.
    unsafe {
        let old = read_sizes(from_bytes, before, "from_bytes")?;
        let new = read_sizes(to_bytes, now, "to_bytes")?;
        let mut rest: &[u8] = pointers::read_slice(from.cast(), sum_sizes(&old), "from")?;
        let to = pointers::write_slice(to.cast(), sum_sizes(&new), "to")?;
        let mut blocks = pointers::reserve(old.len(), "blocks that move")?;
        for length in old {
            let (block, others) = rest.split_at(length);
            blocks.push(block);
            rest = others;
        }
        Ok((blocks, to, new))
    }
}

/// Adds sizes. A sum that is too large is more than any memory has, and is refused with its pointer.
fn sum_sizes(sizes: &[usize]) -> usize {
    sizes.iter().fold(0, |sum, &size| usize::saturating_add(sum, size))
}

/// Lists the blocks of a part after a move.
fn list_blocks<'b>(moved: &'b MovedBlocks<u8>, before: &[&'b [u8]]) -> Vec<&'b [u8]> {
    let [ahead, behind] =
        [&moved.before, &moved.after].map(|blocks| blocks.iter().map(Vec::as_slice));
    let kept = before[moved.kept.clone()].iter().copied();
    ahead.chain(kept).chain(behind).collect()
}

/// Checks the lengths of the blocks of a part.
fn check_lengths(moved: &[&[u8]], lengths: &[usize]) -> Result<(), CallFailure> {
    let mut pairs = moved.iter().map(|block| block.len()).zip(lengths).enumerate();
    match pairs.find(|(_, (found, given))| found != *given) {
        None => Ok(()),
        Some((unit, (found, given))) => {
            let reason = format!("{given} for unit {unit} of the part, whose block has {found}");
            Err(CallFailure::argument("to_bytes", reason))
        }
    }
}

/// Returns the memory of a move with these units before and after, and the bytes of a unit.
///
/// # Safety
/// The conditions of [`isochron_move`].
unsafe fn read_places<'a>(
    parts: [Range<u64>; 2],
    from: *const u8,
    to: *mut u8,
    bytes_per_unit: i64,
) -> Result<(UnitMemory<'a, u8>, usize), CallFailure> {
    let bytes = to_size(bytes_per_unit, "bytes_per_unit")?;
    let lengths = (parts.clone()).map(|part| (part.end - part.start).saturating_mul(bytes as u64));
    let [before, now] = lengths.map(|length| length as usize);
    pointers::check_slice(from, before, "from")?;
    pointers::check_slice(to.cast_const(), now, "to")?;
    let memory = match find_shared([(from.addr(), before), (to.addr(), now)], &parts, bytes)? {
        // SAFETY: as the caller says.
        None => unsafe {
            UnitMemory::Apart {
                from: pointers::read_slice(from, before, "from")?,
                to: pointers::write_slice(to, now, "to")?,
            }
        },
        Some((place, first)) => {
            let start = to.with_addr(place.start);
            UnitMemory::Within {
                // SAFETY: as the caller says.
                memory: unsafe { pointers::write_slice(start, place.len(), "to")? },
                first,
            }
        }
    };
    Ok((memory, bytes))
}

/// Returns the addresses of the array in which two parts overlap, and its first unit; `None` for parts that lie apart.
fn find_shared(
    places: [(usize, usize); 2],
    parts: &[Range<u64>; 2],
    bytes_per_unit: usize,
) -> Result<Option<(Range<usize>, u64)>, CallFailure> {
    let [from, to] = places.map(|(start, length)| start..start + length);
    if from.is_empty() || to.is_empty() || from.start >= to.end || to.start >= from.end {
        return Ok(None);
    }
    let moved = i128::from(parts[1].start) - i128::from(parts[0].start);
    if to.start as i128 - from.start as i128 != moved * bytes_per_unit as i128 {
        let reason = "it overlaps from, and a unit that stays would have another place: give apart arrays, or one \
                      array in which to is from + (new first unit - old first unit) * bytes_per_unit";
        return Err(CallFailure::argument("to", reason));
    }
    let place = from.start.min(to.start)..from.end.max(to.end);
    Ok(Some((place, parts[0].start.min(parts[1].start))))
}

/// Writes as JSON what the balancer has done, the same on every rank. Free it by isochron_free.
///
/// "sweeps" counts the sweeps so far. "unusable" counts those that taught nothing, since a rank with units had no time above
/// 0, and "last_unusable" is [rank, seconds] of the last one, or null. "changes" lists every change of the parts: the "sweep"
/// after which it came, "why" ("saving", "drift", "retry" or "return"), the "units" of each rank, the seconds that the other sweeps were
/// expected to save by it ("saving_s"), and those that moving was expected to take ("cost_s"). "drifts" lists every lasting
/// change of a rank's speed: the rank ("part"), the sweep ("step"), and the "factor" by which its time grew. "moved" is
/// [units, seconds]: the units that the busiest rank has sent and received, and the seconds of all moves.
///
/// Collective: all ranks, between two sweeps.
///
/// # Safety
/// `json` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_balancer_report(
    balancer: *mut BalancerHandle,
    json: *mut *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe { pointers::clear(json, ptr::null()) };
        let kept = handles::find(balancer)?;
        let report = kept.use_object(|balancer| {
            agree_on(&**kept.comm(), pointers::check(json, "json"))?;
            to_json(&balancer.report()?)
        })?;
        // SAFETY: as the caller says.
        unsafe { pointers::write(json, "json", hand_over(report)) }
    })
}

/// Writes what is known about the loop, for a checkpoint, and the number of its bytes to length. All ranks get the same.
/// Free the state by isochron_free.
///
/// Collective: all ranks, between two sweeps.
///
/// # Safety
/// `state` and `length` are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_state(
    balancer: *mut BalancerHandle,
    state: *mut *const c_void,
    length: *mut i64,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe {
            pointers::clear(state, ptr::null());
            pointers::clear(length, 0);
        }
        let kept = handles::find(balancer)?;
        let known = kept.use_object(|balancer| {
            let places = pointers::check(state, "state");
            let places = places.and_then(|()| pointers::check(length, "length"));
            agree_on(&**kept.comm(), places)?;
            Ok(balancer.state()?)
        })?;
        // SAFETY: as the caller says.
        unsafe {
            pointers::write(length, "length", known.len() as i64)?;
            pointers::write(state, "state", hand_over(known))
        }
    })
}

/// Continues from a state of isochron_state, with the same parts and the same knowledge.
///
/// Collective: all ranks of the session, with the same bytes.
///
/// # Safety
/// `state` is null or has `length` bytes, and `balancer` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_restore(
    session: *mut SessionHandle,
    state: *const c_void,
    length: i64,
    balancer: *mut *mut BalancerHandle,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe { pointers::clear(balancer, ptr::null_mut()) };
        let session = handles::find(session)?;
        let comm = session.comm();
        let restored = session.use_object(|_| {
            let bytes = pointers::check(balancer, "balancer").and_then(|()| {
                let length = to_size(length, "length")?;
                // SAFETY: as the caller says.
                unsafe { pointers::copy_bytes(state.cast(), length, "state") }
            });
            let bytes = agree_on(&**comm, bytes)?;
            Ok(Rebalancer::restore(Arc::clone(comm), &bytes)?)
        })?;
        let handle = handles::keep(Arc::clone(comm), restored);
        // SAFETY: as the caller says.
        unsafe { pointers::write(balancer, "balancer", handle) }
    })
}

/// Closes a balancer.
///
/// # Safety
/// No call of it is under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_close_balancer(balancer: *mut BalancerHandle) -> c_int {
    call(|| handles::close(balancer))
}

fn change(balancer: *mut BalancerHandle, by: fn(&mut Rebalancer)) -> c_int {
    call(|| {
        handles::find(balancer)?.use_object(|balancer| {
            by(balancer);
            Ok(())
        })
    })
}

//! Sequences of calls with any handles, numbers, texts and communicators: each returns a status, and a sentence if it fails.
//!
//! There is one rank, with MPI: arguments that are wrong on some ranks only are in `wrong_calls.c`.

#![allow(clippy::expect_used)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::AtomicI32;

use isochron::devices::kernel::KernelTable;
use isochron_c::*;
use proptest::prelude::*;

/// Numbers that are small or absurd.
const NUMBERS: [i64; 9] = [8, 5, 2, 1, 0, 3, -1, i64::MAX, i64::MIN];

/// A number of bytes that overflows nothing, and that no process can address.
const HUGE: i64 = 1 << 48;

const TEXTS: [&CStr; 13] = [
    c"",
    c"block=4",
    c"blas=embedded grouping=node strategy=homogeneous host_scope=comm",
    c"granule=2;window=1",
    c"max_local=1",
    c"block",
    c"5",
    c"rank",
    c"trigger=1e12 check_every=1",
    c"strategy=homogeneous",
    c"\xff\xfe",
    c"sweeps=-1;;x",
    c"max_reps=3 unbound=true",
];

/// Bytes of blocks of at most 8 units.
const BLOCK_LENGTHS: [i64; 10] = [8, 0, 5, 8, 1, 2, 3, 8, 8, 4];

/// Elements of one part of the memory that is given to calls: the largest matrix of small numbers, of complex elements.
const PART: usize = 2 * 64;

/// A descriptor of ScaLAPACK of 8×8 elements.
const DESCRIPTOR: [c_int; 9] = [1, 0, 8, 8, 2, 2, 0, 0, 8];

/// A function that takes an element.
type Visit = unsafe extern "C" fn(*mut c_void, i64, i64, *mut c_void);

unsafe extern "C" fn visit_element(_: *mut c_void, row: i64, col: i64, element: *mut c_void) {
    assert!(row >= 0 && col >= 0 && !element.is_null());
}

/// A kernel that does nothing, and fails if it has a context.
static KERNEL: KernelTable = KernelTable {
    abi: 1,
    name: ptr::null(),
    complexity: Some(count_work),
    initialize: Some(begin_work),
    execute: Some(do_work),
    finalize: Some(end_work),
};

unsafe extern "C" fn count_work(d: u64) -> f64 {
    d as f64
}

unsafe extern "C" fn begin_work(d: u64, context: *mut *mut c_void) -> i32 {
    assert!(d > 0 && !context.is_null());
    0
}

unsafe extern "C" fn do_work(context: *mut c_void, interrupted: *const AtomicI32) -> i32 {
    assert!(!interrupted.is_null());
    i32::from(!context.is_null())
}

unsafe extern "C" fn end_work(_: *mut c_void) -> i32 {
    0
}

/// Takes 1 s for a unit, or with a context no time that there is.
unsafe extern "C" fn tell_time(context: *mut c_void, units: f64) -> f64 {
    if context.is_null() { units } else { f64::NAN }
}

unsafe extern "C" fn take_point(_: *mut c_void, point: *const PointTable) -> c_int {
    c_int::from(point.is_null())
}

/// The bytes that decide on a call and its arguments.
type Draw = [u8; 12];

/// A program that makes calls.
struct Caller<'a> {
    /// Numbers of communicators.
    comms: &'a [c_int],
    /// Every handle that it got, open or not.
    handles: Vec<usize>,
    /// Memory that it got.
    memory: Vec<*const c_void>,
    arena: Vec<f64>,
    counts: Vec<i64>,
}

impl<'a> Caller<'a> {
    fn new(comms: &'a [c_int]) -> Self {
        Self {
            comms,
            handles: vec![0, 1],
            memory: vec![ptr::null()],
            arena: vec![1.0; 4 * PART],
            counts: vec![0, 2, 5, 8, 0, 0, 0, 0, 0, 0, 0, 0],
        }
    }

    fn pick_handle<T>(&self, byte: u8) -> *mut T {
        let handles = &self.handles;
        ptr::without_provenance_mut(handles[handles.len() - 1 - byte as usize % handles.len()])
    }

    /// Returns a part of the arena, or a pointer to no elements.
    fn pick_data(&mut self, part: usize, byte: u8) -> *mut c_void {
        let start = self.arena[part * PART..].as_mut_ptr();
        match byte % 8 {
            0 => ptr::null_mut(),
            1 => start.cast::<u8>().wrapping_add(1).cast(),
            _ => start.cast(),
        }
    }

    fn make_matrix(&mut self, side: usize, draw: &Draw) -> MatrixTable {
        let number = |at: usize| pick_number(draw[at]);
        let counts = self.counts.as_ptr();
        MatrixTable {
            struct_size: if draw[0] == 255 { number(1) } else { size_of::<MatrixTable>() as i64 },
            kind: i64::from(draw[0] % 5),
            row_major: i64::from(draw[1] % 2),
            rows: number(2),
            cols: number(3),
            rank: if draw[4].is_multiple_of(4) { number(5) } else { 0 },
            row_block: number(5),
            col_block: number(6),
            row_source: if draw[4] % 4 == 1 { number(7) } else { 0 },
            col_source: 0,
            grid_rows: if draw[4] % 4 == 2 { number(7) } else { 1 },
            grid_cols: 1,
            grid_by_columns: 0,
            rectangles: counts,
            block_rows: number(7),
            block_cols: number(8),
            row_cuts: counts,
            col_cuts: counts,
            owners: counts.wrapping_add(4),
            data: self.pick_data(side, draw[9]),
            ld: number(10),
            n_blocks: 0,
            blocks: ptr::null(),
            block_lds: ptr::null(),
            first_row_block: if draw[4] % 4 == 3 { number(6) } else { 0 },
            first_col_block: 0,
            is_sub: i64::from(draw[5].is_multiple_of(7)),
            sub_row: number(9),
            sub_col: 0,
            sub_rows: number(5),
            sub_cols: number(6),
        }
    }

    /// Makes one call.
    fn make_call(&mut self, draw: &Draw) {
        let status = match draw[0] % 4 {
            0 => self.call_session(draw),
            1 => self.call_product(draw),
            3 => self.call_partition(draw),
            _ => self.call_balancer(draw),
        };
        // SAFETY: a text that lives until the next call.
        let sentence = unsafe { CStr::from_ptr(isochron_last_error()) };
        let is_told = sentence.is_empty() == (status == ISOCHRON_OK);
        let is_known = (ISOCHRON_OK..ISOCHRON_INTERNAL).contains(&status);
        assert!(is_known && is_told, "{status}: {sentence:?}");
    }

    fn call_session(&mut self, draw: &Draw) -> c_int {
        let (mut handle, mut text) = (ptr::null_mut::<SessionHandle>(), ptr::null::<c_char>());
        let session = self.pick_handle::<SessionHandle>(draw[2]);
        let texts = (pick_text(draw[3]), pick_text(draw[4]));
        let mut last_run = LastRunTable {
            struct_size: if draw[9] == 255 {
                pick_number(draw[3])
            } else {
                size_of::<LastRunTable>() as i64
            },
            ..LastRunTable::default()
        };
        let place = match draw[6] {
            255 => ptr::null_mut(),
            _ => &raw mut last_run,
        };
        // SAFETY: the places are our own, and handles may be any numbers.
        let status = unsafe {
            match draw[1] % 9 {
                0 => isochron_open_local(texts.0, &mut handle),
                6 => isochron_open(
                    self.comms[draw[5] as usize % self.comms.len()],
                    texts.0,
                    &mut handle,
                ),
                1 => isochron_set(session, texts.0, texts.1),
                2 => isochron_get(session, texts.0, &mut text),
                3 => isochron_report(session, &mut text),
                4 => isochron_free(self.memory.swap_remove(0)),
                7 => isochron_last_run(session, place),
                8 => isochron_save_models(session),
                _ => isochron_close(session),
            }
        };
        self.handles.extend((!handle.is_null()).then_some(handle.addr()));
        self.memory.push(text.cast());
        status
    }

    fn call_product(&mut self, draw: &Draw) -> c_int {
        let mut handle = ptr::null_mut::<ProductHandle>();
        let mut text = ptr::null::<c_char>();
        let session = self.pick_handle::<SessionHandle>(draw[2]);
        let product = self.pick_handle::<ProductHandle>(draw[2]);
        let [mut a, mut b, mut c] = [0, 1, 2].map(|side| self.make_matrix(side, draw));
        // Square ones fit, and others are refused.
        (b.kind, c.kind) = (0, 0);
        a.cols = if draw[11].is_multiple_of(4) { a.cols } else { a.rows };
        (b.rows, b.cols, c.rows, c.cols) = (a.cols, a.cols, a.rows, a.cols);
        let scalars = self.pick_data(3, draw[10]).cast_const();
        let (kind, op) = (c_int::from(draw[8] % 5), b"NTCX"[draw[7] as usize % 4] as c_char);
        let place = if draw[6] == 255 { ptr::null_mut() } else { &raw mut handle };
        let mut described = MatrixTable { struct_size: a.struct_size, ..MatrixTable::default() };
        let visit = (draw[6] != 253).then_some(visit_element as Visit);
        // SAFETY: the arena has the elements of all small matrices, and others are refused before they are touched.
        let status = unsafe {
            match draw[1] % 7 {
                5 => isochron_elements(session, kind, &a, visit, ptr::null_mut()),
                6 => isochron_from_descriptor(
                    if draw[6] == 254 { ptr::null() } else { DESCRIPTOR.as_ptr() },
                    a.rows,
                    a.cols,
                    a.sub_rows,
                    a.sub_cols,
                    1,
                    a.grid_rows,
                    0,
                    a.data,
                    &mut described,
                ),
                0 => isochron_prepare(session, kind, op, op, &a, &b, &c, place),
                1 => isochron_gemm(session, kind, op, op, scalars, &a, &b, scalars, &c),
                2 => isochron_run(product, scalars, &a, &b, scalars, &c),
                3 => isochron_plan(product, &mut text),
                _ => isochron_close_product(product),
            }
        };
        self.handles.extend((!handle.is_null()).then_some(handle.addr()));
        self.memory.push(text.cast());
        status
    }

    fn call_partition(&mut self, draw: &Draw) -> c_int {
        let mut handle = ptr::null_mut::<PartitionHandle>();
        let session = self.pick_handle::<SessionHandle>(draw[2]);
        let partition = self.pick_handle::<PartitionHandle>(draw[2]);
        let (number, text) = (pick_number(draw[3]), pick_text(draw[4]));
        let kernel = if draw[5] == 255 { ptr::null() } else { &raw const KERNEL };
        let pick_context =
            |byte: u8| if byte.is_multiple_of(5) { ptr::dangling_mut() } else { ptr::null_mut() };
        let mut point = PointTable {
            struct_size: if draw[9] == 255 { number } else { size_of::<PointTable>() as i64 },
            ..PointTable::default()
        };
        let model = ModelTable {
            struct_size: if draw[9] == 254 { number } else { size_of::<ModelTable>() as i64 },
            time: (draw[9] != 253).then_some(tell_time as _),
            update: Some(take_point),
            context: pick_context(draw[8]),
        };
        let mut ended = 0;
        let (units, seconds) = (self.pick_data(0, draw[6]), self.pick_data(1, draw[7]));
        // SAFETY: the places are our own, handles may be any numbers, and there is one model and one rank.
        let status = unsafe {
            match draw[1] % 8 {
                0 => isochron_benchmark(
                    session,
                    kernel,
                    pick_context(draw[10]),
                    number,
                    text,
                    &mut point,
                ),
                1 | 2 => {
                    let n_models = i64::from(draw[11] % 2);
                    isochron_partition(session, number, text, &model, n_models, &mut handle)
                }
                3 | 4 => isochron_partition_iterate(
                    partition,
                    kernel,
                    pick_context(draw[10]),
                    &mut ended,
                ),
                5 | 6 => isochron_partition_units(partition, units.cast(), seconds.cast(), 1),
                _ => isochron_close_partition(partition),
            }
        };
        self.handles.extend((!handle.is_null()).then_some(handle.addr()));
        status
    }

    fn call_balancer(&mut self, draw: &Draw) -> c_int {
        let mut handle = ptr::null_mut::<BalancerHandle>();
        let (mut first, mut count, mut changed, mut after) = (0, 0, 0, 0);
        let (mut state, mut text_place) = (ptr::null::<c_void>(), ptr::null::<c_char>());
        let mut seconds_place = 0.0;
        let session = self.pick_handle::<SessionHandle>(draw[2]);
        let balancer = self.pick_handle::<BalancerHandle>(draw[2]);
        let number = match draw[3] {
            // Matrices of this size are as long as the program says.
            240.. => HUGE,
            byte => pick_number(byte),
        };
        let text = pick_text(draw[4]);
        let seconds = [0.0, 1.0, -1.0, f64::NAN, f64::INFINITY, 1e-300][draw[5] as usize % 6];
        let (from, to) = (self.pick_data(0, draw[6]), self.pick_data(1, draw[7]));
        let sizes = [8, i64::from(draw[10] % 9), number];
        let times_s = [1.0, f64::from(draw[11]), seconds];
        let times = TimesTable {
            struct_size: if draw[9] == 255 { number } else { size_of::<TimesTable>() as i64 },
            n_points: i64::from(draw[8] % 4),
            units: sizes.as_ptr(),
            seconds: times_s.as_ptr(),
            max_units: if draw[9].is_multiple_of(3) { number } else { 0 },
        };
        // Of blocks of at most 8 bytes.
        let lengths = [draw[8], draw[9]].map(|byte| match byte % 4 {
            0 => ptr::null(),
            _ => BLOCK_LENGTHS[usize::from(byte % 3)..].as_ptr(),
        });
        // SAFETY: units are at most 8 of 8 bytes, or so absurd that no memory is touched; there are three points.
        let status = unsafe {
            match draw[1] % 18 {
                17 => isochron_measure_move_unit_s(session, number, &mut seconds_place),
                0 => isochron_balancer(session, number, text, &mut handle),
                1 => isochron_part(balancer, &mut first, &mut count),
                2 => isochron_begin(balancer),
                3 => isochron_end(balancer),
                4 => isochron_record(balancer, number, seconds, c_int::from(draw[8] % 4)),
                5 => isochron_balance(balancer, &mut changed),
                6 => isochron_shares(balancer, from.cast(), number),
                7 => isochron_move(balancer, from, to, number),
                8 => isochron_state(balancer, &mut state, &mut count),
                9 => isochron_restore(session, from, number, &mut handle),
                11 => isochron_balancer_by_times(session, number, text, &times, &mut handle),
                12 => isochron_split(
                    number,
                    &times,
                    i64::from(draw[9] % 2),
                    text,
                    to.cast(),
                    to.cast(),
                ),
                10 => isochron_neighbours(balancer, -1, &mut changed, &mut after),
                13 => isochron_move_blocks(balancer, from, lengths[0], to, lengths[1]),
                14 => isochron_units(balancer, to.cast(), number),
                15 => isochron_balancer_report(balancer, &mut text_place),
                _ => isochron_close_balancer(balancer),
            }
        };
        self.handles.extend((!handle.is_null()).then_some(handle.addr()));
        self.memory.extend([state, text_place.cast()]);
        status
    }
}

impl Drop for Caller<'_> {
    /// Closes all, so that the next sequence finds nothing open.
    fn drop(&mut self) {
        for &handle in &self.handles {
            // SAFETY: handles may be any numbers.
            unsafe {
                isochron_close(ptr::without_provenance_mut(handle));
                isochron_close_product(ptr::without_provenance_mut(handle));
                isochron_close_balancer(ptr::without_provenance_mut(handle));
                isochron_close_partition(ptr::without_provenance_mut(handle));
            }
        }
        for &memory in &self.memory {
            // SAFETY: it is not used any more.
            unsafe { isochron_free(memory) };
        }
    }
}

fn pick_number(byte: u8) -> i64 {
    // Small ones more often.
    NUMBERS[(byte % 24 / 2).min(byte % 9) as usize % NUMBERS.len()]
}

fn pick_text(byte: u8) -> *const c_char {
    match byte {
        255 => ptr::null(),
        _ => TEXTS[byte as usize % TEXTS.len()].as_ptr(),
    }
}

/// Returns the number of sequences: a few, unless the fuzzer asks for more.
fn count_cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(24)
}

/// Returns the numbers of all ranks, of this one, of no communicator, and of one that was freed.
#[cfg(feature = "mpi")]
fn list_communicators() -> Vec<c_int> {
    use isochron::mpi::ffi;
    // SAFETY: MPI runs, and these are its constants and a duplicate of one.
    unsafe {
        let mut freed = ffi::RSMPI_COMM_NULL;
        ffi::MPI_Comm_dup(ffi::RSMPI_COMM_SELF, &mut freed);
        let numbers = [ffi::RSMPI_COMM_WORLD, ffi::RSMPI_COMM_SELF, ffi::RSMPI_COMM_NULL, freed]
            .map(|comm| ffi::RSMPI_Comm_c2f(comm));
        ffi::MPI_Comm_free(&mut freed);
        numbers.to_vec()
    }
}

#[test]
fn any_sequence_of_calls_returns_statuses() {
    #[cfg(feature = "mpi")]
    let (_universe, comms) = {
        use isochron::mpi::{Threading, initialize_with_threading};
        // Until the end of the test.
        let universe = initialize_with_threading(Threading::Funneled).expect("MPI");
        (universe, list_communicators())
    };
    #[cfg(not(feature = "mpi"))]
    let comms = [0];
    let config = ProptestConfig::with_cases(count_cases());
    proptest!(config, |(draws in prop::collection::vec(any::<Draw>(), 1..40))| {
        let mut caller = Caller::new(&comms);
        // A session, a partition and a balancer to begin with.
        caller.make_call(&[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
        caller.make_call(&[3, 1, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0]);
        caller.make_call(&[2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        for draw in &draws {
            caller.make_call(draw);
        }
    });
}

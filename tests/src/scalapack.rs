//! Comparison with the real ScaLAPACK, if it is installed.

use std::ffi::{CString, c_char, c_int};

use isochron::comm::Comm;
use isochron::matrix::redistribute::{RedistributeConfig, redistribute};
use isochron::matrix::{BlockCyclic, Order, ProcessGrid, Spread, Stored, StoredMut};
use libloading::Library;

use crate::moving::off_origin;

type Get = unsafe extern "C" fn(c_int, c_int, *mut c_int);
type GridInit = unsafe extern "C" fn(*mut c_int, *const c_char, c_int, c_int);
type Move = unsafe extern "C" fn(
    c_int,
    c_int,
    *const f64,
    c_int,
    c_int,
    *const c_int,
    *mut f64,
    c_int,
    c_int,
    *const c_int,
    c_int,
);

/// The functions of ScaLAPACK that are compared with ours.
struct Scalapack {
    get: Get,
    grid_init: GridInit,
    pdgemr2d: Move,
}

impl Scalapack {
    /// Opens the library for the communicator's MPI; `None` if it is not installed.
    fn find(comm: &dyn Comm) -> Option<Self> {
        let mpi = match comm.implementation() {
            name if name.starts_with("Open MPI") => "openmpi",
            name if name.starts_with("MPICH") => "mpich",
            _ => return None,
        };
        let library = ["so", "so.2.2", "so.2.1"]
            .map(|end| format!("libscalapack-{mpi}.{end}"))
            .iter()
            .find_map(|name| {
                // SAFETY: the library's initialisers are made to be run; it is linked with the MPI library of this program.
                unsafe { Library::new(name) }.ok()
            })?;
        // BLACS may keep communicators to the end of the process, so the library is never closed.
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: these are the types of the functions in ScaLAPACK with 32-bit integers, which such libraries have.
        unsafe {
            Some(Self {
                get: *library.get::<Get>("Cblacs_get").ok()?,
                grid_init: *library.get::<GridInit>("Cblacs_gridinit").ok()?,
                pdgemr2d: *library.get::<Move>("Cpdgemr2d").ok()?,
            })
        }
    }

    /// Makes a context of the first `rows·cols` ranks; -1 on the others.
    fn context(&self, grid: ProcessGrid) -> c_int {
        let order = CString::new(match grid.order {
            Order::Rows => "R",
            Order::Columns => "C",
        });
        let (mut context, order) = (0, order.expect("no zero"));
        // SAFETY: MPI is initialised, all ranks are here, and the pointers are valid during the calls.
        unsafe {
            (self.get)(0, 0, &mut context);
            (self.grid_init)(&mut context, order.as_ptr(), grid.rows as c_int, grid.cols as c_int);
        }
        context
    }
}

/// A block-cyclic matrix, as ScaLAPACK's descriptor and as our spread.
struct Side {
    spread: Spread,
    descriptor: [c_int; 9],
    ld: usize,
    len: usize,
}

impl Side {
    /// Describes a matrix of this size, in these blocks.
    fn new(
        comm: &dyn Comm,
        scalapack: &Scalapack,
        (size, block): ((usize, usize), (usize, usize)),
        grid: ProcessGrid,
    ) -> Self {
        let matrix = off_origin(size, block, grid);
        let spread = Spread::block_cyclic(&matrix, grid, comm.size()).unwrap();
        let (rows, cols) = spread.local_shape(comm.rank());
        let ld = rows.max(1) + 2;
        let descriptor = [
            1,
            scalapack.context(grid),
            matrix.rows as c_int,
            matrix.cols as c_int,
            matrix.row_block as c_int,
            matrix.col_block as c_int,
            matrix.row_source as c_int,
            matrix.col_source as c_int,
            ld as c_int,
        ];
        assert_eq!(BlockCyclic::from_descriptor(&descriptor), Ok(matrix));
        Self { spread, descriptor, ld, len: ld * cols.max(1) }
    }
}

/// Compares movements with those of `pdgemr2d` of ScaLAPACK; `None` without ScaLAPACK.
pub fn agrees(comm: &dyn Comm, (p, q): (usize, usize)) -> Option<usize> {
    let found = Scalapack::find(comm);
    let mut ranks = [u64::from(found.is_some())];
    comm.sum_u64(&mut ranks).unwrap();
    let scalapack = found.filter(|_| ranks[0] as usize == comm.size())?;
    let (by_rows, by_columns) = (ProcessGrid::by_rows(p, q), ProcessGrid::by_columns(q, p));
    let all = scalapack.context(ProcessGrid::by_rows(1, comm.size()));
    let cases = [
        ((20, 17), (3, 2), (5, 8), (by_rows, by_columns)),
        ((37, 29), (0, 0), (0, 1), (by_columns, by_rows)),
        ((1, 29), (36, 0), (40, 3), (by_rows, by_rows)),
    ];
    for (size, from_at, to_at, grids) in cases {
        let from = Side::new(comm, &scalapack, ((37, 29), (3, 5)), grids.0);
        let to = Side::new(comm, &scalapack, ((41, 32), (4, 2)), grids.1);
        let mut source = vec![-1.0; from.len];
        let local = StoredMut::by_columns(&mut source, from.ld);
        from.spread.fill(comm.rank(), local, |row, col| (row + 100 * col) as f64).unwrap();
        let mut theirs = vec![-2.0; to.len];
        // ScaLAPACK counts from 1.
        let [(ia, ja), (ib, jb)] =
            [from_at, to_at].map(|(row, col)| (row as c_int + 1, col as c_int + 1));
        // SAFETY: all ranks call with the same submatrices, which lie in the matrices; the descriptors are those of the
        // local memory, which is as long as they say.
        unsafe {
            (scalapack.pdgemr2d)(
                size.0 as c_int,
                size.1 as c_int,
                source.as_ptr(),
                ia,
                ja,
                from.descriptor.as_ptr(),
                theirs.as_mut_ptr(),
                ib,
                jb,
                to.descriptor.as_ptr(),
                all,
            );
        }
        let mut ours = vec![-2.0; to.len];
        let [from_part, to_part] = [(&from, from_at), (&to, to_at)].map(|(side, (row, col))| {
            side.spread.sub(row..row + size.0, col..col + size.1).unwrap()
        });
        let source = Stored::by_columns(&source, from.ld);
        let target = StoredMut::by_columns(&mut ours, to.ld);
        let config = RedistributeConfig::default();
        redistribute(comm, &from_part, source, &to_part, target, &config).unwrap();
        assert_eq!(ours, theirs, "{size:?} from {from_at:?} to {to_at:?}");
    }
    Some(cases.len())
}

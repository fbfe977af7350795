//! Two sessions of two communicators that multiply at the same time.

use std::collections::BTreeSet;
use std::ptr;
use std::sync::Arc;

use isochron::comm::Comm;
use isochron::comm::mpi::MpiComm;
use isochron::matrix::{Distribution, Region};
use isochron::mpi::ffi;
use isochron::product::Scalars;
use isochron::product::{Factors, Product, ProductConfig, RunConfig};
use isochron::session::Session;

use super::{OwnMpi, list_cores, open_session, unmeasured};

/// Rows of A and C, columns of B and C, and the inner dimension.
const SIZES: [usize; 3] = [61, 47, 53];

/// Products that each session multiplies.
const ROUNDS: usize = 3;

/// Ranks of even and of odd numbers have a session each, whose products differ in every element. Both multiply at the same
/// time, on cores of their own.
pub(super) fn multiply_beside_another_communicator(mpi: &OwnMpi, cores: usize) {
    let side = mpi.rank % 2;
    let half = split_world(mpi, side);
    let mut session = open_session(&half);
    let all = mpi.adopt().unwrap().gather(&list_cores(&session)).unwrap().concat();
    let different: BTreeSet<u32> = all.iter().copied().collect();
    assert!(mpi.size > cores || all.len() == different.len(), "a core is used twice: {all:?}");
    mpi.meet();
    for round in 0..ROUNDS {
        multiply_indexed(&mut session, 2 * round + side);
    }
    mpi.meet();
}

/// Makes the communicator of the ranks on this side.
fn split_world(mpi: &OwnMpi, side: usize) -> Arc<dyn Comm> {
    // SAFETY: MPI runs, and all ranks call this; the communicator is freed after it was duplicated.
    unsafe {
        let mut half = ffi::RSMPI_COMM_NULL;
        ffi::MPI_Comm_split(mpi.world, side as i32, 0, ptr::from_mut(&mut half));
        let adopted = MpiComm::adopt_raw(half).unwrap();
        ffi::MPI_Comm_free(&mut half);
        adopted.into()
    }
}

/// Returns an element of a factor: a whole number, so that sums are exact.
fn element(seed: usize, row: usize, col: usize) -> f64 {
    ((seed * 17 + row * 7 + col * 3 + row * col) % 23) as f64
}

/// Multiplies matrices of which each rank has some rows, and checks every element.
fn multiply_indexed(session: &mut Session, seed: usize) {
    let (rank, ranks) = (session.comm().rank(), session.comm().size());
    let [m, n, k] = SIZES;
    let on = [(m, k), (k, n), (m, n)].map(|(rows, cols)| divide_rows(rows, cols, ranks));
    let [a, b] = [0, 1].map(|side| {
        let first = cut(on[side].rows(), rank, ranks);
        let (rows, cols) = on[side].local_shapes(rank)[0];
        (0..rows)
            .flat_map(|row| (0..cols).map(move |col| (first + row, col)))
            .map(|(row, col)| element(seed + side, row, col))
            .collect::<Vec<f64>>()
    });
    let mut c = vec![f64::NAN; on[2].local_shapes(rank)[0].0 * n];
    let config =
        ProductConfig { block: Some(8), balance: unmeasured(), ..ProductConfig::default() };
    let (of, factors) = ((on.each_ref(), config), Factors::of((&a, k), (&b, n)));
    let mut product: Product<f64> = session.prepare(of, RunConfig::default()).unwrap();
    product.run(session, Scalars::PRODUCT, factors, (&mut c, n)).unwrap();
    let first = cut(m, rank, ranks);
    for (place, &found) in c.iter().enumerate() {
        let (row, col) = (first + place / n, place % n);
        let terms = (0..k).map(|l| element(seed, row, l) * element(seed + 1, l, col));
        assert_eq!(found, terms.sum::<f64>(), "{row}, {col} of product {seed}");
    }
}

/// Returns the first row of a rank.
fn cut(rows: usize, rank: usize, ranks: usize) -> usize {
    rows * rank / ranks
}

/// Divides the rows of a matrix, row after row in memory.
fn divide_rows(rows: usize, cols: usize, ranks: usize) -> Distribution {
    let parts = (0..ranks).map(|rank| {
        let own = cut(rows, rank, ranks)..cut(rows, rank + 1, ranks);
        Region::new(own, 0..cols)
    });
    let parts: Vec<Region> = parts.collect();
    Distribution::of_regions(rows, cols, &parts).unwrap().row_major()
}

//! ScaLAPACK-style matrices in a communicator of the program's own: `mpirun -n 3 block_cyclic`.
#![allow(clippy::expect_used, reason = "an example without MPI cannot go on")]
use isochron::mpi::{self, Threading, topology::Color, traits::Communicator as _};
use isochron::prelude::*;

const LLD: usize = 320; // leading dimension of all local matrices, larger than needed

/// Plans C += A·B once and runs it ten times. The first of the 32×24 blocks is with the last rank.
fn multiply<T: Element>(session: &mut Session) -> Result<(), Error> {
    let (rank, ranks) = (session.comm().rank(), session.comm().size());
    let on = [(200, 300), (300, 100), (200, 100)].map(|(rows, cols)| {
        let blocks = BlockCyclic::new(rows, cols, 32, 24).with_sources(0, ranks - 1);
        Distribution::block_cyclic(&blocks, ProcessGrid::by_rows(1, ranks), ranks).expect("a grid")
    });
    let mut product: Product<T> = session.prepare(on.each_ref(), RunConfig::default())?;
    let [a, b, mut c] = on.map(|on| vec![T::ONE; LLD * on.local_shapes(rank)[0].1]);
    for _ in 0..10 {
        let factors = Factors::of((&a, LLD), (&b, LLD));
        product.run(session, Scalars::UPDATE, factors, (&mut c, LLD))?;
    }
    let mut sums = c.chunks(LLD).flat_map(|column| &column[..200]);
    assert!(sums.all(|&sum| sum == T::of(3001.0.into())));
    Ok(())
}

fn main() -> Result<(), Error> {
    let (universe, _) = mpi::initialize_with_threading(Threading::Funneled).expect("MPI");
    let world = universe.world();
    let color = match world.rank() {
        1 => Color::undefined(), // this rank has other work
        _ => Color::with_value(0),
    };
    if let Some(ranks) = world.split_by_color(color) {
        let mut session = Session::builder().build(MpiComm::adopt(&ranks)?)?;
        multiply::<f32>(&mut session)?;
        multiply::<f64>(&mut session)?;
        multiply::<Complex64>(&mut session)?;
    }
    Ok(())
}

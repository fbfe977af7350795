//! A whole product with a C that does not fit on the GPU, from host memory to host memory.

use std::num::NonZeroUsize;
use std::time::Instant;

use isochron_devices::{Depth, JobShape, Updates as _, View, ViewMut, Worker as _};

use super::host::make_matrix;
use super::tiled::{PlannedJob, TiledSpeeds};
use crate::shape::ProductShape;

/// The product.
#[derive(clap::Args)]
pub struct ProductArguments {
    #[command(flatten)]
    shape: ProductShape,
    /// Columns of A in an update
    #[arg(long)]
    panel: NonZeroUsize,
    /// Bytes of the GPU's memory that the job may use: fewer than C takes
    #[arg(long)]
    memory: u64,
    /// Host cores that copy for the GPU
    #[arg(long, default_value_t = 1)]
    cores: usize,
}

/// Measures a product, after one that warms up.
pub fn measure(arguments: &ProductArguments) -> anyhow::Result<TiledSpeeds> {
    let &ProductArguments { shape, panel, memory, cores } = arguments;
    let ProductShape { m, n, k } = shape;
    let panel = panel.get();
    let depth = Depth::of(panel, k.div_ceil(panel));
    let mut job = PlannedJob::new(cores, memory, m, n, depth)?;
    let (a, b) = (make_matrix::<f64>(m, k)?, make_matrix::<f64>(k, n)?);
    let mut c = make_matrix::<f64>(m, n)?;
    let (a, b) = (View::new(&a, m, k, m), View::new(&b, k, n, k));
    let worker = &mut job.worker;
    let mut run = || -> anyhow::Result<f64> {
        worker.reserve(&JobShape::of::<f64>(m, n, depth))?;
        let mut c = ViewMut::new(&mut c, m, n, m);
        let begin = Instant::now();
        worker.begin(c.reborrow(), depth)?;
        for first in (0..k).step_by(panel) {
            let columns = first..(first + panel).min(k);
            let b = b.block(columns.clone(), 0..n);
            worker.update(1.0, a.columns(columns), b, c.reborrow())?;
        }
        worker.finish(c)?;
        Ok(begin.elapsed().as_secs_f64())
    };
    // The first run takes memory and raises the clocks.
    run()?;
    let time_s = run()?;
    job.compare(shape, vec![time_s])
}

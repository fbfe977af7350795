//! Updates of a C that does not fit on the GPU: every few of them all tiles of C visit it.

use isochron_devices::{Depth, Updates as _, View, ViewMut};

use super::host::make_matrix;
use super::tiled::{PlannedJob, TiledSpeeds};
use crate::shape::ProductShape;

/// Measured visits, after one that warms up.
const VISITS: usize = 2;

/// The updates, without an end.
#[derive(clap::Args)]
pub struct VisitsArguments {
    /// C, with the columns of A in an update
    #[command(flatten)]
    shape: ProductShape,
    /// Bytes of the GPU's memory that the job may use: fewer than C takes
    #[arg(long)]
    memory: u64,
    /// Host cores that copy for the GPU
    #[arg(long, default_value_t = 1)]
    cores: usize,
}

/// Measures visits, each with its updates.
pub fn measure(arguments: &VisitsArguments) -> anyhow::Result<TiledSpeeds> {
    let ProductShape { m, n, k } = arguments.shape;
    let depth = Depth::endless(k);
    let mut job = PlannedJob::new(arguments.cores, arguments.memory, m, n, depth)?;
    let (a, b) = (make_matrix::<f64>(m, k)?, make_matrix::<f64>(k, n)?);
    let mut c = make_matrix::<f64>(m, n)?;
    let (a, b) = (View::new(&a, m, k, m), View::new(&b, k, n, k));
    let mut c = ViewMut::new(&mut c, m, n, m);
    job.worker.begin(c.reborrow(), depth)?;
    let mut times_s = Vec::with_capacity(VISITS + 1);
    for _ in 0..=VISITS {
        let mut visit_s = 0.0;
        for _ in 0..job.updates_per_visit {
            visit_s += job.worker.update(1.0, a, b, c.reborrow())?.busy_s;
        }
        times_s.push(visit_s);
    }
    job.worker.finish(c)?;
    let k = job.updates_per_visit * k;
    job.compare(ProductShape { m, n, k }, times_s.split_off(1))
}

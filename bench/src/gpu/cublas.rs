//! Products of cuBLAS with everything in the GPU's memory, one queued behind the other.

use anyhow::Context as _;
use isochron_devices::{CudaWorker, ElementType, Scalar, Worker as _};
use num_complex::{Complex32, Complex64};
use serde::Serialize;

use super::card::GpuCard;
use crate::shape::ProductShape;

/// Products in a burst, and bursts after one that warms up.
const PRODUCTS: u32 = 16;
const BURSTS: usize = 2;

/// The products.
#[derive(clap::Args)]
pub struct CublasArguments {
    /// Type of the elements
    element: ElementType,
    #[command(flatten)]
    shape: ProductShape,
}

/// The printed document.
#[derive(Serialize)]
pub struct CublasTimes {
    gpu: String,
    library: String,
    /// Mean seconds of a product in each burst.
    times_s: Vec<f64>,
}

/// Measures bursts of products.
pub fn measure(arguments: &CublasArguments) -> anyhow::Result<CublasTimes> {
    let card = GpuCard::find()?;
    let mut worker = card.make_worker(1, None)?;
    let time = match arguments.element {
        ElementType::F32 => time_bursts::<f32>,
        ElementType::F64 => time_bursts::<f64>,
        ElementType::C32 => time_bursts::<Complex32>,
        ElementType::C64 => time_bursts::<Complex64>,
    };
    Ok(CublasTimes {
        times_s: time(&mut worker, arguments.shape)?,
        gpu: card.info.name,
        library: worker.info().blas.clone(),
    })
}

/// Returns the mean seconds of a product in each of several bursts.
///
/// # Errors
/// Fails if the shape does not fit the GPU's memory, or a call fails.
pub fn time_bursts<T: Scalar>(
    worker: &mut CudaWorker,
    shape: ProductShape,
) -> anyhow::Result<Vec<f64>> {
    let ProductShape { m, n, k } = shape;
    let mut times_s = Vec::with_capacity(BURSTS + 1);
    // The first burst finds slow clocks.
    for _ in 0..=BURSTS {
        let time_s = worker.time_products::<T>(m, n, k, PRODUCTS)?;
        times_s.push(time_s.with_context(|| format!("{shape} does not fit the memory"))?);
    }
    Ok(times_s.split_off(1))
}

//! Products of cuBLAS with everything in the GPU's memory, one queued behind the other.

use anyhow::Context as _;
use isochron_devices::{CudaWorker, ElementType, Scalar};
use num_complex::{Complex32, Complex64};
use serde::Serialize;

use super::card::GpuCard;
use crate::shape::ProductShape;

/// The products.
#[derive(clap::Args)]
pub struct CublasArguments {
    /// Type of the elements
    element: ElementType,
    #[command(flatten)]
    shape: ProductShape,
    /// Products in a burst
    #[arg(long, default_value_t = 32)]
    count: u32,
}

/// The printed document.
#[derive(Serialize)]
pub struct CublasTimes {
    gpu: String,
    library: String,
    /// Mean seconds of a product.
    time_s: f64,
}

/// Measures a burst, after one that warms up.
pub fn measure(arguments: &CublasArguments) -> anyhow::Result<CublasTimes> {
    let card = GpuCard::find()?;
    let mut worker = card.make_worker(1, None)?;
    let time = match arguments.element {
        ElementType::F32 => time_products::<f32>,
        ElementType::F64 => time_products::<f64>,
        ElementType::C32 => time_products::<Complex32>,
        ElementType::C64 => time_products::<Complex64>,
    };
    // The first burst finds slow clocks.
    time(&mut worker, arguments.shape, arguments.count)?;
    Ok(CublasTimes {
        time_s: time(&mut worker, arguments.shape, arguments.count)?,
        gpu: card.info.name,
        library: isochron_devices::Worker::info(&worker).blas.clone(),
    })
}

/// Returns the mean seconds of a product.
///
/// # Errors
/// If the shape does not fit the GPU's memory, or a call fails.
pub fn time_products<T: Scalar>(
    worker: &mut CudaWorker,
    shape: ProductShape,
    count: u32,
) -> anyhow::Result<f64> {
    let ProductShape { m, n, k } = shape;
    worker
        .time_products::<T>(m, n, k, count)?
        .with_context(|| format!("{shape} does not fit the memory"))
}

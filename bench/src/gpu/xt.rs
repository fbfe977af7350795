//! The product of cuBLASXt, on ordinary matrices or on pinned ones.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use isochron_bench::yardsticks::{BlasXt, BoundContext, PinnedVec};
use isochron_devices::{View, ViewMut, memory_available_bytes};
use serde::Serialize;

use super::card::GpuCard;
use super::host::make_matrix;
use crate::shape::ProductShape;

/// The product. cuBLASXt has no limit of memory.
#[derive(clap::Args)]
pub struct XtArguments {
    #[command(flatten)]
    shape: ProductShape,
    /// Side of the squares that it copies and multiplies
    #[arg(long)]
    block: usize,
    /// Multiply copies of the matrices in pinned memory
    #[arg(long)]
    pinned: bool,
}

/// The printed document.
#[derive(Serialize)]
pub struct XtTime {
    gpu: String,
    /// Seconds of the whole product.
    time_s: f64,
    gflops: f64,
}

/// Measures a product, after one that warms up.
pub fn measure(arguments: &XtArguments) -> anyhow::Result<XtTime> {
    let ProductShape { m, n, k } = arguments.shape;
    let card = GpuCard::find()?;
    let mut xt = BlasXt::open(&card.info)?.context("this cuBLAS has no cuBLASXt")?;
    xt.set_block(arguments.block)?;
    let (a, b) = (make_matrix::<f64>(m, k)?, make_matrix::<f64>(k, n)?);
    let mut c = make_matrix::<f64>(m, n)?;
    let mut run = |a: &[f64], b: &[f64], c: &mut [f64]| -> anyhow::Result<f64> {
        let begin = Instant::now();
        let (a, b) = (View::new(a, m, k, m), View::new(b, k, n, k));
        xt.multiply(a, b, ViewMut::new(c, m, n, m))?;
        Ok(begin.elapsed().as_secs_f64())
    };
    // The first run of each takes memory and raises the clocks.
    let time_s = if arguments.pinned {
        let bytes = 8 * (a.len() + b.len() + c.len()) as u64;
        let available = memory_available_bytes().unwrap_or(0);
        ensure!(
            bytes < available / 4 * 3,
            "{bytes} more bytes would be pinned, and {available} are available"
        );
        let context = BoundContext::new(&card.info)?;
        let [a, b] = [PinnedVec::copy_of(&context, &a)?, PinnedVec::copy_of(&context, &b)?];
        let mut c = PinnedVec::copy_of(&context, &c)?;
        run(a.as_slice(), b.as_slice(), c.as_mut_slice())?;
        run(a.as_slice(), b.as_slice(), c.as_mut_slice())?
    } else {
        run(&a, &b, &mut c)?;
        run(&a, &b, &mut c)?
    };
    Ok(XtTime { gpu: card.info.name, time_s, gflops: arguments.shape.flop() / time_s / 1e9 })
}

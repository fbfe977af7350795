//! Contenders of the campaigns of a GPU. Each process measures one thing on the first GPU that the driver lists, and prints it as
//! JSON.

mod card;
mod copies;
mod course;
mod cublas;
mod host;
mod product;
mod tiled;
mod update;
mod visits;
mod xt;

use clap::Subcommand;
use serde::Serialize;

pub use course::UpdateCourse;

/// The measured thing.
#[derive(clap::Args)]
pub struct GpuArguments {
    #[command(subcommand)]
    contender: GpuContender,
}

#[derive(Subcommand)]
enum GpuContender {
    /// Copies between host and GPU, of pinned memory and of ordinary matrices
    Copies(copies::CopiesArguments),
    /// Products of cuBLAS with everything in the GPU's memory
    Cublas(cublas::CublasArguments),
    /// Our updates of a C that stays on the GPU, with panels sent ahead
    Update(update::GpuUpdateArguments),
    /// Our updates of a C that does not fit on the GPU
    Visits(visits::VisitsArguments),
    /// Our product whose C does not fit on the GPU, from host memory to host memory
    Product(product::ProductArguments),
    /// The product of cuBLASXt, from host memory to host memory
    Xt(xt::XtArguments),
}

/// Measures a contender and prints its document.
///
/// # Errors
/// Fails if there is no GPU, or memory is short.
pub fn run(arguments: &GpuArguments) -> anyhow::Result<()> {
    match &arguments.contender {
        GpuContender::Copies(arguments) => print(&copies::measure(arguments)?),
        GpuContender::Cublas(arguments) => print(&cublas::measure(arguments)?),
        GpuContender::Update(arguments) => print(&update::measure(arguments)?),
        GpuContender::Visits(arguments) => print(&visits::measure(arguments)?),
        GpuContender::Product(arguments) => print(&product::measure(arguments)?),
        GpuContender::Xt(arguments) => print(&xt::measure(arguments)?),
    }
}

fn print(document: &impl Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(document)?);
    Ok(())
}

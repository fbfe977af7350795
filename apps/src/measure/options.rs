//! The options of a kernel, and this rank's place to run it.

use std::path::Path;

use clap::Args;
use isochron::Error;
use isochron::comm::{Comm, agree};
use isochron::session::bind_rank;
use isochron_devices::blas::BlasChoice;
use isochron_devices::kernel::KernelRun;
use isochron_devices::measure::limit_run_s;
use isochron_devices::{MeasureConfig, memory_available_bytes};
use isochron_kernels::KernelParameters;

use super::files::Headers;
use super::kernel::KernelChoice;
use crate::numbers::parse_whole;

/// The kernel, and the way to run it.
#[derive(Args)]
pub struct KernelArguments {
    /// Kernel: gemm, jacobi, dgemv, fft, naive-gemm, or the path of a shared library with a kernel
    pub kernel: String,
    /// Block size of gemm and naive-gemm: a unit is the update of a block of C
    #[arg(long, value_name = "B", default_value_t = 32, value_parser = parse_whole::<usize, 1>, help_heading = "Kernel")]
    block: usize,
    /// Length of a row of jacobi, dgemv and fft: a unit is a row
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = parse_whole::<usize, 1>, help_heading = "Kernel")]
    width: usize,
    /// BLAS of gemm: auto, embedded, openblas, mkl, blis or a library's path
    #[arg(long, default_value_t = BlasChoice::default(), help_heading = "Kernel")]
    blas: BlasChoice,
    /// Run the kernel in a process of its own: a crash is an error message, and a run that ignores its
    /// interruption is killed
    #[arg(long, help_heading = "Kernel")]
    isolate: bool,
    /// Let the kernel use all cores of its rank, and do not bind it to the first one
    #[arg(long, help_heading = "Kernel")]
    unbound: bool,
}

/// The host of a rank, and the core that it is bound to.
pub type RankPlace = (String, Option<u32>);

/// A kernel that is ready to be measured on every rank.
pub struct OpenKernel {
    /// This rank's kernel.
    pub run: Box<dyn KernelRun>,
    /// The places of all ranks.
    pub places: Vec<RankPlace>,
    /// The options that decide on times and on their precision.
    pub measured_with: String,
    /// Block size of a kernel whose unit is the update of a block.
    block: Option<usize>,
}

impl KernelArguments {
    /// Binds this rank to its core, unless it is to be unbound, and opens the kernel there.
    ///
    /// # Errors
    /// On every rank, when any rank fails: those of [`bind_rank`] and [`KernelChoice::open`].
    ///
    /// # Collective
    /// All ranks.
    pub fn open(&self, comm: &dyn Comm, config: &MeasureConfig) -> Result<OpenKernel, Error> {
        let core = match self.unbound {
            true => None,
            false => bind_rank(comm)?.map(|core| core.core),
        };
        let places = comm.gather(&(comm.host().to_owned(), core))?;
        let here = places
            .iter()
            .filter(|(host, _)| host == comm.host())
            .count();
        let free_bytes = memory_available_bytes().unwrap_or(u64::MAX);
        let choice = KernelChoice {
            name: self.kernel.clone(),
            parameters: KernelParameters {
                block: self.block,
                width: self.width,
                memory_bytes: free_bytes / here as u64,
            },
            blas: self.blas.clone(),
            limit_s: limit_run_s(config),
        };
        Ok(OpenKernel {
            run: agree(comm, choice.open(self.isolate))?,
            places,
            measured_with: self.describe(config, choice.is_built_in()),
            block: ["gemm", "naive-gemm"]
                .contains(&self.kernel.as_str())
                .then_some(self.block),
        })
    }

    fn describe(&self, config: &MeasureConfig, is_built_in: bool) -> String {
        let sizes = match self.kernel.as_str() {
            "gemm" => format!("block {}, BLAS {}, ", self.block, self.blas),
            "naive-gemm" => format!("block {}, ", self.block),
            _ if is_built_in => format!("width {}, ", self.width),
            _ => String::new(),
        };
        let unbound = ["", ", unbound"][usize::from(self.unbound)];
        let isolated = ["", ", in a process of its own"][usize::from(self.isolate)];
        format!(
            "{sizes}{} to {} repetitions, precision {} at {}, at most {} s{unbound}{isolated}",
            config.min_reps,
            config.max_reps,
            config.precision,
            config.confidence,
            config.max_seconds
        )
    }

    /// Returns the kernel's name, or that of its library without folder and ending.
    pub fn name_files(&self) -> String {
        let stem = Path::new(&self.kernel).file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    }
}

impl OpenKernel {
    /// Lists the headers of each rank's points file.
    pub fn list_headers(&self, kernel: &str) -> Vec<Headers> {
        let ranks = self.places.iter().enumerate();
        let headers = ranks.map(|(rank, (host, core))| {
            let core = core.map_or("not bound".to_owned(), |core| core.to_string());
            let pairs = [
                ("kernel", kernel.to_owned()),
                ("host", host.clone()),
                ("core", core),
                ("rank", format!("{rank} of {}", self.places.len())),
                ("measured-with", self.measured_with.clone()),
                ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ];
            let pairs =
                pairs.map(|(key, value)| (key.to_owned(), value.replace(['\n', '\r'], " ")));
            let block = self
                .block
                .map(|block| ("block".to_owned(), block.to_string()));
            pairs.into_iter().chain(block).collect::<Headers>()
        });
        headers.collect()
    }
}

//! The options of a kernel, and this rank's place to run it.

use clap::{Args, ValueHint};
use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_core::internal::bind_rank;
use isochron_core::internal::input::agree_on_content;
use isochron_core::store::{
    JobStore, KernelWork, StoreMode, StorePlaces, hash_library, list_thread_settings,
};
use isochron_devices::MeasureConfig;
use isochron_devices::blas::BlasChoice;
use isochron_devices::internal::cpu_quota_cores;
use isochron_devices::kernel::{KernelPlace, RunQuota};
use isochron_devices::measure::limit_run_s;
use isochron_kernels::{KernelParameters, NAMES};

use super::kernel::KernelChoice;
use super::part::{MeasuredPart, StoredKernel, describe_repetitions};
use crate::failure::Failure;
use crate::host_share::MemoryShare;
use crate::named_values::{NamedValues, name_all, name_blas};
use crate::numbers::parse_whole;

/// The kernel, and the way to run it.
#[derive(Args)]
pub struct KernelArguments {
    /// Kernel: gemm, jacobi, dgemv, fft, naive-gemm, or the path of a shared library with a kernel; of several
    /// kernels in a library, FILE:NAME
    #[arg(value_parser = name_kernels(&[]), hide_possible_values = true, value_hint = ValueHint::AnyPath)]
    pub kernel: String,
    /// Block size of gemm and naive-gemm: a unit is the update of a block of C [default: 32]
    #[arg(long, value_name = "B", value_parser = parse_whole::<usize, 1>, help_heading = "Kernel")]
    pub block: Option<usize>,
    /// Length of a row of jacobi, dgemv and fft: a unit is a row [default: 1024]
    #[arg(long, value_name = "N", value_parser = parse_whole::<usize, 1>, help_heading = "Kernel")]
    width: Option<usize>,
    /// BLAS of gemm: auto, embedded, openblas, mkl, blis or a library's path [default: auto]
    #[arg(long, help_heading = "Kernel")]
    #[arg(value_parser = name_blas(), hide_possible_values = true, value_hint = ValueHint::AnyPath)]
    blas: Option<BlasChoice>,
    /// Run the kernel in a process of its own: a crash is an error message, and a run that ignores its
    /// interruption is killed
    #[arg(long, help_heading = "Kernel")]
    pub isolate: bool,
    /// Let the kernel use all cores of its rank, and do not bind it to the first one
    #[arg(long, help_heading = "Kernel")]
    pub unbound: bool,
    /// Use of the model store: none, read (balancing begins with the times of earlier runs), or read-write (this run's
    /// times are added too)
    #[arg(long, value_name = "USE", default_value_t = StoreMode::ReadWrite, help_heading = "Kernel")]
    #[arg(value_parser = name_all::<StoreMode>(), hide_possible_values = true)]
    pub store: StoreMode,
}

/// Takes the names of the built-in kernels and of `others`, and the paths of libraries.
pub fn name_kernels(others: &[&'static str]) -> NamedValues<String> {
    NamedValues::new(&NAMES).with(others)
}

/// Block size of `gemm` and `naive-gemm`, if none is asked for.
const DEFAULT_BLOCK: usize = 32;

/// Length of a row of `jacobi`, `dgemv` and `fft`, if none is asked for.
const DEFAULT_WIDTH: usize = 1024;

/// The kernels with blocks, with rows and with a BLAS.
const OF_BLOCKS: &[&str] = &["mxm", "gemm", "naive-gemm"];
const OF_ROWS: &[&str] = &["jacobi", "dgemv", "fft"];
const OF_BLAS: &[&str] = &["mxm", "gemm"];

/// A kernel that is ready to be measured on every rank.
pub struct OpenKernel {
    /// This rank's kernel, with the job's model store.
    pub work: StoredKernel,
    /// The kernels of all ranks.
    pub parts: Vec<MeasuredPart>,
    /// The options that decide on times and on their precision.
    pub measured_with: String,
}

impl KernelArguments {
    /// Refuses options of other kernels.
    ///
    /// # Errors
    /// Returns the option, and the kernels that it goes with.
    pub fn check_options(&self) -> Result<(), Failure> {
        let options = [
            ("--block", self.block.is_some(), OF_BLOCKS),
            ("--width", self.width.is_some(), OF_ROWS),
            ("--blas", self.blas.is_some(), OF_BLAS),
        ];
        let kernel = self.kernel.as_str();
        let mut wrong = options
            .into_iter()
            .filter(|(_, is_given, kernels)| *is_given && !kernels.contains(&kernel));
        match wrong.next() {
            Some((option, _, kernels)) => {
                let kernels = kernels.join(", ");
                let message = format!("{option}: goes with {kernels}, and the kernel is {kernel}");
                Err(Failure::input(message))
            }
            None => Ok(()),
        }
    }

    /// Binds this rank to its core, unless it is to be unbound, and opens the kernel there. A message about an unknown
    /// kernel names the `others` that the command has too.
    ///
    /// # Errors
    /// On every rank, returns the errors of [`bind_rank`], [`KernelChoice::open`], [`agree_on_content`] of
    /// its library and [`JobStore::open_kernels`].
    ///
    /// # Collective
    /// All ranks.
    pub fn open(
        &self,
        comm: &dyn Comm,
        config: &MeasureConfig,
        others: &[&str],
    ) -> Result<OpenKernel, Error> {
        let core = if self.unbound { None } else { bind_rank(comm)?.map(|core| core.core) };
        let share = MemoryShare::find(comm)?;
        let quota_cores = cpu_quota_cores();
        let choice = KernelChoice {
            name: self.kernel.clone(),
            parameters: KernelParameters {
                block: self.block(),
                width: self.width(),
                memory_bytes: share.free_bytes,
            },
            blas: self.blas(),
            limit_s: limit_run_s(config),
            quota: RunQuota {
                cores: quota_cores.map_or(f64::INFINITY, |cores| cores / share.ranks as f64),
                has_threads: self.unbound,
            },
        };
        let (run, blas) = agree(comm, choice.open(self.isolate, others))?;
        if !choice.is_built_in() {
            agree_on_content(comm, KernelPlace::parse(&self.kernel).file)?;
        }
        let work = agree(comm, self.describe_work(&choice, blas))?;
        // Nothing tells which BLAS a process of its own has chosen, so times of such a kernel belong to no key.
        let has_key = choice.name != "gemm" || work.blas.is_some();
        let mode = if has_key { self.store } else { StoreMode::None };
        let (store, mut notices) = JobStore::open_kernels(comm, mode, work, core)?;
        if !has_key && self.store != StoreMode::None && StorePlaces::find().is_ok() {
            notices.push("the model store is not used: nothing tells which BLAS the kernel's process has chosen".to_owned());
        }
        let measured_with = self.describe(config, choice.is_built_in());
        let part = self.describe_part(comm, core, &measured_with, choice.is_built_in());
        Ok(OpenKernel {
            work: StoredKernel { run, store, notices },
            parts: comm.gather(&part)?,
            measured_with,
        })
    }

    fn block(&self) -> usize {
        self.block.unwrap_or(DEFAULT_BLOCK)
    }

    fn width(&self) -> usize {
        self.width.unwrap_or(DEFAULT_WIDTH)
    }

    /// Returns the choice of the BLAS.
    pub fn blas(&self) -> BlasChoice {
        self.blas.clone().unwrap_or_default()
    }

    /// Describes the kernel for keys of the model store.
    fn describe_work(
        &self,
        choice: &KernelChoice,
        blas: Option<String>,
    ) -> Result<KernelWork, Error> {
        let kernel = self.kernel.as_str();
        let library = if choice.is_built_in() {
            None
        } else {
            Some(hash_library(KernelPlace::parse(kernel).file)?)
        };
        Ok(KernelWork {
            kernel: self.name_kernel(),
            kernel_version: library.as_ref().map_or(isochron_kernels::VERSION, |_| 0),
            block: OF_BLOCKS.contains(&kernel).then(|| self.block()),
            width: OF_ROWS.contains(&kernel).then(|| self.width()),
            blas,
            threads: if self.unbound || library.is_some() {
                list_thread_settings()
            } else {
                Vec::new()
            },
            library,
            isolated: self.isolate,
        })
    }

    /// Returns the kernel's name, or that of its library without folder and ending, and its own behind it if the library has
    /// several.
    fn name_kernel(&self) -> String {
        KernelPlace::parse(&self.kernel).stem()
    }

    fn describe(&self, config: &MeasureConfig, is_built_in: bool) -> String {
        let sizes = match self.kernel.as_str() {
            "gemm" => format!("block {}, BLAS {}, ", self.block(), self.blas()),
            "naive-gemm" => format!("block {}, ", self.block()),
            _ if is_built_in => format!("width {}, ", self.width()),
            _ => String::new(),
        };
        let unbound = if self.unbound { ", unbound" } else { "" };
        let isolated = if self.isolate { ", in a process of its own" } else { "" };
        format!("{sizes}{}{unbound}{isolated}", describe_repetitions(config))
    }

    /// Describes this rank's kernel.
    fn describe_part(
        &self,
        comm: &dyn Comm,
        core: Option<u32>,
        measured_with: &str,
        is_built_in: bool,
    ) -> MeasuredPart {
        let mut part = MeasuredPart {
            rank: comm.rank(),
            host: comm.host().to_owned(),
            core,
            quota_cores: cpu_quota_cores(),
            stem: self.name_stem(comm),
            ..MeasuredPart::default()
        };
        let place = core.map_or("not bound".to_owned(), |core| core.to_string());
        let headers = [
            ("kernel", self.kernel.clone()),
            ("host", part.host.clone()),
            ("core", place),
            ("rank", format!("{} of {}", comm.rank(), comm.size())),
            ("measured-with", measured_with.to_owned()),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ];
        part.add_headers(headers.into_iter());
        if ["gemm", "naive-gemm"].contains(&self.kernel.as_str()) {
            part.add_headers([("block", self.block().to_string())].into_iter());
        } else if is_built_in {
            part.add_headers([("width", self.width().to_string())].into_iter());
        }
        part
    }

    /// Returns the kernel's name, or that of its library without folder and ending; with the rank before it if there
    /// are several.
    fn name_stem(&self, comm: &dyn Comm) -> String {
        match comm.size() {
            1 => self.name_kernel(),
            _ => format!("rank{}-{}", comm.rank(), self.name_kernel()),
        }
    }
}

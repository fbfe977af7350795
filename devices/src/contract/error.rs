//! The one error type of this crate.

use crate::contract::ElementType;
use isochron_hierarchy::model::ModelError;

/// An error while devices are discovered, made, driven or measured.
///
/// Every message names the request, the finding and, if there is one, the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// A setting of a node or a device cannot be used.
    #[error("{name} = {value}: {reason}")]
    Parameter {
        /// Name of the setting, as the user knows it.
        name: &'static str,
        /// Its value.
        value: String,
        /// Reason why it cannot be used, and values that can.
        reason: String,
    },
    /// Saved points make no model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// hwloc could not read the machine, or the description of one.
    #[error("cannot read the topology of {origin}: {reason}")]
    Topology {
        /// Source of the description: `this machine`, `the synthetic description …` or `XML`.
        origin: String,
        /// hwloc's message.
        reason: String,
    },
    /// A thread could not be bound to a core, or its binding could not be read.
    #[error("cannot bind a thread to core {core}: {reason}")]
    Binding {
        /// Logical index of the core.
        core: u32,
        /// The reason.
        reason: String,
    },
    /// A thread could not be bound to several processing units together.
    #[error("cannot bind a thread to processing units {}: {reason}", list(units))]
    BindingTogether {
        /// The operating system's indices of the units.
        units: Vec<u32>,
        /// The reason.
        reason: String,
    },
    /// The binding of the calling thread could not be read.
    #[error("cannot read which processing units the calling thread may use: {0}")]
    BindingUnknown(String),
    /// Memory could not be moved to a NUMA node.
    #[error("cannot move memory to NUMA node {numa}: {reason}")]
    MemoryPlace {
        /// The operating system's index of the node.
        numa: u32,
        /// The reason.
        reason: String,
    },
    /// The text does not name a BLAS.
    #[error(
        "`{0}` is not a BLAS: use auto, embedded, openblas, mkl, blis or the path of a CBLAS library"
    )]
    UnknownBlas(String),
    /// The text does not name a grouping of cores.
    #[error("`{0}` is not a grouping of cores: use auto, package, numa, kind or node")]
    UnknownGrouping(String),
    /// The text is not the address of a device on a PCI bus.
    #[error("`{0}` is not a PCI bus id, such as 0000:3b:00.0")]
    BusId(String),
    /// A BLAS library could not be opened, or cannot be used.
    #[error("the BLAS library {library} cannot be used: {reason}")]
    Blas {
        /// The file names that were tried, or the one library that failed.
        library: String,
        /// The reason.
        reason: String,
    },
    /// The system refuses the memory that a BLAS library needs.
    #[error(
        "the BLAS library {library} cannot be used: it needs {} MiB of address space, and the system refuses them: raise the \
         limit (`ulimit -v`, or that of the batch system)", bytes.div_ceil(1 << 20)
    )]
    BlasMemory {
        /// The library.
        library: String,
        /// Bytes needed.
        bytes: u64,
    },
    /// A BLAS library was built for fewer products at once.
    #[error(
        "the BLAS library {library} cannot be used: it was built for {most} products at once, and {threads} threads multiply here: \
         use another one, such as embedded"
    )]
    BlasThreads {
        /// The library.
        library: String,
        /// Most products at once.
        most: usize,
        /// Threads that multiply.
        threads: usize,
    },
    /// The system starts no further thread.
    #[error(
        "cannot start {threads}: {reason}: raise the limit on processes (`ulimit -u`), on the address space (`ulimit -v`) or \
         that of the control group (pids.max), or start fewer ranks on this host"
    )]
    Threads {
        /// The threads and their purpose.
        threads: String,
        /// The system's reason.
        reason: String,
    },
    /// A value in the description of a device is not allowed.
    #[error("device {device}: {reason}")]
    Config {
        /// Name of the device.
        device: String,
        /// The value, and the allowed ones.
        reason: String,
    },
    /// A team was asked to work with the wrong number of slices.
    #[error("the team has {devices} devices but was given {slices} slices")]
    Slices {
        /// Devices in the team.
        devices: usize,
        /// Slices that were given.
        slices: usize,
    },
    /// The slices do not cover the columns of C.
    #[error("the slices cover {covered} columns, but C has {cols}")]
    Width {
        /// Sum of the slices.
        covered: usize,
        /// Columns of C.
        cols: usize,
    },
    /// A matrix does not have the shape that the contract asks for.
    #[error("{matrix} is {}x{}, expected {}x{}", found.0, found.1, expected.0, expected.1)]
    Shape {
        /// The matrix: A, B or C.
        matrix: &'static str,
        /// Expected rows and columns.
        expected: (usize, usize),
        /// Rows and columns found.
        found: (usize, usize),
    },
    /// An update has a larger inner dimension than `begin` announced.
    #[error("the update has k = {k}, but begin announced at most {k_max}")]
    InnerDimension {
        /// Inner dimension of the update.
        k: usize,
        /// Largest inner dimension announced.
        k_max: usize,
    },
    /// A call of a job has elements of another type than `begin` had.
    #[error("a call with elements of type {call} in a job of {job}: a job has one type")]
    Element {
        /// The type of the job.
        job: ElementType,
        /// The type of the call.
        call: ElementType,
    },
    /// A worker was called out of order: `begin`, any number of `update`, `finish`.
    #[error("{call} was called before begin: the order is begin, update..., finish")]
    Order {
        /// The call.
        call: &'static str,
    },
    /// There is not enough memory for the operands.
    #[error(
        "{needed_bytes} bytes are needed and {missing_bytes} of them are missing: use a smaller size"
    )]
    Memory {
        /// Bytes needed.
        needed_bytes: u64,
        /// Bytes lacking.
        missing_bytes: u64,
    },
    /// A call of the CUDA driver or of cuBLAS failed.
    #[error("{call} on {device}: {code}; {cause}")]
    Cuda {
        /// The function.
        call: &'static str,
        /// Name of the device.
        device: String,
        /// The library's name of the result code, and its number.
        code: String,
        /// The likely meaning, and the remedy.
        cause: &'static str,
    },
    /// The CUDA driver or cuBLAS cannot be used.
    #[error("{library} cannot be used: {reason}")]
    CudaLibrary {
        /// The library.
        library: String,
        /// The reason, and the remedy.
        reason: String,
    },
    /// Not even the smallest tiles of a job fit into the memory that a GPU may use.
    #[error(
        "device {device}: a job of {rows}x{cols} with k <= {k_max} does not fit into {device_bytes} bytes of GPU memory \
         and {host_bytes} bytes of pinned host memory, not even in the smallest tiles: raise the memory limit"
    )]
    CudaMemory {
        /// Name of the device.
        device: String,
        /// Rows of C.
        rows: usize,
        /// Columns of C.
        cols: usize,
        /// Largest inner dimension of an update.
        k_max: usize,
        /// Bytes of GPU memory that may be used.
        device_bytes: u64,
        /// Bytes of host memory that may be pinned.
        host_bytes: u64,
    },
    /// A kernel's shared library cannot be used.
    #[error("the kernel library {library} cannot be used: {reason}")]
    KernelLibrary {
        /// The file.
        library: String,
        /// The reason.
        reason: String,
    },
    /// A kernel failed.
    #[error("kernel {kernel}: {reason}")]
    Kernel {
        /// Name of the kernel, or its file.
        kernel: String,
        /// The function, and its failure.
        reason: String,
    },
    /// A kernel found no memory for a size.
    #[error("kernel {kernel}: {reason}")]
    KernelMemory {
        /// Name of the kernel, or its file.
        kernel: String,
        /// The function with the size, and its failure.
        reason: String,
    },
    /// A device of a team failed; the others finished their calls.
    #[error("device {device} failed: {source}")]
    Device {
        /// Name of the device.
        device: String,
        /// Its error.
        #[source]
        source: Box<DeviceError>,
    },
    /// The code of a device panicked.
    #[error("panic: {0}")]
    Panic(String),
    /// A forked child uses the devices of its parent.
    #[error(transparent)]
    Forked(#[from] ForkedChild),
    /// A measurement was configured with a value out of range.
    #[error("measurement: {field} = {value}, but it must be {must_be}")]
    Measure {
        /// Field of the configuration.
        field: &'static str,
        /// The value.
        value: f64,
        /// The allowed values.
        must_be: &'static str,
    },
}

/// Writes numbers with commas between them.
fn list(numbers: &[u32]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    numbers.join(", ")
}

/// A forked child uses what its parent has made.
///
/// The child has a copy of the value. It has neither the threads that compute for it nor MPI's connections, and would wait for
/// them for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "process {child} is a forked child of process {parent}, which has made this {what}: MPI and the threads of devices stay \
     with the parent. Use the {what} in process {parent} only, or start the child as a program of its own (in Python by the \
     start method \"spawn\" of multiprocessing)"
)]
pub struct ForkedChild {
    /// The value, such as a session.
    pub what: &'static str,
    /// Number of the process that has made it.
    pub parent: u32,
    /// Number of this process.
    pub child: u32,
}

impl DeviceError {
    /// Makes a [`DeviceError::Parameter`].
    pub(crate) fn parameter(
        name: &'static str,
        value: impl ToString,
        reason: impl Into<String>,
    ) -> Self {
        Self::Parameter { name, value: value.to_string(), reason: reason.into() }
    }

    /// Makes a [`DeviceError::BlasMemory`].
    pub(crate) fn refused_library(library: &str, bytes: u64) -> Self {
        Self::BlasMemory { library: library.to_owned(), bytes }
    }

    /// Makes a [`DeviceError::Threads`].
    pub(crate) fn no_threads(threads: impl Into<String>, reason: impl ToString) -> Self {
        Self::Threads { threads: threads.into(), reason: reason.to_string() }
    }
}

//! The emulated CUDA: built, put in the way of a program, and controlled from inside it.

use std::ffi::{CStr, CString, c_char};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use libloading::Library;

use crate::launch::{HANGS, Mpi, Outcome, run};

/// The names by which programs look for the driver and for cuBLAS.
const NAMES: &[&str] =
    &["libcuda.so", "libcuda.so.1", "libcublas.so", "libcublas.so.12", "libcublas.so.13"];

/// Makes a program find the emulated CUDA instead of a real one: `folder` gets the libraries, and is searched first.
///
/// # Panics
/// When the emulator cannot be built, or the folder cannot be written.
pub fn emulate(command: &mut Command, folder: &Path) {
    for name in NAMES {
        // One file by all names is one library: driver and cuBLAS share what they know.
        std::os::unix::fs::symlink(library(), folder.join(name)).expect("a writable folder");
    }
    command.env("LD_LIBRARY_PATH", search_path(folder));
    // What the user's shell hides of the machine's GPUs is not for the emulated ones.
    command.env_remove("CUDA_VISIBLE_DEVICES");
}

/// Runs a line of `isochron` on ranks with the emulated CUDA, whose settings have these values.
///
/// # Panics
/// As [`emulate`], and when the program hangs.
pub fn run_emulated(mpi: &Mpi, ranks: usize, line: &str, settings: &[(&str, &str)]) -> Outcome {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = mpi.line_command(ranks, line);
    emulate(&mut command, folder.path());
    for (name, value) in settings {
        command.env(format!("ISOCHRON_CUDA_EMULATOR_{name}"), value);
    }
    run(command, HANGS)
}

/// The UUID of an emulated slice: a compute instance of a GPU instance of a GPU, each counted from 0.
pub fn slice_uuid(gpu: u8, instance: u8, compute: u8) -> String {
    format!("MIG-e1e1e1e1-e1e1-e1e1-e1e1-e1e1e1{gpu:02x}{instance:02x}{compute:02x}")
}

/// Makes a program find this file instead of the CUDA driver.
///
/// # Panics
/// When the folder cannot be written.
pub fn replace_driver(command: &mut Command, folder: &Path, file: &Path) {
    for name in ["libcuda.so", "libcuda.so.1"] {
        std::os::unix::fs::symlink(file, folder.join(name)).expect("a writable folder");
    }
    command.env("LD_LIBRARY_PATH", search_path(folder));
}

/// Returns `true` if this process finds an installed CUDA driver.
pub fn driver_is_installed() -> bool {
    NAMES[..2].iter().any(|name| {
        // SAFETY: the initialisers of a driver are made to be run, and of its functions none is called.
        unsafe { Library::new(*name) }.is_ok()
    })
}

/// Builds a CUDA driver that has nothing but its version, as one does that lacks functions of later ones.
///
/// # Panics
/// When the C compiler fails or the folder cannot be written.
pub fn incomplete_driver(folder: &Path, version: i32) -> PathBuf {
    let (source, library) = (folder.join("driver.c"), folder.join("incomplete.so"));
    let text =
        format!("int cuDriverGetVersion(int *version) {{ *version = {version}; return 0; }}\n");
    std::fs::write(&source, text).expect("a writable folder");
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(built.expect("a C compiler").success());
    library
}

/// Puts the folder in front of the search path.
fn search_path(folder: &Path) -> std::ffi::OsString {
    let rest = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut path = folder.as_os_str().to_owned();
    if !rest.is_empty() {
        path.push(":");
        path.push(rest);
    }
    path
}

/// The emulator's file, built once.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["build", "--release", "--offline", "--package", "isochron-cuda-emulator"])
            .arg("--message-format=json")
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo starts");
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        let mut files = text
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .filter(|message| message["target"]["name"] == "isochron_cuda_emulator")
            .filter_map(|message| message["filenames"][0].as_str().map(PathBuf::from));
        files.next().unwrap_or_else(|| panic!("the emulator was not built: {errors}"))
    })
}

/// The emulator's function that obeys orders.
type Order = unsafe extern "C" fn(*const c_char, *mut c_char, usize);

/// The emulator of this process: it counts, and makes calls fail.
#[derive(Debug)]
pub struct Control {
    order: Order,
}

impl Control {
    /// The emulator of this process; `None` where the driver is a real one, or absent.
    pub fn find() -> Option<Self> {
        // SAFETY: the libraries' initialisers are made to be run; it is the library that the program uses anyway.
        let library = unsafe { Library::new("libcuda.so.1") }.ok()?;
        // SAFETY: the emulator's function has this type, and no other library has one of this name.
        let order = *unsafe { library.get::<Order>("isochron_cuda_emulator_order") }.ok()?;
        // Work may run to the end of the process, so the library is never closed.
        std::mem::forget(library);
        Some(Self { order })
    }

    /// Gives an order, and returns the answer.
    fn order(&self, order: &str) -> String {
        let order = CString::new(order).expect("a text");
        let mut answer = [0; 256];
        // SAFETY: the order is ended by 0, the answer has room for that number of characters, and the library is never
        // closed.
        unsafe { (self.order)(order.as_ptr(), answer.as_mut_ptr(), answer.len()) };
        // SAFETY: the emulator ends the answer by 0.
        let answer = unsafe { CStr::from_ptr(answer.as_ptr()) };
        answer.to_string_lossy().into_owned()
    }

    fn count(&self, what: &str) -> u64 {
        self.order(what).parse().expect("a number")
    }

    /// Contexts, memory, streams, events and handles that are alive.
    pub fn live(&self) -> u64 {
        self.count("live")
    }

    /// Things done that no correct program does.
    pub fn violations(&self) -> u64 {
        self.count("violations")
    }

    /// Returns the first of them since the last reset; empty without any.
    pub fn violation(&self) -> String {
        self.order("violation")
    }

    /// Asynchronous copies of memory that is not pinned.
    pub fn pageable_copies(&self) -> u64 {
        self.count("pageable-copies")
    }

    /// Products that cuBLAS has refused for their size since the last reset.
    pub fn refused_products(&self) -> u64 {
        self.count("refused-products")
    }

    /// From now on cuBLAS refuses products of more multiplications than that.
    pub fn set_product(&self, multiplications: u64) {
        self.order(&format!("set-product {multiplications}"));
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.count("calls")
    }

    /// The most pinned bytes at one time since the last reset.
    pub fn pinned_peak_bytes(&self) -> u64 {
        self.count("pinned-peak")
    }

    /// The most bytes of the first device's memory in use at one time since the last reset.
    pub fn device_peak_bytes(&self) -> u64 {
        self.count("device-peak")
    }

    /// Gives the first device `bytes` of memory from now on.
    pub fn set_memory(&self, bytes: u64) {
        self.order(&format!("set-memory {bytes}"));
    }

    /// The `number`-th call from now on returns `code`; with `later`, the work that it queues fails instead.
    pub fn fail(&self, number: u64, code: u32, later: bool) {
        self.order(&format!("fail {number} {code} {}", u8::from(later)));
    }

    /// The call that was made to fail since the last reset; empty when none was.
    pub fn failed(&self) -> String {
        self.order("failed")
    }

    /// Forgets failures to come, lost devices and the counters.
    pub fn reset(&self) {
        self.order("reset");
    }
}

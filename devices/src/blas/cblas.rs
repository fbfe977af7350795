//! CBLAS libraries opened at run time: MKL, OpenBLAS, BLIS, or any file that exports `cblas_dgemm`.

use super::make::Make;
use super::room::{Buffers, check_opening, check_packing};
use super::shared::open_shared;
use super::{EmbeddedBlas, find_file, has_work};
use crate::contract::{
    Blas, BlasGemm, DeviceError, PanelPair, ReservedThreads, Scalar, View, ViewMut,
};
use crate::host::file_kind::check_kind;
use libloading::Library;
use num_complex::{Complex32, Complex64};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A function such as `cblas_dgemm` with 32-bit integers (LP64). `S` is `T` for real numbers, whose factors are passed
/// by value, and `*const T` for complex ones, passed by address.
///
/// Dimensions are passed as 64-bit integers. A function with 32-bit integers reads the lower half, so the call is right for
/// an MKL with either width.
type CblasGemm<T, S> = unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    i64,
    i64,
    i64,
    S,
    *const T,
    i64,
    *const T,
    i64,
    S,
    *mut T,
    i64,
);
type TakesInt = unsafe extern "C" fn(c_int);
type TakesLong = unsafe extern "C" fn(isize);
type TakesIntGivesInt = unsafe extern "C" fn(c_int) -> c_int;
type GivesInt = unsafe extern "C" fn() -> c_int;
type GivesLong = unsafe extern "C" fn() -> isize;
type GivesText = unsafe extern "C" fn() -> *const c_char;
type IntGivesText = unsafe extern "C" fn(c_int) -> *const c_char;
type FillsText = unsafe extern "C" fn(*mut c_char, c_int);
type TakesBuffer = unsafe extern "C" fn(c_int) -> *mut c_void;
type GivesBufferBack = unsafe extern "C" fn(*mut c_void);

const COLUMN_MAJOR: c_int = 102;
const NO_TRANSPOSE: c_int = 111;
/// `MKL_THREADING_SEQUENTIAL` of `mkl_service.h`.
const MKL_SEQUENTIAL: c_int = 1;
/// `MKL_INTERFACE_LP64` of `mkl_service.h`.
const MKL_LP64: c_int = 0;

/// Set by [`own_libraries`].
static OWNS_LIBRARIES: AtomicBool = AtomicBool::new(false);

/// Lets this crate change the settings of BLAS libraries for the whole process, for programs that use them through it alone.
/// Call it before a library is opened.
///
/// No copy is loaded then, which saves the time of copying, and MKL gets its sequential layer. Without it MKL keeps its
/// layers, and each thread that calls it from here is told to compute alone.
pub fn own_libraries() {
    OWNS_LIBRARIES.store(true, Ordering::Relaxed);
}

/// A CBLAS library, used sequentially. It has at least the product of `f64`.
///
/// [`EmbeddedBlas`] computes missing products, and calls whose dimensions exceed the library's 32-bit integers.
#[derive(Debug, Clone)]
pub struct CblasLibrary {
    name: String,
    /// For MKL: `MKL_Set_Num_Threads_Local`, and the number of threads of a call.
    threads: Option<(TakesIntGivesInt, c_int)>,
    /// For OpenBLAS: the buffers of its products.
    buffers: Option<Arc<Buffers>>,
    sgemm: Option<CblasGemm<f32, f32>>,
    dgemm: Option<CblasGemm<f64, f64>>,
    cgemm: Option<CblasGemm<Complex32, *const Complex32>>,
    zgemm: Option<CblasGemm<Complex64, *const Complex64>>,
}

impl CblasLibrary {
    /// Opens `file`, a path or a name that the system's loader finds.
    ///
    /// On Linux with glibc, a copy of its own is loaded, so that the settings of the program's copy stay as they are, unless the
    /// program [has no other use](own_libraries) for it. A separate
    /// thread loads it, bound to one processing unit: a library may start a thread for each unit that it sees as soon as
    /// it is loaded. OpenBLAS, its variant with the prefix `scipy_` and BLIS are recognised and made sequential. The
    /// settings of any other library must keep it to one thread. The library stays loaded until the process ends, because
    /// such libraries keep threads and thread-local buffers that do not survive unloading.
    ///
    /// MKL consists of several libraries, which cannot be copied one by one. Its layers stay as they are, and only the calls
    /// from here are sequential. A program that sets its layers does so before.
    ///
    /// # Errors
    /// Returns [`DeviceError::Blas`] if it cannot be opened, has no `cblas_dgemm`, or uses 64-bit integers;
    /// [`DeviceError::BlasMemory`] if the system refuses the memory that it needs; [`DeviceError::Threads`] if no
    /// thread can be started to load it.
    pub fn open(file: &str) -> Result<Self, DeviceError> {
        Self::open_threaded(file, 1)
    }

    /// Opens `file` as [`open`](Self::open) does, with up to `threads` threads of the library's own. Comparisons use
    /// it; a device never does. The number holds for the whole process, so another number needs another process.
    ///
    /// A library that is not recognised keeps its settings.
    ///
    /// # Errors
    /// Returns [`DeviceError::Blas`] if it cannot be opened, has no `cblas_dgemm`, or uses 64-bit integers;
    /// [`DeviceError::BlasMemory`] if the system refuses the memory that it needs; [`DeviceError::Threads`] if no
    /// thread can be started to load it.
    pub fn open_threaded(file: &str, threads: usize) -> Result<Self, DeviceError> {
        // No machine has more threads than fit into an integer.
        let threads = c_int::try_from(threads).unwrap_or(c_int::MAX);
        Self::open_for(file, threads, 1)
    }

    /// Opens `file` with up to `threads` threads of its own, if there is memory for products of `callers` threads at once.
    pub(super) fn open_for(
        file: &str,
        threads: c_int,
        callers: usize,
    ) -> Result<Self, DeviceError> {
        let mut known = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = known.get(&(file.to_owned(), threads)) {
            return Ok(library.clone());
        }
        let blame = |reason| DeviceError::Blas { library: file.to_owned(), reason };
        if let Some(path) = find_file(file) {
            check_kind(&path).map_err(blame)?;
        }
        let make = Make::of(file);
        check_room(file, make, callers)?;
        let opened = if make == Make::Mkl || threads != 1 {
            load_library(file, make, threads)
        } else {
            load_on_one_unit(file, make)?
        };
        let library = opened.map_err(blame)?;
        known.insert((file.to_owned(), threads), library.clone());
        Ok(library)
    }
}

/// The libraries that were opened, by their names and numbers of threads: each takes memory.
static OPENED: Mutex<BTreeMap<(String, c_int), CblasLibrary>> = Mutex::new(BTreeMap::new());

/// Makes sure that the system grants the memory for a library, and for products of `threads` threads. A library that is not
/// found needs none.
fn check_room(file: &str, make: Make, threads: usize) -> Result<(), DeviceError> {
    let found = find_file(file).and_then(|path| path.metadata().ok());
    found
        .map_or(Ok(()), |found| check_opening(make, found.len(), threads))
        .map_err(|bytes| DeviceError::refused_library(file, bytes))
}

/// Loads a library in a thread that is bound to one processing unit.
fn load_on_one_unit(file: &str, make: Make) -> Result<Result<CblasLibrary, String>, DeviceError> {
    let load = || {
        use_one_unit();
        load_library(file, make, 1)
    };
    std::thread::scope(|scope| {
        let loader = std::thread::Builder::new().spawn_scoped(scope, load);
        let loader = loader.map_err(|error| {
            DeviceError::no_threads(format!("a thread that loads {file}"), error)
        })?;
        let panicked = || Err("it panicked while it was loaded".to_owned());
        Ok(loader.join().unwrap_or_else(|_| panicked()))
    })
}

/// Loads a library for the rest of the process.
fn load_library(file: &str, make: Make, threads: c_int) -> Result<CblasLibrary, String> {
    let may_share = make == Make::Mkl || OWNS_LIBRARIES.load(Ordering::Relaxed);
    let opened = if may_share { open_shared(file)? } else { open_copy(file)? };
    let raw = RawLibrary { opened };
    let prepared = raw.prepare_library(file, threads)?;
    std::mem::forget(raw);
    Ok(prepared)
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use super::own_copy::open_copy;

/// Opens the library itself: this system loads no second copy.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn open_copy(file: &str) -> Result<Library, String> {
    open_shared(file)
}

/// Binds the calling thread to the first processing unit that it may use. On failure nothing changes.
#[cfg(target_os = "linux")]
fn use_one_unit() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    // On a host with more units than the set can hold it is an error.
    let Ok(units) = sched_getaffinity(None) else {
        return;
    };
    if let Some(unit) = (0..CpuSet::MAX_CPU).find(|&unit| units.is_set(unit)) {
        let mut first = CpuSet::new();
        first.set(unit);
        let _ = sched_setaffinity(None, &first);
    }
}

#[cfg(not(target_os = "linux"))]
fn use_one_unit() {}

/// The number of threads of MKL for the calling thread, to be set again when this value is dropped.
struct LocalThreads {
    set: TakesIntGivesInt,
    before: c_int,
}

impl CblasLibrary {
    /// Limits the threads of the calls that this thread makes to MKL.
    fn limit_threads(&self) -> Option<LocalThreads> {
        let (set, threads) = self.threads?;
        // SAFETY: the signature is that of mkl_service.h. The function returns the number before, which holds for this thread.
        let before = unsafe { set(threads) };
        Some(LocalThreads { set, before })
    }
}

impl Drop for LocalThreads {
    fn drop(&mut self) {
        // SAFETY: as above; 0 is the number of the whole process.
        unsafe { (self.set)(self.before) };
    }
}

impl Blas for CblasLibrary {
    fn name(&self) -> &str {
        &self.name
    }

    fn reserve(&self, threads: usize) -> Result<ReservedThreads, DeviceError> {
        match &self.buffers {
            Some(buffers) => Ok(ReservedThreads::holding(buffers.reserve(threads, &self.name)?)),
            None => check_packing(threads)
                .map(|()| ReservedThreads::default())
                .map_err(|bytes| DeviceError::refused_library(&self.name, bytes)),
        }
    }
}

macro_rules! multiply_by {
    ($function:ident, $element:ty, $pass_factor:expr) => {
        impl BlasGemm<$element> for CblasLibrary {
            fn gemm(
                &self,
                alpha: $element,
                a: View<'_, $element>,
                b: View<'_, $element>,
                c: ViewMut<'_, $element>,
            ) {
                let _alone = self.limit_threads();
                multiply(self.$function, $pass_factor, alpha, (a, b), c);
            }
        }
    };
}

multiply_by!(sgemm, f32, |&factor| factor);
multiply_by!(dgemm, f64, |&factor| factor);
multiply_by!(cgemm, Complex32, ptr::from_ref);
multiply_by!(zgemm, Complex64, ptr::from_ref);

/// Multiplies by a function of a library, to which `pass_factor` passes alpha and 1. [`EmbeddedBlas`] computes the
/// product if there is no function, or a dimension exceeds the library's integers.
fn multiply<T: Scalar, S>(
    function: Option<CblasGemm<T, S>>,
    pass_factor: fn(&T) -> S,
    alpha: T,
    (a, b): PanelPair<'_, T>,
    mut c: ViewMut<'_, T>,
) {
    if !has_work(alpha, &a, &b, &c) {
        return;
    }
    let dims = [c.rows(), c.cols(), a.cols(), a.ld(), b.ld(), c.ld()];
    let (Some(function), Some([m, n, k, lda, ldb, ldc])) = (function, as_c_ints(dims)) else {
        return EmbeddedBlas.gemm(alpha, a, b, c);
    };
    // SAFETY: A is m×k, B k×n and C m×n (`has_work` asserts it). A view has all elements `i + j*ld`, and `ld` asserts that its
    // columns are contiguous and returns at least `max(1, rows)`. The integers are LP64 (`RawLibrary::prepare_library` refuses
    // others). C is borrowed mutably, so it shares no element with A or B, and the library uses elements alone. `CblasGemm`
    // takes factors as `pass_factor` passes them, and those passed by address outlive the call.
    unsafe {
        function(
            COLUMN_MAJOR,
            NO_TRANSPOSE,
            NO_TRANSPOSE,
            m,
            n,
            k,
            pass_factor(&alpha),
            a.as_ptr(),
            lda,
            b.as_ptr(),
            ldb,
            pass_factor(&T::ONE),
            c.as_mut_ptr(),
            ldc,
        );
    }
}

/// Converts the dimensions to the library's integers; `None` if one does not fit.
fn as_c_ints(dims: [usize; 6]) -> Option<[i64; 6]> {
    let mut ints = [0; 6];
    for (int, dim) in ints.iter_mut().zip(dims) {
        *int = c_int::try_from(dim).ok()?.into();
    }
    Some(ints)
}

/// An open library of unknown kind.
struct RawLibrary {
    opened: Library,
}

impl RawLibrary {
    /// Sets the library's number of threads, and finds its functions and its name.
    fn prepare_library(&self, file: &str, threads: c_int) -> Result<CblasLibrary, String> {
        let mut local = None;
        let make = Make::by_functions(|function| self.has_symbol(function));
        let (prefix, (product, detail)) = match make {
            Make::Mkl => {
                local = Some((self.prepare_mkl(threads)?, threads));
                ("", (self.read_mkl_version(), String::new()))
            }
            Make::Blis => ("", self.prepare_blis(threads)?),
            Make::OpenBlas => ("", self.prepare_openblas("", threads)?),
            Make::Other if self.has_symbol("scipy_openblas_set_num_threads") => {
                ("scipy_", self.prepare_openblas("scipy_", threads)?)
            }
            Make::Other => ("", ("CBLAS".to_owned(), String::new())),
        };
        let short = file.rsplit('/').next().unwrap_or(file);
        let name = if detail.is_empty() {
            format!("{product} ({short})")
        } else {
            format!("{product} ({short}, {detail})")
        };
        // SAFETY: every CBLAS exports these functions with these signatures; builds with 64-bit integers were refused
        // above if the library tells.
        let library = unsafe {
            CblasLibrary {
                name,
                threads: local,
                buffers: self.find_buffers(prefix),
                sgemm: self.find_symbol(&format!("{prefix}cblas_sgemm")),
                dgemm: self.find_symbol(&format!("{prefix}cblas_dgemm")),
                cgemm: self.find_symbol(&format!("{prefix}cblas_cgemm")),
                zgemm: self.find_symbol(&format!("{prefix}cblas_zgemm")),
            }
        };
        match library.dgemm {
            Some(_) => Ok(library),
            None => Err(format!("it has no function {prefix}cblas_dgemm")),
        }
    }

    /// Returns the function that sets MKL's number of threads for the calling thread. Its layers are set only if the process
    /// [has no other user](own_libraries). The functions with capitals take their argument by value; those in small letters are the
    /// Fortran interface and take a pointer.
    fn prepare_mkl(&self, threads: c_int) -> Result<TakesIntGivesInt, String> {
        let owns = OWNS_LIBRARIES.load(Ordering::Relaxed) && threads == 1;
        if !owns {
            check_threading_layer()?;
        }
        // SAFETY: the signatures are those of mkl_service.h. The layers are set before any other call, as MKL asks.
        unsafe {
            if owns {
                for (name, layer) in [
                    ("MKL_Set_Interface_Layer", MKL_LP64),
                    ("MKL_Set_Threading_Layer", MKL_SEQUENTIAL),
                ] {
                    if let Some(set) = self.find_symbol::<TakesIntGivesInt>(name) {
                        set(layer);
                    }
                }
            }
            let missing = || "it has no function MKL_Set_Num_Threads_Local".to_owned();
            self.find_symbol("MKL_Set_Num_Threads_Local").ok_or_else(missing)
        }
    }

    fn read_mkl_version(&self) -> String {
        let mut buffer = [0u8; 256];
        // SAFETY: the signature is that of mkl_service.h. The text is written to a buffer of the size that is passed, one byte
        // short so that it ends with a zero.
        unsafe {
            if let Some(get) = self.find_symbol::<FillsText>("MKL_Get_Version_String") {
                get(buffer.as_mut_ptr().cast(), 255);
            }
        }
        let text = CStr::from_bytes_until_nul(&buffer);
        let text = text.map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned());
        mkl_product(&text)
    }

    fn prepare_openblas(&self, prefix: &str, threads: c_int) -> Result<(String, String), String> {
        // SAFETY: the signatures are those of OpenBLAS's cblas.h; the strings live as long as the library.
        let (config, core) = unsafe {
            if let Some(set) =
                self.find_symbol::<TakesInt>(&format!("{prefix}openblas_set_num_threads"))
            {
                set(threads);
            }
            (
                self.read_text(&format!("{prefix}openblas_get_config")),
                self.read_text(&format!("{prefix}openblas_get_corename")),
            )
        };
        if config.contains("USE64BITINT") {
            return Err("it uses 64-bit integers, and 32-bit ones are needed (LP64)".to_owned());
        }
        Ok((openblas_product(&config), core))
    }

    /// Finds the functions of OpenBLAS that take buffers and give them back. The prefix of a build may be missing there.
    ///
    /// # Safety
    /// The conditions of [`find_symbol`](Self::find_symbol).
    unsafe fn find_buffers(&self, prefix: &str) -> Option<Arc<Buffers>> {
        [prefix, ""].into_iter().find_map(|prefix| {
            // SAFETY: the signatures are those of OpenBLAS's common.h; no other library has these functions.
            unsafe {
                let take =
                    self.find_symbol::<TakesBuffer>(&format!("{prefix}blas_memory_alloc"))?;
                let config = self.read_text(&format!("{prefix}openblas_get_config"));
                let free = format!("{prefix}blas_memory_free");
                let give_back = self.find_symbol::<GivesBufferBack>(&free)?;
                Some(Arc::new(Buffers::new(take, give_back, count_buffers(&config))))
            }
        })
    }

    fn prepare_blis(&self, threads: c_int) -> Result<(String, String), String> {
        // SAFETY: the signatures are those of blis.h, whose `dim_t` and `gint_t` are as wide as a pointer and whose
        // `arch_t` is a C enum; the strings are constants of the library.
        unsafe {
            if let Some(bits) = self.find_symbol::<GivesLong>("bli_info_get_blas_int_type_size") {
                let bits = bits();
                if bits != 32 {
                    return Err(format!(
                        "it uses {bits}-bit integers, and 32-bit ones are needed (LP64)"
                    ));
                }
            }
            if let Some(set) = self.find_symbol::<TakesLong>("bli_thread_set_num_threads") {
                set(threads as isize);
            }
            let version = self.read_text("bli_info_get_version_str");
            let id = self.find_symbol::<GivesInt>("bli_arch_query_id");
            let name = self.find_symbol::<IntGivesText>("bli_arch_string");
            let arch = match (id, name) {
                (Some(id), Some(name)) => owned_text(name(id())),
                _ => String::new(),
            };
            Ok((format!("BLIS {version}").trim_end().to_owned(), arch))
        }
    }

    fn has_symbol(&self, name: &str) -> bool {
        // SAFETY: the symbol is only looked up, never called or read.
        unsafe { self.opened.get::<*const ()>(name) }.is_ok()
    }

    /// Returns the function `name`, if the library has it.
    ///
    /// # Safety
    /// `F` must be the function pointer type of that symbol, and must not be called once the library is closed.
    unsafe fn find_symbol<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: the caller's obligation, passed on.
        unsafe { self.opened.get::<F>(name) }.ok().map(|f| *f)
    }

    /// Returns the string that the function `name` returns; empty if the library does not have it.
    ///
    /// # Safety
    /// `name` must take nothing and return a null pointer or a zero-terminated string.
    unsafe fn read_text(&self, name: &str) -> String {
        // SAFETY: the caller's obligation, passed on.
        unsafe {
            self.find_symbol::<GivesText>(name).map_or_else(String::new, |get| owned_text(get()))
        }
    }
}

/// Checks that the threads of MKL's layer can be loaded: without them its first call would end the process.
fn check_threading_layer() -> Result<(), String> {
    let layer = std::env::var("MKL_THREADING_LAYER").unwrap_or_default();
    let names: &[&str] = match layer.to_uppercase().as_str() {
        "SEQUENTIAL" => return Ok(()),
        "GNU" => &["libgomp.so.1"],
        "TBB" => &["libtbb.so.12", "libtbb.so.2"],
        _ => &["libiomp5.so"],
    };
    // They stay loaded for MKL.
    match names.iter().find_map(|name| open_shared(name).ok()) {
        Some(library) => {
            std::mem::forget(library);
            Ok(())
        }
        None => Err(format!(
            "{} of its threading layer is missing: set MKL_THREADING_LAYER=SEQUENTIAL",
            names[0]
        )),
    }
}

/// Copies a C string; empty for a null pointer.
///
/// # Safety
/// `text` must be null or point to a zero-terminated string.
unsafe fn owned_text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, and zero-terminated as the caller guarantees.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Returns the number of buffers that OpenBLAS has by its configuration: two for each thread, and no fewer than 50.
fn count_buffers(config: &str) -> usize {
    let words = config.split_whitespace();
    let mut threads = words.filter_map(|word| word.strip_prefix("MAX_THREADS=")?.parse().ok());
    threads.next().map_or(usize::MAX, |threads: usize| (2 * threads).max(50))
}

/// Returns `OpenBLAS 0.3.21` for `OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH …`.
fn openblas_product(config: &str) -> String {
    let mut words = config.split_whitespace();
    match (words.next(), words.next()) {
        (Some(product), Some(version)) => format!("{product} {version}"),
        _ => "OpenBLAS".to_owned(),
    }
}

/// Returns `MKL 2026.2` for `Intel(R) oneAPI Math Kernel Library Version 2026.2-Product Build … for …`.
fn mkl_product(text: &str) -> String {
    let version = text
        .split_once("Version ")
        .and_then(|(_, rest)| rest.split([' ', '-']).next())
        .unwrap_or_default();
    format!("MKL {version}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_beyond_32_bits_do_not_fit() {
        let most = c_int::MAX as usize;
        assert_eq!(as_c_ints([most; 6]), Some([c_int::MAX.into(); 6]));
        assert_eq!(as_c_ints([1, 1, 1, 1, 1, most + 1]), None);
    }

    #[test]
    fn product_names_are_short() {
        assert_eq!(openblas_product("OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH"), "OpenBLAS 0.3.21");
        assert_eq!(openblas_product(""), "OpenBLAS");
        for (config, buffers) in
            [("0.3.21 MAX_THREADS=64", 128), ("MAX_THREADS=2 X", 50), ("", usize::MAX)]
        {
            assert_eq!(count_buffers(config), buffers, "{config}");
        }
        assert_eq!(
            mkl_product(
                "Intel(R) oneAPI Math Kernel Library Version 2026.2-Product Build 20260101 for Intel(R) 64"
            ),
            "MKL 2026.2"
        );
        assert_eq!(mkl_product(""), "MKL");
    }

    #[test]
    fn a_library_without_dgemm_is_refused() {
        let error = CblasLibrary::open("libm.so.6").unwrap_err().to_string();
        assert!(error.contains("libm.so.6") && error.contains("cblas_dgemm"), "{error}");
    }
}

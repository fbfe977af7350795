//! Kernels from shared libraries, and of programs in C: the only user of the kernels' C ABI.

use super::KernelPlace;
use crate::contract::DeviceError;
use crate::host::file_kind::check_kind;
use crate::host::loader::find_reason;
use isochron_hierarchy::printable::show_path;
use isochron_kernel::{ISOCHRON_KERNEL_ABI, Interrupt, Kernel, KernelError, KernelTable};
use libloading::Library;
use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::AtomicI32;

type Complexity = unsafe extern "C" fn(u64) -> f64;
type Initialize = unsafe extern "C" fn(u64, *mut *mut c_void) -> i32;
type Execute = unsafe extern "C" fn(*mut c_void, *const AtomicI32) -> i32;
type Finalize = unsafe extern "C" fn(*mut c_void) -> i32;

/// A kernel by its table of C functions: from a shared library, or of a program.
///
/// A shared library stays loaded until the process ends, because a library may keep threads that do not survive unloading.
pub struct LibraryKernel {
    name: String,
    complexity: Complexity,
    initialize: Initialize,
    execute: Execute,
    finalize: Finalize,
    /// The value of the context when `initialize` is called.
    params: *mut c_void,
    /// The data of `initialize`, if it succeeded and `finalize` was not called since.
    context: Option<*mut c_void>,
}

impl LibraryKernel {
    /// Opens a kernel's library.
    ///
    /// # Errors
    /// Returns [`DeviceError::KernelLibrary`] if it cannot be opened, does not export the kernel, was made for another
    /// version of the interface, or lacks a function.
    pub fn open(place: KernelPlace<'_>) -> Result<Self, DeviceError> {
        load_kernel(place)
            .map_err(|reason| DeviceError::KernelLibrary { library: show_path(place.file), reason })
    }

    /// Takes the kernel of a program. `name` is for a table without one. `initialize` finds `params` in its context.
    ///
    /// # Errors
    /// Returns the reason if the table is for another version of the interface, or lacks a function.
    ///
    /// # Safety
    /// `table` begins with a version. If it is [`ISOCHRON_KERNEL_ABI`], it is a whole table, its name is null or a string, and its
    /// functions may be called as the interface says, with these `params`.
    pub unsafe fn of_table(
        table: *const KernelTable,
        name: &str,
        params: *mut c_void,
    ) -> Result<Self, String> {
        // SAFETY: the table begins with its version in all versions, as the caller says.
        let abi = unsafe { table.cast::<u32>().read() };
        if abi != ISOCHRON_KERNEL_ABI {
            return Err(format!(
                "it was made for version {abi} of the kernel interface, and this is version {ISOCHRON_KERNEL_ABI}"
            ));
        }
        // SAFETY: the version was checked, so this is a table of this layout.
        let table = unsafe { &*table };
        Ok(Self {
            name: read_name(table, name),
            complexity: table.complexity.ok_or("it has no function complexity")?,
            initialize: table.initialize.ok_or("it has no function initialize")?,
            execute: table.execute.ok_or("it has no function execute")?,
            finalize: table.finalize.ok_or("it has no function finalize")?,
            params,
            context: None,
        })
    }
}

fn load_kernel(place: KernelPlace<'_>) -> Result<LibraryKernel, String> {
    let file = place.file;
    // A name without a folder is a file here, and not one of the system's libraries.
    let path = std::path::absolute(file).map_err(|error| error.to_string())?;
    check_kind(&path)?;
    // SAFETY: loading a library runs its initialisers; the user named it to have its code run.
    let library = unsafe { Library::new(&path) }
        .map_err(|error| find_reason(&path.display().to_string(), &error))?;
    // SAFETY: the symbol is data that is only looked at below.
    let table = unsafe { library.get::<*const KernelTable>(place.symbol().as_str()) };
    let table = *table.map_err(|_| blame_symbol(place))?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    // SAFETY: the interface says that the symbol is such a table; it is constant and stays loaded.
    let kernel = unsafe { LibraryKernel::of_table(table, &stem, ptr::null_mut()) }?;
    std::mem::forget(library);
    Ok(kernel)
}

/// Names the symbol that a library lacks, and what may be meant.
fn blame_symbol(place: KernelPlace<'_>) -> String {
    let hint = match place.name {
        Some(_) => "is the name behind the colon right?",
        None => "one of several kernels is named as FILE:NAME",
    };
    format!("it has no symbol {}: {hint}", place.symbol())
}

/// Returns the kernel's name, or `other` if it has none.
fn read_name(table: &KernelTable, other: &str) -> String {
    if table.name.is_null() {
        return other.to_owned();
    }
    // SAFETY: a name that is not null is a constant string that ends with a zero, as the interface asks for.
    let name = unsafe { CStr::from_ptr(table.name) };
    name.to_string_lossy().into_owned()
}

impl Kernel for LibraryKernel {
    fn name(&self) -> &str {
        &self.name
    }

    fn complexity(&self, d: u64) -> f64 {
        // SAFETY: the function takes any number of units.
        unsafe { (self.complexity)(d) }
    }

    fn initialize(&mut self, d: u64) -> Result<(), KernelError> {
        self.finalize()?;
        let mut context = self.params;
        // SAFETY: the address is valid for the call.
        let code = unsafe { (self.initialize)(d, &raw mut context) };
        KernelError::check_code(code)?;
        self.context = Some(context);
        Ok(())
    }

    fn execute(&mut self, interrupt: &Interrupt) -> Result<(), KernelError> {
        let Some(context) = self.context else {
            panic!("a kernel is executed between initialize and finalize");
        };
        // SAFETY: the context is that of the last `initialize`, and the flag outlives the call.
        KernelError::check_code(unsafe { (self.execute)(context, interrupt.as_ptr()) })
    }

    fn finalize(&mut self) -> Result<(), KernelError> {
        self.context.take().map_or(Ok(()), |context| {
            // SAFETY: the context is that of the last `initialize`, and is not used again.
            KernelError::check_code(unsafe { (self.finalize)(context) })
        })
    }
}

impl Drop for LibraryKernel {
    fn drop(&mut self) {
        let _ = self.finalize();
    }
}

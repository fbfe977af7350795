//! Libraries that the rest of the program uses as well.

use libloading::Library;

use crate::host::loader::find_reason;

/// Opens the library that the rest of the program uses.
pub(super) fn open_shared(file: &str) -> Result<Library, String> {
    // SAFETY: loading a library runs its initialisers; a BLAS that the user installed or named is trusted as
    // any library that a program links to.
    unsafe { Library::new(file) }.map_err(|error| find_reason(file, &error))
}

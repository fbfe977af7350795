//! Libraries whose settings are this crate's own.
//!
//! A BLAS keeps its number of threads for the whole process, and the program around may have set it, or may use the same
//! library later. So the file is copied to memory, and the copy is loaded: it has variables of its own, and finds its own
//! functions before those of the same name (`RTLD_DEEPBIND`). It takes as much memory as the file.
//!
//! A link name space of its own (`dlmopen`) would need no copy, but its C library is another one: the thread-specific keys that
//! it hands out are those of the program's, and the threads that call it have destructors of the program's for them.

use super::elf::{LinkTables, find_beside, find_file};
use super::make::Make;
use super::shared::open_shared;
use crate::host::loader::find_reason;
use libloading::Library;
use libloading::os::unix;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;

/// `RTLD_NOW` and `RTLD_DEEPBIND` of glibc.
const FLAGS: i32 = 0x2 | 0x8;

/// Loads a copy of the library `file`, a path or a name that the system's loader finds.
///
/// # Errors
/// Returns the reason why the library cannot be opened.
pub(super) fn open_copy(file: &str) -> Result<Library, String> {
    let path = find_file(file).ok_or_else(|| MISSING.to_owned())?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let tables = LinkTables::read(&path);
    for name in tables.map(|tables| tables.needed).unwrap_or_default() {
        let beside = find_beside(folder, &name);
        let needed = beside.as_deref().and_then(Path::to_str).unwrap_or(&name);
        match Make::of(needed) {
            Make::Other => {}
            // Its parts cannot be copied one by one.
            Make::Mkl => return open_shared(file),
            // Only the library with the functions has a number of threads.
            Make::OpenBlas | Make::Blis => return open_copy(needed),
        }
        if let Some(beside) = beside {
            // The copy lies elsewhere, so the loader would not look here.
            // SAFETY: as for the library itself; it stays loaded until the process ends.
            std::mem::forget(unsafe { Library::new(beside) });
        }
    }
    let copy = copy_to_memory(&path).map_err(|error| error.to_string())?;
    let name = format!("/proc/self/fd/{}", copy.as_raw_fd());
    // SAFETY: loading a library runs its initialisers; a BLAS that the user installed or named is trusted as any library that
    // a program links to.
    let opened = unsafe { unix::Library::open(Some(&name), FLAGS) };
    // The loader knows libraries by their names, so the number of the file must not be used again.
    std::mem::forget(copy);
    Ok(opened.map_err(|error| find_reason(&name, &error))?.into())
}

/// The words of the system's loader.
const MISSING: &str = "cannot open shared object file: No such file or directory";

fn copy_to_memory(path: &Path) -> io::Result<File> {
    let name = path.file_name().unwrap_or_default();
    let mut copy = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    io::copy(&mut File::open(path)?, &mut copy)?;
    Ok(copy)
}

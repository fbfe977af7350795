//! Libraries whose settings are this crate's own.
//!
//! A BLAS keeps its number of threads for the whole process, and the program around may have set it, or may use the same
//! library later. So the file is copied to memory, and the copy is loaded: it has variables of its own, and finds its own
//! functions before those of the same name (`RTLD_DEEPBIND`). It takes as much memory as the file.
//!
//! A link name space of its own (`dlmopen`) would need no copy, but its C library is another one: the thread-specific keys that
//! it hands out are those of the program's, and the threads that call it have destructors of the program's for them.

use super::cblas::find_reason;
use libloading::Library;
use libloading::os::unix;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

/// `RTLD_NOW` and `RTLD_DEEPBIND` of glibc.
const FLAGS: i32 = 0x2 | 0x8;

/// Name parts of libraries with a number of threads. One that takes its functions from such a library is passed over for it.
const THREADED: [&str; 3] = ["openblas", "blis", "mkl"];

/// Loads a copy of the library `file`, a path or a name that the system's loader finds.
///
/// # Errors
/// The reason.
pub(super) fn open_copy(file: &str) -> Result<Library, String> {
    let path = find_file(file).ok_or_else(|| MISSING.to_owned())?;
    let bytes = std::fs::read(&path).map_err(|error| error.to_string())?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    for name in read_needed(&bytes).unwrap_or_default() {
        let beside = folder.join(&name);
        let is_beside = beside.exists();
        if THREADED.iter().any(|part| name.contains(part)) {
            let beside = beside.to_str().filter(|_| is_beside);
            return open_copy(beside.unwrap_or(&name));
        }
        if is_beside {
            // The copy lies elsewhere, so the loader would not look here.
            // SAFETY: as for the library itself; it stays loaded until the process ends.
            std::mem::forget(unsafe { Library::new(&beside) });
        }
    }
    let copy = copy_to_memory(&path, &bytes).map_err(|error| error.to_string())?;
    let name = format!("/proc/self/fd/{}", copy.as_raw_fd());
    // SAFETY: loading a library runs its initialisers; a BLAS that the user installed or named is trusted as any library that
    // a program links to.
    let opened = unsafe { unix::Library::open(Some(&name), FLAGS) };
    // The loader knows libraries by their names, so the number of the file must not be used again.
    std::mem::forget(copy);
    let opened = opened.map_err(|error| find_reason(&name, &error))?;
    Ok(opened.into())
}

/// The words of the system's loader.
const MISSING: &str = "cannot open shared object file: No such file or directory";

fn copy_to_memory(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let name = path.file_name().unwrap_or_default();
    let mut copy = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    copy.write_all(bytes)?;
    Ok(copy)
}

/// Finds the file that the system's loader takes for `file`: in `LD_LIBRARY_PATH`, in its cache, in its own folders. Loading it
/// to ask would run it.
pub(super) fn find_file(file: &str) -> Option<PathBuf> {
    if file.contains('/') {
        return Some(PathBuf::from(file)).filter(|path| path.exists());
    }
    let folders = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let set: Vec<PathBuf> = std::env::split_paths(&folders)
        .map(|folder| folder.join(file))
        .collect();
    let cache = std::fs::read("/etc/ld.so.cache").unwrap_or_default();
    let cached = cache
        .split(|&byte| byte == 0)
        .filter_map(|text| std::str::from_utf8(text).ok())
        .filter(|text| text.starts_with('/'))
        .map(PathBuf::from)
        .filter(|path| path.file_name().is_some_and(|name| name == file));
    let own =
        ["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(|folder| Path::new(folder).join(file));
    set.into_iter()
        .chain(cached)
        .chain(own)
        .find(|path| is_for_this_machine(path))
}

/// Returns `true` if the file is there and has programs for this processor, as this program's own file has.
fn is_for_this_machine(path: &Path) -> bool {
    let [own, other] = [Path::new("/proc/self/exe"), path].map(read_machine);
    other.is_some() && own == other
}

/// Reads the word size and the processor from the header of an ELF file.
fn read_machine(path: &Path) -> Option<[u8; 3]> {
    let mut header = [0; 20];
    File::open(path).ok()?.read_exact(&mut header).ok()?;
    header
        .starts_with(b"\x7fELF")
        .then(|| [header[4], header[18], header[19]])
}

/// A segment of an ELF file: its kind, its first byte in the file, and its address in memory.
struct Segment {
    kind: u64,
    start: u64,
    address: u64,
    bytes: u64,
}

/// Reads the names of the libraries that a library needs; `None` if it is no sound ELF file of 64 bits, lowest byte first.
fn read_needed(file: &[u8]) -> Option<Vec<String>> {
    // PT_LOAD, PT_DYNAMIC, DT_NEEDED, DT_STRTAB.
    let ([load, dynamic], [needed, strings]) = ([1, 2], [1, 5]);
    let segments = read_segments(file)?;
    let table = segments.iter().find(|segment| segment.kind == dynamic)?;
    let entries = (0..table.bytes / 16).map(|n| table.start + 16 * n);
    let entries =
        entries.map(|at| Some((read_number(file, at, 8)?, read_number(file, at + 8, 8)?)));
    let entries: Vec<(u64, u64)> = entries.collect::<Option<_>>()?;
    let &(_, address) = entries.iter().find(|(tag, _)| *tag == strings)?;
    let mut loaded = segments.iter().filter(|segment| segment.kind == load);
    let place = loaded.find(|s| (s.address..s.address + s.bytes).contains(&address))?;
    let texts = file.get((place.start + address - place.address) as usize..)?;
    let named = entries.iter().filter(|(tag, _)| *tag == needed);
    let names = named.map(|&(_, at)| {
        let name = texts.get(at as usize..)?.split(|&byte| byte == 0).next()?;
        Some(String::from_utf8_lossy(name).into_owned())
    });
    names.collect()
}

fn read_segments(file: &[u8]) -> Option<Vec<Segment>> {
    let first = file
        .starts_with(b"\x7fELF\x02\x01")
        .then(|| read_number(file, 32, 8))??;
    let (bytes, count) = (read_number(file, 54, 2)?, read_number(file, 56, 2)?);
    let headers = (0..count).map(|n| first + n * bytes);
    let segments = headers.map(|at| {
        Some(Segment {
            kind: read_number(file, at, 4)?,
            start: read_number(file, at + 8, 8)?,
            address: read_number(file, at + 16, 8)?,
            bytes: read_number(file, at + 32, 8)?,
        })
    });
    segments.collect()
}

/// Reads a little-endian number of this many bytes.
fn read_number(file: &[u8], at: u64, bytes: usize) -> Option<u64> {
    let bytes = file.get(usize::try_from(at).ok()?..)?.get(..bytes)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |number, &byte| number << 8 | u64::from(byte)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_files_are_found_and_their_needs_read() {
        let libm = find_file("libm.so.6").unwrap();
        let needed = read_needed(&std::fs::read(&libm).unwrap()).unwrap();
        assert!(needed.contains(&"libc.so.6".to_owned()), "{needed:?}");
        assert_eq!(find_file("libnowhere.so.7"), None);
        assert_eq!(read_needed(b"#!/bin/sh"), None);
    }

    #[test]
    fn a_file_that_is_cut_short_has_no_needs() {
        let bytes = std::fs::read(find_file("libm.so.6").unwrap()).unwrap();
        for length in [0, 5, 40, 64, 200, 1000] {
            assert_eq!(read_needed(&bytes[..length]), None, "{length}");
        }
    }
}

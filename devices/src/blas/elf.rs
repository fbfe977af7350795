//! Shared libraries as files: where the system's loader finds them, and what they say of themselves.

use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

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

/// Returns the file of this name in a folder, if it is there.
pub(super) fn find_beside(folder: &Path, name: &str) -> Option<PathBuf> {
    Some(folder.join(name)).filter(|beside| beside.exists())
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

/// The tables by which a library is linked.
#[derive(Debug, PartialEq)]
pub(super) struct LinkTables {
    /// Names of the libraries that it needs.
    pub needed: Vec<String>,
    /// Place in the file of the names of its functions, and of those that it takes from other libraries.
    names: Range<usize>,
}

impl LinkTables {
    /// Reads the tables of an ELF file of 64 bits, lowest byte first; `None` for any other file.
    pub fn of(file: &[u8]) -> Option<Self> {
        // PT_LOAD, PT_DYNAMIC, DT_NEEDED, DT_STRTAB, DT_STRSZ.
        let ([load, dynamic], [needed, strings, size]) = ([1, 2], [1, 5, 10]);
        let segments = read_segments(file)?;
        let table = segments.iter().find(|segment| segment.kind == dynamic)?;
        let entries: Vec<(u64, u64)> = (0..table.bytes / 16)
            .map(|n| table.start + 16 * n)
            .map(|at| Some((read_number(file, at, 8)?, read_number(file, at + 8, 8)?)))
            .collect::<Option<_>>()?;
        let find = |wanted| entries.iter().find(|(tag, _)| *tag == wanted);
        let (&(_, address), &(_, bytes)) = (find(strings)?, find(size)?);
        let place = segments
            .iter()
            .filter(|segment| segment.kind == load)
            .find(|segment| {
                (segment.address..segment.address + segment.bytes).contains(&address)
            })?;
        let start = usize::try_from(place.start + address - place.address).ok()?;
        let names = start..start.checked_add(usize::try_from(bytes).ok()?)?;
        let texts = file.get(names.clone())?;
        let needed = entries
            .iter()
            .filter(|(tag, _)| *tag == needed)
            .map(|&(_, at)| {
                let name = texts.get(at as usize..)?.split(|&byte| byte == 0).next()?;
                Some(String::from_utf8_lossy(name).into_owned())
            })
            .collect::<Option<_>>()?;
        Some(Self { needed, names })
    }

    /// Returns `true` if the library has or takes a function whose name contains `part`.
    pub fn has_name(&self, file: &[u8], part: &str) -> bool {
        file[self.names.clone()]
            .windows(part.len())
            .any(|bytes| bytes == part.as_bytes())
    }
}

fn read_segments(file: &[u8]) -> Option<Vec<Segment>> {
    let first = file
        .starts_with(b"\x7fELF\x02\x01")
        .then(|| read_number(file, 32, 8))??;
    let (bytes, count) = (read_number(file, 54, 2)?, read_number(file, 56, 2)?);
    (0..count)
        .map(|n| first + n * bytes)
        .map(|at| {
            Some(Segment {
                kind: read_number(file, at, 4)?,
                start: read_number(file, at + 8, 8)?,
                address: read_number(file, at + 16, 8)?,
                bytes: read_number(file, at + 32, 8)?,
            })
        })
        .collect()
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

    fn read_libm() -> Vec<u8> {
        std::fs::read(find_file("libm.so.6").unwrap()).unwrap()
    }

    #[test]
    fn the_loaders_files_are_found_and_their_tables_read() {
        let file = read_libm();
        let tables = LinkTables::of(&file).unwrap();
        assert!(
            tables.needed.contains(&"libc.so.6".to_owned()),
            "{tables:?}"
        );
        assert!(tables.has_name(&file, "atan2") && !tables.has_name(&file, "dgemm"));
        assert_eq!(find_file("libnowhere.so.7"), None);
        assert_eq!(LinkTables::of(b"#!/bin/sh"), None);
    }

    #[test]
    fn a_file_that_is_cut_short_has_no_tables() {
        let file = read_libm();
        for length in [0, 5, 40, 64, 200, 1000] {
            assert_eq!(LinkTables::of(&file[..length]), None, "{length}");
        }
    }
}

//! Shared libraries as files: where the system's loader finds them, and what they say of themselves.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Finds the file that the system's loader takes for `file`: in `LD_LIBRARY_PATH`, in its cache, in its own folders. Loading it
/// to ask would run it.
pub(super) fn find_file(file: &str) -> Option<PathBuf> {
    if file.contains('/') {
        return Some(PathBuf::from(file)).filter(|path| path.exists());
    }
    let folders = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let set: Vec<PathBuf> =
        std::env::split_paths(&folders).map(|folder| folder.join(file)).collect();
    let cache = std::fs::read("/etc/ld.so.cache").unwrap_or_default();
    let cached = cache
        .split(|&byte| byte == 0)
        .filter_map(|text| std::str::from_utf8(text).ok())
        .filter(|text| text.starts_with('/'))
        .map(PathBuf::from)
        .filter(|path| path.file_name().is_some_and(|name| name == file));
    let own =
        ["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(|folder| Path::new(folder).join(file));
    set.into_iter().chain(cached).chain(own).find(|path| is_for_this_machine(path))
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
    header.starts_with(b"\x7fELF").then(|| [header[4], header[18], header[19]])
}

/// A segment of an ELF file: its kind, its first byte in the file, and its address in memory.
struct Segment {
    kind: u64,
    start: u64,
    address: u64,
    bytes: u64,
}

/// The most bytes of a table that are read: no library has as many, and a broken file may ask for any.
const MOST_BYTES: u64 = 256 << 20;

/// The tables by which a library is linked.
#[derive(Debug, PartialEq)]
pub(super) struct LinkTables {
    /// Names of the libraries that it needs.
    pub needed: Vec<String>,
    /// The names of its functions, and of those that it takes from other libraries, each ended by a zero.
    names: Vec<u8>,
}

impl LinkTables {
    /// Reads the tables of an ELF file of 64 bits, lowest byte first; `None` for any other file.
    pub fn read(path: &Path) -> Option<Self> {
        // PT_LOAD, PT_DYNAMIC, DT_NEEDED, DT_STRTAB, DT_STRSZ.
        let ([load, dynamic], [needed, strings, size]) = ([1, 2], [1, 5, 10]);
        let file = File::open(path).ok()?;
        let segments = read_segments(&file)?;
        let table = segments.iter().find(|segment| segment.kind == dynamic)?;
        let table = read_piece(&file, table.start, table.bytes)?;
        let (entries, _) = table.as_chunks::<16>();
        let entries: Vec<[u64; 2]> = entries
            .iter()
            .map(|entry| [0, 8].map(|at| read_number(entry, at, 8).unwrap_or_default()))
            .collect();
        let find = |wanted| entries.iter().find(|[tag, _]| *tag == wanted);
        let (&[_, address], &[_, bytes]) = (find(strings)?, find(size)?);
        let place = segments.iter().filter(|segment| segment.kind == load).find(|segment| {
            address.checked_sub(segment.address).is_some_and(|offset| offset < segment.bytes)
        })?;
        let start = place.start.checked_add(address - place.address)?;
        let names = read_piece(&file, start, bytes)?;
        let needed = entries
            .iter()
            .filter(|[tag, _]| *tag == needed)
            .map(|&[_, at]| {
                let name = names.get(usize::try_from(at).ok()?..)?;
                let name = name.split(|&byte| byte == 0).next()?;
                Some(String::from_utf8_lossy(name).into_owned())
            })
            .collect::<Option<_>>()?;
        Some(Self { needed, names })
    }

    /// Returns `true` if the library has or takes a function whose name contains `part`.
    pub fn has_name(&self, part: &str) -> bool {
        self.names.windows(part.len()).any(|bytes| bytes == part.as_bytes())
    }
}

fn read_segments(file: &File) -> Option<Vec<Segment>> {
    let header = read_piece(file, 0, 64).filter(|header| header.starts_with(b"\x7fELF\x02\x01"))?;
    let first = read_number(&header, 32, 8)?;
    let (bytes, count) = (read_number(&header, 54, 2)?, read_number(&header, 56, 2)?);
    let headers = read_piece(file, first, bytes * count)?;
    headers
        .chunks_exact(usize::try_from(bytes).ok().filter(|&bytes| bytes > 0)?)
        .map(|header| {
            Some(Segment {
                kind: read_number(header, 0, 4)?,
                start: read_number(header, 8, 8)?,
                address: read_number(header, 16, 8)?,
                bytes: read_number(header, 32, 8)?,
            })
        })
        .collect()
}

/// Reads this many bytes from byte `at` on.
fn read_piece(file: &File, at: u64, bytes: u64) -> Option<Vec<u8>> {
    if bytes > MOST_BYTES {
        return None;
    }
    let mut piece = vec![0; bytes as usize];
    file.read_exact_at(&mut piece, at).ok()?;
    Some(piece)
}

/// Reads a little-endian number of this many bytes.
fn read_number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let number = bytes.get(at..)?.get(..len)?;
    Some(number.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_files_are_found_and_their_tables_read() {
        let tables = LinkTables::read(&find_file("libm.so.6").unwrap()).unwrap();
        assert!(tables.needed.contains(&"libc.so.6".to_owned()), "{tables:?}");
        assert!(tables.has_name("atan2") && !tables.has_name("dgemm"));
        assert_eq!(find_file("libnowhere.so.7"), None);
        assert_eq!(LinkTables::read(Path::new("/etc/passwd")), None);
    }

    #[test]
    fn a_file_that_is_cut_short_has_no_tables() {
        let file = std::fs::read(find_file("libm.so.6").unwrap()).unwrap();
        let short = tempfile::NamedTempFile::new().unwrap();
        for length in [0, 5, 40, 64, 200, 1000] {
            std::fs::write(short.path(), &file[..length]).unwrap();
            assert_eq!(LinkTables::read(short.path()), None, "{length}");
        }
    }
}

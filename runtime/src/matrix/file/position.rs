//! `.npy` files that every rank reads, or writes, by itself: at the positions where its elements stand.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read as _, Seek as _};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use isochron_devices::Element;
use serde::{Deserialize, Serialize};

use super::npy::{self, Header};
use super::pieces::Order;
use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::matrix::redistribute::{Strides, copy_lines};
use crate::matrix::{Matrix, Region, digest};
use crate::output::PartialFile;

/// Bytes that are read or written at a time.
const PIECE: usize = 4 << 20;
/// The longest gap, in bytes, between two stretches that is read along with them: less than another call costs.
const MAX_GAP: usize = 16 << 10;
/// Places at which ranks compare what they see of a file, and bytes at each.
const SAMPLES: u64 = 32;
const SAMPLE: u64 = 4096;

/// Lines of a file, and indices along them, that are read or written at once.
#[derive(Debug, PartialEq, Eq)]
struct Stretch {
    lines: Range<usize>,
    along: Range<usize>,
}

/// Cuts a part into stretches of [`PIECE`] bytes or so. They hold several lines where no more than `max_gap` bytes lie
/// between the parts of two lines.
fn stretches(
    lines: Range<usize>,
    along: Range<usize>,
    (line_len, width): (usize, usize),
    max_gap: usize,
) -> impl Iterator<Item = Stretch> {
    let gap = (line_len - along.len()) * width;
    let most = (PIECE / width).max(1);
    let (n_lines, n_along) = if gap <= max_gap && line_len <= most {
        (most / line_len.max(1), along.len())
    } else {
        (1, along.len().min(most))
    };
    let cut = |range: Range<usize>, most: usize| {
        let end = range.end;
        range
            .step_by(most.max(1))
            .map(move |start| start..end.min(start.saturating_add(most)))
    };
    cut(lines, n_lines).flat_map(move |lines| {
        cut(along.clone(), n_along).map(move |along| Stretch {
            lines: lines.clone(),
            along,
        })
    })
}

/// Rows and columns of a part as lines of the file and indices along them, and the length of a line.
fn oriented<T: Element>(matrix: &Matrix<T>, order: Order) -> (Range<usize>, Range<usize>, usize) {
    let (part, whole) = (matrix.part(), matrix.spread());
    match order {
        Order::Columns => (part.col_range(), part.row_range(), whole.rows()),
        Order::Rows => (part.row_range(), part.col_range(), whole.cols()),
    }
}

/// Reads this rank's part of the file at `path` where all ranks see the same file; whether they do.
///
/// # Collective
/// All ranks.
pub(super) fn read<T: Element>(
    comm: &dyn Comm,
    path: &Path,
    matrix: &mut Matrix<T>,
) -> Result<bool, Error> {
    let seen = look(path);
    let all = comm.gather(&seen.as_ref().map(|(_, _, sight)| *sight))?;
    let same = all.iter().all(|sight| sight.is_some() && *sight == all[0]);
    let (Some((file, header, _)), true) = (seen, same) else {
        tracing::debug!(file = %path.display(), "ranks do not see the same file: the head reads it");
        return Ok(false);
    };
    let read = read_part(&file, &header, matrix);
    agree(
        comm,
        read.map_err(|error| Error::file(path, npy::read_failure(error))),
    )?;
    Ok(true)
}

/// The file, if this rank sees one, and a number that ranks have in common when what they see is alike: its length, its
/// header and samples of its elements. (Numbers of devices and files differ between hosts that share a file system.)
fn look(path: &Path) -> Option<(File, Header, u64)> {
    // Opening a pipe would take it from the rank that reads it.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut reader = BufReader::new(File::open(path).ok()?);
    let header = npy::header(&mut reader).ok()?;
    let sight = sight(&mut reader, header.start).ok()?;
    Some((reader.into_inner(), header, sight))
}

fn sight(reader: &mut BufReader<File>, start: u64) -> io::Result<u64> {
    let len = reader.get_ref().metadata()?.len();
    let mut seen = Vec::new();
    reader.rewind()?;
    reader.by_ref().take(start).read_to_end(&mut seen)?;
    for sample in 0..=SAMPLES {
        let room = len.saturating_sub(SAMPLE);
        let at = (u128::from(room) * u128::from(sample) / u128::from(SAMPLES)) as u64;
        let from = seen.len();
        seen.resize(from + SAMPLE.min(len) as usize, 0);
        reader.get_ref().read_exact_at(&mut seen[from..], at)?;
    }
    Ok(digest(&(len, seen)))
}

fn read_part<T: Element>(file: &File, header: &Header, matrix: &mut Matrix<T>) -> io::Result<()> {
    let order = header.shape.order;
    let (lines, along, line_len) = oriented(matrix, order);
    let width = header.decoder.width();
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    for Stretch { lines, along } in stretches(lines, along, (line_len, width), MAX_GAP) {
        let first = lines.start * line_len + along.start;
        bytes.resize(((lines.len() - 1) * line_len + along.len()) * width, 0);
        file.read_exact_at(&mut bytes, header.start + (first * width) as u64)?;
        values.resize(lines.len() * along.len(), T::ZERO);
        let parts = bytes.chunks_mut(line_len * width);
        for (part, values) in parts.zip(values.chunks_exact_mut(along.len())) {
            header.decoder.decode(part, values);
        }
        store(matrix, order, Stretch { lines, along }, &values);
    }
    Ok(())
}

/// Puts the elements of a stretch, line after line, into the local part.
fn store<T: Element>(matrix: &mut Matrix<T>, order: Order, stretch: Stretch, values: &[T]) {
    let Region { row, col, .. } = matrix.part();
    let Stretch { lines, along } = stretch;
    let ((rows, cols), strides) = match order {
        Order::Columns => ((along.clone(), lines), Strides::lines(along.len())),
        Order::Rows => ((lines, along.clone()), Strides::across(along.len())),
    };
    let mut local = matrix.local_mut();
    let ld = local.ld();
    let target = &mut local.data_mut()[rows.start - row + (cols.start - col) * ld..];
    let size = (rows.len(), cols.len());
    copy_lines((target, ld), (values, strides), size, &|value| value);
}

/// A file that is being written, as its writer tells the other ranks.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Target {
    /// Its temporary name, as bytes; it has a random number in it.
    name: Vec<u8>,
    /// Where the elements begin.
    start: u64,
    /// Bytes of the whole file.
    len: u64,
}

impl Target {
    /// Gives `partial`, which holds a header, its whole length; `None` where that is not possible. A rank that did not
    /// know that others write behind the end of what it sees might, on a network file system, fill that with zeros.
    pub(super) fn of<T>(partial: &mut PartialFile, elements: usize) -> Option<Self> {
        let name = partial.partial_path()?.as_os_str().as_bytes().to_vec();
        let start = partial.file().metadata().ok()?.len();
        let len = start + (size_of::<T>() * elements) as u64;
        partial.file().set_len(len).ok()?;
        Some(Self { name, start, len })
    }

    /// The file, if this rank sees it.
    fn open(&self) -> Option<File> {
        let name = PathBuf::from(OsString::from_vec(self.name.clone()));
        let metadata = std::fs::metadata(&name).ok()?;
        let same = metadata.is_file() && metadata.len() == self.len;
        // For writing alone, so that nothing of it comes into this host's cache.
        let mut options = OpenOptions::new();
        same.then(|| options.write(true).open(&name).ok())?
    }
}

/// Writes this rank's part into the file that the head tells of, where all ranks see it; whether they do.
///
/// # Collective
/// All ranks, with the same target.
pub(super) fn write<T: Element>(
    comm: &dyn Comm,
    path: &Path,
    target: Option<Target>,
    matrix: &Matrix<T>,
) -> Result<bool, Error> {
    let Some(target) = target else {
        return Ok(false);
    };
    let file = target.open();
    let mut blind = [u64::from(file.is_none())];
    comm.sum_u64(&mut blind);
    let (Some(file), [0]) = (file, blind) else {
        tracing::debug!(file = %path.display(), "ranks do not see the same file: the head writes it");
        return Ok(false);
    };
    let written = write_part(&file, target.start, matrix).and_then(|()| file.sync_all());
    agree(comm, written.map_err(|error| Error::output(path, error)))?;
    Ok(true)
}

fn write_part<T: Element>(file: &File, start: u64, matrix: &Matrix<T>) -> io::Result<()> {
    let (lines, along, line_len) = oriented(matrix, Order::Columns);
    let Region { row, col, .. } = matrix.part();
    let mut bytes = Vec::new();
    for Stretch { lines, along } in stretches(lines, along, (line_len, size_of::<T>()), 0) {
        bytes.clear();
        for line in lines.clone() {
            let column = &matrix.local().col(line - col)[along.start - row..][..along.len()];
            npy::encode(column, &mut bytes);
        }
        let first = lines.start * line_len + along.start;
        file.write_all_at(&bytes, start + (size_of::<T>() * first) as u64)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn stretches_cover_a_part_once_in_pieces(
            line_len in 0usize..3_000_000, from in 0.0f64..1.0, to in 0.0f64..1.0, first in 0usize..9, n in 0usize..40,
            width in prop::sample::select(vec![1usize, 4, 8]), max_gap in prop::sample::select(vec![0, MAX_GAP]),
        ) {
            let at = |share: f64| (share * line_len as f64) as usize;
            let along = at(from.min(to))..at(from.max(to));
            let all: Vec<Stretch> =
                stretches(first..first + n, along.clone(), (line_len, width), max_gap).collect();
            let gap = (line_len - along.len()) * width;
            let mut next = (first, along.start);
            for stretch in &all {
                prop_assert_eq!((stretch.lines.start, stretch.along.start), next);
                prop_assert!(stretch.lines.len() == 1 || stretch.along == along && gap <= max_gap);
                let elements = (stretch.lines.len() - 1) * line_len + stretch.along.len();
                prop_assert!(elements > 0 && elements * width <= PIECE);
                next = match stretch.along.end == along.end {
                    true => (stretch.lines.end, along.start),
                    false => (stretch.lines.start, stretch.along.end),
                };
            }
            let end = if along.is_empty() { first } else { first + n };
            prop_assert_eq!(next.0, end);
        }
    }
}

//! `.npy` files that every rank reads or writes itself, at the positions of its elements.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use isochron_devices::{Scalar, View};
use serde::{Deserialize, Serialize};

use super::losses::Losses;
use super::npy::{self, Header};
use super::pieces::{cut_pieces, orient};
use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::fault::{flip_bit, pass_phase};
use crate::input::WatchedFile;
use crate::matrix::{Digest, Matrix, Order, Region};
use crate::output::{PartialFile, longest_file, sync_file};
use crate::watch::note_progress;

/// Bytes that are read or written at a time.
const PIECE_BYTES: usize = 4 << 20;
/// Longest gap, in bytes, that is read along with the lines on both sides of it: reading it costs less than another call.
const MAX_GAP_BYTES: usize = 16 << 10;

/// Reads this rank's part of a file; returns what is lost of it.
pub(super) fn read_part<T: Scalar>(
    file: &WatchedFile,
    header: &Header<T>,
    matrix: &mut Matrix<T>,
) -> io::Result<Losses> {
    let order = header.shape.order;
    let whole = Region::new(0..matrix.spread().rows(), 0..matrix.spread().cols());
    let (part, line_len) = (orient(&matrix.part(), order), orient(&whole, order).rows);
    let width = header.width;
    let (most, max_gap) = (PIECE_BYTES / width, MAX_GAP_BYTES / width);
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    let mut losses = Losses::default();
    for piece in cut_pieces(&part, line_len, most, max_gap) {
        let first = piece.col * line_len + piece.row;
        bytes.resize(((piece.cols - 1) * line_len + piece.rows) * width, 0);
        file.read_exact_at(&mut bytes, header.start + (first * width) as u64)?;
        values.resize(piece.len(), T::ZERO);
        for (line, values) in
            bytes.chunks_mut(line_len * width).zip(values.chunks_exact_mut(piece.rows))
        {
            losses += header.decode_numbers(line, values);
        }
        store_piece(matrix, &orient(&piece, order), order, &values);
    }
    Ok(losses)
}

/// Stores the elements of a piece, line after line in this order, in the local part.
fn store_piece<T: Scalar>(matrix: &mut Matrix<T>, piece: &Region, order: Order, values: &[T]) {
    let source = match order {
        Order::Columns => View::new(values, piece.rows, piece.cols, piece.rows),
        Order::Rows => View::by_rows(values, piece.rows, piece.cols, piece.cols),
    };
    let place = piece.relative_to(&matrix.part());
    matrix.local_mut().into_block(place.row_range(), place.col_range()).copy_from(source);
}

/// A file being written, as its writer describes it to the other ranks.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SharedTarget {
    /// Its temporary name, with a random number in it.
    name: OsString,
    /// First byte of the elements.
    start: u64,
    /// Number of bytes of the whole file.
    len: u64,
}

impl SharedTarget {
    /// Gives `partial`, which holds a header, its whole length; returns `None` if that is not possible. On a network file
    /// system, a rank that does not know that others write beyond the end it sees might fill that part with zeros.
    pub(super) fn with_length<T>(partial: &mut PartialFile, elements: usize) -> Option<Self> {
        let start = partial.written();
        let len = start + (size_of::<T>() * elements) as u64;
        let name = partial.share(len)?.as_os_str().to_owned();
        Some(Self { name, start, len })
    }

    /// Opens the file, if this rank sees it.
    fn open(&self) -> Option<File> {
        let metadata = std::fs::metadata(&self.name).ok()?;
        if !metadata.is_file() || metadata.len() != self.len || self.len > longest_file() {
            return None;
        }
        // Only for writing, so that none of its content enters this host's cache.
        OpenOptions::new().write(true).open(&self.name).ok()
    }
}

/// Writes this rank's part into the head's file if all ranks see it; returns `false` if they do not.
///
/// # Collective
/// All ranks, with the same target.
pub(super) fn write_in_place<T: Scalar>(
    comm: &dyn Comm,
    path: &Path,
    target: Option<&SharedTarget>,
    matrix: &Matrix<T>,
) -> Result<bool, Error> {
    let Some(target) = target else {
        return Ok(false);
    };
    pass_phase("shared", note_progress);
    let file = target.open();
    let mut blind = [u64::from(file.is_none())];
    comm.sum_u64(&mut blind)?;
    let (Some(file), [0]) = (file, blind) else {
        tracing::debug!(file = %path.display(), "ranks do not see the same file: the head writes it");
        return Ok(false);
    };
    let written = write_part(&file, target.start, matrix).and_then(|()| sync_file(&file));
    agree(comm, written.map_err(|error| Error::output(path, error))).map(|()| true)
}

/// Reads this rank's part of the file again, and returns the digest of its elements.
pub(super) fn digest_part<T: Scalar>(
    target: &SharedTarget,
    matrix: &Matrix<T>,
) -> Result<Digest, String> {
    let file = File::open(&target.name).map_err(|error| error.to_string())?;
    let (part, line_len) = (matrix.part(), matrix.spread().rows());
    let mut digest = Digest::default();
    let mut elements = Vec::new();
    for piece in cut_pieces(&part, line_len, PIECE_BYTES / size_of::<T>(), 0) {
        elements.resize(piece.len(), T::ZERO);
        let first = piece.col * line_len + piece.row;
        let place = target.start + (size_of::<T>() * first) as u64;
        file.read_exact_at(bytemuck::cast_slice_mut(&mut elements), place)
            .map_err(npy::read_failure)?;
        for (col, column) in piece.col_range().zip(elements.chunks_exact(piece.rows)) {
            digest.add_column(piece.row, col, column);
        }
        note_progress();
    }
    Ok(digest)
}

fn write_part<T: Scalar>(file: &File, start: u64, matrix: &Matrix<T>) -> io::Result<()> {
    let (part, line_len) = (matrix.part(), matrix.spread().rows());
    let mut bytes = Vec::new();
    for piece in cut_pieces(&part, line_len, PIECE_BYTES / size_of::<T>(), 0) {
        let place = piece.relative_to(&part);
        bytes.clear();
        for col in place.col_range() {
            let elements = &matrix.local().col(col)[place.row_range()];
            bytes.extend_from_slice(bytemuck::cast_slice(elements));
        }
        flip_bit("copied", &mut bytes);
        let first = piece.col * line_len + piece.row;
        file.write_all_at(&bytes, start + (size_of::<T>() * first) as u64)?;
        note_progress();
    }
    Ok(())
}

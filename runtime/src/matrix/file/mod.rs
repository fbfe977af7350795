//! Matrices in files, read and written in pieces.
//!
//! If all ranks are known to see the same `.npy` file, each reads or writes its own part, at the positions of its elements.
//! Otherwise the head rank reads the file from front to back, a few MiB at a time, and sends each piece's elements to the ranks
//! that hold them. Writing goes the other way. So only the head's host needs to see the file, and no rank holds more than its
//! own part and one piece. The file's ending gives the format: `.npy` (NumPy) or `.mtx` (Matrix Market, dense `array` or sparse `coordinate`).
//! An `.mtx` file has no positions and goes through the head.

mod coordinate;
mod head;
mod market;
mod npy;
mod pieces;
mod position;
mod reading;

use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use isochron_devices::{ElementType, Scalar};
use serde::{Deserialize, Serialize};

use super::redistribute::Moved;
use super::{Matrix, Order};
use crate::comm::{CollectiveCall, Comm, agree};
use crate::error::Error;
use crate::input::WatchedFile;
use crate::output::PartialFile;

pub use reading::{InputFile, open, read};

/// Rank that opens files.
const HEAD: usize = 0;

/// Fills memory with the next elements of a file, read from front to back, or says why the file does not hold them. Once all
/// are read, it checks that the file holds nothing else.
type ReadElements<T> = Box<dyn FnMut(&mut [T]) -> Result<(), String>>;

type OpenFile<T> = (FileShape, ReadElements<T>);

/// Shape of the matrix in a file, as the header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileShape {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// Smallest type that holds all its numbers; `f64` for integers.
    pub element: ElementType,
    order: Order,
}

/// Functions of a format for matrices of `T`.
struct Format<T> {
    open: fn(Rc<WatchedFile>) -> Result<OpenFile<T>, String>,
    write_header: fn(&mut BufWriter<PartialFile>, usize, usize) -> io::Result<()>,
    write_elements: fn(&mut BufWriter<PartialFile>, &[T]) -> io::Result<()>,
    /// Returns the length of a file with a number of elements of a type.
    estimate_bytes: fn(u64, ElementType) -> u64,
    /// `true` if the place of an element in the file follows from its indices.
    has_positions: bool,
}

impl<T: Scalar> Format<T> {
    fn of_path(path: &Path) -> Result<Self, Error> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("npy") => Ok(Self {
                open: npy::open_npy,
                write_header: npy::write_header::<T>,
                write_elements: npy::write_elements,
                estimate_bytes: npy::count_bytes,
                has_positions: true,
            }),
            Some("mtx") => Ok(Self {
                open: market::open_market,
                write_header: market::write_header::<T>,
                write_elements: market::write_elements,
                estimate_bytes: market::estimate_bytes,
                has_positions: false,
            }),
            _ => Err(Error::file(
                path,
                "the name must end in .npy (NumPy) or .mtx (Matrix Market)",
            )),
        }
    }
}

/// Does on the head what may fail there; the other ranks get `None`.
fn do_on_head<R>(
    comm: &dyn Comm,
    action: impl FnOnce() -> Result<R, Error>,
) -> Result<Option<R>, Error> {
    agree(comm, (comm.rank() == HEAD).then(action).transpose())
}

/// Space for a matrix in a file.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    /// On the head.
    partial: Option<PartialFile>,
}

/// Reserves the space of a matrix of this shape and type at `path`, before anything is computed. For a text the space is
/// estimated, and the rest is given back.
///
/// # Errors
/// [`Error::File`] on every rank if the ending is unknown or the head rank cannot write in the folder; [`Error::Space`] if
/// there is too little space.
///
/// # Collective
/// All ranks.
pub fn reserve(
    comm: &dyn Comm,
    path: &Path,
    (rows, cols): (usize, usize),
    element: ElementType,
) -> Result<OutputFile, Error> {
    let _call = CollectiveCall::new(comm, "file::reserve")
        .with_debug("path", &path)
        .with("shape", &(rows, cols))
        .with("element", &element)
        .enter()?;
    let partial = do_on_head(comm, || {
        let estimate_bytes = Format::<f64>::of_path(path)?.estimate_bytes;
        let elements = (rows as u64).saturating_mul(cols as u64);
        PartialFile::create(path, estimate_bytes(elements, element))
    })?;
    let path = path.to_path_buf();
    Ok(OutputFile { path, partial })
}

impl OutputFile {
    /// Writes `matrix`, column by column, and returns the messages that this rank sent for it. The file appears under its
    /// name only once it is complete.
    ///
    /// # Errors
    /// [`Error::Output`] on every rank if a rank that writes fails; [`Error::Shape`] for a [window](super::Spread::within): no rank
    /// holds the rest.
    ///
    /// # Collective
    /// All ranks.
    pub fn write<T: Scalar>(self, comm: &dyn Comm, matrix: &Matrix<T>) -> Result<Moved, Error> {
        let begin = Instant::now();
        let _call = CollectiveCall::new(comm, "OutputFile::write")
            .with_debug("path", &self.path)
            .with("element", &T::TYPE)
            .with_spread("spread", matrix.spread())
            .enter()?;
        if matrix.spread().is_window() {
            let reason = "a window of a matrix is not written as a file: no rank holds the rest";
            return Err(Error::Shape(reason.to_owned()));
        }
        let Self { path, partial } = self;
        let output = partial.map(|partial| MatrixOutput::begin(partial, matrix));
        let mut output = agree(comm, output.transpose())?;
        // Taken out: the ranks that write into the file themselves get it.
        let target = output.as_mut().and_then(|output| output.target.take());
        let target = comm.share(HEAD, Some(target))?;
        let mut moved = match position::write_in_place(comm, &path, target, matrix)? {
            true => Moved::default(),
            false => head::write_pieces(comm, output.as_mut(), matrix)?,
        };
        agree(comm, output.map_or(Ok(()), MatrixOutput::publish))?;
        moved.seconds = begin.elapsed().as_secs_f64();
        Ok(moved)
    }
}

/// A matrix file that the head is writing.
struct MatrixOutput<T> {
    file: BufWriter<PartialFile>,
    format: Format<T>,
    target: Option<position::SharedTarget>,
}

impl<T: Scalar> MatrixOutput<T> {
    /// Writes the header.
    fn begin(partial: PartialFile, matrix: &Matrix<T>) -> Result<Self, Error> {
        let (rows, cols) = (matrix.spread().rows(), matrix.spread().cols());
        let format = Format::of_path(partial.path())?;
        let mut file = BufWriter::with_capacity(1 << 20, partial);
        let written = (format.write_header)(&mut file, rows, cols);
        accept_written(&mut file, written)?;
        let target = match format.has_positions {
            true => position::SharedTarget::with_length::<T>(file.get_mut(), rows * cols),
            false => None,
        };
        Ok(Self {
            file,
            format,
            target,
        })
    }

    fn write_elements(&mut self, elements: &[T]) -> Result<(), Error> {
        let written = (self.format.write_elements)(&mut self.file, elements);
        accept_written(&mut self.file, written)
    }

    fn publish(self) -> Result<(), Error> {
        let (partial, _) = self.file.into_parts();
        partial.publish()
    }
}

/// Writes the buffer after other bytes.
fn accept_written(file: &mut BufWriter<PartialFile>, written: io::Result<()>) -> Result<(), Error> {
    let written = written.and_then(|()| file.flush());
    written.map_err(|error| Error::output(file.get_ref().path(), error))
}

/// Writes `matrix` to the file at `path`.
///
/// # Errors
/// As [`reserve`] and [`OutputFile::write`].
///
/// # Collective
/// All ranks, with the same `path`.
pub fn write<T: Scalar>(comm: &dyn Comm, path: &Path, matrix: &Matrix<T>) -> Result<Moved, Error> {
    let shape = (matrix.spread().rows(), matrix.spread().cols());
    reserve(comm, path, shape, T::TYPE)?.write(comm, matrix)
}

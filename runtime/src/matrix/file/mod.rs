//! Matrices in files, read and written in pieces.
//!
//! If all ranks see the same `.npy` file, or copies of it, each reads its own part, at the positions of its elements. If they
//! see the same folder, each writes its own part too. Otherwise the head rank reads the file from front to back, a few MiB at a
//! time, and sends each piece's elements to the ranks that hold them. Writing goes the other way. So only the head's host needs
//! to see the file, and no rank holds more than its own part and one piece. The file's ending gives the format: `.npy` (NumPy)
//! or `.mtx` (Matrix Market, dense `array` or sparse `coordinate`). An `.mtx` file has no positions and goes through the head.

mod array;
mod banner;
mod coordinate;
mod head;
mod lines;
mod losses;
mod market;
#[cfg(test)]
mod market_tests;
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

use self::losses::Losses;
use self::pieces::{cut_pieces, orient};
use super::redistribute::Moved;
use super::{Digest, Matrix, Order, Region};
use crate::comm::{CollectiveCall, Comm, agree};
use crate::error::Error;
use crate::fault::flip_in_file;
use crate::input::WatchedFile;
use crate::output::PartialFile;
use crate::watch::note_progress;

pub use reading::{InputFile, open, read};

/// Rank that opens files.
const HEAD: usize = 0;
/// Largest number of elements that are digested at a time.
const DIGESTED: usize = 1 << 20;

/// Fills memory with the next elements of a file, read from front to back, or says why the file does not hold them. Once all
/// are read, it checks that the file holds nothing else.
type ReadElements<T> = Box<dyn FnMut(&mut [T]) -> Result<Losses, String>>;

type OpenFile<T> = (FileShape, ReadElements<T>);

/// Shape of the matrix in a file, as the header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileShape {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// Smallest type that holds all its numbers; `f64` for integers, although it rounds those beyond 2⁵³.
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
            _ => {
                Err(Error::file(path, "the name must end in .npy (NumPy) or .mtx (Matrix Market)"))
            }
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
/// Returns [`Error::File`] on every rank if the ending is unknown or the head rank cannot write in the folder;
/// [`Error::Space`] if there is too little space.
///
/// # Collective
/// All ranks.
pub fn reserve(
    comm: &dyn Comm,
    path: &Path,
    rows: usize,
    cols: usize,
    element: ElementType,
) -> Result<OutputFile, Error> {
    let _call = CollectiveCall::new(comm, "reserving an output file")
        .with_path("file", path)
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
    /// name only once it is complete and, read again, has the elements of the digest.
    ///
    /// `digest` is that of this rank's elements, taken before they were checked.
    ///
    /// # Errors
    /// Returns [`Error::Output`] on every rank if a rank that writes fails, or the elements in the file are others;
    /// [`Error::Shape`] for a [window](super::Spread::within): no rank holds the rest.
    ///
    /// # Collective
    /// All ranks.
    pub fn write<T: Scalar>(
        self,
        comm: &dyn Comm,
        matrix: &Matrix<T>,
        digest: Digest,
    ) -> Result<Moved, Error> {
        let begin = Instant::now();
        let _call = CollectiveCall::new(comm, "writing a file")
            .with_path("file", &self.path)
            .with("element", &T::TYPE)
            .with_text("matrix", matrix.spread().describe())
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
        let written = position::write_in_place(comm, &path, target.as_ref(), matrix)?;
        let mut moved = if written {
            Moved::default()
        } else {
            head::write_pieces(comm, output.as_mut(), matrix)?
        };
        let reread = output.as_mut().map(MatrixOutput::reread).transpose();
        let reread = agree(comm, reread)?;
        let found = match (&target, reread) {
            (Some(target), _) if written => position::digest_part(target, matrix),
            (_, Some(mut written)) => written.digest(),
            _ => Ok(Digest::default()),
        };
        let found = agree(comm, found.map_err(|reason| Error::output(&path, reason)))?;
        if found.sum_over_ranks(comm)? != digest.sum_over_ranks(comm)? {
            let reason = "the elements that were written are not those that were computed: a bit has changed in memory or on the way to the disk; run it again";
            return Err(Error::output(path, reason));
        }
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
    shape: (usize, usize),
    /// Of the elements that this value was given to write, and their number.
    given: (Digest, usize),
}

impl<T: Scalar> MatrixOutput<T> {
    /// Writes the header.
    fn begin(partial: PartialFile, matrix: &Matrix<T>) -> Result<Self, Error> {
        let (rows, cols) = (matrix.spread().rows(), matrix.spread().cols());
        let format = Format::of_path(partial.path())?;
        let mut file = BufWriter::with_capacity(1 << 20, partial);
        let written = (format.write_header)(&mut file, rows, cols);
        accept_written(&mut file, written)?;
        let target = if format.has_positions {
            position::SharedTarget::with_length::<T>(file.get_mut(), rows * cols)
        } else {
            None
        };
        Ok(Self { file, format, target, shape: (rows, cols), given: (Digest::default(), 0) })
    }

    /// Writes the next elements, column after column.
    fn write_elements(&mut self, elements: &[T]) -> Result<(), Error> {
        let (digest, count) = &mut self.given;
        add_run(digest, self.shape.0, *count, elements);
        *count += elements.len();
        note_progress();
        let written = (self.format.write_elements)(&mut self.file, elements);
        accept_written(&mut self.file, written)
    }

    /// Opens what was written to read it again, on every rank after all have written. What went to a pipe is gone: then the
    /// elements that were given stand for it.
    fn reread(&mut self) -> Result<WrittenElements<T>, Error> {
        let partial = self.file.get_mut();
        let reopened = partial.reopen().and_then(|file| {
            let Some(file) = file else { return Ok(None) };
            flip_in_file("written", &file)?;
            WatchedFile::new(file).map(Rc::new).map(Some)
        });
        let failed = |reason: String| Error::output(partial.path(), reason);
        match reopened.map_err(|error| failed(error.to_string()))? {
            Some(file) => (self.format.open)(file).map(WrittenElements::InFile).map_err(failed),
            None => Ok(WrittenElements::Given(self.given.0)),
        }
    }

    fn publish(self) -> Result<(), Error> {
        let (partial, _) = self.file.into_parts();
        partial.publish()
    }
}

/// Writes the buffer after other bytes.
fn accept_written(file: &mut BufWriter<PartialFile>, written: io::Result<()>) -> Result<(), Error> {
    written.and_then(|()| file.flush()).map_err(|error| Error::output(file.get_ref().path(), error))
}

/// Elements that were written, to be compared with those that should have been.
enum WrittenElements<T> {
    InFile(OpenFile<T>),
    Given(Digest),
}

impl<T: Scalar> WrittenElements<T> {
    fn digest(&mut self) -> Result<Digest, String> {
        match self {
            Self::InFile((shape, read)) => digest_elements(shape, read),
            Self::Given(digest) => Ok(*digest),
        }
    }
}

/// Digests the elements of a file, which are read from front to back.
fn digest_elements<T: Scalar>(
    shape: &FileShape,
    read: &mut ReadElements<T>,
) -> Result<Digest, String> {
    let order = shape.order;
    let mut digest = Digest::default();
    let whole = orient(&Region::new(0..shape.rows, 0..shape.cols), order);
    let mut elements = Vec::new();
    for piece in cut_pieces(&whole, whole.rows, DIGESTED, 0) {
        elements.resize(piece.len(), T::ZERO);
        read(&mut elements)?;
        note_progress();
        match order {
            Order::Columns => {
                let first = piece.col * whole.rows + piece.row;
                add_run(&mut digest, whole.rows, first, &elements);
            }
            Order::Rows => {
                for (at, element) in elements.iter().enumerate() {
                    let (row, col) = (piece.col + at / piece.rows, piece.row + at % piece.rows);
                    digest.add_column(row, col, std::slice::from_ref(element));
                }
            }
        }
    }
    // The end of the file.
    read(&mut [])?;
    Ok(digest)
}

/// Adds elements to a digest that lie one after the other, column after column of `rows` elements, from number `first` on.
fn add_run<T: Scalar>(digest: &mut Digest, rows: usize, first: usize, mut elements: &[T]) {
    let mut at = first;
    while !elements.is_empty() {
        let (col, row) = (at / rows, at % rows);
        let (column, rest) = elements.split_at(elements.len().min(rows - row));
        digest.add_column(row, col, column);
        at += column.len();
        elements = rest;
    }
}

/// Returns the rows and columns of the matrix in the file at `path`, and the digest of its numbers as elements of `T`; for one
/// process.
///
/// # Errors
/// Returns [`Error::File`] if the file is missing or broken.
pub fn digest_file<T: Scalar>(path: &Path) -> Result<((usize, usize), Digest), Error> {
    let failed = |reason: String| Error::file(path, reason);
    let format = Format::<T>::of_path(path)?;
    let file = WatchedFile::open(path).map_err(|error| failed(error.to_string()))?;
    let file = Rc::new(file);
    let (shape, mut read) = (format.open)(Rc::clone(&file)).map_err(failed)?;
    let is_same_type = if format.has_positions {
        shape.element == T::TYPE
    } else {
        // A text has all digits of its numbers, whatever their type was.
        shape.element.is_complex() == T::TYPE.is_complex()
    };
    if !is_same_type {
        return Err(failed(format!("holds {} numbers, not {}", shape.element, T::TYPE)));
    }
    let digest = digest_elements(&shape, &mut read).map_err(failed)?;
    file.check().map_err(|error| failed(error.to_string()))?;
    Ok(((shape.rows, shape.cols), digest))
}

/// Writes `matrix` to the file at `path`.
///
/// # Errors
/// On every rank, returns [`Error::File`] if the ending is unknown or the head rank cannot write in the folder;
/// [`Error::Space`] if there is too little space; [`Error::Output`] if a rank that writes fails, or the elements in the
/// file are others; [`Error::Shape`] for a [window](super::Spread::within): no rank holds the rest.
///
/// # Collective
/// All ranks, with the same `path`.
pub fn write<T: Scalar>(comm: &dyn Comm, path: &Path, matrix: &Matrix<T>) -> Result<Moved, Error> {
    let (rows, cols) = (matrix.spread().rows(), matrix.spread().cols());
    reserve(comm, path, rows, cols, T::TYPE)?.write(comm, matrix, matrix.digest())
}

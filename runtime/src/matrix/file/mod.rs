//! Matrices in files, read and written in pieces.
//!
//! Where all ranks see the same `.npy` file, each reads or writes its own part of it, at the positions where its elements
//! stand. Otherwise the head rank reads the file from front to back, a few MiB at a time, and sends each piece's elements
//! to the ranks that hold them; writing goes the other way. So only the head's host needs to see the file, and no
//! rank ever holds more than its own part and one piece. The format goes by the file's ending: `.npy` (NumPy)
//! or `.mtx` (Matrix Market, dense `array`), which has no positions and goes through the head.

mod head;
mod market;
mod npy;
mod pieces;
mod position;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use isochron_devices::{Element, ElementType};
use num_complex::Complex64;
use serde::{Deserialize, Serialize};

use super::redistribute::Moved;
use super::{Matrix, Spread};
use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::output::PartialFile;
use pieces::Order;

/// The rank that opens files.
const HEAD: usize = 0;

/// A dense file being read from front to back.
trait ElementReader<T> {
    /// Fills `out` with the next elements; the reason when the file does not hold them.
    fn read(&mut self, out: &mut [T]) -> Result<(), String>;
    /// Checks that nothing but the matrix is in the file, once all its elements are read.
    fn finish(&mut self) -> Result<(), String>;
}

/// A dense file being written from front to back.
trait ElementWriter<T> {
    fn write(&mut self, elements: &[T]) -> std::io::Result<()>;
}

/// What a file's header says of the matrix in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// The smallest type that has all its numbers: integers are taken as `f64`.
    pub element: ElementType,
    order: Order,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Npy,
    Market,
}

impl Format {
    fn of(path: &Path) -> Result<Self, Error> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("npy") => Ok(Format::Npy),
            Some("mtx") => Ok(Format::Market),
            _ => Err(Error::file(
                path,
                "the name must end in .npy (NumPy) or .mtx (Matrix Market)",
            )),
        }
    }
}

fn open<T: Element>(path: &Path) -> Result<(Shape, Box<dyn ElementReader<T>>), Error> {
    let format = Format::of(path)?;
    let file = File::open(path).map_err(|error| Error::file(path, error))?;
    match format {
        Format::Npy => npy::open(file),
        Format::Market => market::open(file),
    }
    .map_err(|reason| Error::file(path, reason))
}

/// The shape of the matrix in the file at `path`; the whole file is not read.
///
/// # Errors
/// [`Error::File`] on every rank when the head rank cannot read the header, or the file is plainly too short.
///
/// # Collective
/// All ranks.
pub fn shape(comm: &dyn Comm, path: &Path) -> Result<Shape, Error> {
    let opened = if comm.rank() == HEAD {
        open::<Complex64>(path).map(|(shape, _)| Some(shape))
    } else {
        Ok(None)
    };
    comm.share(HEAD, agree(comm, opened)?)
}

/// Reads the matrix in the file at `path` onto `spread`, and says what this rank sent others of it. Numbers of
/// another type in the file become the nearest ones of `f64`, and these the nearest of `T`: infinite where it does not reach so
/// far.
///
/// # Errors
/// [`Error::File`] on every rank when the file is missing, broken, truncated, of another shape than
/// `spread`, or holds complex numbers and `T` is real; [`Error::Allocation`].
///
/// # Collective
/// All ranks, with the same arguments.
pub fn read<T: Element>(
    comm: &dyn Comm,
    path: &Path,
    spread: Spread,
) -> Result<(Matrix<T>, Moved), Error> {
    let begin = Instant::now();
    let opened = if comm.rank() == HEAD {
        open(path).map(Some)
    } else {
        Ok(None)
    };
    let mut opened = agree(comm, opened)?;
    let shape: Shape = comm.share(HEAD, opened.as_ref().map(|(shape, _)| *shape))?;
    let wanted = (spread.rows(), spread.cols());
    if (shape.rows, shape.cols) != wanted {
        let found = format!(
            "holds a {}×{} matrix, wanted {}×{}",
            shape.rows, shape.cols, wanted.0, wanted.1
        );
        return Err(Error::file(path, found));
    }
    if shape.element.is_complex() && !T::TYPE.is_complex() {
        let found = format!("holds complex numbers, and {} has none", T::TYPE);
        return Err(Error::file(path, found));
    }
    let mut matrix = agree(comm, Matrix::zeros(spread, comm.rank()))?;
    let mut moved = Moved::default();
    let in_place = Format::of(path)? == Format::Npy && position::read(comm, path, &mut matrix)?;
    if !in_place {
        let reader = opened.as_mut().map(|(_, reader)| reader);
        head::read(comm, path, (shape.order, reader), &mut matrix, &mut moved)?;
    }
    moved.seconds = begin.elapsed().as_secs_f64();
    Ok((matrix, moved))
}

/// A matrix file being written.
struct Output<T> {
    partial: PartialFile,
    writer: Box<dyn ElementWriter<T>>,
    target: Option<position::Target>,
    path: PathBuf,
}

impl<T: Element> Output<T> {
    fn create(path: &Path, rows: usize, cols: usize) -> Result<Self, Error> {
        let format = Format::of(path)?;
        let mut partial = PartialFile::create(path)?;
        let failed = |error: std::io::Error| Error::output(path, error);
        let file = partial.file().try_clone().map_err(failed)?;
        let mut buffered = BufWriter::with_capacity(1 << 20, file);
        let mut target = None;
        let writer: Box<dyn ElementWriter<T>> = match format {
            Format::Npy => {
                npy::write_header::<T>(&mut buffered, rows, cols)
                    .and_then(|()| buffered.flush())
                    .map_err(failed)?;
                target = position::Target::of::<T>(&mut partial, rows * cols);
                npy::writer(buffered)
            }
            Format::Market => {
                market::write_header::<T>(&mut buffered, rows, cols).map_err(failed)?;
                market::writer(buffered)
            }
        };
        let path = path.to_path_buf();
        Ok(Self {
            partial,
            writer,
            target,
            path,
        })
    }

    /// How other ranks find the file, where they can write into it themselves.
    fn target(&mut self) -> Option<position::Target> {
        self.target.take()
    }

    fn write(&mut self, elements: &[T]) -> Result<(), Error> {
        let written = self.writer.write(elements);
        written.map_err(|error| Error::output(&self.path, error))
    }

    /// Gives the file its name.
    fn publish(mut self) -> Result<(), Error> {
        // An empty matrix has a header only, which is still to be flushed.
        self.write(&[])?;
        self.partial.publish()
    }
}

/// Writes `matrix` to the file at `path`, column by column, and says what this rank sent others of it. The file appears
/// under its name when it is complete, never before.
///
/// # Errors
/// [`Error::File`] and [`Error::Output`] on every rank when one that writes cannot; [`Error::Shape`] for a
/// [window](Spread::within), of which nobody holds the rest.
///
/// # Collective
/// All ranks, with the same `path`.
pub fn write<T: Element>(comm: &dyn Comm, path: &Path, matrix: &Matrix<T>) -> Result<Moved, Error> {
    let begin = Instant::now();
    if matrix.spread().is_window() {
        let reason = "a window of a matrix is not written as a file: nobody holds the rest";
        return Err(Error::Shape(reason.to_owned()));
    }
    let (rows, cols) = (matrix.spread().rows(), matrix.spread().cols());
    let created = if comm.rank() == HEAD {
        Output::<T>::create(path, rows, cols).map(Some)
    } else {
        Ok(None)
    };
    let mut output = agree(comm, created)?;
    let mut moved = Moved::default();
    let target = output.as_mut().and_then(Output::target);
    if !position::write(comm, path, comm.share(HEAD, Some(target))?, matrix)? {
        head::write(comm, output.as_mut(), matrix, &mut moved)?;
    }
    agree(comm, output.map_or(Ok(()), Output::publish))?;
    moved.seconds = begin.elapsed().as_secs_f64();
    Ok(moved)
}

/// Checks, before anything is computed, that a matrix can be written at `path`.
///
/// # Errors
/// [`Error::File`] on every rank when the ending is unknown or the head rank cannot write in the folder.
///
/// # Collective
/// All ranks.
pub fn check_writable(comm: &dyn Comm, path: &Path) -> Result<(), Error> {
    let outcome = if comm.rank() == HEAD {
        Format::of(path).and_then(|_| PartialFile::check(path))
    } else {
        Ok(())
    };
    agree(comm, outcome)
}

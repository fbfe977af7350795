//! Reading of matrices.

use isochron_hierarchy::printable::show_path;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use isochron_devices::{ElementType, Scalar};
use num_complex::Complex64;

use super::losses::Losses;
use super::{FileShape, Format, HEAD, ReadElements, do_on_head, head, npy, position};
use crate::comm::{CollectiveCall, Comm, agree};
use crate::error::Error;
use crate::input::{WatchedFile, describe_other_contents, find_other_contents};
use crate::matrix::redistribute::Moved;
use crate::matrix::{Matrix, Spread};

/// A file with a matrix, open on the ranks that read it. It must not change until it is [checked](Self::check).
#[derive(Debug)]
pub struct InputFile {
    path: PathBuf,
    shape: FileShape,
    /// `None` on ranks which get their elements from the head.
    file: Option<Rc<WatchedFile>>,
    /// `true` if each rank reads its own part.
    is_in_place: bool,
    notice: Option<String>,
    /// Losses of this rank, and the type of the matrix that was read last.
    losses: Cell<(Losses, ElementType)>,
}

/// Opens the file at `path`, and reads the shape of its matrix.
///
/// # Errors
/// Returns [`Error::File`] on every rank if the head rank cannot read the header, or the file is plainly too short.
///
/// # Collective
/// All ranks, with the same path.
pub fn open(comm: &dyn Comm, path: &Path) -> Result<InputFile, Error> {
    let _call = CollectiveCall::new(comm, "opening a file").with_path("file", path).enter()?;
    let opened = do_on_head(comm, || open_with_shape(path))?;
    let shape = comm.share(HEAD, opened.as_ref().map(|(_, shape)| *shape))?;
    let file = match opened {
        Some((file, _)) => Some(file),
        None => WatchedFile::open(path).ok().map(Rc::new),
    };
    let others = find_other_contents(comm, path, file.as_deref())?;
    let is_everywhere = comm.gather(&file.is_some())?.iter().all(|&has| has);
    let is_in_place =
        Format::<f64>::of_path(path)?.has_positions && others.is_empty() && is_everywhere;
    if !is_in_place {
        tracing::debug!(file = %path.display(), "the head reads the file for all ranks");
    }
    let others = describe_other_contents(comm, &others)?;
    let notice = others.map(|others| {
        let path = show_path(path);
        format!("{path}: {others}: the file of rank {HEAD} is read for all ranks")
    });
    Ok(InputFile {
        path: path.to_path_buf(),
        shape,
        file: file.filter(|_| is_in_place || comm.rank() == HEAD),
        is_in_place,
        notice,
        losses: Cell::new((Losses::default(), shape.element)),
    })
}

fn open_with_shape(path: &Path) -> Result<(Rc<WatchedFile>, FileShape), Error> {
    let open = Format::<Complex64>::of_path(path)?.open;
    let file = WatchedFile::open(path).map_err(|error| Error::file(path, error))?;
    let file = Rc::new(file);
    match open(Rc::clone(&file)) {
        Ok((shape, _)) => Ok((file, shape)),
        Err(reason) => Err(Error::file(path, reason)),
    }
}

impl InputFile {
    /// The file, as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The shape of the matrix.
    pub fn shape(&self) -> FileShape {
        self.shape
    }

    /// Names the ranks which have another file of this name on their hosts, the same on all ranks.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Reads the matrix onto `spread`, and returns the messages that this rank sent for it. Numbers of another type in the
    /// file become the nearest ones of `f64`, and these the nearest of `T`: infinite beyond its range.
    ///
    /// # Errors
    /// Returns [`Error::File`] on every rank if the file is broken, truncated, of another shape than `spread`, holds
    /// complex numbers and `T` is real, or has changed since it was opened; [`Error::Spread`] if a rank of `spread`
    /// holds more than one rectangle; [`Error::Allocation`].
    ///
    /// # Collective
    /// All ranks, with the same arguments.
    pub fn read<T: Scalar>(
        &self,
        comm: &dyn Comm,
        spread: Spread,
    ) -> Result<(Matrix<T>, Moved), Error> {
        let begin = Instant::now();
        let _call = CollectiveCall::new(comm, "reading a file")
            .with_path("file", &self.path)
            .with("element", &T::TYPE)
            .with_text("matrix", spread.describe())
            .enter()?;
        self.check_shape::<T>(&spread)?;
        let mut matrix = agree(comm, Matrix::zeros(spread, comm.rank()))?;
        let (mut moved, losses) = if self.is_in_place {
            let losses = agree(comm, self.read_part(&mut matrix))?;
            (Moved::default(), losses)
        } else {
            let mut read = do_on_head(comm, || self.read_elements())?;
            head::read_pieces(comm, &self.path, self.shape.order, read.as_mut(), &mut matrix)?
        };
        moved.seconds = begin.elapsed().as_secs_f64();
        let (before, _) = self.losses.get();
        // The head begins at the file's beginning each time.
        let all = if self.is_in_place { before + losses } else { before.max(losses) };
        self.losses.set((all, T::TYPE));
        Ok((matrix, moved))
    }

    /// Says what was lost of the numbers that were read, the same on all ranks: integers that became other ones, numbers that
    /// became infinite, and elements that were added up because a file of coordinates has several for one place.
    ///
    /// # Errors
    /// See [`Comm::sum_u64`].
    ///
    /// # Collective
    /// All ranks.
    pub fn describe_losses(&self, comm: &dyn Comm) -> Result<Option<String>, Error> {
        let (losses, element) = self.losses.get();
        Ok(losses.sum(comm)?.describe(&self.path, element))
    }

    /// Checks, once all is read, that the file has not changed meanwhile. After it has read more, it checks again.
    ///
    /// # Errors
    /// Returns [`Error::File`] on every rank if the file has changed since it was opened.
    ///
    /// # Collective
    /// All ranks.
    pub fn check(&self, comm: &dyn Comm) -> Result<(), Error> {
        let _call =
            CollectiveCall::new(comm, "checking a file").with_path("file", &self.path).enter()?;
        let file = self.file.as_deref();
        let checked = file.map_or(Ok(()), WatchedFile::check);
        agree(comm, checked.map_err(|error| Error::file(&self.path, error)))
    }

    fn check_shape<T: Scalar>(&self, spread: &Spread) -> Result<(), Error> {
        let (found, wanted) = (&self.shape, (spread.rows(), spread.cols()));
        if (found.rows, found.cols) != wanted {
            let reason = format!(
                "holds a {}×{} matrix, wanted {}×{}",
                found.rows, found.cols, wanted.0, wanted.1
            );
            return Err(Error::file(&self.path, reason));
        }
        if found.element.is_complex() && !T::TYPE.is_complex() {
            let reason = format!("holds complex numbers, and {} has none", T::TYPE);
            return Err(Error::file(&self.path, reason));
        }
        Ok(())
    }

    /// Returns the open file, on ranks that read it.
    fn opened(&self) -> Result<Rc<WatchedFile>, Error> {
        let file = self.file.clone();
        file.ok_or_else(|| Error::file(&self.path, "is not open on this rank"))
    }

    /// Reads the part of this rank.
    fn read_part<T: Scalar>(&self, matrix: &mut Matrix<T>) -> Result<Losses, Error> {
        let file = self.opened()?;
        let read = npy::read_header(&file).and_then(|header| {
            position::read_part(&file, &header, matrix).map_err(npy::read_failure)
        });
        blame_change(&file, read).map_err(|reason| Error::file(&self.path, reason))
    }

    /// Begins to read the elements from front to back.
    fn read_elements<T: Scalar>(&self) -> Result<ReadElements<T>, Error> {
        let file = self.opened()?;
        let opened = (Format::<T>::of_path(&self.path)?.open)(Rc::clone(&file));
        let opened = blame_change(&file, opened);
        let (_, mut read) = opened.map_err(|reason| Error::file(&self.path, reason))?;
        Ok(Box::new(move |out| {
            let is_end = out.is_empty();
            match read(out) {
                Ok(lost) if !is_end => Ok(lost),
                done => blame_change(&file, done),
            }
        }))
    }
}

/// Refuses an outcome of reading a file that has changed, whatever it is.
fn blame_change<R>(file: &WatchedFile, outcome: Result<R, String>) -> Result<R, String> {
    file.check().map_err(|error| error.to_string())?;
    outcome
}

/// Reads the matrix in the file at `path` onto `spread`, and returns the messages that this rank sent for it. A warning says
/// what was [lost](InputFile::describe_losses) of its numbers.
///
/// # Errors
/// On every rank, returns [`Error::File`] if the file cannot be read, is broken, truncated or of another shape than
/// `spread`, holds complex numbers and `T` is real, or has changed meanwhile; [`Error::Spread`] if a rank of `spread`
/// holds more than one rectangle; [`Error::Allocation`].
///
/// # Collective
/// All ranks, with the same arguments.
pub fn read<T: Scalar>(
    comm: &dyn Comm,
    path: &Path,
    spread: Spread,
) -> Result<(Matrix<T>, Moved), Error> {
    let file = open(comm, path)?;
    let read = file.read(comm, spread)?;
    if let Some(losses) = file.describe_losses(comm)?.filter(|_| comm.rank() == HEAD) {
        tracing::warn!("{losses}");
    }
    file.check(comm)?;
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt as _;
    use std::time::Duration;

    use super::*;
    use crate::comm::LocalComm;
    use crate::fault::injected::{cancel_after_reads, run_after_reads};
    use crate::matrix::Generator;

    const SIZE: usize = 40;

    /// Writes a matrix to a file of this name.
    fn write_matrix(folder: &Path, name: &str) -> PathBuf {
        let comm = LocalComm::new();
        let generator = Generator::Uniform { seed: 1 };
        let matrix: Matrix<f64> =
            Matrix::generate(Spread::whole(SIZE, SIZE), 0, generator).unwrap();
        let path = folder.join(name);
        super::super::write(&comm, &path, &matrix).unwrap();
        path
    }

    /// Writes other elements in place, a second later.
    fn rewrite(path: &Path) {
        let bytes = fs::read(path).unwrap();
        let file = File::options().write(true).open(path).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        let last = bytes.len() - 2; // A digit, in a text.
        file.write_all_at(&[bytes[last] ^ 1], last as u64).unwrap();
        file.set_modified(modified + Duration::from_secs(1)).unwrap();
    }

    fn open_to_read(path: &Path, is_in_place: bool) -> Result<InputFile, Error> {
        let opened = open(&LocalComm::new(), path)?;
        Ok(InputFile { is_in_place: is_in_place && opened.is_in_place, ..opened })
    }

    fn read_part(file: &InputFile) -> Result<(Matrix<f64>, Moved), Error> {
        file.read(&LocalComm::new(), Spread::whole(SIZE, SIZE))
    }

    fn assert_changed<R>(outcome: Result<R, Error>, what: &str) {
        let told = outcome.err().map(|error| error.to_string());
        let told = told.unwrap_or_else(|| panic!("{what}: no error"));
        assert!(told.contains("changed while it was read"), "{what}: {told}");
    }

    const WAYS: [(&str, bool); 3] = [("a.npy", true), ("a.npy", false), ("a.mtx", false)];

    #[test]
    fn a_file_rewritten_after_any_read_is_found_or_read_as_it_is_then() {
        let folder = tempfile::tempdir().unwrap();
        for (name, is_in_place) in WAYS {
            let path = write_matrix(folder.path(), name);
            let opened = open_to_read(&path, is_in_place).unwrap();
            read_part(&opened).unwrap();
            opened.check(&LocalComm::new()).unwrap();
            let (mut reads, mut found) = (1, 0);
            loop {
                let rewritten = path.clone();
                run_after_reads(reads, move || rewrite(&rewritten));
                let read = open_to_read(&path, is_in_place).and_then(|file| {
                    let (read, _) = read_part(&file)?;
                    file.check(&LocalComm::new())?;
                    Ok(read.digest())
                });
                // The reads are over if one more is waited for.
                if cancel_after_reads() {
                    break;
                }
                let what = format!("{name}, read {reads}");
                match read {
                    // Only the header was read before.
                    Ok(digest) => {
                        let now = open_to_read(&path, is_in_place).unwrap();
                        let (now, _) = read_part(&now).unwrap();
                        assert_eq!(digest, now.digest(), "{what}");
                    }
                    read => {
                        assert_changed(read, &what);
                        found += 1;
                    }
                }
                reads += 1;
            }
            assert!(reads > 2 && found > 0, "{name}: {found} of {reads}");
        }
    }

    #[test]
    fn a_file_rewritten_between_parts_is_found() {
        let folder = tempfile::tempdir().unwrap();
        for (name, is_in_place) in WAYS {
            let path = write_matrix(folder.path(), name);
            let opened = open_to_read(&path, is_in_place).unwrap();
            read_part(&opened).unwrap();
            rewrite(&path);
            assert_changed(read_part(&opened), name);
            assert_changed(opened.check(&LocalComm::new()), name);
        }
    }

    #[test]
    fn a_file_linked_and_replaced_between_parts_is_read_on() {
        let folder = tempfile::tempdir().unwrap();
        for (name, is_in_place) in WAYS {
            let path = write_matrix(folder.path(), name);
            let opened = open_to_read(&path, is_in_place).unwrap();
            let (first, _) = read_part(&opened).unwrap();
            let [link, other] = ["link", "other"].map(|name| folder.path().join(name));
            fs::hard_link(&path, &link).unwrap();
            assert_eq!(read_part(&opened).unwrap().0.digest(), first.digest());
            // The file that is open stays whole under its other name.
            fs::copy(&path, &other).unwrap();
            rewrite(&other);
            fs::rename(&other, &path).unwrap();
            assert_eq!(read_part(&opened).unwrap().0.digest(), first.digest());
            rewrite(&link);
            assert_changed(opened.check(&LocalComm::new()), name);
            fs::remove_file(&link).unwrap();
        }
    }

    #[test]
    fn lengths_that_the_file_does_not_have_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let numpy = |version: u8, len: &[u8], text: &str| {
            [&b"\x93NUMPY"[..], &[version, 0], len, text.as_bytes()].concat()
        };
        let nested = format!("{}1{}", "(".repeat(9_000), ")".repeat(900));
        let shape = "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967295), }";
        let market = "%%MatrixMarket matrix array real general\n";
        for (name, bytes, reason) in [
            ("a.npy", numpy(2, &[255; 4], "{}"), "truncated: a header of 4294967307 bytes"),
            ("a.npy", numpy(3, &[255; 4], ""), "truncated: a header of 4294967307 bytes"),
            ("a.npy", numpy(1, &[255; 2], &" ".repeat(70_000)), "wanted at most 10000"),
            ("a.npy", numpy(1, &[0x2f], ""), "not a NumPy file"),
            ("a.npy", numpy(9, &[1; 4], ""), "not a NumPy file"),
            ("a.npy", numpy(1, &9_901u16.to_le_bytes(), &nested), "not a NumPy file"),
            ("a.npy", numpy(1, &[shape.len() as u8, 0], shape), "an impossible shape"),
            ("a.mtx", format!("{market}4294967296 4294967295\n").into_bytes(), "truncated"),
            (
                "a.mtx",
                format!("{market}4294967296 4294967296\n").into_bytes(),
                "an impossible shape",
            ),
            (
                "a.mtx",
                format!("{}4 4 18446744073709551615\n", market.replace("array", "coordinate"))
                    .into_bytes(),
                "truncated",
            ),
        ] {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            let refused = open(&LocalComm::new(), &path).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}

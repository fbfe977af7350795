//! The linear system: a part of its rows on each rank.

use std::path::Path;

use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_core::devices::memory_available_bytes;
use isochron_core::hierarchy::layout::{Layout, Rect};
use isochron_core::hierarchy::partition::even;
use isochron_core::hierarchy::rebalance::{count_moved, list_ranges};
use isochron_core::matrix::file;
use isochron_core::prelude::{Generator, Matrix, Spread, StoredMut};
use isochron_core::rebalance::{UnitArray, migrate_units};
use isochron_devices::internal::MemoryScope;
use isochron_kernels::{SystemRows, multiply_row};

use super::options::SystemArguments;

/// A system `A·x = b` of `n` unknowns. Each rank has some of its rows, which follow each other in the order of the ranks.
pub struct LinearSystem {
    n: usize,
    /// The rows of this rank, one after the other, and their right sides.
    a: UnitArray<f64>,
    b: UnitArray<f64>,
    weakest: Option<WeakestRow>,
}

/// The row whose diagonal is least above the sum of the row's other elements.
#[derive(Debug, Clone, Copy)]
pub struct WeakestRow {
    /// The row, counted from 0.
    pub row: usize,
    /// `|a_ii| / Σ_{j≠i} |a_ij|`: the method converges if it is above 1.
    pub ratio: f64,
}

/// Returns element `index` of the solution that systems without a given right side have.
pub fn know_solution(n: usize, index: usize) -> f64 {
    1.0 + index as f64 / n as f64
}

impl SystemArguments {
    /// Returns the number of unknowns.
    ///
    /// # Errors
    /// [`Error::File`] on every rank for a file that is broken, empty or not square.
    ///
    /// # Collective
    /// All ranks.
    pub fn find_size(&self, comm: &dyn Comm) -> Result<usize, Error> {
        match (&self.a, self.size) {
            (Some(path), _) => read_size(comm, path),
            (None, size) => Ok(size.unwrap_or(0)),
        }
    }

    /// Makes or reads the rows of a rank.
    fn make_rows(&self, comm: &dyn Comm, rows: &[u64], n: usize) -> Result<UnitArray<f64>, Error> {
        match &self.a {
            Some(path) => read_rows(comm, path, rows, n),
            None => self.generate_rows(comm, rows, n),
        }
    }

    fn generate_rows(
        &self,
        comm: &dyn Comm,
        rows: &[u64],
        n: usize,
    ) -> Result<UnitArray<f64>, Error> {
        let generator = Generator::Uniform { seed: self.seed };
        let mut a = UnitArray::zeros(comm, rows, n)?;
        let first = a.part().start as usize;
        for (row, elements) in (first..).zip(a.chunks_exact_mut(n)) {
            for (col, element) in elements.iter_mut().enumerate() {
                *element = generator.element::<f64>(row, col).abs();
            }
            elements[row] = 0.0;
            let others: f64 = elements.iter().sum();
            elements[row] = self.dominance * if others > 0.0 { others } else { 1.0 };
        }
        Ok(a)
    }
}

/// Reads the size of a square matrix.
fn read_size(comm: &dyn Comm, path: &Path) -> Result<usize, Error> {
    let shape = file::open(comm, path)?.shape();
    if shape.rows != shape.cols {
        let found = format!("holds a {}×{} matrix, and A is square", shape.rows, shape.cols);
        return Err(Error::file(path, found));
    }
    if shape.rows == 0 {
        return Err(Error::file(path, "holds a 0×0 matrix, and a system has unknowns"));
    }
    Ok(shape.rows)
}

/// Reads a matrix of finite numbers, each rank its rows, which lie one after the other.
fn read_rows(
    comm: &dyn Comm,
    path: &Path,
    rows: &[u64],
    cols: usize,
) -> Result<UnitArray<f64>, Error> {
    let spread = spread_rows(rows, cols)?;
    let (matrix, _): (Matrix, _) = file::read(comm, path, spread.clone())?;
    if let Some(found) = matrix.find_not_finite(comm)? {
        return Err(Error::file(path, found));
    }
    let mut elements = UnitArray::zeros(comm, rows, cols)?;
    matrix.to_spread(comm, &spread, StoredMut::by_rows(&mut elements, cols))?;
    Ok(elements)
}

/// Gives each rank its rows of a matrix.
fn spread_rows(rows: &[u64], cols: usize) -> Result<Spread, Error> {
    let total: u64 = rows.iter().sum();
    let rects = list_ranges(rows)
        .into_iter()
        .map(|part| Rect::new(part.start, 0, part.end - part.start, cols as u64));
    let layout = Layout::new(total, cols as u64, rects.collect())?;
    Ok(Spread::on_layout(total as usize, cols, 1, &layout))
}

impl LinearSystem {
    /// Makes or reads the system, divided evenly.
    ///
    /// # Errors
    /// On every rank, if any rank fails: [`Error::Memory`], [`Error::Allocation`], those of the files, and
    /// [`Error::Parameter`] for a zero on the diagonal.
    ///
    /// # Collective
    /// All ranks.
    pub fn open(comm: &dyn Comm, source: &SystemArguments, n: usize) -> Result<Self, Error> {
        let rows = even(comm.size(), n as u64);
        // A file is read into a matrix first, whose rows are copied.
        let copies = if source.a.is_some() { 2 } else { 1 };
        check_memory(comm, copies * rows[comm.rank()], n)?;
        let mut system = Self {
            n,
            a: source.make_rows(comm, &rows, n)?,
            b: UnitArray::zeros(comm, &rows, 1)?,
            weakest: None,
        };
        match &source.b {
            Some(path) => system.b = read_rows(comm, path, &rows, 1)?,
            None => system.multiply_known(),
        }
        system.weakest = system.find_weakest(comm)?;
        Ok(system)
    }

    /// Number of unknowns.
    pub fn size(&self) -> usize {
        self.n
    }

    /// Rows of each rank.
    pub fn rows(&self) -> &[u64] {
        self.a.units()
    }

    /// The rows of this rank.
    pub fn local(&self) -> SystemRows<'_> {
        SystemRows { a: &self.a, b: &self.b, first: self.a.part().start as usize }
    }

    /// Number of elements of A on this rank.
    pub fn count_elements(&self) -> u64 {
        self.a.len() as u64
    }

    /// Returns the row whose diagonal is weakest; `None` if A is diagonal.
    pub fn dominance(&self) -> Option<WeakestRow> {
        self.weakest
    }

    /// Returns the largest `|b|` of all ranks.
    ///
    /// # Collective
    /// All ranks.
    pub fn find_scale(&self, comm: &dyn Comm) -> Result<f64, Error> {
        comm.largest(self.b.iter().fold(0.0, |most, b| most.max(b.abs())))
    }

    /// Moves the rows that change their rank. Returns their number.
    ///
    /// # Collective
    /// All ranks, with the same `rows`.
    pub fn move_rows(&mut self, comm: &dyn Comm, rows: &[u64]) -> Result<u64, Error> {
        let (moved, _) = count_moved(self.rows(), rows);
        migrate_units(comm, rows, &mut self.a)?;
        migrate_units(comm, rows, &mut self.b)?;
        Ok(moved)
    }

    /// Sets the right sides to those of the known solution.
    fn multiply_known(&mut self) {
        let x: Vec<f64> = (0..self.n).map(|index| know_solution(self.n, index)).collect();
        for (b, row) in self.b.iter_mut().zip(self.a.chunks_exact(self.n)) {
            *b = multiply_row(row, &x);
        }
    }

    /// Finds the row whose diagonal is weakest.
    ///
    /// # Errors
    /// On every rank: [`Error::Parameter`] for a zero on the diagonal.
    fn find_weakest(&self, comm: &dyn Comm) -> Result<Option<WeakestRow>, Error> {
        Ok(comm
            .gather(&agree(comm, self.find_weakest_here())?)?
            .into_iter()
            .flatten()
            .min_by(|(a, _), (b, _)| a.total_cmp(b))
            .map(|(ratio, row)| WeakestRow { row, ratio }))
    }

    fn find_weakest_here(&self) -> Result<Option<(f64, usize)>, Error> {
        let mut weakest: Option<(f64, usize)> = None;
        for (own, row) in (self.local().first..).zip(self.a.chunks_exact(self.n)) {
            let diagonal = row[own].abs();
            if diagonal == 0.0 {
                let reason = "it is on the diagonal, by which Jacobi's method divides";
                let place = format!("0 in row {own} and column {own} (counted from 0)");
                return Err(Error::parameter("A", place, reason));
            }
            let others = row.iter().map(|element| element.abs()).sum::<f64>() - diagonal;
            let ratio = (diagonal / others).min(f64::MAX);
            if others > 0.0 && weakest.is_none_or(|(least, _)| ratio < least) {
                weakest = Some((ratio, own));
            }
        }
        Ok(weakest)
    }
}

/// Checks that the hosts have memory for `rows` rows on this rank.
fn check_memory(comm: &dyn Comm, rows: u64, n: usize) -> Result<(), Error> {
    let needed_bytes = rows.saturating_mul(8).saturating_mul(n as u64 + 1);
    let free_bytes = memory_available_bytes().unwrap_or(u64::MAX);
    let all = comm.gather(&(comm.host().to_owned(), needed_bytes, free_bytes))?;
    all.iter()
        .find_map(|(host, ..)| {
            let here = all.iter().filter(|(other, ..)| other == host);
            let needed_bytes = here.clone().fold(0_u64, |sum, rank| sum.saturating_add(rank.1));
            let available_bytes = here.map(|rank| rank.2).min().unwrap_or(u64::MAX);
            (needed_bytes > available_bytes).then(|| Error::Memory {
                host: host.clone(),
                rank: None,
                needed_bytes,
                available_bytes,
                bound: MemoryScope::Host,
                planned_bytes: None,
            })
        })
        .map_or(Ok(()), Err)
}

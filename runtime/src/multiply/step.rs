//! One step of SUMMA: the pivot panels of A and B, and the messages that bring them.

use std::ops::Range;

use isochron_devices::View;

use super::schedule::{Schedule, Segment};
use crate::comm::{Comm, Incoming, Meanwhile, Outgoing};
use crate::error::Error;
use crate::matrix::{Matrix, try_zeros};

/// The panels of one step: `A: rows×width` and `B: width×cols`, both column-major without gaps.
pub(super) struct Panels {
    a: Vec<f64>,
    b: Vec<f64>,
    rows: usize,
    cols: usize,
    width: usize,
}

impl Panels {
    pub(super) fn new(rows: usize, cols: usize, max_width: usize) -> Result<Self, Error> {
        let a = try_zeros(rows * max_width, "a panel of A")?;
        let b = try_zeros(cols * max_width, "a panel of B")?;
        Ok(Self {
            a,
            b,
            rows,
            cols,
            width: 0,
        })
    }

    pub(super) fn a(&self) -> View<'_, f64> {
        View::new(
            &self.a[..self.rows * self.width],
            self.rows,
            self.width,
            self.rows.max(1),
        )
    }

    pub(super) fn b(&self) -> View<'_, f64> {
        View::new(
            &self.b[..self.width * self.cols],
            self.width,
            self.cols,
            self.width.max(1),
        )
    }
}

/// Messages and elements that one rank sent.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Volume {
    pub messages: u64,
    pub elements: u64,
}

/// The operands of a multiplication, read step by step.
pub(super) struct Operands<'a> {
    pub comm: &'a dyn Comm,
    pub schedule: &'a Schedule,
    pub a: &'a Matrix,
    pub b: &'a Matrix,
    /// First row and first column of this rank's part of C.
    pub origin: (usize, usize),
}

impl Operands<'_> {
    /// Brings the panels of `step` into `panels` while `meanwhile` runs.
    pub(super) fn fetch(
        &self,
        step: usize,
        panels: &mut Panels,
        meanwhile: &mut Meanwhile<'_>,
    ) -> Volume {
        let k = self.schedule.k_range(step);
        let (a, b) = (self.schedule.a(step), self.schedule.b(step));
        panels.width = k.len();
        let packed_a = Packed::new(&a.sends, |rows| self.a_elements(rows, &k));
        let packed_b = Packed::new(&b.sends, |cols| self.b_elements(&k, cols));
        let sends: Vec<_> = packed_a
            .messages(&a.sends)
            .chain(packed_b.messages(&b.sends))
            .collect();
        let volume = Volume {
            messages: sends.len() as u64,
            elements: sends.iter().map(|send| send.data.len() as u64).sum(),
        };
        // Columns of B lie one after another in the panel and are received in place; rows of A are strided.
        let mut staged: Vec<_> = a
            .recvs
            .iter()
            .map(|s| vec![0.0; s.range.len() * k.len()])
            .collect();
        let incoming_a = a
            .recvs
            .iter()
            .zip(&mut staged)
            .map(|(s, data)| Incoming { from: s.rank, data });
        let mut recvs: Vec<_> = incoming_a.collect();
        let mut rest = &mut panels.b[..k.len() * panels.cols];
        let mut taken = 0;
        let mut in_order: Vec<_> = b.recvs.iter().collect();
        in_order.sort_by_key(|segment| segment.range.start);
        for segment in in_order {
            let (start, len) = (
                (segment.range.start - self.origin.1) * k.len(),
                segment.range.len() * k.len(),
            );
            let (data, after) = rest.split_at_mut(start - taken).1.split_at_mut(len);
            recvs.push(Incoming {
                from: segment.rank,
                data,
            });
            (rest, taken) = (after, start + len);
        }
        self.comm.exchange(&sends, &mut recvs, meanwhile);
        for (segment, data) in a.recvs.iter().zip(&staged) {
            self.store_a(panels, &segment.range, data);
        }
        if let Some(rows) = a.own {
            let data: Vec<f64> = self.a_elements(&rows, &k);
            self.store_a(panels, &rows, &data);
        }
        if let Some(cols) = b.own {
            let start = (cols.start - self.origin.1) * k.len();
            let data = self.b_elements(&k, &cols);
            panels.b[start..start + data.len()].copy_from_slice(&data);
        }
        volume
    }

    /// Rows of the pivot column of A that this rank holds, column after column.
    fn a_elements(&self, rows: &Range<usize>, k: &Range<usize>) -> Vec<f64> {
        copy(self.a, rows, k)
    }

    /// Columns of the pivot row of B that this rank holds, column after column.
    fn b_elements(&self, k: &Range<usize>, cols: &Range<usize>) -> Vec<f64> {
        copy(self.b, k, cols)
    }

    fn store_a(&self, panels: &mut Panels, rows: &Range<usize>, data: &[f64]) {
        let first = rows.start - self.origin.0;
        let columns = panels.a.chunks_exact_mut(panels.rows);
        for (column, values) in columns.zip(data.chunks_exact(rows.len())) {
            column[first..first + rows.len()].copy_from_slice(values);
        }
    }
}

/// The elements in `rows` and `cols` (of the whole matrix) of a local part, column after column.
fn copy(matrix: &Matrix, rows: &Range<usize>, cols: &Range<usize>) -> Vec<f64> {
    let (part, local) = (matrix.part(), matrix.local());
    let mut data = Vec::with_capacity(rows.len() * cols.len());
    for col in cols.clone() {
        data.extend_from_slice(
            &local.col(col - part.col)[rows.start - part.row..rows.end - part.row],
        );
    }
    data
}

/// Elements packed for sending, once for each stretch however many ranks want it.
struct Packed(Vec<(Range<usize>, Vec<f64>)>);

impl Packed {
    fn new(segments: &[Segment], pack: impl Fn(&Range<usize>) -> Vec<f64>) -> Self {
        let mut packed: Vec<(Range<usize>, Vec<f64>)> = Vec::new();
        for segment in segments {
            if !packed.iter().any(|(range, _)| *range == segment.range) {
                packed.push((segment.range.clone(), pack(&segment.range)));
            }
        }
        Self(packed)
    }

    fn messages<'a>(&'a self, segments: &'a [Segment]) -> impl Iterator<Item = Outgoing<'a>> {
        segments.iter().filter_map(|segment| {
            let (_, data) = self.0.iter().find(|(range, _)| *range == segment.range)?;
            Some(Outgoing {
                to: segment.rank,
                data,
            })
        })
    }
}

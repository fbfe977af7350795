//! One step of SUMMA: the pivot panels of A and B, and the messages that bring them.

use std::ops::Range;

use isochron_devices::{View, ViewMut};

use super::schedule::{Schedule, Segment, Transfers};
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

    /// The room for the widest panel of B.
    pub(super) fn b_room(&mut self) -> ViewMut<'_, f64> {
        let width = self.b.len() / self.cols.max(1);
        ViewMut::new(&mut self.b, width, self.cols, width.max(1))
    }

    /// The panel of A and that of B.
    pub(super) fn both(&self) -> isochron_devices::Panels<'_> {
        let (rows, width, cols) = (self.rows, self.width, self.cols);
        let a = View::new(&self.a[..rows * width], rows, width, rows.max(1));
        let b = View::new(&self.b[..width * cols], width, cols, width.max(1));
        (a, b)
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
        buffers: &mut Buffers,
        meanwhile: &mut Meanwhile<'_>,
    ) -> Volume {
        let k = self.schedule.k_range(step);
        let (a, b) = (self.schedule.a(step), self.schedule.b(step));
        panels.width = k.len();
        let Buffers { outbox, staged } = buffers;
        outbox.clear();
        outbox.pack(&a.sends, |rows, out| copy(self.a, rows, &k, out));
        outbox.pack(&b.sends, |cols, out| copy(self.b, &k, cols, out));
        let sends = outbox.messages();
        let volume = Volume {
            messages: sends.len() as u64,
            elements: sends.iter().map(|send| send.data.len() as u64).sum(),
        };
        // Columns of B lie one after another in the panel and are received in place; rows of A are strided.
        let lengths = a.recvs.iter().map(|segment| segment.range.len() * k.len());
        let staged = prepare(staged, lengths);
        let incoming_a = a.recvs.iter().zip(&mut *staged);
        let mut recvs: Vec<_> = incoming_a
            .map(|(s, data)| Incoming { from: s.rank, data })
            .collect();
        let (in_place, own_b) = b_slices(&mut panels.b, &b, self.origin.1, k.len());
        recvs.extend(in_place);
        let target = (&mut panels.a[..], panels.rows);
        let mut own = Some(|| self.copy_own((&a, &b), &k, target, own_b));
        self.comm.exchange(&sends, &mut recvs, &mut |progress| {
            meanwhile(&mut || {
                // This thread waits for the devices: the time to copy what needs no message.
                if let Some(copy) = own.take() {
                    copy();
                }
                progress();
            });
        });
        if let Some(copy) = own.take() {
            copy();
        }
        for (segment, data) in a.recvs.iter().zip(staged.iter()) {
            store_rows(
                (&mut panels.a[..], panels.rows),
                segment.range.start - self.origin.0,
                data,
                k.len(),
            );
        }
        volume
    }

    /// Copies what this rank holds itself into its panels.
    fn copy_own(
        &self,
        (a, b): (&Transfers, &Transfers),
        k: &Range<usize>,
        (panel_a, rows): (&mut [f64], usize),
        panel_b: &mut [f64],
    ) {
        if let Some(range) = &a.own {
            let first = range.start - self.origin.0;
            for (column, from) in panel_a
                .chunks_exact_mut(rows)
                .zip(columns(self.a, range, k))
            {
                column[first..first + range.len()].copy_from_slice(from);
            }
        }
        if let Some(range) = &b.own {
            for (column, from) in panel_b
                .chunks_exact_mut(k.len())
                .zip(columns(self.b, k, range))
            {
                column.copy_from_slice(from);
            }
        }
    }
}

/// The slices of the panel of B that are received in place, and the one that this rank copies itself.
fn b_slices<'a>(
    panel: &'a mut [f64],
    b: &Transfers,
    first_col: usize,
    width: usize,
) -> (Vec<Incoming<'a>>, &'a mut [f64]) {
    let own = b.own.iter().map(|range| (None, range));
    let from_others = b
        .recvs
        .iter()
        .map(|segment| (Some(segment.rank), &segment.range));
    let mut in_order: Vec<_> = own.chain(from_others).collect();
    in_order.sort_by_key(|(_, range)| range.start);
    let (mut recvs, mut own): (Vec<Incoming<'a>>, &'a mut [f64]) = (Vec::new(), &mut []);
    let (mut rest, mut taken) = (panel, 0);
    for (rank, range) in in_order {
        let (start, len) = ((range.start - first_col) * width, range.len() * width);
        let (data, after) = rest.split_at_mut(start - taken).1.split_at_mut(len);
        match rank {
            Some(from) => recvs.push(Incoming { from, data }),
            None => own = data,
        }
        (rest, taken) = (after, start + len);
    }
    // Both ends list their messages by rank, one of B for each pair.
    recvs.sort_by_key(|recv| recv.from);
    (recvs, own)
}

/// Puts `width` short columns of `data` into the rows from `first` on of a panel of A.
fn store_rows((panel, rows): (&mut [f64], usize), first: usize, data: &[f64], width: usize) {
    let len = data.len() / width;
    for (column, values) in panel.chunks_exact_mut(rows).zip(data.chunks_exact(len)) {
        column[first..first + len].copy_from_slice(values);
    }
}

/// The columns `cols`, cut to `rows` (both in the whole matrix), of a local part.
fn columns<'a>(
    matrix: &'a Matrix,
    rows: &Range<usize>,
    cols: &Range<usize>,
) -> impl Iterator<Item = &'a [f64]> {
    let (part, local) = (matrix.part(), matrix.local());
    let rows = rows.start - part.row..rows.end - part.row;
    cols.clone()
        .map(move |col| &local.col(col - part.col)[rows.clone()])
}

/// Appends the elements in `rows` and `cols` (of the whole matrix) of a local part, column after column.
fn copy(matrix: &Matrix, rows: &Range<usize>, cols: &Range<usize>, out: &mut Vec<f64>) {
    for column in columns(matrix, rows, cols) {
        out.extend_from_slice(column);
    }
}

/// Memory for messages, kept from step to step: fresh memory would be faulted in page by page every time.
#[derive(Default)]
pub(super) struct Buffers {
    outbox: Outbox,
    staged: Vec<Vec<f64>>,
}

/// As many buffers as there are lengths, each of its length.
fn prepare(buffers: &mut Vec<Vec<f64>>, lengths: impl Iterator<Item = usize>) -> &mut [Vec<f64>] {
    let mut count = 0;
    for len in lengths {
        if count == buffers.len() {
            buffers.push(Vec::new());
        }
        buffers[count].resize(len, 0.0);
        count += 1;
    }
    &mut buffers[..count]
}

/// Elements packed for sending, each stretch once however many ranks want it.
#[derive(Default)]
struct Outbox {
    buffers: Vec<Vec<f64>>,
    used: usize,
    /// Receiving rank and buffer of each message.
    messages: Vec<(usize, usize)>,
}

impl Outbox {
    fn clear(&mut self) {
        self.used = 0;
        self.messages.clear();
    }

    fn pack(&mut self, segments: &[Segment], fill: impl Fn(&Range<usize>, &mut Vec<f64>)) {
        let first = self.used;
        let mut packed: Vec<&Range<usize>> = Vec::new();
        for segment in segments {
            let known = packed.iter().position(|range| **range == segment.range);
            let buffer = known.map_or(self.used, |at| first + at);
            if known.is_none() {
                packed.push(&segment.range);
                if self.buffers.len() == self.used {
                    self.buffers.push(Vec::new());
                }
                self.buffers[self.used].clear();
                fill(&segment.range, &mut self.buffers[self.used]);
                self.used += 1;
            }
            self.messages.push((segment.rank, buffer));
        }
    }

    fn messages(&self) -> Vec<Outgoing<'_>> {
        let message = |&(to, buffer): &(usize, usize)| Outgoing {
            to,
            data: &self.buffers[buffer],
        };
        self.messages.iter().map(message).collect()
    }
}

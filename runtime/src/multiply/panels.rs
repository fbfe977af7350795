//! The panels of one step of SUMMA, and the messages that bring them.

use std::ops::Range;

use isochron_devices::{View, ViewMut};

use super::schedule::{Schedule, Segment, Transfers};
use crate::comm::{Comm, Message, Transfer};
use crate::error::Error;
use crate::matrix::{Matrix, Part, try_zeros};

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
    /// This rank's part of C.
    pub c: Part,
}

/// The buffers of [`Panels`]: those of A and of B, and behind them the messages that need a place of their own.
const A: usize = 0;
const B: usize = 1;

/// Room for the panels of one step, and how far they are.
///
/// `A: rows×width` and `B: width×cols` are column-major without gaps. What a rank holds whole is not copied: the
/// panel is then a part of the operand itself.
pub(super) struct Panels<'a> {
    state: State<'a>,
    /// Inner dimension of the step.
    k: Range<usize>,
    /// Whether each panel is the operand's own memory.
    in_place: [bool; 2],
    /// Messages that arrive in buffers of their own, and what they are of.
    staged: Vec<(usize, Staged)>,
}

/// What came in a buffer of its own: its place in the panel is strided.
enum Staged {
    RowsOfA(Segment),
    ColumnsOfB(Segment),
}

enum State<'a> {
    /// The messages are on their way.
    Coming(Transfer<'a, f64>),
    /// The panels are here, or there never were any.
    Here(Vec<Vec<f64>>),
}

impl<'a> Panels<'a> {
    /// Room for panels of at most `width` for a part of C, of A and of B where they are needed.
    pub(super) fn new(c: &Part, width: usize, needed: [bool; 2]) -> Result<Self, Error> {
        let [rows, cols] = [
            c.rows * usize::from(needed[A]),
            c.cols * usize::from(needed[B]),
        ];
        let a = try_zeros(rows * width, "a panel of A")?;
        let b = try_zeros(cols * width, "a panel of B")?;
        Ok(Self {
            state: State::Here(vec![a, b]),
            k: 0..0,
            in_place: [false; 2],
            staged: Vec::new(),
        })
    }

    /// The room for the widest panel of B, of the columns of a part of C; `None` where none is needed.
    pub(super) fn b_room(&mut self, cols: usize) -> Option<ViewMut<'_, f64>> {
        let State::Here(buffers) = &mut self.state else {
            panic!("panels are asked for while they travel");
        };
        let width = buffers[B].len() / cols.max(1);
        (width > 0).then(|| ViewMut::new(&mut buffers[B], width, cols, width))
    }

    /// Sends what others need for `step`, copies what this rank holds itself, and starts to receive the rest.
    pub(super) fn start(&mut self, operands: &Operands<'a>, step: usize) -> Volume {
        let State::Here(buffers) = &mut self.state else {
            panic!("panels are sent for while others travel");
        };
        let mut buffers = std::mem::take(buffers);
        self.k = operands.schedule.k_range(step);
        let (a, b) = (operands.schedule.a(step), operands.schedule.b(step));
        self.in_place = [
            is_whole(&a, &operands.c.row_range(), &self.k),
            is_whole(&b, &operands.c.col_range(), &self.k),
        ];
        let mut sends = Vec::new();
        let mut used = B + 1;
        pack(
            &mut buffers,
            &mut used,
            &a.sends,
            &mut sends,
            |segment, out| {
                copy(operands.a, &segment.lines, &segment.k, out);
            },
        );
        pack(
            &mut buffers,
            &mut used,
            &b.sends,
            &mut sends,
            |segment, out| {
                copy(operands.b, &segment.k, &segment.lines, out);
            },
        );
        self.copy_own(operands, (&a, &b), &mut buffers);
        let recvs = self.receive(operands.c, (&a, &b), &mut buffers, used);
        let volume = Volume {
            messages: sends.len() as u64,
            elements: sends.iter().map(|send| send.range.len() as u64).sum(),
        };
        self.state = State::Coming(Transfer::start(operands.comm, buffers, &sends, &recvs));
        volume
    }

    /// Copies what this rank holds of a panel of which others hold the rest.
    fn copy_own(
        &self,
        operands: &Operands<'_>,
        (a, b): (&Transfers, &Transfers),
        buffers: &mut [Vec<f64>],
    ) {
        let Part { row, col, rows, .. } = operands.c;
        let width = self.k.len();
        if let Some(Segment { lines, k, .. }) = a.own.as_ref().filter(|_| !self.in_place[A]) {
            let first = (k.start - self.k.start) * rows + lines.start - row;
            let target = buffers[A].get_mut(first..).unwrap_or_default();
            for (column, from) in target.chunks_mut(rows).zip(columns(operands.a, lines, k)) {
                column[..from.len()].copy_from_slice(from);
            }
        }
        if let Some(Segment { lines, k, .. }) = b.own.as_ref().filter(|_| !self.in_place[B]) {
            let first = (lines.start - col) * width + k.start - self.k.start;
            let target = buffers[B].get_mut(first..).unwrap_or_default();
            for (column, from) in target.chunks_mut(width).zip(columns(operands.b, k, lines)) {
                column[..from.len()].copy_from_slice(from);
            }
        }
    }

    /// Where the messages from others go: into the panels where their place is in one piece, else into buffers of their
    /// own, from number `used` on.
    fn receive(
        &mut self,
        c: Part,
        (a, b): (&Transfers, &Transfers),
        buffers: &mut Vec<Vec<f64>>,
        mut used: usize,
    ) -> Vec<Message> {
        self.staged.clear();
        let mut recvs = Vec::with_capacity(a.recvs.len() + b.recvs.len());
        let width = self.k.len();
        let mut own_buffer = |segment: &Segment| {
            let len = segment.lines.len() * segment.k.len();
            let buffer = next_buffer(buffers, &mut used);
            buffers[buffer].resize(len, 0.0);
            (buffer, 0..len)
        };
        for segment in &a.recvs {
            let Segment { rank, lines, k } = segment.clone();
            let (buffer, range) = if lines == c.row_range() {
                let columns = k.start - self.k.start..k.end - self.k.start;
                (A, columns.start * c.rows..columns.end * c.rows)
            } else {
                let place = own_buffer(segment);
                self.staged
                    .push((place.0, Staged::RowsOfA(segment.clone())));
                place
            };
            recvs.push(Message {
                rank,
                buffer,
                range,
            });
        }
        for segment in &b.recvs {
            let Segment { rank, lines, k } = segment.clone();
            let (buffer, range) = if k == self.k {
                let columns = lines.start - c.col..lines.end - c.col;
                (B, columns.start * width..columns.end * width)
            } else {
                let place = own_buffer(segment);
                self.staged
                    .push((place.0, Staged::ColumnsOfB(segment.clone())));
                place
            };
            recvs.push(Message {
                rank,
                buffer,
                range,
            });
        }
        recvs
    }

    /// Makes the messages progress, and puts what has come into its place; whether the panels are here.
    pub(super) fn progress(&mut self, c: &Part) -> bool {
        let State::Coming(transfer) = &mut self.state else {
            return true;
        };
        if !transfer.progress() {
            return false;
        }
        self.arrive(c);
        true
    }

    /// Waits for the messages, and puts what they brought into its place.
    pub(super) fn arrive(&mut self, c: &Part) {
        let coming = std::mem::replace(&mut self.state, State::Here(Vec::new()));
        let State::Coming(transfer) = coming else {
            self.state = coming;
            return;
        };
        let mut buffers = transfer.finish();
        for (buffer, what) in &self.staged {
            let data = std::mem::take(&mut buffers[*buffer]);
            match what {
                Staged::RowsOfA(Segment { lines, k, .. }) => {
                    let first = (k.start - self.k.start) * c.rows + lines.start - c.row;
                    store(&data, lines.len(), &mut buffers[A][first..], c.rows);
                }
                Staged::ColumnsOfB(Segment { lines, k, .. }) => {
                    let width = self.k.len();
                    let first = (lines.start - c.col) * width + k.start - self.k.start;
                    store(&data, k.len(), &mut buffers[B][first..], width);
                }
            }
            buffers[*buffer] = data;
        }
        self.state = State::Here(buffers);
    }

    /// The panel of A and that of B, for a part of C; they are here.
    pub(super) fn both<'s>(&'s self, operands: &Operands<'s>) -> isochron_devices::Panels<'s> {
        let State::Here(buffers) = &self.state else {
            panic!("panels are asked for while they travel");
        };
        let (Part { rows, cols, .. }, width) = (operands.c, self.k.len());
        let a = if self.in_place[A] {
            local(operands.a, &operands.c.row_range(), &self.k)
        } else {
            View::new(&buffers[A][..rows * width], rows, width, rows.max(1))
        };
        let b = if self.in_place[B] {
            local(operands.b, &self.k, &operands.c.col_range())
        } else {
            View::new(&buffers[B][..width * cols], width, cols, width.max(1))
        };
        (a, b)
    }
}

/// Whether this rank holds all of a panel.
fn is_whole(transfers: &Transfers, lines: &Range<usize>, k: &Range<usize>) -> bool {
    let own = transfers.own.as_ref();
    own.is_some_and(|own| own.lines == *lines && own.k == *k)
}

/// The part of an operand in `rows` and `cols` (of the whole matrix), which this rank holds.
fn local<'a>(matrix: &'a Matrix, rows: &Range<usize>, cols: &Range<usize>) -> View<'a, f64> {
    let Part { row, col, .. } = matrix.part();
    matrix.local().block(
        rows.start - row..rows.end - row,
        cols.start - col..cols.end - col,
    )
}

/// The columns of such a part.
fn columns<'a>(
    matrix: &'a Matrix,
    rows: &Range<usize>,
    cols: &Range<usize>,
) -> impl Iterator<Item = &'a [f64]> {
    let part = local(matrix, rows, cols);
    (0..part.cols()).map(move |j| part.col(j))
}

/// Appends such a part, column after column.
fn copy(matrix: &Matrix, rows: &Range<usize>, cols: &Range<usize>, out: &mut Vec<f64>) {
    for column in columns(matrix, rows, cols) {
        out.extend_from_slice(column);
    }
}

/// Puts columns of `len` elements into the columns of a matrix with leading dimension `ld`.
fn store(data: &[f64], len: usize, target: &mut [f64], ld: usize) {
    for (column, values) in target.chunks_mut(ld).zip(data.chunks_exact(len)) {
        column[..len].copy_from_slice(values);
    }
}

/// The number of the next buffer; they are kept from step to step, since fresh memory would be faulted in every time.
fn next_buffer(buffers: &mut Vec<Vec<f64>>, used: &mut usize) -> usize {
    if buffers.len() == *used {
        buffers.push(Vec::new());
    }
    *used += 1;
    *used - 1
}

/// Packs segments for sending, each stretch once however many ranks want it.
fn pack(
    buffers: &mut Vec<Vec<f64>>,
    used: &mut usize,
    segments: &[Segment],
    sends: &mut Vec<Message>,
    fill: impl Fn(&Segment, &mut Vec<f64>),
) {
    let mut packed: Vec<(&Segment, usize)> = Vec::new();
    for segment in segments {
        let same = |(other, _): &&(&Segment, usize)| {
            (&other.lines, &other.k) == (&segment.lines, &segment.k)
        };
        let buffer = match packed.iter().find(same) {
            Some((_, buffer)) => *buffer,
            None => {
                let buffer = next_buffer(buffers, used);
                buffers[buffer].clear();
                fill(segment, &mut buffers[buffer]);
                packed.push((segment, buffer));
                buffer
            }
        };
        sends.push(Message {
            rank: segment.rank,
            buffer,
            range: 0..buffers[buffer].len(),
        });
    }
}

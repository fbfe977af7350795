//! Files that only the head rank sees: it reads or writes a piece after the other and sends or collects the elements.

use std::path::Path;

use isochron_devices::Element;

use super::pieces::{Order, Piece, Pieces};
use super::{ElementReader, HEAD, Output};
use crate::comm::{Comm, Incoming, Outgoing, agree, exchange};
use crate::error::Error;
use crate::matrix::Matrix;
use crate::matrix::redistribute::Moved;

/// Reads a file that only the head sees, whose reader it has.
pub(super) fn read<T: Element>(
    comm: &dyn Comm,
    path: &Path,
    (order, mut reader): (Order, Option<&mut Box<dyn ElementReader<T>>>),
    matrix: &mut Matrix<T>,
    moved: &mut Moved,
) -> Result<(), Error> {
    let failed = |reason: String| Error::file(path, reason);
    let pieces = Pieces::new(matrix.spread(), order);
    let mut buffer = Vec::new();
    for piece in pieces.iter() {
        buffer.resize(if comm.rank() == HEAD { piece.len() } else { 0 }, T::ZERO);
        let read = reader.as_mut().map_or(Ok(()), |r| r.read(&mut buffer));
        agree(comm, read.map_err(failed))?;
        scatter(comm, &pieces, &piece, &buffer, matrix, moved);
    }
    let finished = reader.map_or(Ok(()), |reader| reader.finish());
    agree(comm, finished.map_err(failed))
}

/// Writes a file that only the head sees, which has it open.
pub(super) fn write<T: Element>(
    comm: &dyn Comm,
    mut output: Option<&mut Output<T>>,
    matrix: &Matrix<T>,
    moved: &mut Moved,
) -> Result<(), Error> {
    let pieces = Pieces::new(matrix.spread(), Order::Columns);
    let mut buffer = Vec::new();
    for piece in pieces.iter() {
        buffer.resize(if comm.rank() == HEAD { piece.len() } else { 0 }, T::ZERO);
        gather(comm, &pieces, &piece, &mut buffer, matrix, moved);
        let written = output.as_mut().map_or(Ok(()), |o| o.write(&buffer));
        agree(comm, written)?;
    }
    Ok(())
}

/// Sends one piece's elements from the head to the ranks that hold them.
fn scatter<T: Element>(
    comm: &dyn Comm,
    pieces: &Pieces,
    piece: &Piece,
    buffer: &[T],
    matrix: &mut Matrix<T>,
    moved: &mut Moved,
) {
    if comm.rank() == HEAD {
        let packed: Vec<(usize, Vec<T>)> = (0..comm.size())
            .filter(|&rank| rank != HEAD)
            .map(|rank| {
                (
                    rank,
                    pieces
                        .runs(piece, rank)
                        .flat_map(|run| &buffer[run.in_piece()])
                        .copied()
                        .collect(),
                )
            })
            .filter(|(_, data): &(usize, Vec<T>)| !data.is_empty())
            .collect();
        let sends: Vec<_> = packed
            .iter()
            .map(|(to, data)| Outgoing { to: *to, data })
            .collect();
        exchange(comm, &sends, &mut []);
        moved.count::<T>(sends.iter().map(|send| send.data.len()));
        for run in pieces.runs(piece, HEAD) {
            pieces.store(&run, &buffer[run.in_piece()], matrix);
        }
        return;
    }
    let mut data = vec![T::ZERO; pieces.runs(piece, comm.rank()).map(|run| run.len()).sum()];
    if data.is_empty() {
        return;
    }
    exchange(
        comm,
        &[],
        &mut [Incoming {
            from: HEAD,
            data: &mut data,
        }],
    );
    let mut rest = data.as_slice();
    for run in pieces.runs(piece, comm.rank()) {
        let (values, after) = rest.split_at(run.len());
        pieces.store(&run, values, matrix);
        rest = after;
    }
}

/// Collects one piece's elements from the ranks that hold them in the head's `buffer`.
fn gather<T: Element>(
    comm: &dyn Comm,
    pieces: &Pieces,
    piece: &Piece,
    buffer: &mut [T],
    matrix: &Matrix<T>,
    moved: &mut Moved,
) {
    let mine = |rank| {
        pieces
            .runs(piece, rank)
            .flat_map(|run| pieces.load(&run, matrix))
            .collect::<Vec<T>>()
    };
    if comm.rank() != HEAD {
        let data = mine(comm.rank());
        moved.count::<T>([data.len()]);
        if !data.is_empty() {
            exchange(
                comm,
                &[Outgoing {
                    to: HEAD,
                    data: &data,
                }],
                &mut [],
            );
        }
        return;
    }
    let mut parts: Vec<(usize, Vec<T>)> = (0..comm.size())
        .filter(|&rank| rank != HEAD)
        .map(|rank| {
            (
                rank,
                vec![T::ZERO; pieces.runs(piece, rank).map(|run| run.len()).sum()],
            )
        })
        .filter(|(_, data)| !data.is_empty())
        .collect();
    let mut recvs: Vec<_> = parts
        .iter_mut()
        .map(|(from, data)| Incoming { from: *from, data })
        .collect();
    exchange(comm, &[], &mut recvs);
    parts.push((HEAD, mine(HEAD)));
    for (rank, data) in &parts {
        let mut rest = data.as_slice();
        for run in pieces.runs(piece, *rank) {
            let (values, after) = rest.split_at(run.len());
            buffer[run.in_piece()].copy_from_slice(values);
            rest = after;
        }
    }
}

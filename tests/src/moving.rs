//! Redistribution and files on any number of ranks. Functions are as in [`cases`](crate::cases).

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use isochron::Error;
use isochron::comm::{Comm, agree};
use isochron::matrix::redistribute::{Moved, RedistributeConfig, Redistribution, redistribute};
use isochron::matrix::{
    BlockCyclic, Generator, Matrix, Order, ProcessGrid, Spread, Stored, StoredMut, file, volume,
};
use isochron::plan::Problem;
use isochron::product::{Factors, RunConfig};

use crate::cases::{layouts, open, plans_on_all, scale};

/// The value of gaps in local memory, and of elements that have not arrived.
const UNTOUCHED: i64 = -5;

fn number(row: usize, col: usize) -> i64 {
    (1 + row + 1000 * col) as i64
}

/// Makes spreads of a `rows×cols` matrix over `n` ranks, of every kind.
fn make_spreads(rows: usize, cols: usize, n: usize) -> Vec<Spread> {
    let block = 3;
    let blocks = [rows, cols].map(|size| size.div_ceil(block) as u64);
    let [even, lopsided, _, spiral] = layouts(n, blocks[0], blocks[1])
        .map(|layout| Spread::on_layout(rows, cols, block, &layout));
    let (p, q) = grid(n);
    let (by_rows, by_columns) = (ProcessGrid::by_rows(p, q), ProcessGrid::by_columns(q, p));
    let matrix = off_origin((rows, cols), (2, 5), by_rows);
    let cyclic = Spread::block_cyclic(&matrix, by_rows, n).unwrap();
    let larger = off_origin((rows + 5, cols + 9), (4, 2), by_columns);
    let larger = Spread::block_cyclic(&larger, by_columns, n).unwrap();
    vec![
        even,
        lopsided,
        spiral,
        Spread::on_one(rows, cols, n - 1, n).unwrap(),
        cyclic,
        larger.sub(3..3 + rows, 7..7 + cols).unwrap(),
    ]
}

/// Describes a block-cyclic matrix whose first block is not on the first rank.
pub(crate) fn off_origin(
    (rows, cols): (usize, usize),
    (row_block, col_block): (usize, usize),
    grid: ProcessGrid,
) -> BlockCyclic {
    BlockCyclic {
        row_source: grid.rows - 1,
        col_source: grid.cols / 2,
        ..BlockCyclic::new(rows, cols, row_block, col_block)
    }
}

/// Chooses a process grid of `n` ranks, or of one less if `n` is a prime.
pub fn grid(n: usize) -> (usize, usize) {
    match n {
        4 => (2, 2),
        6 => (2, 3),
        n if n > 2 && n % 2 == 1 => (2, n / 2),
        n => (1, n),
    }
}

/// Local memory for a spread, by columns or by rows, with a gap after each line.
struct Local {
    data: Vec<i64>,
    ld: usize,
    by_rows: bool,
}

impl Local {
    fn new(spread: &Spread, rank: usize, by_rows: bool) -> Self {
        let (rows, cols) = spread.local_shape(rank);
        let (along, lines) = if by_rows { (cols, rows) } else { (rows, cols) };
        // Leading dimensions may differ from rank to rank.
        let ld = along + 1 + rank;
        let data = vec![UNTOUCHED; ld * lines];
        Self { data, ld, by_rows }
    }

    fn filled(
        spread: &Spread,
        rank: usize,
        by_rows: bool,
        element: impl Fn(usize, usize) -> i64,
    ) -> Self {
        let mut local = Self::new(spread, rank, by_rows);
        spread.fill(rank, local.stored_mut(), element).unwrap();
        local
    }

    fn stored(&self) -> Stored<'_, i64> {
        if self.by_rows {
            Stored::by_rows(&self.data, self.ld)
        } else {
            Stored::by_columns(&self.data, self.ld)
        }
    }

    fn stored_mut(&mut self) -> StoredMut<'_, i64> {
        if self.by_rows {
            StoredMut::by_rows(&mut self.data, self.ld)
        } else {
            StoredMut::by_columns(&mut self.data, self.ld)
        }
    }
}

/// Moves between all kinds of spreads, in all orders, straight and transposed. Every element arrives in its place, no
/// other memory changes, and each rank sends no more than it must.
pub fn redistribution(comm: &dyn Comm) -> usize {
    let (rank, n) = (comm.rank(), comm.size());
    let mut count = 0;
    for (rows, cols, limit_bytes) in [(23, 37, 1 << 20), (37, 5, 600), (1, 40, 1), (0, 3, 64)] {
        for (i, to) in make_spreads(rows, cols, n).iter().enumerate() {
            for (j, straight) in make_spreads(rows, cols, n).iter().enumerate() {
                let transposed = (i + j) % 2 == 1;
                let from = if transposed { &make_spreads(cols, rows, n)[j] } else { straight };
                let by_rows = [i % 3 == 0, (i + j) % 3 == 1];
                let source = Local::filled(from, rank, by_rows[0], |row, col| {
                    if transposed { number(col, row) } else { number(row, col) }
                });
                let mut target = Local::new(to, rank, by_rows[1]);
                let config = RedistributeConfig {
                    transposed,
                    map: if j == 2 { Some(|value: i64| -value) } else { None },
                    limit_bytes,
                };
                let (source, memory) = (source.stored(), target.stored_mut());
                let moved = redistribute(comm, from, source, to, memory, &config).unwrap();
                let expected = Local::filled(to, rank, by_rows[1], |row, col| match j {
                    2 => -number(row, col),
                    _ => number(row, col),
                });
                assert_eq!(target.data, expected.data, "{i} from {j} on rank {rank}");
                let turned = if transposed { from.transposed() } else { from.clone() };
                assert_eq!(moved.bytes, 8 * volume(&turned, to)[rank]);
                assert!(moved.messages as usize >= usize::from(moved.bytes > 0));
                count += 1;
            }
        }
    }
    count
}

/// Runs prepared redistributions again and again, with other elements and leading dimensions each time: as
/// [`redistribute`], and without new memory.
pub fn prepared(comm: &dyn Comm) -> usize {
    let (rank, n) = (comm.rank(), comm.size());
    let mut count = 0;
    for (index, to) in make_spreads(23, 37, n).iter().enumerate() {
        let transposed = index % 2 == 1;
        let (rows, cols) = if transposed { (37, 23) } else { (23, 37) };
        let from = &make_spreads(rows, cols, n)[(index + 1) % 6];
        let config = RedistributeConfig { transposed, limit_bytes: 1000, ..Default::default() };
        let order = [Order::Columns, Order::Rows][index % 3 % 2];
        let by_rows = order == Order::Rows;
        let mut moves = Redistribution::prepare(comm, from, to, order, &config).unwrap();
        let kept = moves.message_bytes();
        for run in 0..3 {
            let source = Local::filled(from, rank, run == 1, |row, col| {
                if transposed { number(col, row) + run } else { number(row, col) + run }
            });
            let mut target = Local::new(to, rank, by_rows);
            let moved = moves.run(comm, source.stored(), target.stored_mut()).unwrap();
            let expected = Local::filled(to, rank, by_rows, |row, col| number(row, col) + run);
            assert_eq!(target.data, expected.data, "run {run} to {index} on rank {rank}");
            assert_eq!(moves.message_bytes(), kept);
            assert!(kept > 0 || moved.bytes == 0);
        }
        // One rank alone has memory of another order, and its target stays as it was.
        let source = Local::filled(from, rank, false, number);
        let mut target = Local::new(to, rank, by_rows != (rank + 1 == n));
        let text = moves.run(comm, source.stored(), target.stored_mut()).unwrap_err().to_string();
        let words = match order {
            Order::Rows => "row-major was prepared",
            Order::Columns => "column-major was prepared",
        };
        assert!(text.contains(words), "{text}");
        assert!(target.data.iter().all(|&value| value == UNTOUCHED));
        count += 1;
    }
    count
}

/// Multiplies a program's block-cyclic operands, one of them transposed and by rows, on our layouts. The product
/// returns to its submatrix.
pub fn embedded(shared: &Arc<dyn Comm>) -> usize {
    let comm = shared.as_ref();
    let (rank, n) = (comm.rank(), comm.size());
    let (p, q) = grid(n);
    let problem = Problem::new(31, 29, 37, 4).unwrap();
    let [at, b, c] = [
        ([1, 0, 37, 31, 3, 5, 0, 0, 37], ProcessGrid::by_rows(p, q)),
        ([1, 0, 37, 29, 4, 4, 0, 0, 37], ProcessGrid::by_columns(p, q)),
        ([1, 0, 40, 33, 2, 7, 0, 0, 40], ProcessGrid::by_rows(q, p)),
    ]
    .map(|(descriptor, grid)| {
        let matrix = BlockCyclic::from_descriptor(&descriptor).unwrap();
        Spread::block_cyclic(&matrix, grid, n).unwrap()
    });
    let c = c.sub(6..37, 2..31).unwrap();
    let (a_of, b_of) = (Generator::Integers { seed: 1 }, Generator::Integers { seed: 2 });
    let (rows, cols) = at.local_shape(rank);
    let mut a_local = vec![f64::NAN; rows * cols];
    let local = StoredMut::by_rows(&mut a_local, cols);
    at.fill(rank, local, |row, col| a_of.element(col, row)).unwrap();
    let (rows, cols) = b.local_shape(rank);
    let mut b_local = vec![f64::NAN; rows * cols];
    let local = StoredMut::by_columns(&mut b_local, rows);
    b.fill(rank, local, |row, col| b_of.element(row, col)).unwrap();
    for plan in plans_on_all(comm, problem) {
        let turned = RedistributeConfig { transposed: true, ..Default::default() };
        let a_source = Stored::by_rows(&a_local, at.local_shape(rank).1);
        let b_source = Stored::by_columns(&b_local, b.local_shape(rank).0);
        let (a, _) = Matrix::from_spread(comm, &at, a_source, plan.a(), &turned).unwrap();
        let config = RedistributeConfig::default();
        let (b, _) = Matrix::from_spread(comm, &b, b_source, plan.b(), &config).unwrap();
        let mut session = open(shared);
        let mut product = session.prepare(&plan, RunConfig::default()).unwrap();
        let mut planned_c = Matrix::zeros(plan.c(), rank).unwrap();
        product.run(&mut session, scale(1.0, 0.0), Factors::of(&a, &b), &mut planned_c).unwrap();
        let (rows, cols) = c.local_shape(rank);
        let mut found = vec![-1.0; rows * cols];
        let target = StoredMut::by_rows(&mut found, cols);
        planned_c.to_spread(comm, &c, target).unwrap();
        let mut wanted = vec![-1.0; rows * cols];
        let local = StoredMut::by_rows(&mut wanted, cols);
        c.fill(rank, local, |row, col| {
            (0..37).map(|l| a_of.element::<f64>(row, l) * b_of.element::<f64>(l, col)).sum()
        })
        .unwrap();
        assert_eq!(found, wanted);
    }
    4
}

/// Redistributes a matrix to other layouts; it stays the same matrix.
pub fn relaid(comm: &dyn Comm) -> usize {
    let generator = Generator::Uniform { seed: 4 };
    let all = layouts(comm.size(), 10, 9).map(|layout| Spread::on_layout(50, 41, 5, &layout));
    for pair in all.windows(2) {
        let before = Matrix::generate(pair[0].clone(), comm.rank(), generator).unwrap();
        let (after, _) = before.redistribute(comm, pair[1].clone()).unwrap();
        assert_same(&after, generator);
    }
    all.len() - 1
}

fn assert_same(matrix: &Matrix, generator: Generator) {
    let part = matrix.part();
    for j in 0..part.cols {
        for (i, &found) in matrix.local().col(j).iter().enumerate() {
            let expected: f64 = generator.element(part.row + i, part.col + j);
            assert_eq!(found, expected, "({i}, {j}) of {part:?}");
        }
    }
}

/// Redistributes with an error on one rank: all ranks refuse it, with the reason, before anything is sent.
pub fn refused(comm: &dyn Comm) -> usize {
    let (rank, n) = (comm.rank(), comm.size());
    let last = n - 1;
    let [first, end] = [0, last].map(|rank| Spread::on_one(4, 6, rank, n).unwrap());
    let text = refuse(comm, [&first, &end], usize::from(rank == last), 999);
    assert!(text.contains("local memory of 23 elements"), "{text}");
    let text = refuse(comm, [&first, &first.transposed()], 0, 999);
    assert!(text.contains("4×6 matrix cannot be moved to a spread of 6×4"), "{text}");
    let more = Spread::on_one(4, 6, 0, n + 1).unwrap();
    let text = refuse(comm, [&more, &more], 0, 999);
    assert!(text.contains(&format!("spread over {} ranks", n + 1)), "{text}");
    if n > 1 {
        let limit_bytes = 99 + usize::from(rank == last);
        let text = refuse(comm, [&first, &first], 0, limit_bytes);
        for part in ["limit_bytes is 99 on rank", &format!("100 on rank {last}")] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let own = Spread::on_one(4, 6, rank, n).unwrap();
        let text = refuse(comm, [&first, &own], 0, 99);
        for part in ["redistributing: target is a distribution of 4×6", "on rank 1"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    3
}

/// Redistributes into a local memory that lacks `short` elements; returns the error.
fn refuse(comm: &dyn Comm, [from, to]: [&Spread; 2], short: usize, limit_bytes: usize) -> String {
    let source = Local::filled(from, comm.rank(), false, number);
    let (rows, cols) = to.local_shape(comm.rank());
    let mut target = vec![0; (rows * cols).saturating_sub(short)];
    let memory = StoredMut::by_columns(&mut target, rows.max(1));
    let config = RedistributeConfig { limit_bytes, ..Default::default() };
    redistribute(comm, from, source.stored(), to, memory, &config).unwrap_err().to_string()
}

/// Reads and writes `.npy` files. If all ranks see the same file, each reads and writes its part and nothing is sent.
/// If they see different files, or none, the elements go through the head.
pub fn separate_files(comm: &dyn Comm, folder: &Path) -> usize {
    let (rank, n) = (comm.rank(), comm.size());
    let [_, spread, third, fourth] =
        layouts(n, 9, 500).map(|layout| Spread::on_layout(70, 4000, 8, &layout));
    let shared = [folder.join("by-columns.npy"), folder.join("by-rows.npy")];
    let matrix: Matrix = Matrix::generate(spread.clone(), rank, FILE).unwrap();
    let moved = file::write(comm, &shared[0], &matrix).unwrap();
    assert_eq!(sum_bytes(comm, moved), 0);
    if rank == 0 {
        std::fs::write(&shared[1], npy_by_rows(70, 4000)).unwrap();
    }
    comm.barrier().unwrap();
    for path in &shared {
        assert_eq!(read_same(comm, path, &fourth), 0);
    }

    // A folder for each rank stands for hosts with file systems of their own.
    let before = std::env::current_dir().unwrap();
    let own = folder.join(format!("rank-{rank}"));
    agree(comm, std::fs::create_dir_all(&own).map_err(failed)).unwrap();
    std::env::set_current_dir(&own).unwrap();
    let [by_columns, by_rows] = ["by-columns.npy", "by-rows.npy"].map(Path::new);
    let moved = file::write(comm, by_columns, &matrix).unwrap();
    assert_eq!(sum_bytes(comm, moved), bytes_of_others(&spread));
    let names = std::fs::read_dir(".").unwrap().count();
    assert_eq!(names, usize::from(rank == 0), "nothing else is left behind");
    let [both_ways, by_head] = [shared[0].clone(), folder.join("rank-0/by-columns.npy")];
    assert_eq!(std::fs::read(both_ways).unwrap(), std::fs::read(by_head).unwrap());
    assert_eq!(read_same(comm, by_columns, &fourth), bytes_of_others(&fourth));

    // Of the same length and with the same header, but with another element.
    let mut bytes = std::fs::read(&shared[1]).unwrap();
    let other = bytes.len() * 23 / 64;
    bytes[other] ^= u8::from(rank > 0);
    std::fs::write(by_rows, bytes).unwrap();
    comm.barrier().unwrap();
    assert_eq!(read_same(comm, by_rows, &third), bytes_of_others(&third));
    std::env::set_current_dir(before).unwrap();
    for (number, path) in
        [&shared[0], &shared[1], &folder.join("rank-0/by-rows.npy")].into_iter().enumerate()
    {
        let opened = file::open(comm, path).unwrap();
        opened.read::<f64>(comm, third.clone()).unwrap();
        comm.barrier().unwrap();
        rewrite_on_head(comm, path);
        let refused = if number > 0 {
            opened.check(comm).unwrap_err()
        } else {
            opened.read::<f64>(comm, third.clone()).unwrap_err()
        };
        let text = refused.to_string();
        assert!(text.contains("changed while it was read"), "{text}");
    }
    9
}

/// Writes another last byte, a second later.
fn rewrite_on_head(comm: &dyn Comm, path: &Path) {
    if comm.rank() == 0 {
        let last = std::fs::read(path).unwrap().len() - 1;
        let file = std::fs::File::options().write(true).open(path).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.write_all_at(&[1], last as u64).unwrap();
        file.set_modified(modified + std::time::Duration::from_secs(1)).unwrap();
    }
    comm.barrier().unwrap();
}

/// Reads a file of [`FILE`]; returns the bytes that all ranks sent for it.
fn read_same(comm: &dyn Comm, path: &Path, spread: &Spread) -> u64 {
    let (read, moved) = file::read(comm, path, spread.clone()).unwrap();
    assert_same(&read, FILE);
    sum_bytes(comm, moved)
}

fn sum_bytes(comm: &dyn Comm, moved: Moved) -> u64 {
    let mut bytes = [moved.bytes];
    comm.sum_u64(&mut bytes).unwrap();
    bytes[0]
}

/// Returns the bytes of the parts of all ranks but the head.
fn bytes_of_others(spread: &Spread) -> u64 {
    let others = 1..spread.n_ranks();
    others.map(|rank| 8 * spread.part(rank).len() as u64).sum()
}

/// Matrix in the files.
const FILE: Generator = Generator::Uniform { seed: 6 };

/// Makes a `.npy` file in C order.
fn npy_by_rows(rows: usize, cols: usize) -> Vec<u8> {
    let header =
        format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, {cols}), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    let elements = (0..rows).flat_map(|row| (0..cols).map(move |col| FILE.element(row, col)));
    bytes.extend(elements.flat_map(f64::to_le_bytes));
    bytes
}

fn failed(error: std::io::Error) -> Error {
    Error::Shape(error.to_string())
}

/// Runs collective operations on a communicator that cuts messages into short pieces.
pub fn short_pieces(comm: &dyn Comm) -> usize {
    let messages: Vec<Vec<u8>> = (0..comm.size())
        .map(|rank| (0..1000 + 10 * rank).map(|i| (i * (rank + 3)) as u8).collect())
        .collect();
    let all = comm.all_gather(&messages[comm.rank()]).unwrap();
    assert_eq!(all, messages);
    for (root, message) in messages.iter().enumerate() {
        let mut data = if comm.rank() == root { message.clone() } else { Vec::new() };
        comm.broadcast(root, &mut data).unwrap();
        assert_eq!(data, *message);
    }
    1 + comm.size()
}

//! Products of a program's own matrices, in a communicator of its own. Functions are as in [`cases`](crate::cases).

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use isochron::comm::mpi::MpiComm;
use isochron::mpi::topology::{Color, SimpleCommunicator};
use isochron::mpi::traits::Communicator as _;
use isochron::prelude::*;

use crate::cases::scale;

/// Shape of the products: m, n and k.
const SHAPE: (usize, usize, usize) = (61, 47, 83);

/// Elements of local memory that belong to no matrix.
const GAP: f64 = -77.0;

/// Returns all ranks but the second one, in a communicator of their own; `None` on that one.
fn leave_one_out(world: &Arc<dyn Comm>) -> Option<Arc<dyn Comm>> {
    if world.size() == 1 {
        return Some(Arc::clone(world));
    }
    let color = match world.rank() {
        1 => Color::undefined(),
        _ => Color::with_value(0),
    };
    let ranks = SimpleCommunicator::world().split_by_color(color)?;
    Some(MpiComm::adopt(&ranks).unwrap().into())
}

/// Counts the measurements of all nodes.
#[derive(Default)]
struct Measurements(Cell<u32>);

impl Observer for Measurements {
    fn observe(&self, progress: Progress) {
        if let Progress::Measuring { .. } = progress {
            self.0.set(self.0.get() + 1);
        }
    }
}

/// A matrix of whole numbers in this rank's memory.
struct Stock<T> {
    on: Distribution,
    /// The elements of this rank's blocks by row and column, with their pieces of memory and places there.
    held: Vec<(usize, usize, usize, usize)>,
    pieces: Vec<(Vec<T>, usize)>,
}

impl<T: Element> Stock<T> {
    /// Makes a matrix whose pieces on this rank are the regions `rows × cols`, with lines longer than needed.
    fn new(on: Distribution, rank: usize, regions: &[(Vec<usize>, Vec<usize>)]) -> Self {
        let (mut held, mut pieces) = (Vec::new(), Vec::new());
        assert_eq!(on.local_shapes(rank).len(), regions.len().max(1));
        for (piece, (rows, cols)) in regions.iter().enumerate() {
            let (along, lines) = match on.order() {
                Order::Columns => (rows.len(), cols.len()),
                Order::Rows => (cols.len(), rows.len()),
            };
            let ld = along + 3;
            for (j, &col) in cols.iter().enumerate() {
                let places = rows.iter().enumerate();
                held.extend(places.map(|(i, &row)| (row, col, piece, on.order().index(i, j, ld))));
            }
            pieces.push((vec![T::of(GAP.into()); ld * lines], ld));
        }
        if pieces.is_empty() {
            pieces.push((Vec::new(), 1));
        }
        Self { on, held, pieces }
    }

    /// Sets every element to `element(row, col)`.
    fn fill(&mut self, element: impl Fn(usize, usize) -> T) {
        for &(row, col, piece, place) in &self.held {
            self.pieces[piece].0[place] = element(row, col);
        }
    }

    fn shown(&self) -> Vec<(&[T], usize)> {
        (self.pieces.iter()).map(|(data, ld)| (&data[..], *ld)).collect()
    }

    fn lent(&mut self) -> Vec<(&mut [T], usize)> {
        (self.pieces.iter_mut()).map(|(data, ld)| (&mut data[..], *ld)).collect()
    }
}

/// Returns the indices of `n` in blocks of `block` that process `process` of `processes` holds, if `source` has the first.
fn deal(n: usize, block: usize, process: usize, processes: usize, source: usize) -> Vec<usize> {
    let owner = |index: usize| (index / block + source) % processes;
    (0..n).filter(|&index| owner(index) == process).collect()
}

/// The ways in which a program may have a matrix.
const WAYS: usize = 4;

/// Makes a `rows×cols` matrix on these ranks in one of the ways: block-cyclic with sources that are not 0, in rows as in C,
/// in a list of blocks, or all on the last rank.
fn stock<T: Element>(comm: &dyn Comm, (rows, cols): (usize, usize), way: usize) -> Stock<T> {
    let (rank, n) = (comm.rank(), comm.size());
    let all = |n: usize| (0..n).collect::<Vec<_>>();
    match way {
        0 => {
            let source = n - 1;
            let matrix = BlockCyclic::new(rows, cols, 7, 5).with_sources(0, source);
            let on = Distribution::block_cyclic(&matrix, ProcessGrid::by_rows(1, n), n).unwrap();
            let part = (all(rows), deal(cols, 5, rank, n, source));
            Stock::new(on, rank, &[part])
        }
        1 => {
            let cut = |rank: usize| rows * rank / n;
            let regions = (0..n).map(|rank| Region::new(cut(rank)..cut(rank + 1), 0..cols));
            let on = Distribution::of_regions(rows, cols, &regions.collect::<Vec<_>>()).unwrap();
            let part = ((cut(rank)..cut(rank + 1)).collect(), all(cols));
            Stock::new(on.row_major(), rank, &[part])
        }
        2 => {
            let list = BlockList {
                row_cuts: vec![0, 10, rows],
                col_cuts: vec![0, 1, 20, cols],
                owners: (0..6).map(|block| block * block % n).collect(),
            };
            let on = Distribution::of_blocks(&list, n).unwrap();
            let parts = (0..6).filter(|&block| list.owners[block] == rank).map(|block| {
                let (i, j) = (block % 2, block / 2);
                let rows = list.row_cuts[i]..list.row_cuts[i + 1];
                (rows.collect(), (list.col_cuts[j]..list.col_cuts[j + 1]).collect())
            });
            Stock::new(on, rank, &parts.collect::<Vec<_>>())
        }
        _ => {
            let on = Distribution::on_one(rows, cols, n - 1, n).unwrap();
            let part =
                if rank == n - 1 { (all(rows), all(cols)) } else { (Vec::new(), Vec::new()) };
            Stock::new(on, rank, &[part])
        }
    }
}

fn element<T: Element>(seed: u64, row: usize, col: usize) -> T {
    Generator::Integers { seed }.element(row, col)
}

/// Returns an element of A·B.
fn product_at<T: Element>(row: usize, col: usize) -> T {
    (0..SHAPE.2)
        .map(|l| element::<T>(1, row, l) * element::<T>(2, l, col))
        .fold(T::ZERO, |sum, term| sum + term)
}

/// Runs a prepared product ten times, each time with other scalars, and compares every element and every gap.
fn run_ten_times<T: Element>(
    session: &mut Session,
    product: &mut Product<T>,
    [a, b, c]: [&mut Stock<T>; 3],
) -> ProductRun {
    a.fill(|row, col| element(1, row, col));
    b.fill(|row, col| element(2, row, col));
    c.fill(|_, _| T::of(f64::NAN.into()));
    let products: Vec<T> = c.held.iter().map(|held| product_at(held.0, held.1)).collect();
    let mut last = None;
    for turn in 0..10 {
        let mut expected = c.pieces.clone();
        let number = |value: f64| T::of(value.into());
        // The first run overwrites what is not a number; later numbers stay exact in single precision.
        let scalars = scale(number([1.0, -2.0][turn % 2]), number([0.0, 1.0, -1.0][turn % 3]));
        for (&(_, _, piece, place), &sum) in c.held.iter().zip(&products) {
            let before = if scalars.beta == T::ZERO {
                T::ZERO
            } else {
                scalars.beta * expected[piece].0[place]
            };
            expected[piece].0[place] = scalars.alpha * sum + before;
        }
        let run = product.run(session, scalars, Factors::of(a.shown(), b.shown()), c.lent());
        last = Some(run.unwrap());
        assert!(c.pieces == expected, "{} in turn {turn}", T::TYPE);
    }
    last.unwrap()
}

/// Multiplies matrices that lie in unlike ways, ten times as planned once.
fn multiply_own<T: Element>(session: &mut Session, ways: [usize; 3], measured: &Measurements) {
    let shared = Arc::clone(session.comm());
    let comm = shared.as_ref();
    let (m, n, k) = SHAPE;
    let mut a = stock::<T>(comm, (m, k), ways[0]);
    let mut b = stock::<T>(comm, (k, n), ways[1]);
    let mut c = stock::<T>(comm, (m, n), ways[2]);
    let config = ProductConfig {
        block: Some(8),
        balance: BalanceConfig {
            strategy: Strategy::Fpm,
            max_iterations: 2,
            ..BalanceConfig::default()
        },
        ..ProductConfig::default()
    };
    let on = [&a, &b, &c].map(|stock| stock.on.clone());
    let mut product: Product<T> =
        session.prepare((on.each_ref(), config), RunConfig::default()).unwrap();
    let (plan, before) = (product.plan().clone(), measured.0.get());
    run_ten_times(session, &mut product, [&mut a, &mut b, &mut c]);
    assert_eq!((product.plan(), measured.0.get()), (&plan, before), "planned once");
    multiply_in_place::<T>(session, plan);
}

/// Multiplies matrices that lie where the plan has them: nothing is moved or copied.
fn multiply_in_place<T: Element>(session: &mut Session, plan: Plan) {
    let problem = plan.problem();
    // The product may be planned transposed.
    if problem.ops() != [Op::N; 2] || problem.m() != SHAPE.0 {
        return;
    }
    let rank = session.comm().rank();
    let mut stocks = [plan.a(), plan.b(), plan.c()].map(|spread| {
        let part = spread.part(rank);
        let lines = (part.row_range().collect(), part.col_range().collect());
        Stock::<T>::new(spread.into(), rank, &[lines])
    });
    let mut product = session.prepare::<T>(plan, RunConfig::default()).unwrap();
    let run = run_ten_times(session, &mut product, stocks.each_mut());
    assert_eq!(run.in_place, [true; 3]);
    assert_eq!(run.moved.bytes, 0);
}

/// A block-cyclic product: the grid, the process with the first block, and the operations.
type DealtProduct = ((usize, usize), usize, [Op; 2]);

/// Multiplies matrices in the same blocks on the same grid, and compares every element.
fn multiply_dealt<T: Element>(
    session: &mut Session,
    (shape, source, ops): DealtProduct,
    balance: BalanceConfig,
) -> ProductRun {
    let (rank, n) = (session.comm().rank(), session.comm().size());
    // An even number of blocks of 8 for each rank, of which the last is shorter.
    let (m, n_cols, k) = (16 * n - 3, 16 * n - 3, 24 * n - 1);
    let (rows, cols) = shape;
    let grid = ProcessGrid::by_columns(rows, cols);
    let sources = (source % rows, source % cols);
    let stock = |(height, width): (usize, usize)| {
        let blocks = BlockCyclic::new(height, width, 8, 8).with_sources(sources.0, sources.1);
        let on = Distribution::block_cyclic(&blocks, grid, n).unwrap();
        let part = grid.place(rank).map_or((Vec::new(), Vec::new()), |(i, j)| {
            let height = deal(height, 8, i, rows, sources.0);
            (height, deal(width, 8, j, cols, sources.1))
        });
        Stock::<T>::new(on, rank, &[part])
    };
    let turn = |op: Op, (height, width)| {
        if op.transposes() { (width, height) } else { (height, width) }
    };
    let mut a = stock(turn(ops[0], (m, k)));
    let mut b = stock(turn(ops[1], (k, n_cols)));
    let mut c = stock((m, n_cols));
    let config = ProductConfig {
        ops,
        block: Some(8),
        panel: Some(16),
        split: "c".parse().unwrap(),
        balance,
    };
    let on = [&a, &b, &c].map(|stock| stock.on.clone());
    let mut product: Product<T> =
        session.prepare((on.each_ref(), config), RunConfig::default()).unwrap();
    let stored = |seed: u64, op: Op, row, col| match op {
        Op::N => element::<T>(seed, row, col),
        Op::T => element(seed, col, row),
        Op::C => element::<T>(seed, col, row).conj(),
    };
    a.fill(|row, col| stored(1, ops[0], row, col));
    b.fill(|row, col| stored(2, ops[1], row, col));
    c.fill(|row, col| element(3, row, col));
    let scalars = scale(T::of(2.0.into()), T::of((-1.0).into()));
    let run = product.run(session, scalars, Factors::of(a.shown(), b.shown()), c.lent());
    let run = run.unwrap();
    let [of_a, of_b] = [(m, k), (k, n_cols)].map(|(height, width)| (0..height * width, height));
    let (of_a, of_b): (Vec<T>, Vec<T>) = (
        of_a.0.map(|at| element(1, at % of_a.1, at / of_a.1)).collect(),
        of_b.0.map(|at| element(2, at % of_b.1, at / of_b.1)).collect(),
    );
    for &(row, col, piece, place) in &c.held {
        let sum = (0..k)
            .map(|l| of_a[row + l * m] * of_b[l + col * k])
            .fold(T::ZERO, |sum, term| sum + term);
        let expected = scalars.alpha * sum + scalars.beta * element::<T>(3, row, col);
        let found = c.pieces[piece].0[place];
        assert_eq!(found, expected, "{row}, {col} of {shape:?} {source} {ops:?}");
    }
    run
}

/// Matrices in the same blocks on the same grid, of one row, of one column or square, are used where they lie. With a factor
/// stored transposed at least C is. Learning, which moves C in mid-run, and other grids change no result.
pub fn agreeing_blocks(comm: &Arc<dyn Comm>) -> usize {
    let n = comm.size();
    let mut session =
        Session::builder().blas(BlasChoice::Embedded).build(Arc::clone(comm)).unwrap();
    let still = BalanceConfig { strategy: Strategy::Homogeneous, ..BalanceConfig::default() };
    let mut learning = BalanceConfig::default();
    learning.adaptive.force_every = 1;
    let side = n.isqrt();
    let mut grids = vec![(n, 1), (1, n)];
    grids.extend((side > 1 && side * side == n).then_some((side, side)));
    let mut cases = 0;
    for (shape, source) in grids.iter().flat_map(|&grid| [(grid, 0), (grid, n - 1)]) {
        for ops in [[Op::N, Op::N], [Op::T, Op::N], [Op::N, Op::C]] {
            let product = (shape, source, ops);
            let run = multiply_dealt::<f64>(&mut session, product, still);
            let what = format!("{product:?}: {:?}", run.in_place);
            assert!(run.in_place[2], "{what}");
            // In a square grid sources deal out k to the columns otherwise than to the rows.
            if ops == [Op::N; 2] && (source == 0 || shape.0 != shape.1) {
                assert_eq!((run.in_place, run.moved.bytes), ([true; 3], 0), "{what}");
            }
            multiply_dealt::<Complex64>(&mut session, product, still);
            multiply_dealt::<f32>(&mut session, product, learning);
            cases += 3;
        }
    }
    // Some ranks have nothing.
    let smaller = ((n - 1).max(1), 1);
    multiply_dealt::<f64>(&mut session, (smaller, 0, [Op::N; 2]), learning);
    cases + 1
}

/// All ranks but one multiply matrices of their own, which lie in all ways, with elements of three types.
pub fn own_matrices(world: &Arc<dyn Comm>) -> usize {
    let Some(comm) = leave_one_out(world) else {
        return WAYS * 3;
    };
    let measured = Rc::new(Measurements::default());
    let mut session = Session::builder()
        .blas(BlasChoice::Embedded)
        .observer(measured.clone())
        .build(comm)
        .unwrap();
    for way in 0..WAYS {
        let ways = [way, (way + 1) % WAYS, (way + 3) % WAYS];
        multiply_own::<f32>(&mut session, ways, &measured);
        multiply_own::<f64>(&mut session, ways, &measured);
        multiply_own::<Complex64>(&mut session, ways, &measured);
    }
    WAYS * 3
}

/// Ranks that disagree on an argument all learn of it, and which one it is.
pub fn unlike_arguments(world: &Arc<dyn Comm>) -> usize {
    let (rank, n) = (world.rank(), world.size());
    let mut session =
        Session::builder().blas(BlasChoice::Embedded).build(Arc::clone(world)).unwrap();
    if n == 1 {
        return 0;
    }
    let square = |rows, cols| Distribution::on_one(rows, cols, 0, n).unwrap();
    let (usual, other) = (square(8, 8), square(8, 8 + rank % 2));
    for (on, name) in [
        ([&other, &usual, &usual], "A is a column-major distribution of 8×8"),
        ([&usual, &other, &usual], "B is a column-major distribution of 8×8"),
        ([&usual, &usual, &other], "C is a column-major distribution of 8×8"),
    ] {
        let text = session.prepare::<f64>(on, RunConfig::default()).unwrap_err().to_string();
        assert!(text.contains(name) && text.contains("8×9"), "{text}");
    }
    let blocks = ProductConfig { block: Some(8 + rank % 2), ..ProductConfig::default() };
    let on = [&usual; 3];
    let text = session.prepare::<f64>((on, blocks), RunConfig::default()).unwrap_err().to_string();
    assert!(text.contains("block is 8 on"), "{text}");
    let mut product: Product<f64> = session.prepare(on, RunConfig::default()).unwrap();
    let data = vec![0.0; 64 * usize::from(rank == 0)];
    // Rank 0 gives too little of C.
    let mut c = vec![0.0; 63 * usize::from(rank == 0)];
    let text = product
        .run(&mut session, Scalars::PRODUCT, Factors::of((&data, 8), (&data, 8)), (&mut c, 8))
        .unwrap_err()
        .to_string();
    assert!(text.contains("the memory of C"), "{text}");
    5
}

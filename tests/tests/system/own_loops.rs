//! The example of a loop that balances itself, under both MPI libraries. Its times are made up, with 6 % noise.

use isochron_tests::launch::{HANGS, Mpi, libraries, open_mpi, run};

/// The sweeps of the runs.
pub const SWEEPS: usize = 60;

/// The output of a stencil in any language.
#[derive(Debug)]
pub struct StencilOutcome {
    /// The sweeps after which rows moved, with even parts.
    pub even: Vec<u64>,
    /// The same, balanced.
    pub balanced: Vec<u64>,
}

impl StencilOutcome {
    /// Reads the output of a program that has run [`SWEEPS`] sweeps, and checks its cells.
    ///
    /// # Panics
    /// If it has other cells than the plate.
    pub fn read(output: &str) -> Self {
        let bits = sum_plate_bits();
        let cells = format!("the same cells: true, sum of bits {bits:016x}");
        assert!(output.contains(&cells), "{cells}: {output}");
        let moves = output.lines().filter_map(|line| line.split_once("after sweeps ["));
        let moves = moves.map(|(_, sweeps)| {
            let sweeps = sweeps.trim_end_matches(']').split(", ");
            sweeps
                .filter(|word| !word.is_empty())
                .map(|sweep| sweep.parse().expect("a sweep"))
                .collect()
        });
        let moves: Vec<Vec<u64>> = moves.collect();
        let [even, balanced] = moves.try_into().expect("two runs");
        Self { even, balanced }
    }

    /// Checks that rows moved a few times, among them soon after this sweep, and never with even parts.
    ///
    /// # Panics
    /// If they did not.
    pub fn check_answer(&self, slow_from: u64) {
        assert!(self.even.is_empty(), "{self:?}");
        assert!((1..=5).contains(&self.balanced.len()), "{self:?}");
        let soon = slow_from + 1..=slow_from + 20;
        assert!(self.balanced.iter().any(|sweep| soon.contains(sweep)), "{slow_from}: {self:?}");
    }
}

/// Checks that the last of three ranks, four times slower than the others, has a ninth of the samples.
///
/// # Panics
/// If it has not.
pub fn check_batch(output: &str) {
    for (rank, samples) in [(0, 400), (1, 400), (2, 100)] {
        let line = format!("rank {rank} has {samples} of 900 samples");
        assert!(output.contains(&line), "{line}: {output}");
    }
}

/// Checks that three ranks have 3000 rows or columns, and the sum of each.
///
/// # Panics
/// If they have not.
pub fn check_partition(output: &str, of_row: usize) {
    // The end of a line may come after the next rank's.
    let numbers = output.split("rank ").skip(1).map(|line| {
        let words = line.split_whitespace().filter_map(|word| word.parse().ok());
        words.collect::<Vec<usize>>()
    });
    let numbers: Vec<Vec<usize>> = numbers.collect();
    assert_eq!(numbers.len(), 3, "{output}");
    assert!(numbers.iter().all(|line| line[2] == of_row * line[1]), "{output}");
    assert_eq!(numbers.iter().map(|line| line[1]).sum::<usize>(), 3000, "{output}");
}

/// Checks that a ring of at most this many processes was predicted and measured.
///
/// # Panics
/// If it was not.
pub fn check_ring(output: &str, ranks: usize) {
    let words: Vec<&str> = output.split_whitespace().collect();
    let [count, "processes:", "predicted", predicted, "s,", "measured", measured, "s"] = words[..]
    else {
        panic!("{output}");
    };
    assert!((1..=ranks).contains(&count.parse::<usize>().expect("a number")), "{output}");
    for time_s in [predicted, measured] {
        assert!(time_s.parse::<f64>().expect("a time") > 0.0, "{output}");
    }
}

/// Returns the sum of the bits of the stencils' cells after [`SWEEPS`] sweeps on one plate.
///
/// What a boundary does travels a cell a sweep. So a plate that is just large enough has all the cells there are: its
/// middle row and column stand for the many like them.
fn sum_plate_bits() -> u64 {
    const ROWS: usize = 1200;
    const COLS: usize = 4000;
    const MIDDLE: usize = SWEEPS + 1;
    const SIDE: usize = 2 * MIDDLE + 1;
    let rows = [(1.0, 1), (0.5, SIDE), (0.0, 1)];
    let mut plate: Vec<f64> = rows.map(|(cell, rows)| vec![cell; rows * SIDE]).concat();
    let mut next = plate.clone();
    for _ in 0..SWEEPS {
        for row in 1..=SIDE {
            for at in row * SIDE + 1..(row + 1) * SIDE - 1 {
                let sides = plate[at - 1] + plate[at + 1];
                next[at] = 0.25 * (plate[at - SIDE] + plate[at + SIDE] + sides);
            }
        }
        std::mem::swap(&mut plate, &mut next);
    }
    let count = |place, all: usize| if place == MIDDLE { all - SIDE + 1 } else { 1 };
    let mut sum = 0_u64;
    for (row, cells) in plate[SIDE..].chunks(SIDE).take(SIDE).enumerate() {
        for (col, cell) in cells.iter().enumerate() {
            let times = (count(row, ROWS) * count(col, COLS)) as u64;
            sum = sum.wrapping_add(cell.to_bits().wrapping_mul(times));
        }
    }
    sum
}

/// Runs the example.
fn run_stencil(mpi: &Mpi, ranks: usize, arguments: &[&str]) -> StencilOutcome {
    let sweeps = SWEEPS.to_string();
    let arguments = [&[&sweeps, "--made-up"], arguments].concat();
    let output = run(mpi.command(ranks, &mpi.stencil, &arguments), HANGS).success();
    StencilOutcome::read(&output)
}

#[test]
fn rows_of_a_stencil_follow_a_slow_rank_in_a_few_moves_and_within_20_sweeps() {
    for mpi in libraries() {
        run_stencil(&mpi, 3, &[]).check_answer(0);
        run_stencil(&mpi, 3, &["--slow-from", "35"]).check_answer(35);
    }
}

#[test]
fn a_rank_may_have_no_rows_or_all_of_them() {
    let mpi = open_mpi();
    // Rows stay together in two halves, so that one of three ranks has none.
    run_stencil(&mpi, 3, &["--granule", "600"]);
    let outcome = run_stencil(&mpi, 1, &[]);
    assert!(outcome.even.is_empty() && outcome.balanced.is_empty(), "{outcome:?}");
}

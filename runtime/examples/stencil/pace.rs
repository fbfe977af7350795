//! The emulated slowness of ranks, and the times of a run.

use std::cell::OnceCell;
use std::time::{Duration, Instant};

use isochron::Error;
use isochron::comm::Comm;
use isochron::rebalance::{RebalanceConfig, RebalanceReport};
use isochron_devices::thread_cpu_time_s;

/// Time of a fast rank and of the slow one over the CPU time of the work: three ranks share two cores, and mostly wait.
const PACES: [f64; 2] = [6.0, 24.0];

/// Sweeps that are not counted in the second ratio.
const WARM_UP: u64 = 20;

/// Relative noise of made-up times, and their seconds for a row.
const NOISE: f64 = 0.06;
const ROW_S: f64 = 1e-3;

/// The words of the command line: `[SWEEPS] [--slow-from SWEEP] [--granule ROWS] [--made-up]`.
pub struct SlowRank {
    pub sweeps: u64,
    slow_rank: usize,
    slow_from: u64,
    /// Rows that stay together.
    granule: u64,
    is_made_up: bool,
    /// CPU seconds of a row, as the first sweep showed.
    row_s: OnceCell<f64>,
}

impl SlowRank {
    /// Reads the command line. The last of `ranks` ranks is the slow one.
    pub fn read(ranks: usize) -> Self {
        let words: Vec<String> = std::env::args().skip(1).collect();
        Self {
            sweeps: (words.first()).map_or(1000, |word| word.parse().unwrap_or(1000)),
            slow_rank: ranks - 1,
            slow_from: read_option(&words, "--slow-from").unwrap_or(0),
            granule: read_option(&words, "--granule").unwrap_or(1),
            is_made_up: words.iter().any(|word| word == "--made-up"),
            row_s: OnceCell::new(),
        }
    }

    /// Returns the settings of the balanced run. With made-up times the cost of moving is made up too.
    pub fn configure(&self) -> RebalanceConfig {
        RebalanceConfig {
            sweeps: Some(self.sweeps),
            granule: self.granule,
            move_unit_s: self.is_made_up.then_some(ROW_S),
            ..RebalanceConfig::default()
        }
    }

    /// Returns the settings of a run whose rows stay even.
    pub fn keep_even(&self) -> RebalanceConfig {
        RebalanceConfig { trigger: 1e12, ..self.configure() }
    }

    fn find_pace(&self, rank: usize, sweep: u64) -> f64 {
        PACES[usize::from(rank == self.slow_rank && sweep >= self.slow_from)]
    }

    /// Does the work of a sweep, and sleeps until a rank of this pace would have finished. Returns its seconds, or
    /// made-up ones with 6 % noise.
    pub fn time_work(
        &self,
        sweep: u64,
        rows: u64,
        comm: &dyn Comm,
        run: impl FnOnce(),
    ) -> Result<f64, Error> {
        let (begun, cpu_s, rank) = (Instant::now(), thread_cpu_time_s(), comm.rank());
        run();
        let pace = self.find_pace(rank, sweep);
        if self.is_made_up {
            let noise = 1.0 + NOISE * draw_normal(sweep * 1000 + rank as u64);
            return Ok(rows as f64 * ROW_S * pace * noise);
        }
        let row_s = match self.row_s.get() {
            Some(&row_s) => row_s,
            None => {
                let slowest_s = comm.largest((thread_cpu_time_s() - cpu_s) / rows.max(1) as f64)?;
                *self.row_s.get_or_init(|| slowest_s)
            }
        };
        let end = begun + Duration::from_secs_f64(pace * row_s * rows as f64);
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        Ok(begun.elapsed().as_secs_f64())
    }
}

/// Returns the number after an option; `None` without the option.
fn read_option(words: &[String], name: &str) -> Option<u64> {
    let at = words.iter().position(|word| word == name)?;
    words.get(at + 1)?.parse().ok()
}

/// Returns a nearly normally distributed number, the same for the same seed.
fn draw_normal(seed: u64) -> f64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut sum = -6.0;
    for _ in 0..12 {
        state = (state ^ (state >> 31))
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
            .wrapping_add(0x94d0_49bb_1331_11eb);
        sum += (state >> 11) as f64 / (1_u64 << 53) as f64;
    }
    sum
}

/// The seconds of a run.
pub struct RunTimes<'c> {
    comm: &'c dyn Comm,
    /// The times of the first sweeps and of the others.
    seconds: [f64; 2],
}

impl<'c> RunTimes<'c> {
    pub fn new(comm: &'c dyn Comm) -> Result<Self, Error> {
        comm.barrier()?;
        let seconds = [0.0; 2];
        Ok(Self { comm, seconds })
    }

    pub fn end_sweep(&mut self, sweep: u64, start: Instant) {
        self.seconds[usize::from(sweep >= WARM_UP)] += start.elapsed().as_secs_f64();
    }

    /// Prints the seconds of the run over those of the ideal division, and its moves.
    pub fn print_summary(
        self,
        pace: &SlowRank,
        rows: u64,
        report: &RebalanceReport,
    ) -> Result<(), Error> {
        let [first_s, last_s] = self.seconds;
        let seconds = [self.comm.largest(first_s)?, self.comm.largest(last_s)?];
        let row_s = pace.row_s.get().unwrap_or(&ROW_S);
        let mut ideal_s = [0.0; 2];
        for sweep in 0..pace.sweeps {
            let ranks = 0..self.comm.size();
            let speeds = ranks.map(|rank| 1.0 / (row_s * pace.find_pace(rank, sweep)));
            ideal_s[usize::from(sweep >= WARM_UP)] += rows as f64 / speeds.sum::<f64>();
        }
        if self.comm.rank() == 0 {
            let all = (seconds[0] + seconds[1]) / (ideal_s[0] + ideal_s[1]);
            let sweeps: Vec<u64> = report.changes.iter().map(|change| change.sweep).collect();
            println!(
                "{:.2} s, {all:.3} x ideal, {:.3} x after {WARM_UP} sweeps, {} moves: after sweeps {sweeps:?}",
                seconds[0] + seconds[1],
                seconds[1] / ideal_s[1],
                sweeps.len(),
            );
        }
        Ok(())
    }
}

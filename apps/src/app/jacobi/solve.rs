//! The iterations of Jacobi's method.

use std::time::Instant;

use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_core::devices::PacedWork;
use isochron_kernels::sweep_rows;

use super::balancing::Balancing;
use super::progress::SolveProgress;
use super::solution::{Solution, SolveConfig, SweepRecord};
use super::system::{LinearSystem, WeakestRow};
use crate::failure::Failure;
use crate::lines::count;
use crate::trace::{DeviceWork, EventKind, Messages, Span, Tracer};

/// The numbers of a rank's message before its unknowns: the residual, and the seconds of sweeping and moving.
const NUMBERS: usize = 3;

/// The growth of the residual from which the method is taken to diverge.
const DIVERGED: f64 = 1e6;

/// Knowledge of all ranks after a sweep.
struct GatheredSweep {
    x: Vec<f64>,
    residual: f64,
    times_s: Vec<f64>,
    /// Seconds of the move before it.
    moving_s: f64,
}

/// The loop over the iterations.
pub struct JacobiLoop<'a> {
    pub comm: &'a dyn Comm,
    pub tracer: Tracer<'a>,
    pub system: &'a mut LinearSystem,
    pub balancing: &'a mut Balancing,
    pub pace: &'a mut PacedWork,
    pub config: SolveConfig,
}

impl JacobiLoop<'_> {
    /// Iterates from 0 until the residual is within the tolerance, and moves rows between iterations.
    ///
    /// # Errors
    /// On every rank: a failure of the run if the method diverges; those of messages and balancing.
    ///
    /// # Collective
    /// All ranks.
    pub fn solve(&mut self) -> Result<Solution, Failure> {
        let largest_b = self.system.find_scale(self.comm)?;
        let scale = if largest_b > 0.0 { largest_b } else { 1.0 };
        let mut x = vec![0.0; self.system.size()];
        let mut history: Vec<SweepRecord> = Vec::new();
        let progress = SolveProgress::start(self.comm)?;
        self.comm.barrier()?;
        let begin = Instant::now();
        let mut is_over = false;
        let mut moving_s = 0.0;
        while !is_over {
            let start = Instant::now();
            let traced = SweepTrace { tracer: self.tracer, iteration: history.len() as u32 + 1 };
            let swept = sweep_all_rows(self.comm, traced, self.system, self.pace, &x, moving_s)?;
            if let Some(last) = history.last_mut() {
                last.moving_s = swept.moving_s;
            }
            let mut record = self.record_sweep(&swept, scale);
            let iteration = history.len() as u64 + 1;
            self.check_growth(record.residual, iteration)?;
            let converged = record.residual <= self.config.tolerance;
            is_over = converged || iteration == self.config.max_iterations;
            if !converged {
                x = swept.x;
            }
            if !is_over {
                (record.moved, moving_s) = self.rebalance(&record)?;
            }
            record.wall_s = start.elapsed().as_secs_f64();
            history.push(record);
            progress.show(&history, &self.config);
        }
        let wall_s = self.comm.largest(begin.elapsed().as_secs_f64())?;
        self.make_solution(x, scale, history, wall_s)
    }

    fn record_sweep(&self, swept: &GatheredSweep, scale: f64) -> SweepRecord {
        SweepRecord {
            rows: self.system.rows().to_vec(),
            times_s: swept.times_s.clone(),
            residual: swept.residual / scale,
            moved: 0,
            moving_s: 0.0,
            wall_s: 0.0,
        }
    }

    /// Moves rows if the times of a sweep say so. Returns their number, and this rank's seconds.
    fn rebalance(&mut self, record: &SweepRecord) -> Result<(u64, f64), Error> {
        let advice = (self.balancing).advise(self.comm, &record.rows, &record.times_s)?;
        let Some(rows) = advice else {
            return Ok((0, 0.0));
        };
        let start = Instant::now();
        let (system, comm) = (&mut self.system, self.comm);
        let moving = EventKind::Span(Span::Part("moving rows"));
        let moved = self.tracer.time(moving, || system.move_rows(comm, &rows))?;
        let seconds = start.elapsed().as_secs_f64();
        self.balancing.note_move(seconds);
        Ok((moved, seconds))
    }

    /// Measures the residual of the result. It costs a sweep without a pace, which counts for nothing.
    fn make_solution(
        &self,
        x: Vec<f64>,
        scale: f64,
        history: Vec<SweepRecord>,
        wall_s: f64,
    ) -> Result<Solution, Failure> {
        let mut unpaced = agree(self.comm, PacedWork::new(None).map_err(Error::from))?;
        let traced = SweepTrace { tracer: self.tracer, iteration: history.len() as u32 + 1 };
        let swept = sweep_all_rows(self.comm, traced, self.system, &mut unpaced, &x, 0.0)?;
        let residual = swept.residual / scale;
        let converged = residual <= self.config.tolerance;
        if !converged && residual > 1.0 {
            return Err(self.refuse_growth(residual, history.len() as u64));
        }
        Ok(Solution { x, converged, residual, scale, history, wall_s })
    }

    /// Ends a method whose residual has grown far. It was 1 before the first iteration.
    fn check_growth(&self, residual: f64, iteration: u64) -> Result<(), Failure> {
        if residual < DIVERGED { Ok(()) } else { Err(self.refuse_growth(residual, iteration - 1)) }
    }

    fn refuse_growth(&self, residual: f64, iterations: u64) -> Failure {
        let why = self.system.dominance().filter(|weakest| weakest.ratio <= 1.0);
        let why = why.map_or_else(String::new, |WeakestRow { row, ratio }| {
            format!(
                ": A is not diagonally dominant, in row {row} (counted from 0) the diagonal is {ratio:.3} of the sum of the other elements"
            )
        });
        Failure::run(format!(
            "Jacobi's method diverges: after {} the residual is {residual:.1e} of the largest |b|{why}",
            count(iterations, "iteration")
        ))
    }
}

/// The place of a sweep in a trace.
#[derive(Clone, Copy)]
struct SweepTrace<'t> {
    tracer: Tracer<'t>,
    /// From 1. The sweep needs the unknowns that were gathered in the iteration before.
    iteration: u32,
}

/// Sweeps over this rank's rows, and gathers the results of all ranks. `moving_s` are the seconds of the move before.
///
/// # Collective
/// All ranks, with the same `x`.
fn sweep_all_rows(
    comm: &dyn Comm,
    traced: SweepTrace<'_>,
    system: &LinearSystem,
    pace: &mut PacedWork,
    x: &[f64],
    moving_s: f64,
) -> Result<GatheredSweep, Error> {
    let rows = system.local();
    let mut mine = vec![0.0; NUMBERS + rows.b.len()];
    let (numbers, next) = mine.split_at_mut(NUMBERS);
    let elements = system.count_elements();
    let SweepTrace { tracer, iteration } = traced;
    let sweep = DeviceWork::on_rows("sweep", iteration, rows.b.len(), 2.0 * elements as f64);
    let (residual, time_s) =
        tracer.time(EventKind::Work(sweep), || pace.run(elements, || sweep_rows(rows, x, next)));
    numbers.copy_from_slice(&[residual, time_s, moving_s]);
    let bytes: Vec<u8> = mine.iter().flat_map(|number| number.to_le_bytes()).collect();
    let mut swept = GatheredSweep {
        x: Vec::with_capacity(x.len()),
        residual: 0.0,
        times_s: Vec::new(),
        moving_s: 0.0,
    };
    let others = comm.size() - 1;
    let of_others = (NUMBERS * others + x.len() - rows.b.len()) * size_of::<f64>();
    let gathering =
        Messages::between_all("unknowns", iteration + 1, others, of_others, bytes.len() * others);
    let gathered = tracer.time(EventKind::Messages(gathering), || comm.all_gather(&bytes))?;
    for bytes in gathered {
        let (numbers, unknowns) = bytes.split_at(NUMBERS * size_of::<f64>());
        let [residual, time_s, moving_s] = [0, 1, 2].map(|at| read_number(&numbers[8 * at..]));
        swept.residual = swept.residual.max(residual);
        swept.times_s.push(time_s);
        swept.moving_s = swept.moving_s.max(moving_s);
        swept.x.extend(unknowns.chunks_exact(8).map(read_number));
    }
    Ok(swept)
}

/// Reads the number at the beginning of a message.
fn read_number(bytes: &[u8]) -> f64 {
    bytes.first_chunk().map_or(f64::NAN, |bytes| f64::from_le_bytes(*bytes))
}

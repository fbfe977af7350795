//! A separate process that calls a BLAS directly, with the library's own threads, and the operands of its updates.
//!
//! A library keeps the number of threads that it was given, and its waiting threads spin for a while. So it runs in
//! another process, which is asked for one burst of updates after another and idles in between.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, anyhow, ensure};
use isochron_devices::internal::try_reserve_matrix;
use isochron_devices::{BlasGemm, CblasLibrary, View, ViewMut, leading_dimension};

use crate::shape::ProductShape;

/// Written matrices for updates of one shape.
pub struct DirectOperands {
    shape: ProductShape,
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
}

impl DirectOperands {
    /// Writes the matrices, in memory of the kind that multiplications use.
    pub fn new(shape: ProductShape) -> anyhow::Result<Self> {
        let ProductShape { m, n, k } = shape;
        Ok(Self {
            shape,
            a: fill_matrix(m * k)?,
            b: fill_matrix(k * n)?,
            c: fill_matrix(leading_dimension::<f64>(m) * n)?,
        })
    }

    /// Returns A, B and C.
    pub fn views(&mut self) -> (View<'_, f64>, View<'_, f64>, ViewMut<'_, f64>) {
        let ProductShape { m, n, k } = self.shape;
        (
            View::new(&self.a, m, k, m),
            View::new(&self.b, k, n, k),
            ViewMut::new(&mut self.c, m, n, leading_dimension::<f64>(m)),
        )
    }
}

fn fill_matrix(count: usize) -> anyhow::Result<Vec<f64>> {
    let mut values = Vec::new();
    try_reserve_matrix(&mut values, count)?;
    values.extend((0..count).map(|at| (at % 16 + 1) as f64 / 32.0));
    Ok(values)
}

/// Runs `reps` updates after one that warms up; returns the seconds of each.
///
/// # Errors
/// The errors of the update.
pub fn time_burst(
    reps: usize,
    update: &mut dyn FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Vec<f64>> {
    update()?;
    let mut times_s = Vec::with_capacity(reps);
    for _ in 0..reps {
        let start = Instant::now();
        update()?;
        times_s.push(start.elapsed().as_secs_f64());
    }
    Ok(times_s)
}

/// A process that calls a library directly.
pub struct DirectProcess {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl DirectProcess {
    /// Starts the process with this number of the library's own threads.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(library: &str, threads: usize) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["update", "--blas", library, "--serve", &threads.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
        let answers = child.stdout.take().context("its output")?;
        Ok(Self {
            requests: child.stdin.take(),
            answers: BufReader::new(answers),
            child,
        })
    }

    /// Asks for `reps` updates after one that warms up; returns the seconds of each.
    ///
    /// # Errors
    /// If the process has ended or answers something else.
    pub fn time_burst(&mut self, shape: ProductShape, reps: usize) -> anyhow::Result<Vec<f64>> {
        let ProductShape { m, n, k } = shape;
        let requests = self.requests.as_mut().context("its input")?;
        writeln!(requests, "{m} {n} {k} {reps}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let times_s: Vec<f64> = serde_json::from_str(&line).context("the times of the library")?;
        ensure!(times_s.len() == reps, "{} times of {reps}", times_s.len());
        Ok(times_s)
    }
}

impl Drop for DirectProcess {
    fn drop(&mut self) {
        // The process ends when its input does.
        self.requests = None;
        let _ = self.child.wait();
    }
}

/// Answers the requests of a [`DirectProcess`] until its input ends.
///
/// # Errors
/// If the library cannot be opened, or a request is malformed.
pub fn serve_updates(library: &str, threads: usize) -> anyhow::Result<()> {
    let blas = CblasLibrary::open_threaded(library, threads)?;
    let mut operands: Option<DirectOperands> = None;
    for line in std::io::stdin().lock().lines() {
        let numbers: Result<Vec<usize>, _> = line?.split_whitespace().map(str::parse).collect();
        let &[m, n, k, reps] = numbers?.as_slice() else {
            return Err(anyhow!("a request is m n k reps"));
        };
        let shape = ProductShape { m, n, k };
        if operands.as_ref().is_none_or(|held| held.shape != shape) {
            // The old ones are freed first: two sets may not fit.
            drop(operands.take());
            operands = Some(DirectOperands::new(shape)?);
        }
        let held = operands.as_mut().context("the operands")?;
        let times_s = time_burst(reps, &mut || {
            let (a, b, c) = held.views();
            blas.gemm(1.0, a, b, c);
            Ok(())
        })?;
        println!("{}", serde_json::to_string(&times_s)?);
    }
    Ok(())
}

//! The multiplication that the options and files ask for.

use isochron_hierarchy::printable::show_path;
use std::iter;
use std::time::Instant;

use isochron_core::Error;
use isochron_core::comm::Comm;
use isochron_core::matrix::Op;
use isochron_core::matrix::file::{self, FileShape, InputFile};
use isochron_core::plan::{Plan, Problem};
use isochron_devices::{ElementType, Scalar};
use isochron_hierarchy::problem::Split;
use num_complex::{Complex32, Complex64};

use super::options::MxmArguments;
use crate::failure::Failure;

/// Finds the multiplication: that of the options, of the files or of the plan. Returns the open files, too.
///
/// # Errors
/// Fails on every rank if something is missing or does not fit together.
///
/// # Collective
/// All ranks.
pub(super) fn find_problem(
    comm: &dyn Comm,
    arguments: &MxmArguments,
    given: Option<&Plan>,
) -> Result<(Problem, MatrixFiles), Failure> {
    let planned = given.map(Plan::problem);
    let [op_a, op_b] = planned.map_or([Op::N; 2], Problem::ops);
    let ops = [arguments.op_a.unwrap_or(op_a), arguments.op_b.unwrap_or(op_b)];
    let files = MatrixFiles::open(comm, arguments)?;
    let [a, b, c] = [0, 1, 2].map(|which| files.find(which));
    let asked = match (given_shape(arguments), a, b) {
        (Some(shape), ..) => Some(shape),
        (None, Some(a), Some(b)) => Some(shape_of_factors(ops, a, b)?),
        _ => None,
    };
    let of_plan = planned.map(|problem| (problem.m(), problem.n(), problem.k()));
    let Some((m, n, k)) = asked.or(of_plan) else {
        let message = "no size: give --size, or --m --n --k, or the files --a and --b";
        return Err(Failure::input(message));
    };
    if let Some(c) = c
        && shape_as(c, Op::N) != (m, n)
    {
        let FileShape { rows, cols, .. } = c.shape();
        let found = format!("{} is {rows}×{cols}", show_path(c.path()));
        return Err(Error::Shape(format!("{found}, but A*B is {m}×{n}")).into());
    }
    let of_files = [a, b, c].into_iter().flatten().map(|file| file.shape().element);
    let element = choose_element(arguments, planned, of_files.reduce(ElementType::and));
    check_numbers(arguments, element)?;
    let block = arguments.block.or(planned.map(Problem::block));
    let block = block.unwrap_or_else(|| Problem::choose_block(m, n, comm.size()));
    let asked = Problem::new(m, n, k, block)?
        .with_element(element)
        .with_ops(ops)
        .with_split(arguments.split)
        .in_parts();
    let asked = match arguments.panel {
        Some(panel) => asked.with_panel(panel)?,
        None => asked,
    };
    let chosen = match given {
        Some(given) => choose_planned(arguments, &asked, given)?,
        None => asked,
    };
    Ok((chosen, files))
}

/// Returns the multiplication of a plan; refuses one for another than is asked for, and names the difference.
fn choose_planned(
    arguments: &MxmArguments,
    asked: &Problem,
    plan: &Plan,
) -> Result<Problem, Error> {
    let planned = plan.problem();
    let values = describe_problem(planned).into_iter().zip(describe_problem(asked));
    for (planned, asked) in values {
        if planned != asked {
            let reason = format!("it is for {planned}, not for {asked}");
            return Err(Error::Plan(reason));
        }
    }
    let config = &plan.decision().config;
    let of_plan = (config.strategy, config.layout);
    let strategy = arguments.strategy.unwrap_or(of_plan.0);
    let layout = arguments.arrangement(Some(of_plan.1));
    if (strategy, layout) != of_plan {
        let reason =
            format!("it is of {} and {}, not of {strategy} and {layout}", of_plan.0, of_plan.1);
        return Err(Error::Plan(reason));
    }
    // A plan that was short of memory has narrower panels than were asked for.
    let panel = asked.wanted_panel().filter(|&panel| {
        planned.wanted_panel() != Some(panel) && plan.panel() != panel.min(asked.k().max(1))
    });
    if let Some(panel) = panel {
        let reason = format!("it is for panels of {}, not of {panel}", plan.panel());
        return Err(Error::Plan(reason));
    }
    let (division, split) = (plan.division().to_string(), asked.split());
    if split != Split::Auto && division != split.to_string() {
        return Err(Error::Plan(format!("it divides {division}, not {split}")));
    }
    Ok(*planned)
}

/// Names the qualities in which a multiplication must be that of its plan.
fn describe_problem(problem: &Problem) -> [String; 5] {
    let (m, n, k) = (problem.m(), problem.n(), problem.k());
    let [op_a, op_b] = problem.ops();
    [
        format!("m = {m}, n = {n}, k = {k}"),
        format!("matrices of {}", problem.element()),
        format!("blocks of {}", problem.block()),
        format!("operation {op_a} on A"),
        format!("operation {op_b} on B"),
    ]
}

/// Returns the m, n and k of the options.
fn given_shape(arguments: &MxmArguments) -> Option<(usize, usize, usize)> {
    arguments
        .size
        .map(|size| (size, size, size))
        .or_else(|| Some((arguments.m?, arguments.n?, arguments.k?)))
}

/// The files of A, B and C.
#[derive(Debug, Default)]
pub struct MatrixFiles {
    files: [Option<InputFile>; 3],
}

impl MatrixFiles {
    /// Opens the files that the options name.
    ///
    /// # Collective
    /// All ranks.
    fn open(comm: &dyn Comm, arguments: &MxmArguments) -> Result<Self, Error> {
        let mut files = Self::default();
        let paths = [&arguments.a, &arguments.b, &arguments.c];
        for (file, path) in files.files.iter_mut().zip(paths) {
            *file = path.as_ref().map(|path| file::open(comm, path)).transpose()?;
        }
        Ok(files)
    }

    /// Returns the file of A (0), B (1) or C (2).
    pub fn find(&self, which: usize) -> Option<&InputFile> {
        self.files[which].as_ref()
    }

    /// Lists the findings about the files, one line each.
    pub fn list_notices(&self) -> Vec<String> {
        self.files.iter().flatten().filter_map(InputFile::notice).map(str::to_owned).collect()
    }

    /// Says what was lost of the numbers that were read, one line for each file.
    ///
    /// # Errors
    /// See [`InputFile::describe_losses`].
    ///
    /// # Collective
    /// All ranks.
    pub fn describe_losses(&self, comm: &dyn Comm) -> Result<Vec<String>, Error> {
        let mut told = Vec::new();
        for file in self.files.iter().flatten() {
            told.extend(file.describe_losses(comm)?);
        }
        // A and B may be one file.
        told.dedup();
        Ok(told)
    }

    /// Checks that no file has changed while it was read; returns the seconds that it took.
    ///
    /// # Errors
    /// Returns [`Error::File`] on every rank for a file that has changed.
    ///
    /// # Collective
    /// All ranks.
    pub fn check(&self, comm: &dyn Comm) -> Result<f64, Error> {
        let mut seconds = 0.0;
        for file in self.files.iter().flatten() {
            let begin = Instant::now();
            file.check(comm)?;
            seconds += begin.elapsed().as_secs_f64();
        }
        Ok(seconds)
    }
}

/// Returns the rows and columns of `op` of a matrix.
fn shape_as(file: &InputFile, op: Op) -> (usize, usize) {
    let shape = file.shape();
    match op {
        Op::N => (shape.rows, shape.cols),
        Op::T | Op::C => (shape.cols, shape.rows),
    }
}

fn shape_of_factors(
    [op_a, op_b]: [Op; 2],
    a: &InputFile,
    b: &InputFile,
) -> Result<(usize, usize, usize), Error> {
    let (m, k) = shape_as(a, op_a);
    let (rows, n) = shape_as(b, op_b);
    if k != rows {
        let (a, b) = (show_path(a.path()), show_path(b.path()));
        let reason = format!("{a} gives {m}×{k} and {b} gives {rows}×{n}");
        return Err(Error::Shape(reason));
    }
    Ok((m, n, k))
}

/// Returns the type of the option, else of the plan, else the one that all files convert to.
fn choose_element(
    arguments: &MxmArguments,
    planned: Option<&Problem>,
    of_files: Option<ElementType>,
) -> ElementType {
    let of_plan = planned.map(Problem::element);
    arguments.element.or(of_plan).or(of_files).unwrap_or_default()
}

fn check_numbers(arguments: &MxmArguments, element: ElementType) -> Result<(), Error> {
    let beta = arguments.beta.map(|beta| ("beta", beta));
    for (name, value) in iter::once(("alpha", arguments.alpha)).chain(beta) {
        let shown = format_factor(value);
        if !value.is_finite() {
            return Err(Error::parameter(name, shown, "a factor must be a finite number"));
        }
        let kept = match element {
            ElementType::F32 | ElementType::C32 => Complex32::of(value).value(),
            ElementType::F64 | ElementType::C64 => value,
        };
        if !kept.is_finite() || (kept == Complex64::ZERO && value != Complex64::ZERO) {
            let reason = format!("the numbers of {element} do not reach so far");
            return Err(Error::parameter(name, shown, reason));
        }
        if value.im != 0.0 && !element.is_complex() {
            let reason = format!("matrices of {element} have real factors; use --type c32 or c64");
            return Err(Error::parameter(name, shown, reason));
        }
    }
    let nothing_to_add = arguments.a.is_some() && arguments.c.is_none();
    if let Some((name, beta)) = beta.filter(|beta| nothing_to_add && beta.1 != Complex64::ZERO) {
        let reason = "there is no C to add: give its file by --c";
        return Err(Error::parameter(name, format_factor(beta), reason));
    }
    let epsilon = arguments.balancing.make_config().epsilon;
    if !epsilon.is_finite() || epsilon <= 0.0 {
        let reason = "use a positive number, such as 0.05";
        return Err(Error::parameter("epsilon", epsilon, reason));
    }
    Ok(())
}

/// Writes a factor as users do: a real number without an imaginary part.
fn format_factor(factor: Complex64) -> String {
    if factor.im == 0.0 { factor.re.to_string() } else { factor.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_written_as_they_are_given() {
        for text in ["2", "-1.5", "NaN", "inf", "2-0.5i", "0+1i"] {
            let factor: Complex64 = text.parse().expect("a number");
            assert_eq!(format_factor(factor), text);
        }
    }
}

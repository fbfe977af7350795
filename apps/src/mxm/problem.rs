//! The multiplication that the options and files ask for.

use std::iter;
use std::path::Path;

use isochron::Error;
use isochron::comm::Comm;
use isochron::matrix::Op;
use isochron::matrix::file::{self, FileShape};
use isochron::multiply::Problem;
use isochron::session::SavedPlan;
use isochron_devices::{Element, ElementType};
use num_complex::{Complex32, Complex64};

use super::MxmArguments;

/// Finds the multiplication: that of the options, of the files or of the plan.
///
/// # Errors
/// On every rank, if something is missing or does not fit together.
///
/// # Collective
/// All ranks.
pub(super) fn find_problem(
    comm: &dyn Comm,
    arguments: &MxmArguments,
    saved: Option<&SavedPlan>,
) -> Result<Problem, Error> {
    let planned = saved.map(|saved| &saved.problem);
    let a = StoredMatrix::read(comm, arguments.a.as_deref())?;
    let b = StoredMatrix::read(comm, arguments.b.as_deref())?;
    let c = StoredMatrix::read(comm, arguments.c.as_deref())?;
    let asked = match (given_shape(arguments), &a, &b) {
        (Some(shape), ..) => Some(shape),
        (None, Some(a), Some(b)) => Some(shape_of_factors(arguments, a, b)?),
        _ => None,
    };
    let of_plan = planned.map(|problem| (problem.m(), problem.n(), problem.k()));
    let Some((m, n, k)) = asked.or(of_plan) else {
        let reason = "give --size, or --m --n --k, or the files --a and --b";
        return Err(Error::parameter("size", "missing", reason));
    };
    if let Some((m, n, k)) = of_plan.filter(|&planned| planned != (m, n, k)) {
        let reason = format!("it is for m = {m}, n = {n}, k = {k}");
        return Err(Error::Plan(reason));
    }
    if let Some(StoredMatrix { path, shape }) = &c
        && (shape.rows, shape.cols) != (m, n)
    {
        let found = format!("{} is {}×{}", path.display(), shape.rows, shape.cols);
        return Err(Error::Shape(format!("{found}, but A*B is {m}×{n}")));
    }
    let stored = [a, b, c].into_iter().flatten();
    let of_files = stored.map(|stored| stored.shape.element);
    let element = choose_element(arguments, planned, of_files.reduce(ElementType::and))?;
    check_numbers(arguments, element)?;
    if let Some(problem) = planned {
        return Ok(*problem);
    }
    let problem = Problem::new(m, n, k, arguments.block)?
        .with_element(element)
        .with_ops([arguments.op_a, arguments.op_b])
        .with_split(arguments.split)
        .in_parts();
    match arguments.panel {
        Some(panel) => problem.with_panel(panel),
        None => Ok(problem),
    }
}

/// Returns the m, n and k of the options.
fn given_shape(arguments: &MxmArguments) -> Option<(usize, usize, usize)> {
    let size = arguments.size.map(|size| (size, size, size));
    size.or_else(|| Some((arguments.m?, arguments.n?, arguments.k?)))
}

/// The header of a matrix in a file.
struct StoredMatrix<'a> {
    path: &'a Path,
    shape: FileShape,
}

impl<'a> StoredMatrix<'a> {
    fn read(comm: &dyn Comm, path: Option<&'a Path>) -> Result<Option<Self>, Error> {
        let read = path.map(|path| {
            let shape = file::read_shape(comm, path)?;
            Ok(Self { path, shape })
        });
        read.transpose()
    }

    /// Returns the rows and columns of `op` of the matrix.
    fn shape_as(&self, op: Op) -> (usize, usize) {
        match op {
            Op::N => (self.shape.rows, self.shape.cols),
            Op::T | Op::C => (self.shape.cols, self.shape.rows),
        }
    }
}

fn shape_of_factors(
    arguments: &MxmArguments,
    a: &StoredMatrix<'_>,
    b: &StoredMatrix<'_>,
) -> Result<(usize, usize, usize), Error> {
    let (m, k) = a.shape_as(arguments.op_a);
    let (rows, n) = b.shape_as(arguments.op_b);
    if k != rows {
        let (a, b) = (a.path.display(), b.path.display());
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
) -> Result<ElementType, Error> {
    let of_plan = planned.map(Problem::element);
    if let Some((asked, planned)) = arguments.element.zip(of_plan)
        && asked != planned
    {
        return Err(Error::Plan(format!("it is for matrices of {planned}")));
    }
    let chosen = arguments.element.or(of_plan).or(of_files);
    Ok(chosen.unwrap_or_default())
}

fn check_numbers(arguments: &MxmArguments, element: ElementType) -> Result<(), Error> {
    let beta = arguments.beta.map(|beta| ("beta", beta));
    for (name, value) in iter::once(("alpha", arguments.alpha)).chain(beta) {
        let shown = format_factor(value);
        if !value.is_finite() {
            return Err(Error::parameter(
                name,
                shown,
                "a factor must be a finite number",
            ));
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
    let epsilon = arguments.epsilon;
    if epsilon.is_nan() || epsilon <= 0.0 {
        let reason = "use a positive number, such as 0.05";
        return Err(Error::parameter("epsilon", epsilon, reason));
    }
    Ok(())
}

/// Writes a factor as users do: a real number without an imaginary part.
fn format_factor(factor: Complex64) -> String {
    match factor.im == 0.0 {
        true => factor.re.to_string(),
        false => factor.to_string(),
    }
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

//! What is to be multiplied: the shape that was asked for, or that of the files.

use std::path::Path;

use isochron::Error;
use isochron::comm::Comm;
use isochron::matrix::{Op, file};
use isochron::multiply::Problem;
use isochron::session::SavedPlan;
use isochron_devices::{Element, ElementType};
use num_complex::{Complex32, Complex64};

use super::Arguments;

/// The multiplication that was asked for, or that of the files.
///
/// # Errors
/// What is missing or makes no sense, on every rank.
///
/// # Collective
/// All ranks.
pub(super) fn problem(
    comm: &dyn Comm,
    arguments: &Arguments,
    saved: Option<&SavedPlan>,
) -> Result<Problem, Error> {
    let planned = saved.map(|saved| &saved.problem);
    let asked = match (shape(arguments), &arguments.a, &arguments.b) {
        (Some(shape), ..) => Some(shape),
        (None, Some(a), Some(b)) => Some(shape_of_files(comm, arguments, a, b)?),
        _ => None,
    };
    let of_plan = planned.map(|problem| (problem.m(), problem.n(), problem.k()));
    let Some((m, n, k)) = asked.or(of_plan) else {
        let reason = "give --size, or --m --n --k, or the files --a and --b";
        return Err(refusal("size", "missing", reason));
    };
    if let Some(planned) = of_plan.filter(|&planned| planned != (m, n, k)) {
        let (m, n, k) = planned;
        let reason = format!("it is for m = {m}, n = {n}, k = {k}");
        return Err(Error::Plan(reason));
    }
    let mut stored = Vec::new();
    for path in [&arguments.a, &arguments.b, &arguments.c]
        .into_iter()
        .flatten()
    {
        stored.push(file::shape(comm, path)?.element);
    }
    if let Some(path) = &arguments.c {
        let shape = file::shape(comm, path)?;
        if (shape.rows, shape.cols) != (m, n) {
            let found = format!("{} is {}×{}", path.display(), shape.rows, shape.cols);
            return Err(Error::Shape(format!("{found}, but A*B is {m}×{n}")));
        }
    }
    let element = element(arguments, planned, &stored)?;
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

/// The m, n and k of the command line.
fn shape(arguments: &Arguments) -> Option<(usize, usize, usize)> {
    let size = arguments.size.map(|size| (size, size, size));
    size.or_else(|| Some((arguments.m?, arguments.n?, arguments.k?)))
}

fn shape_of_files(
    comm: &dyn Comm,
    arguments: &Arguments,
    a: &Path,
    b: &Path,
) -> Result<(usize, usize, usize), Error> {
    let factor = |path: &Path, op: Op| {
        let stored = file::shape(comm, path)?;
        Ok::<_, Error>(match op {
            Op::N => (stored.rows, stored.cols),
            Op::T | Op::C => (stored.cols, stored.rows),
        })
    };
    let (m, k) = factor(a, arguments.op_a)?;
    let (rows, n) = factor(b, arguments.op_b)?;
    if k != rows {
        let (a, b) = (a.display(), b.display());
        let reason = format!("{a} gives {m}×{k} and {b} gives {rows}×{n}");
        return Err(Error::Shape(reason));
    }
    Ok((m, n, k))
}

/// The type that was asked for; or else that of the plan, or the one that holds what the files hold.
fn element(
    arguments: &Arguments,
    planned: Option<&Problem>,
    stored: &[ElementType],
) -> Result<ElementType, Error> {
    let planned = planned.map(Problem::element);
    if let Some((asked, planned)) = arguments.element.zip(planned)
        && asked != planned
    {
        return Err(Error::Plan(format!("it is for matrices of {planned}")));
    }
    let all = stored.iter().copied().reduce(ElementType::and);
    Ok(arguments.element.or(planned).or(all).unwrap_or_default())
}

fn check_numbers(arguments: &Arguments, element: ElementType) -> Result<(), Error> {
    let Arguments {
        alpha,
        beta,
        epsilon,
        ..
    } = *arguments;
    let scalars = [("alpha", Some(alpha)), ("beta", beta)];
    for (name, value) in scalars {
        let Some(value) = value else { continue };
        if !value.is_finite() {
            return Err(refusal(name, value, "a factor must be a finite number"));
        }
        let kept = match element {
            ElementType::F32 | ElementType::C32 => Complex32::of(value).value(),
            ElementType::F64 | ElementType::C64 => value,
        };
        if !kept.is_finite() || (kept == Complex64::ZERO && value != Complex64::ZERO) {
            let reason = format!("the numbers of {element} do not reach so far");
            return Err(refusal(name, value, &reason));
        }
        if value.im != 0.0 && !element.is_complex() {
            let reason = format!("matrices of {element} have real factors; use --type c32 or c64");
            return Err(refusal(name, value, &reason));
        }
    }
    let nothing_to_add = arguments.a.is_some() && arguments.c.is_none();
    if let Some(beta) = beta.filter(|&beta| nothing_to_add && beta != Complex64::ZERO) {
        let reason = "there is no C to add: give its file by --c";
        return Err(refusal("beta", beta, reason));
    }
    if epsilon.is_nan() || epsilon <= 0.0 {
        let reason = "use a positive number, such as 0.05";
        return Err(refusal("epsilon", epsilon, reason));
    }
    Ok(())
}

fn refusal(name: &'static str, value: impl ToString, reason: &str) -> Error {
    Error::Parameter {
        name,
        value: value.to_string(),
        reason: reason.to_owned(),
    }
}

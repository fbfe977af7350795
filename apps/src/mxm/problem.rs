//! What is to be multiplied: the shape that was asked for, or that of the files.

use std::path::Path;

use isochron::Error;
use isochron::comm::Comm;
use isochron::matrix::file;
use isochron::multiply::Problem;

use super::Arguments;

/// The multiplication that was asked for, or that of the files.
///
/// # Errors
/// What is missing or makes no sense, on every rank.
///
/// # Collective
/// All ranks.
pub(super) fn problem(comm: &dyn Comm, arguments: &Arguments) -> Result<Problem, Error> {
    let (m, n, k) = match (shape(arguments), &arguments.a, &arguments.b) {
        (Some(shape), ..) => shape,
        (None, Some(a), Some(b)) => shape_of_files(comm, a, b)?,
        _ => {
            let reason = "give --size, or --m --n --k, or the files --a and --b";
            return Err(refusal("size", "missing", reason));
        }
    };
    if let Some(path) = &arguments.c {
        let shape = file::shape(comm, path)?;
        if (shape.rows, shape.cols) != (m, n) {
            let found = format!("{} is {}×{}", path.display(), shape.rows, shape.cols);
            return Err(Error::Shape(format!("{found}, but A*B is {m}×{n}")));
        }
    }
    check_numbers(arguments)?;
    let problem = Problem::new(m, n, k, arguments.block)?;
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

fn shape_of_files(comm: &dyn Comm, a: &Path, b: &Path) -> Result<(usize, usize, usize), Error> {
    let (of_a, of_b) = (file::shape(comm, a)?, file::shape(comm, b)?);
    if of_a.cols != of_b.rows {
        return Err(Error::Shape(format!(
            "{} is {}×{} and {} is {}×{}",
            a.display(),
            of_a.rows,
            of_a.cols,
            b.display(),
            of_b.rows,
            of_b.cols
        )));
    }
    Ok((of_a.rows, of_b.cols, of_a.cols))
}

fn check_numbers(arguments: &Arguments) -> Result<(), Error> {
    let Arguments {
        alpha,
        beta,
        epsilon,
        ..
    } = *arguments;
    let scalars = [("alpha", Some(alpha)), ("beta", beta)];
    for (name, value) in scalars {
        if let Some(value) = value.filter(|value| !value.is_finite()) {
            return Err(refusal(name, value, "a factor must be a finite number"));
        }
    }
    let nothing_to_add = arguments.a.is_some() && arguments.c.is_none();
    if let Some(beta) = beta.filter(|&beta| nothing_to_add && beta != 0.0) {
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

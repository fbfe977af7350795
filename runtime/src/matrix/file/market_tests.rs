//! Every kind of Matrix Market file, as the format's text and its usual writers have it.

use isochron_devices::Scalar;
use num_complex::{Complex32, Complex64};

use super::banner::{Field, MarketBanner, Symmetry};
use super::open;
use crate::comm::LocalComm;
use crate::error::Error;
use crate::matrix::Spread;

/// A matrix that was read: its elements column after column, and what was lost.
struct ReadText<T> {
    shape: (usize, usize),
    elements: Vec<T>,
    losses: Option<String>,
}

fn read_as<T: Scalar>(text: &(impl AsRef<[u8]> + ?Sized)) -> Result<ReadText<T>, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mtx");
    std::fs::write(&path, text).unwrap();
    let comm = LocalComm::new();
    let file = open(&comm, &path)?;
    let shape = (file.shape().rows, file.shape().cols);
    let (matrix, _) = file.read::<T>(&comm, Spread::whole(shape.0, shape.1))?;
    let local = matrix.local();
    Ok(ReadText {
        shape,
        elements: (0..shape.1).flat_map(|col| local.col(col).to_vec()).collect(),
        losses: file.describe_losses(&comm)?,
    })
}

/// Reads a file with this text; returns its shape and its elements, column after column.
fn read_text(text: &str) -> Result<(usize, usize, Vec<f64>), Error> {
    let ReadText { shape: (rows, cols), elements, losses: _ } = read_as(text)?;
    Ok((rows, cols, elements))
}

const FIELDS: [&str; 6] = ["real", "double", "integer", "unsigned-integer", "complex", "pattern"];
const SYMMETRIES: [&str; 4] = ["general", "symmetric", "skew-symmetric", "hermitian"];

/// Returns the elements of a matrix of this kind, column after column.
fn make_elements(banner: MarketBanner, size: usize) -> Vec<Complex64> {
    let number = |row: usize, col: usize| match banner.field {
        Field::Pattern => Complex64::new(f64::from(u8::from((row + 2 * col) % 3 != 1)), 0.0),
        Field::Integer => Complex64::new((3 * row + col + 1) as f64, 0.0),
        Field::Real => Complex64::new(row as f64 - 1.5 * col as f64 + 0.25, 0.0),
        Field::Complex => Complex64::new(row as f64 + 0.5, col as f64 - 2.25),
    };
    let lower = |row: usize, col: usize| match (banner.symmetry, row == col) {
        (Symmetry::SkewSymmetric, true) => Complex64::ZERO,
        (Symmetry::Hermitian, true) => number(row, col).re.into(),
        _ => number(row, col),
    };
    (0..size)
        .flat_map(|col| (0..size).map(move |row| (row, col)))
        .map(|(row, col)| match banner.symmetry {
            Symmetry::General => number(row, col),
            _ if row >= col => lower(row, col),
            _ => banner.mirror(lower(col, row)),
        })
        .collect()
}

/// Writes a number as a file of this field has it.
fn write_number(field: Field, value: Complex64) -> String {
    match field {
        Field::Pattern => String::new(),
        Field::Integer => format!("{}", value.re as i64),
        Field::Real => format!("{:.17e}", value.re),
        Field::Complex => format!("{:e}  {:e}", value.re, value.im),
    }
}

/// Writes a file of this kind with free white space: the elements that the format wants, in its order.
fn write_text(
    words: [&str; 3],
    banner: MarketBanner,
    size: usize,
    elements: &[Complex64],
) -> String {
    let mut lines = Vec::new();
    for (place, value) in elements.iter().enumerate() {
        let (row, col) = (place % size, place / size);
        let is_told = match banner.symmetry {
            Symmetry::General => true,
            Symmetry::SkewSymmetric => row > col,
            Symmetry::Symmetric | Symmetry::Hermitian => row >= col,
        };
        let number = write_number(banner.field, *value);
        if is_told && !banner.is_coordinate {
            lines.push(format!("  {number}\t"));
        } else if is_told && *value != Complex64::ZERO {
            lines.push(format!("\t{}   {} \t{number}", row + 1, col + 1));
        }
    }
    let count = if banner.is_coordinate { lines.len().to_string() } else { String::new() };
    let [format, field, symmetry] = words;
    format!(
        "%%MatrixMarket MATRIX {format} {field}  {symmetry}\n%words\n\n  % more\n {size}\t{size} {count}\r\n{}\n\n",
        lines.join("\n   % a comment\n")
    )
}

#[test]
fn every_field_has_every_symmetry_that_the_format_gives_it() {
    let mut count = 0;
    for format in ["array", "coordinate"] {
        for (field, symmetry) in FIELDS.iter().flat_map(|f| SYMMETRIES.map(|s| (*f, s))) {
            let words = [format, field, symmetry];
            let line = format!("%%MatrixMarket matrix {}", words.join(" "));
            let is_pattern = field == "pattern";
            let Ok(banner) = MarketBanner::parse(&line) else {
                let has_sign = !matches!(symmetry, "general" | "symmetric");
                assert!(is_pattern && (format == "array" || has_sign), "{line}");
                continue;
            };
            for size in [0, 1, 2, 5] {
                let wanted = make_elements(banner, size);
                let text = write_text(words, banner, size, &wanted);
                let found =
                    read_as::<Complex64>(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
                assert_eq!(found.elements, wanted, "{text}");
                assert_eq!((found.shape, found.losses), ((size, size), None), "{text}");
            }
            count += 1;
        }
    }
    assert_eq!(count, 2 * 5 * 4 + 2);
}

#[test]
fn elements_that_are_given_several_times_are_added_up() {
    let banner = "%%MatrixMarket matrix coordinate";
    let text = format!("{banner} real symmetric\n2 2 5\n2 1 1.5\n1 1 1\n2 1 2\n2 1 4\n1 1 -1\n");
    let found = read_as::<f64>(&text).unwrap();
    assert_eq!(found.elements, [0.0, 7.5, 7.5, 0.0]);
    let losses = found.losses.unwrap();
    assert!(losses.contains("3 lines were added to others"), "{losses}");
    let pattern = format!("{banner} pattern general\n1 2 3\n1 1\n1 2\n1 1\n");
    assert_eq!(read_as::<f32>(&pattern).unwrap().elements, [2.0, 1.0]);
}

#[test]
fn numbers_that_become_others_are_told() {
    let told = |found: Option<String>| found.unwrap_or_default();
    for format in ["array integer general\n2 1\n", "coordinate integer general\n2 1 2\n"] {
        let places = if format.starts_with('a') { ["", ""] } else { ["1 1 ", "2 1 "] };
        let write = |numbers: [&str; 2]| {
            let [first, second] = [0, 1].map(|at| format!("{}{}", places[at], numbers[at]));
            format!("%%MatrixMarket matrix {format}{first}\n{second}\n")
        };
        let large = write(["9007199254740993", "-9007199254740992"]);
        let found = read_as::<f64>(&large).unwrap();
        assert_eq!(found.elements, [9007199254740992.0, -9007199254740992.0]);
        let losses = told(found.losses);
        assert!(losses.ends_with("a.mtx: 1 integer was rounded (not held by f64)"), "{losses}");
        let single = read_as::<f32>(&write(["16777217", "16777216"])).unwrap();
        assert!(told(single.losses).contains("1 integer was rounded (not held by f32)"));
        let exact = read_as::<f64>(&write(["9007199254740991", "18014398509481984"])).unwrap();
        assert_eq!(exact.losses, None);
    }
    let real = "%%MatrixMarket matrix array complex general\n2 1\n1e39 1\ninf 1e38\n";
    let found = read_as::<Complex32>(real).unwrap();
    assert!(told(found.losses).contains("1 number became infinite (beyond the range of c32)"));
    assert_eq!(read_as::<Complex64>(real).unwrap().losses, None);
}

#[test]
fn numbers_of_fortran_and_long_comments_are_read() {
    let comment = "x".repeat(10_000);
    let text =
        format!("%%MatrixMarket matrix array real general\n%{comment}\n2 1\n+1.5D+01\n-2d0\n");
    assert_eq!(read_text(&text).unwrap().2, [15.0, -2.0]);
}

#[test]
fn a_comment_has_any_encoding() {
    let banner = b"%%MatrixMarket matrix array real general\n";
    let text = [&banner[..], b"% Universit\xe4t\n1 1\n4\n"].concat();
    assert_eq!(read_as::<f64>(&text).unwrap().elements, [4.0]);
    let text = [&banner[..], b"1 1\n\xe4\n"].concat();
    let refused = read_as::<f64>(&text).map(|read| read.elements).unwrap_err();
    assert!(refused.to_string().contains("line 3"), "{refused}");
}

#[test]
fn elements_without_a_line_are_zero_and_lines_have_any_order() {
    let text =
        "%%MatrixMarket matrix coordinate real general\n% words\n2 3 3\n2 3 7\n1 1  -1e0\n2 1 4\n";
    let (rows, cols, elements) = read_text(text).unwrap();
    assert_eq!((rows, cols), (2, 3));
    assert_eq!(elements, [-1.0, 4.0, 0.0, 0.0, 0.0, 7.0]);
    let empty = "%%MatrixMarket matrix coordinate integer general\n2 1 0\n";
    assert_eq!(read_text(empty).unwrap().2, [0.0, 0.0]);
}

#[test]
fn a_symmetric_file_has_one_half() {
    let text = "%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 1 3\n2 1 5\n";
    assert_eq!(read_text(text).unwrap().2, [3.0, 5.0, 5.0, 0.0]);
}

#[test]
fn broken_files_are_told_with_line_and_reason() {
    let real = "%%MatrixMarket matrix coordinate real general\n";
    for (text, reason) in [
        (format!("{real}2 2\n"), "line 2: `2 2`; wanted `rows cols elements`"),
        (format!("{real}2 2 2\n1 1 1.25\n"), "truncated: 1 elements of 2"),
        (format!("{real}9 9 90\n1 1 1\n"), "truncated: "),
        (format!("{real}2 2 1\n1 1 1\n2 2 2\n"), "line 4: more than 1 elements"),
        (format!("{real}2 2 1\n3 1 1\n"), "line 3: (3, 1) lies outside 2×2"),
        (format!("{real}2 2 1\n0 1 1\n"), "line 3: (0, 1) lies outside 2×2"),
        (format!("{real}2 2 1\n1 1\n% long enough\n"), "line 3: `1 1`; wanted `row column value`"),
        (format!("{real}2 2 1\n1 1 one\n"), "line 3: `one` is not a number"),
        (
            "%%MatrixMarket matrix coordinate real symmetric\n1 2 1\n1 2 1\n".to_owned(),
            "a symmetric matrix is square",
        ),
        (
            "%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 2 1\n2 1 1\n".to_owned(),
            "line 4: (2, 1) lies across the diagonal from other elements",
        ),
        (
            "%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n1 1 1\n".to_owned(),
            "line 3: the diagonal of a skew-symmetric matrix is zero",
        ),
        (
            "%%MatrixMarket matrix array complex hermitian\n1 1\n1 2\n".to_owned(),
            "line 3: the diagonal of a hermitian matrix is real",
        ),
        (
            "%%MatrixMarket matrix array complex general\n1 1\n1\n".to_owned(),
            "line 3: `1` is not a real and an imaginary part",
        ),
        (
            "%%MatrixMarket vector array real general\n1\n1\n".to_owned(),
            "line 1: `%%MatrixMarket vector array real general`; wanted `%%MatrixMarket matrix`",
        ),
        (
            "%%MatrixMarket matrix array quaternion general\n1 1\n1\n".to_owned(),
            "line 1: `quaternion`; wanted real, integer",
        ),
    ] {
        let error = read_as::<Complex64>(&text).err().unwrap().to_string();
        assert!(error.contains(reason), "{error:?} should contain {reason:?}");
    }
}

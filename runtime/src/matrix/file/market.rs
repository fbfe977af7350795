//! Matrix Market's text formats: `array`, column after column, and `coordinate`, which becomes a dense matrix.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::rc::Rc;

use isochron_devices::{ElementType, Scalar};
use num_complex::Complex64;

use super::coordinate::{CoordinateElements, find_shortest_entry};
use super::{FileShape, OpenFile, ReadElements};
use crate::input::{FileReader, WatchedFile};
use crate::matrix::Order;
use crate::output::PartialFile;

/// Bytes from which on a line is refused: a text file with such lines is something else.
const MAX_LINE: u64 = 4096;

/// Bytes that a written header has at most.
const MAX_HEADER: u64 = 100;

/// Lines with their numbers, comments and empty ones left out.
pub(super) struct NumberedLines {
    file: BufReader<FileReader>,
    line: String,
    pub number: usize,
}

/// The first line of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct MarketBanner {
    pub element: ElementType,
    /// `true` if every line has its row and its column, and elements without a line are 0.
    is_coordinate: bool,
    /// `true` if an element stands for the one across the diagonal too.
    pub is_symmetric: bool,
}

impl NumberedLines {
    fn next_raw(&mut self) -> Result<bool, String> {
        self.line.clear();
        self.number += 1;
        let number = self.number;
        let mut limited = std::io::Read::take(&mut self.file, MAX_LINE);
        let len = limited
            .read_line(&mut self.line)
            .map_err(|error| format!("line {number}: {error}"))?;
        if len as u64 == MAX_LINE {
            return Err(format!("line {number}: longer than {MAX_LINE} bytes"));
        }
        Ok(len > 0)
    }

    pub fn next_data(&mut self) -> Result<Option<&str>, String> {
        while self.next_raw()? {
            let blank = self.line.trim().is_empty() || self.line.starts_with('%');
            if !blank {
                return Ok(Some(self.line.trim()));
            }
        }
        Ok(None)
    }
}

pub(super) fn open_market<T: Scalar>(file: Rc<WatchedFile>) -> Result<OpenFile<T>, String> {
    let size = file.len();
    let mut lines = NumberedLines {
        file: BufReader::with_capacity(1 << 20, file.into()),
        line: String::new(),
        number: 0,
    };
    let banner = read_banner(&mut lines)?;
    let MarketSizes {
        rows,
        cols,
        entries,
    } = read_sizes(&mut lines, banner.is_coordinate)?;
    let total = rows
        .checked_mul(cols)
        .ok_or_else(|| format!("claims an impossible shape {rows}×{cols}"))?;
    let shape = FileShape {
        rows,
        cols,
        element: banner.element,
        order: Order::Columns,
    };
    // The shortest element is a digit and a line break, or two digits with a space between them and a line break.
    let shortest = 2 + 2 * u64::from(banner.element.is_complex());
    let (lines_told, shortest) = match entries {
        Some(entries) => (entries, find_shortest_entry(banner)),
        None => (total, shortest),
    };
    if size < shortest.saturating_mul(lines_told as u64).saturating_sub(1) {
        return Err(format!(
            "truncated: {size} bytes cannot hold {lines_told} elements of {rows}×{cols}"
        ));
    }
    let read_elements = match entries {
        Some(entries) => {
            let mut elements = CoordinateElements::new(lines, banner, (rows, cols), entries);
            Box::new(move |out: &mut [T]| elements.read_next(out)) as ReadElements<T>
        }
        None => read_array(lines, banner.element, total),
    };
    Ok((shape, read_elements))
}

/// Reads the elements of an `array`.
fn read_array<T: Scalar>(
    mut lines: NumberedLines,
    element: ElementType,
    total: usize,
) -> ReadElements<T> {
    let mut read = 0;
    Box::new(move |out: &mut [T]| {
        for value in out {
            let Some(text) = lines.next_data()? else {
                return Err(format!("truncated: {read} elements of {total}"));
            };
            let parsed = parse_element(text, element.is_complex());
            *value = T::of(parsed.map_err(|reason| format!("line {}: {reason}", lines.number))?);
            read += 1;
        }
        if read == total && lines.next_data()?.is_some() {
            return Err(format!("line {}: more than {total} elements", lines.number));
        }
        Ok(())
    })
}

/// Reads the first line.
fn read_banner(lines: &mut NumberedLines) -> Result<MarketBanner, String> {
    lines.next_raw()?;
    let banner = lines.line.to_lowercase();
    let words: Vec<&str> = banner.split_whitespace().collect();
    let (format, field, symmetry) = match words[..] {
        ["%%matrixmarket", "matrix", format, field, symmetry] => (format, field, symmetry),
        ["%%matrixmarket", ..] => ("", "", ""),
        _ => return Err("line 1: not a Matrix Market file (no %%MatrixMarket)".to_string()),
    };
    let element = match field {
        "real" | "integer" | "double" => Some(ElementType::F64),
        "complex" => Some(ElementType::C64),
        _ => None,
    };
    let is_coordinate = format == "coordinate";
    let is_known = match symmetry {
        "general" => is_coordinate || format == "array",
        "symmetric" => is_coordinate,
        _ => false,
    };
    match element.filter(|_| is_known) {
        Some(element) => Ok(MarketBanner {
            element,
            is_coordinate,
            is_symmetric: symmetry == "symmetric",
        }),
        None => Err(format!(
            "line 1: `{}`; wanted `matrix array real general`, or `coordinate`, complex, and symmetric if coordinate",
            lines.line.trim()
        )),
    }
}

/// The line with the sizes.
struct MarketSizes {
    rows: usize,
    cols: usize,
    /// Number of lines that follow, if the format tells it.
    entries: Option<usize>,
}

/// Reads the line with the numbers of rows and columns, and of elements if the file tells them by their coordinates.
fn read_sizes(lines: &mut NumberedLines, is_coordinate: bool) -> Result<MarketSizes, String> {
    let sizes = lines
        .next_data()?
        .map(str::to_string)
        .ok_or("the line with the sizes is missing")?;
    let numbers: Result<Vec<usize>, _> = sizes.split_whitespace().map(str::parse).collect();
    let (rows, cols, entries) = match (numbers.as_deref(), is_coordinate) {
        (Ok(&[rows, cols]), false) => (rows, cols, None),
        (Ok(&[rows, cols, entries]), true) => (rows, cols, Some(entries)),
        _ => {
            let wanted = ["rows cols", "rows cols elements"][usize::from(is_coordinate)];
            return Err(format!(
                "line {}: `{sizes}`; wanted `{wanted}`",
                lines.number
            ));
        }
    };
    Ok(MarketSizes {
        rows,
        cols,
        entries,
    })
}

/// Parses one element: a number, or the real and the imaginary part of a complex number.
pub(super) fn parse_element(text: &str, is_complex: bool) -> Result<Complex64, String> {
    let parts = match is_complex {
        false => Some((text, "0")),
        true => text.split_once(char::is_whitespace),
    };
    let (re, im) = parts.ok_or_else(|| format!("`{text}` is not a real and an imaginary part"))?;
    match (re.parse(), im.trim().parse()) {
        (Ok(re), Ok(im)) => Ok(Complex64::new(re, im)),
        _ => Err(format!("`{text}` is not a number")),
    }
}

/// Estimates the length of a file: most numbers have all digits of their type.
pub(super) fn estimate_bytes(elements: u64, element: ElementType) -> u64 {
    let width = match element {
        ElementType::F32 => "-1.2345678e-1\n".len(),
        ElementType::F64 => "-1.2345678901234567e-1\n".len(),
        ElementType::C32 => "-1.2345678e-1 -1.2345678e-1\n".len(),
        ElementType::C64 => "-1.2345678901234567e-1 -1.2345678901234567e-1\n".len(),
    };
    elements
        .saturating_mul(width as u64)
        .saturating_add(MAX_HEADER)
}

pub(super) fn write_header<T: Scalar>(
    file: &mut BufWriter<PartialFile>,
    rows: usize,
    cols: usize,
) -> std::io::Result<()> {
    let kind = if T::TYPE.is_complex() {
        "complex"
    } else {
        "real"
    };
    writeln!(
        file,
        "%%MatrixMarket matrix array {kind} general\n{rows} {cols}"
    )
}

pub(super) fn write_elements<T: Scalar>(
    file: &mut BufWriter<PartialFile>,
    elements: &[T],
) -> std::io::Result<()> {
    for value in elements {
        // The shortest form that reads back as the same number.
        let Complex64 { re, im } = value.value();
        match T::TYPE {
            ElementType::F32 => writeln!(file, "{:e}", re as f32)?,
            ElementType::F64 => writeln!(file, "{re:e}")?,
            ElementType::C32 => writeln!(file, "{:e} {:e}", re as f32, im as f32)?,
            ElementType::C64 => writeln!(file, "{re:e} {im:e}")?,
        }
    }
    Ok(())
}

//! Matrix Market's text formats: `array`, column after column, and `coordinate`, which becomes a dense matrix.

use std::io::{BufWriter, Write};
use std::rc::Rc;

use isochron_devices::{ElementType, Scalar};
use num_complex::Complex64;

use super::array::ArrayElements;
use super::banner::MarketBanner;
use super::coordinate::CoordinateElements;
use super::lines::NumberedLines;
use super::{FileShape, OpenFile, ReadElements};
use crate::input::WatchedFile;
use crate::matrix::Order;
use crate::output::PartialFile;

/// Bytes that a written header has at most.
const MAX_HEADER: u64 = 100;

pub(super) fn open_market<T: Scalar>(file: Rc<WatchedFile>) -> Result<OpenFile<T>, String> {
    let size = file.len();
    let mut lines = NumberedLines::new(file);
    let banner =
        MarketBanner::parse(lines.next_raw()?).map_err(|reason| format!("line 1: {reason}"))?;
    let MarketSizes { rows, cols, entries } = read_sizes(&mut lines, banner.is_coordinate)?;
    banner.check_shape(rows, cols)?;
    let (Some(_), Some(total)) = (rows.checked_mul(cols), banner.count_elements(rows, cols)) else {
        return Err(format!("claims an impossible shape {rows}×{cols}"));
    };
    let shape = FileShape { rows, cols, element: banner.element(), order: Order::Columns };
    // The shortest word is a digit, with a space or a line break behind it.
    let words = banner.count_words() + 2 * usize::from(banner.is_coordinate);
    let lines_told = entries.unwrap_or(total);
    let shortest = (2 * words as u64).saturating_mul(lines_told as u64);
    if size < shortest.saturating_sub(1) {
        return Err(format!(
            "truncated: {size} bytes cannot hold {lines_told} elements of {rows}×{cols}"
        ));
    }
    let read_elements = match entries {
        Some(entries) => {
            let mut elements = CoordinateElements::new(lines, banner, rows, cols, entries);
            Box::new(move |out: &mut [T]| elements.read_next(out)) as ReadElements<T>
        }
        None => {
            let mut elements = ArrayElements::new(lines, banner, rows, total);
            Box::new(move |out: &mut [T]| elements.read_next(out))
        }
    };
    Ok((shape, read_elements))
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
    let sizes =
        lines.next_data()?.map(str::to_string).ok_or("the line with the sizes is missing")?;
    let numbers: Result<Vec<usize>, _> = sizes.split_whitespace().map(str::parse).collect();
    let (rows, cols, entries) = match (numbers.as_deref(), is_coordinate) {
        (Ok(&[rows, cols]), false) => (rows, cols, None),
        (Ok(&[rows, cols, entries]), true) => (rows, cols, Some(entries)),
        _ => {
            let wanted = if is_coordinate { "rows cols elements" } else { "rows cols" };
            return Err(format!("line {}: `{sizes}`; wanted `{wanted}`", lines.number));
        }
    };
    Ok(MarketSizes { rows, cols, entries })
}

/// Estimates the length of a file: most numbers have all digits of their type.
pub(super) fn estimate_bytes(elements: u64, element: ElementType) -> u64 {
    let width = match element {
        ElementType::F32 => "-1.2345678e-1\n".len(),
        ElementType::F64 => "-1.2345678901234567e-1\n".len(),
        ElementType::C32 => "-1.2345678e-1 -1.2345678e-1\n".len(),
        ElementType::C64 => "-1.2345678901234567e-1 -1.2345678901234567e-1\n".len(),
    };
    elements.saturating_mul(width as u64).saturating_add(MAX_HEADER)
}

pub(super) fn write_header<T: Scalar>(
    file: &mut BufWriter<PartialFile>,
    rows: usize,
    cols: usize,
) -> std::io::Result<()> {
    let kind = if T::TYPE.is_complex() { "complex" } else { "real" };
    writeln!(file, "%%MatrixMarket matrix array {kind} general\n{rows} {cols}")
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

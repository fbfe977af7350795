//! Matrix Market's dense format (`array real general`), as text, column after column.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};

use super::pieces::Order;
use super::{ElementReader, ElementWriter, Shape};

/// Longest line that is looked at; a text file with longer ones is something else.
const MAX_LINE: u64 = 4096;

struct MarketReader {
    lines: Lines,
    read: usize,
    total: usize,
}

/// Lines with their numbers, comments and empty ones left out.
struct Lines {
    file: BufReader<File>,
    line: String,
    number: usize,
}

impl Lines {
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

    fn next_data(&mut self) -> Result<Option<&str>, String> {
        while self.next_raw()? {
            let blank = self.line.trim().is_empty() || self.line.starts_with('%');
            if !blank {
                return Ok(Some(self.line.trim()));
            }
        }
        Ok(None)
    }
}

pub(super) fn open(file: File) -> Result<(Shape, Box<dyn ElementReader>), String> {
    let size = file.metadata().map_err(|error| error.to_string())?.len();
    let mut lines = Lines {
        file: BufReader::with_capacity(1 << 20, file),
        line: String::new(),
        number: 0,
    };
    lines.next_raw()?;
    let banner = lines.line.to_lowercase();
    let words: Vec<&str> = banner.split_whitespace().collect();
    match words[..] {
        [
            "%%matrixmarket",
            "matrix",
            "array",
            "real" | "integer" | "double",
            "general",
        ] => {}
        ["%%matrixmarket", ..] => {
            return Err(format!(
                "line 1: `{}`; wanted `matrix array real general`",
                lines.line.trim()
            ));
        }
        _ => return Err("line 1: not a Matrix Market file (no %%MatrixMarket)".to_string()),
    }
    let sizes = lines
        .next_data()?
        .map(str::to_string)
        .ok_or("the line with the sizes is missing")?;
    let numbers: Option<Vec<usize>> = sizes
        .split_whitespace()
        .map(|word| word.parse().ok())
        .collect();
    let Some(&[rows, cols]) = numbers.as_deref() else {
        return Err(format!(
            "line {}: `{sizes}`; wanted `rows cols`",
            lines.number
        ));
    };
    let total = rows
        .checked_mul(cols)
        .ok_or_else(|| format!("claims an impossible shape {rows}×{cols}"))?;
    // The shortest element is a digit and its line break.
    if size < (2 * total as u64).saturating_sub(1) {
        return Err(format!(
            "truncated: {size} bytes cannot hold {rows}×{cols} elements"
        ));
    }
    let shape = Shape {
        rows,
        cols,
        order: Order::Columns,
    };
    Ok((
        shape,
        Box::new(MarketReader {
            lines,
            read: 0,
            total,
        }),
    ))
}

impl ElementReader for MarketReader {
    fn read(&mut self, out: &mut [f64]) -> Result<(), String> {
        for value in out {
            let Some(text) = self.lines.next_data()? else {
                return Err(format!(
                    "truncated: {} elements of {}",
                    self.read, self.total
                ));
            };
            let parsed = text
                .parse()
                .map_err(|_| format!("`{text}` is not a number"));
            *value = parsed.map_err(|reason| format!("line {}: {reason}", self.lines.number))?;
            self.read += 1;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), String> {
        match self.lines.next_data()? {
            None => Ok(()),
            Some(_) => Err(format!(
                "line {}: more than {} elements",
                self.lines.number, self.total
            )),
        }
    }
}

struct MarketWriter {
    file: BufWriter<File>,
}

pub(super) fn write_header(
    file: &mut BufWriter<File>,
    rows: usize,
    cols: usize,
) -> std::io::Result<()> {
    writeln!(
        file,
        "%%MatrixMarket matrix array real general\n{rows} {cols}"
    )
}

pub(super) fn writer(file: BufWriter<File>) -> Box<dyn ElementWriter> {
    Box::new(MarketWriter { file })
}

impl ElementWriter for MarketWriter {
    fn write(&mut self, elements: &[f64]) -> std::io::Result<()> {
        for value in elements {
            // The shortest form that reads back as the same f64.
            writeln!(self.file, "{value:e}")?;
        }
        self.file.flush()
    }
}

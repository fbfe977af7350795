//! NumPy's `.npy`: the header through npyz, the elements as a stream of bytes.

use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, Write};

use npyz::{DType, Endianness, NpyHeader, TypeChar, TypeStr, WriterBuilder};

use super::pieces::Order;
use super::{ElementReader, ElementWriter, Shape};

/// Reads integers and floating-point numbers of 1 to 8 bytes as f64 (not half precision; whole numbers beyond 2⁵³
/// are rounded).
struct NpyReader {
    file: BufReader<File>,
    decode: Decoder,
    bytes: Vec<u8>,
}

/// How one stored number becomes an f64.
struct Decoder {
    width: usize,
    big_endian: bool,
    /// From little-endian bytes.
    number: fn(&[u8]) -> f64,
}

impl Decoder {
    fn new(kind: &TypeStr) -> Result<Self, String> {
        macro_rules! le {
            ($type:ty) => {
                // A slice of another length than the type's cannot reach this: `width` is the type's.
                |bytes| <$type>::from_le_bytes(std::array::from_fn(|i| bytes[i])) as f64
            };
        }
        let number: fn(&[u8]) -> f64 = match (kind.type_char(), kind.size_field()) {
            (TypeChar::Float, 8) => le!(f64),
            (TypeChar::Float, 4) => le!(f32),
            (TypeChar::Int, 1) => le!(i8),
            (TypeChar::Int, 2) => le!(i16),
            (TypeChar::Int, 4) => le!(i32),
            (TypeChar::Int, 8) => le!(i64),
            (TypeChar::Uint, 1) => le!(u8),
            (TypeChar::Uint, 2) => le!(u16),
            (TypeChar::Uint, 4) => le!(u32),
            (TypeChar::Uint, 8) => le!(u64),
            _ => {
                return Err(format!(
                    "holds elements of type {kind}; wanted f4, f8, or integers of 1 to 8 bytes"
                ));
            }
        };
        let big_endian = kind.endianness() == Endianness::Big;
        Ok(Self {
            width: kind.size_field() as usize,
            big_endian,
            number,
        })
    }
}

pub(super) fn open(file: File) -> Result<(Shape, Box<dyn ElementReader>), String> {
    let size = file.metadata().map_err(|error| error.to_string())?.len();
    let mut file = BufReader::with_capacity(1 << 20, file);
    let header =
        NpyHeader::from_reader(&mut file).map_err(|error| format!("not a NumPy file: {error}"))?;
    let &[rows, cols] = header.shape() else {
        return Err(format!(
            "holds an array of {} dimensions; wanted a matrix",
            header.shape().len()
        ));
    };
    let DType::Plain(kind) = header.dtype() else {
        return Err("holds records; wanted real numbers".to_string());
    };
    let decode = Decoder::new(&kind)?;
    let start = file.stream_position().map_err(|error| error.to_string())?;
    let wanted = rows
        .checked_mul(cols)
        .and_then(|n| n.checked_mul(decode.width as u64));
    let wanted = wanted.ok_or_else(|| format!("claims an impossible shape {rows}×{cols}"))?;
    let found = size.saturating_sub(start);
    if found != wanted {
        let word = if found < wanted {
            "truncated"
        } else {
            "too long"
        };
        return Err(format!(
            "{word}: {found} bytes of elements where {rows}×{cols} need {wanted}"
        ));
    }
    let order = match header.order() {
        npyz::Order::C => Order::Rows,
        npyz::Order::Fortran => Order::Columns,
    };
    let shape = Shape {
        rows: rows as usize,
        cols: cols as usize,
        order,
    };
    Ok((
        shape,
        Box::new(NpyReader {
            file,
            decode,
            bytes: Vec::new(),
        }),
    ))
}

impl ElementReader for NpyReader {
    fn read(&mut self, out: &mut [f64]) -> Result<(), String> {
        let width = self.decode.width;
        self.bytes.resize(out.len() * width, 0);
        self.file
            .read_exact(&mut self.bytes)
            .map_err(|error| match error.kind() {
                ErrorKind::UnexpectedEof => "truncated while it was read".to_string(),
                _ => error.to_string(),
            })?;
        for (value, bytes) in out.iter_mut().zip(self.bytes.chunks_exact_mut(width)) {
            if self.decode.big_endian {
                bytes.reverse();
            }
            *value = (self.decode.number)(bytes);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), String> {
        Ok(()) // The size was checked when the file was opened.
    }
}

struct NpyWriter {
    file: BufWriter<File>,
}

/// A header for a matrix of f64, column after column.
pub(super) fn write_header(
    file: &mut BufWriter<File>,
    rows: usize,
    cols: usize,
) -> std::io::Result<()> {
    let float: TypeStr = "<f8".parse().map_err(std::io::Error::other)?;
    npyz::WriteOptions::new_header_only()
        .dtype(DType::new_scalar(float))
        .shape(&[rows as u64, cols as u64])
        .order(npyz::Order::Fortran)
        .writer(file)
        .write_header_only()
        .map(drop)
}

pub(super) fn writer(file: BufWriter<File>) -> Box<dyn ElementWriter> {
    Box::new(NpyWriter { file })
}

impl ElementWriter for NpyWriter {
    fn write(&mut self, elements: &[f64]) -> std::io::Result<()> {
        for value in elements {
            self.file.write_all(&value.to_le_bytes())?;
        }
        self.file.flush()
    }
}

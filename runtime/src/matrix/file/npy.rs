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
    decoder: Decoder,
    bytes: Vec<u8>,
}

/// How stored numbers become f64.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decoder {
    width: usize,
    big_endian: bool,
    /// From little-endian bytes.
    numbers: fn(&[u8], &mut [f64]),
}

impl Decoder {
    fn new(kind: &TypeStr) -> Result<Self, String> {
        macro_rules! le {
            ($type:ty) => {
                |bytes, out| {
                    let numbers = bytes.chunks_exact(size_of::<$type>());
                    for (value, bytes) in out.iter_mut().zip(numbers) {
                        *value = <$type>::from_le_bytes(std::array::from_fn(|i| bytes[i])) as f64;
                    }
                }
            };
        }
        let numbers: fn(&[u8], &mut [f64]) = match (kind.type_char(), kind.size_field()) {
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
            numbers,
        })
    }

    /// Bytes of one stored number.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// As many numbers as `out` holds, from the beginning of `bytes`, whose order may be changed.
    pub(super) fn decode(&self, bytes: &mut [u8], out: &mut [f64]) {
        let bytes = &mut bytes[..out.len() * self.width];
        if self.big_endian {
            bytes.chunks_exact_mut(self.width).for_each(<[u8]>::reverse);
        }
        (self.numbers)(bytes, out);
    }
}

/// What a file's header says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub shape: Shape,
    /// Where the elements begin, in bytes.
    pub start: u64,
    pub decoder: Decoder,
}

/// Reads the header, and checks that the file is as long as it says.
pub(super) fn header(file: &mut BufReader<File>) -> Result<Header, String> {
    let metadata = file.get_ref().metadata();
    let size = metadata.map_err(|error| error.to_string())?.len();
    let header =
        NpyHeader::from_reader(&mut *file).map_err(|error| format!("not a NumPy file: {error}"))?;
    let &[rows, cols] = header.shape() else {
        return Err(format!(
            "holds an array of {} dimensions; wanted a matrix",
            header.shape().len()
        ));
    };
    let DType::Plain(kind) = header.dtype() else {
        return Err("holds records; wanted real numbers".to_string());
    };
    let decoder = Decoder::new(&kind)?;
    let start = file.stream_position().map_err(|error| error.to_string())?;
    let wanted = rows
        .checked_mul(cols)
        .and_then(|n| n.checked_mul(decoder.width as u64));
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
    Ok(Header {
        shape,
        start,
        decoder,
    })
}

pub(super) fn open(file: File) -> Result<(Shape, Box<dyn ElementReader>), String> {
    let mut file = BufReader::with_capacity(1 << 20, file);
    let Header { shape, decoder, .. } = header(&mut file)?;
    let bytes = Vec::new();
    let reader = NpyReader {
        file,
        decoder,
        bytes,
    };
    Ok((shape, Box::new(reader)))
}

/// Why elements could not be read.
pub(super) fn read_failure(error: std::io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "truncated while it was read".to_string(),
        _ => error.to_string(),
    }
}

impl ElementReader for NpyReader {
    fn read(&mut self, out: &mut [f64]) -> Result<(), String> {
        self.bytes.resize(out.len() * self.decoder.width, 0);
        self.file
            .read_exact(&mut self.bytes)
            .map_err(read_failure)?;
        self.decoder.decode(&mut self.bytes, out);
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

//! NumPy's `.npy`: the header through npyz, the elements as a stream of bytes.

use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, Write};

use isochron_devices::{Element, ElementType};
use npyz::{DType, Endianness, NpyHeader, TypeChar, TypeStr, WriterBuilder};
use num_complex::Complex64;

use super::{ElementReader, ElementWriter, FileShape};
use crate::matrix::Order;

/// Reads integers of 1 to 8 bytes, floating-point numbers (not of half precision) and complex ones; whole numbers beyond
/// 2⁵³ are rounded.
struct NpyReader {
    file: BufReader<File>,
    decoder: Decoder,
    bytes: Vec<u8>,
}

/// How numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoredType {
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    C32,
    C64,
}

/// How stored numbers become elements.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decoder {
    stored: StoredType,
    width: usize,
    big_endian: bool,
}

impl Decoder {
    fn new(kind: &TypeStr) -> Result<Self, String> {
        let stored = match (kind.type_char(), kind.size_field()) {
            (TypeChar::Float, 8) => StoredType::F64,
            (TypeChar::Float, 4) => StoredType::F32,
            (TypeChar::Int, 1) => StoredType::I8,
            (TypeChar::Int, 2) => StoredType::I16,
            (TypeChar::Int, 4) => StoredType::I32,
            (TypeChar::Int, 8) => StoredType::I64,
            (TypeChar::Uint, 1) => StoredType::U8,
            (TypeChar::Uint, 2) => StoredType::U16,
            (TypeChar::Uint, 4) => StoredType::U32,
            (TypeChar::Uint, 8) => StoredType::U64,
            (TypeChar::Complex, 8) => StoredType::C32,
            (TypeChar::Complex, 16) => StoredType::C64,
            _ => {
                return Err(format!(
                    "holds elements of type {kind}; wanted f4, f8, c8, c16, or integers of 1 to 8 bytes"
                ));
            }
        };
        Ok(Self {
            stored,
            width: kind.size_field() as usize,
            big_endian: kind.endianness() == Endianness::Big,
        })
    }

    /// Bytes of one stored number.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// The smallest type that has all stored numbers; of integers `f64`.
    fn element(&self) -> ElementType {
        match self.stored {
            StoredType::F32 => ElementType::F32,
            StoredType::C32 => ElementType::C32,
            StoredType::C64 => ElementType::C64,
            _ => ElementType::F64,
        }
    }

    /// As many numbers as `out` holds, from the beginning of `bytes`, whose order may be changed.
    pub(super) fn decode<T: Element>(&self, bytes: &mut [u8], out: &mut [T]) {
        let bytes = &mut bytes[..out.len() * self.width];
        if self.big_endian {
            let part = if self.element().is_complex() { 2 } else { 1 };
            let parts = bytes.chunks_exact_mut(self.width / part);
            parts.for_each(<[u8]>::reverse);
        }
        macro_rules! real {
            ($type:ty) => {
                convert(bytes, out, |bytes: [u8; size_of::<$type>()]| {
                    Complex64::new(<$type>::from_le_bytes(bytes) as f64, 0.0)
                })
            };
        }
        match self.stored {
            StoredType::F32 => real!(f32),
            StoredType::F64 => real!(f64),
            StoredType::I8 => real!(i8),
            StoredType::I16 => real!(i16),
            StoredType::I32 => real!(i32),
            StoredType::I64 => real!(i64),
            StoredType::U8 => real!(u8),
            StoredType::U16 => real!(u16),
            StoredType::U32 => real!(u32),
            StoredType::U64 => real!(u64),
            StoredType::C32 => convert(bytes, out, |bytes: [u8; 8]| {
                let part = |at: usize| f32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
                Complex64::new(f64::from(part(0)), f64::from(part(4)))
            }),
            StoredType::C64 => convert(bytes, out, |bytes: [u8; 16]| {
                let part = |at: usize| f64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
                Complex64::new(part(0), part(8))
            }),
        }
    }
}

/// Elements from the bytes of each stored number.
fn convert<T: Element, const WIDTH: usize>(
    bytes: &[u8],
    out: &mut [T],
    number: impl Fn([u8; WIDTH]) -> Complex64,
) {
    let (numbers, _) = bytes.as_chunks::<WIDTH>();
    for (value, bytes) in out.iter_mut().zip(numbers) {
        *value = T::of(number(*bytes));
    }
}

/// Appends elements as they stand in a file.
pub(super) fn encode<T: Element>(elements: &[T], out: &mut Vec<u8>) {
    let from = out.len();
    out.extend_from_slice(bytemuck::cast_slice(elements));
    if cfg!(target_endian = "big") {
        let parts = if T::TYPE.is_complex() { 2 } else { 1 };
        let reals = out[from..].chunks_exact_mut(size_of::<T>() / parts);
        reals.for_each(<[u8]>::reverse);
    }
}

/// What a file's header says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub shape: FileShape,
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
        return Err("holds records; wanted numbers".to_string());
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
    let shape = FileShape {
        rows: rows as usize,
        cols: cols as usize,
        element: decoder.element(),
        order,
    };
    Ok(Header {
        shape,
        start,
        decoder,
    })
}

pub(super) fn open<T: Element>(
    file: File,
) -> Result<(FileShape, Box<dyn ElementReader<T>>), String> {
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

impl<T: Element> ElementReader<T> for NpyReader {
    fn read(&mut self, out: &mut [T]) -> Result<(), String> {
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
    bytes: Vec<u8>,
}

/// A header for a matrix of this type, column after column.
pub(super) fn write_header<T: Element>(
    file: &mut BufWriter<File>,
    rows: usize,
    cols: usize,
) -> std::io::Result<()> {
    let name = match T::TYPE {
        ElementType::F32 => "<f4",
        ElementType::F64 => "<f8",
        ElementType::C32 => "<c8",
        ElementType::C64 => "<c16",
    };
    let kind: TypeStr = name.parse().map_err(std::io::Error::other)?;
    npyz::WriteOptions::new_header_only()
        .dtype(DType::new_scalar(kind))
        .shape(&[rows as u64, cols as u64])
        .order(npyz::Order::Fortran)
        .writer(file)
        .write_header_only()
        .map(drop)
}

pub(super) fn writer<T: Element>(file: BufWriter<File>) -> Box<dyn ElementWriter<T>> {
    let bytes = Vec::new();
    Box::new(NpyWriter { file, bytes })
}

impl<T: Element> ElementWriter<T> for NpyWriter {
    fn write(&mut self, elements: &[T]) -> std::io::Result<()> {
        self.bytes.clear();
        encode(elements, &mut self.bytes);
        self.file.write_all(&self.bytes)?;
        self.file.flush()
    }
}

//! NumPy's `.npy` format: npyz reads the header, the elements are a stream of bytes.

use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, Write};

use isochron_devices::{Element, ElementType};
use npyz::{DType, Endianness, NpyHeader, TypeChar, TypeStr, WriterBuilder};
use num_complex::Complex64;

use super::{ElementReader, ElementWriter, FileShape};
use crate::matrix::Order;

/// A reader of integers of 1 to 8 bytes, floating-point numbers (except half precision) and complex numbers. Integers beyond
/// 2⁵³ are rounded.
struct NpyReader {
    file: BufReader<File>,
    decoder: Decoder,
    bytes: Vec<u8>,
}

/// Type of the stored numbers.
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

/// Conversion of stored numbers to elements.
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

    /// Returns the number of bytes of one stored number.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Returns the smallest type that holds all stored numbers; `f64` for integers.
    fn element(&self) -> ElementType {
        match self.stored {
            StoredType::F32 => ElementType::F32,
            StoredType::C32 => ElementType::C32,
            StoredType::C64 => ElementType::C64,
            _ => ElementType::F64,
        }
    }

    /// Fills `out` with numbers from the beginning of `bytes`. Bytes of big-endian numbers are reversed in place.
    pub(super) fn decode_numbers<T: Element>(&self, bytes: &mut [u8], out: &mut [T]) {
        let bytes = &mut bytes[..out.len() * self.width];
        if self.big_endian {
            let part = if self.element().is_complex() { 2 } else { 1 };
            let parts = bytes.chunks_exact_mut(self.width / part);
            parts.for_each(<[u8]>::reverse);
        }
        macro_rules! real {
            ($type:ty) => {
                convert_numbers(bytes, out, |bytes: [u8; size_of::<$type>()]| {
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
            StoredType::C32 => convert_numbers(bytes, out, |bytes: [u8; 8]| {
                let [re, im] =
                    [0, 4].map(|at| f32::from_le_bytes(std::array::from_fn(|i| bytes[at + i])));
                Complex64::new(f64::from(re), f64::from(im))
            }),
            StoredType::C64 => convert_numbers(bytes, out, |bytes: [u8; 16]| {
                let [re, im] =
                    [0, 8].map(|at| f64::from_le_bytes(std::array::from_fn(|i| bytes[at + i])));
                Complex64::new(re, im)
            }),
        }
    }
}

/// Converts the bytes of each stored number to an element.
fn convert_numbers<T: Element, const WIDTH: usize>(
    bytes: &[u8],
    out: &mut [T],
    number: impl Fn([u8; WIDTH]) -> Complex64,
) {
    let (numbers, _) = bytes.as_chunks::<WIDTH>();
    for (value, bytes) in out.iter_mut().zip(numbers) {
        *value = T::of(number(*bytes));
    }
}

/// Appends elements to `out` in the form of a file.
pub(super) fn encode_elements<T: Element>(elements: &[T], out: &mut Vec<u8>) {
    let from = out.len();
    out.extend_from_slice(bytemuck::cast_slice(elements));
    if cfg!(target_endian = "big") {
        let parts = if T::TYPE.is_complex() { 2 } else { 1 };
        let reals = out[from..].chunks_exact_mut(size_of::<T>() / parts);
        reals.for_each(<[u8]>::reverse);
    }
}

/// Content of a file's header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub shape: FileShape,
    /// First byte of the elements.
    pub start: u64,
    pub decoder: Decoder,
}

/// Reads the header, and checks that the file has the length that it says.
pub(super) fn read_header(file: &mut BufReader<File>) -> Result<Header, String> {
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

pub(super) fn open_npy<T: Element>(
    file: File,
) -> Result<(FileShape, Box<dyn ElementReader<T>>), String> {
    let mut file = BufReader::with_capacity(1 << 20, file);
    let Header { shape, decoder, .. } = read_header(&mut file)?;
    let bytes = Vec::new();
    let reader = NpyReader {
        file,
        decoder,
        bytes,
    };
    Ok((shape, Box::new(reader)))
}

/// Describes why elements could not be read.
pub(super) fn read_failure(error: std::io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "truncated while it was read".to_string(),
        _ => error.to_string(),
    }
}

impl<T: Element> ElementReader<T> for NpyReader {
    fn read_elements(&mut self, out: &mut [T]) -> Result<(), String> {
        self.bytes.resize(out.len() * self.decoder.width, 0);
        self.file
            .read_exact(&mut self.bytes)
            .map_err(read_failure)?;
        self.decoder.decode_numbers(&mut self.bytes, out);
        Ok(())
    }

    fn check_end(&mut self) -> Result<(), String> {
        Ok(()) // The length was checked when the file was opened.
    }
}

struct NpyWriter {
    file: BufWriter<File>,
    bytes: Vec<u8>,
}

/// Writes a header for a matrix of this type, column after column.
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

pub(super) fn make_writer<T: Element>(file: BufWriter<File>) -> Box<dyn ElementWriter<T>> {
    let bytes = Vec::new();
    Box::new(NpyWriter { file, bytes })
}

impl<T: Element> ElementWriter<T> for NpyWriter {
    fn write_elements(&mut self, elements: &[T]) -> std::io::Result<()> {
        self.bytes.clear();
        encode_elements(elements, &mut self.bytes);
        self.file.write_all(&self.bytes)?;
        self.file.flush()
    }
}

//! NumPy's `.npy` format: npyz reads the header, the elements are a stream of bytes.

use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, Write};

use bytemuck::Pod;
use isochron_devices::{Element, ElementType};
use npyz::{DType, Endianness, NpyHeader, TypeChar, TypeStr, WriterBuilder};
use num_complex::{Complex32, Complex64};

use super::{ElementReader, FileShape};
use crate::matrix::Order;

/// A reader of integers of 1 to 8 bytes, floating-point numbers (except half precision) and complex numbers. Integers beyond
/// 2⁵³ are rounded.
struct NpyReader<T> {
    file: BufReader<File>,
    decoder: Decoder<T>,
    bytes: Vec<u8>,
}

/// Conversion of stored numbers, in this host's byte order, to elements.
type Conversion<T> = fn(&[u8], &mut [T]);

/// Decoder of stored numbers of one type and byte order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decoder<T> {
    /// Bytes of a stored number.
    pub width: usize,
    /// Smallest type that holds all stored numbers; `f64` for integers.
    element: ElementType,
    convert: Conversion<T>,
    is_foreign: bool,
}

impl<T: Element> Decoder<T> {
    fn new(kind: &TypeStr) -> Result<Self, String> {
        macro_rules! real {
            ($stored:ty) => {
                |bytes, out| {
                    convert_numbers(bytes, out, |number: $stored| {
                        Complex64::new(number as f64, 0.0)
                    })
                }
            };
        }
        let (element, convert): (ElementType, Conversion<T>) = match (
            kind.type_char(),
            kind.size_field(),
        ) {
            (TypeChar::Float, 4) => (ElementType::F32, real!(f32)),
            (TypeChar::Float, 8) => (ElementType::F64, real!(f64)),
            (TypeChar::Int, 1) => (ElementType::F64, real!(i8)),
            (TypeChar::Int, 2) => (ElementType::F64, real!(i16)),
            (TypeChar::Int, 4) => (ElementType::F64, real!(i32)),
            (TypeChar::Int, 8) => (ElementType::F64, real!(i64)),
            (TypeChar::Uint, 1) => (ElementType::F64, real!(u8)),
            (TypeChar::Uint, 2) => (ElementType::F64, real!(u16)),
            (TypeChar::Uint, 4) => (ElementType::F64, real!(u32)),
            (TypeChar::Uint, 8) => (ElementType::F64, real!(u64)),
            (TypeChar::Complex, 8) => (ElementType::C32, |bytes, out| {
                convert_numbers(bytes, out, Complex32::value)
            }),
            (TypeChar::Complex, 16) => (ElementType::C64, |bytes, out| {
                convert_numbers(bytes, out, Complex64::value)
            }),
            _ => {
                return Err(format!(
                    "holds elements of type {kind}; wanted f4, f8, c8, c16, or integers of 1 to 8 bytes"
                ));
            }
        };
        let own_orders = [Endianness::of_machine(), Endianness::Irrelevant];
        Ok(Self {
            width: kind.size_field() as usize,
            element,
            convert,
            is_foreign: !own_orders.contains(&kind.endianness()),
        })
    }

    /// Fills `out` with numbers from the beginning of `bytes`. Numbers in foreign byte order are reversed in place.
    pub(super) fn decode_numbers(&self, bytes: &mut [u8], out: &mut [T]) {
        let bytes = &mut bytes[..out.len() * self.width];
        if self.is_foreign {
            let parts = 1 + usize::from(self.element.is_complex());
            let reals = bytes.chunks_exact_mut(self.width / parts);
            reals.for_each(<[u8]>::reverse);
        }
        (self.convert)(bytes, out);
    }
}

/// Converts the bytes of each stored number to an element.
fn convert_numbers<S: Pod, T: Element>(
    bytes: &[u8],
    out: &mut [T],
    value: impl Fn(S) -> Complex64,
) {
    for (element, bytes) in out.iter_mut().zip(bytes.chunks_exact(size_of::<S>())) {
        *element = T::of(value(bytemuck::pod_read_unaligned(bytes)));
    }
}

/// Content of a file's header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header<T> {
    pub shape: FileShape,
    /// First byte of the elements.
    pub start: u64,
    pub decoder: Decoder<T>,
}

/// Reads the header, and checks that the file has the length that it says.
pub(super) fn read_header<T: Element>(file: &mut BufReader<File>) -> Result<Header<T>, String> {
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
        element: decoder.element,
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
    let header = read_header(&mut file)?;
    let reader = NpyReader {
        file,
        decoder: header.decoder,
        bytes: Vec::new(),
    };
    Ok((header.shape, Box::new(reader)))
}

/// Describes why elements could not be read.
pub(super) fn read_failure(error: std::io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "truncated while it was read".to_string(),
        _ => error.to_string(),
    }
}

impl<T: Element> ElementReader<T> for NpyReader<T> {
    fn read_elements(&mut self, out: &mut [T]) -> Result<(), String> {
        self.bytes.resize(out.len() * self.decoder.width, 0);
        self.file
            .read_exact(&mut self.bytes)
            .map_err(read_failure)?;
        self.decoder.decode_numbers(&mut self.bytes, out);
        Ok(())
    }
}

/// Writes a header for a matrix of this type, column after column.
pub(super) fn write_header<T: Element>(
    file: &mut BufWriter<File>,
    rows: usize,
    cols: usize,
) -> std::io::Result<()> {
    let name = match T::TYPE {
        ElementType::F32 => "f4",
        ElementType::F64 => "f8",
        ElementType::C32 => "c8",
        ElementType::C64 => "c16",
    };
    let kind = format!("{}{name}", Endianness::of_machine());
    let kind: TypeStr = kind.parse().map_err(std::io::Error::other)?;
    npyz::WriteOptions::new_header_only()
        .dtype(DType::new_scalar(kind))
        .shape(&[rows as u64, cols as u64])
        .order(npyz::Order::Fortran)
        .writer(file)
        .write_header_only()
        .map(drop)
}

pub(super) fn write_elements<T: Element>(
    file: &mut BufWriter<File>,
    elements: &[T],
) -> std::io::Result<()> {
    file.write_all(bytemuck::cast_slice(elements))
}

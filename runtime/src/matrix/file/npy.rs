//! NumPy's `.npy` format: npyz reads the header, the elements are a stream of bytes.

use std::io::{BufWriter, ErrorKind, Write};
use std::rc::Rc;

use bytemuck::Pod;
use isochron_devices::{ElementType, Scalar};
use npyz::{DType, Endianness, NpyHeader, TypeChar, TypeStr, WriterBuilder};
use num_complex::{Complex32, Complex64};

use super::losses::Losses;
use super::{FileShape, OpenFile};
use crate::input::WatchedFile;
use crate::matrix::Order;
use crate::output::PartialFile;

/// Largest number of bytes before the elements. NumPy itself reads no longer headers unless it is asked to.
const MAX_HEADER: u64 = 10_000;

/// Conversion of stored numbers, in this host's byte order, to elements.
type Conversion<T> = fn(&[u8], &mut [T]) -> Losses;

/// Chooses the smallest type that holds all stored numbers of a type, `f64` for integers, and their conversion.
fn choose_conversion<T: Scalar>(kind: &TypeStr) -> Result<(ElementType, Conversion<T>), String> {
    Ok(match (kind.type_char(), kind.size_field()) {
        (TypeChar::Float, 4) => (ElementType::F32, convert_floats::<f32, T>),
        (TypeChar::Float, 8) => (ElementType::F64, convert_floats::<f64, T>),
        (TypeChar::Int, 1) => (ElementType::F64, convert_integers::<i8, T>),
        (TypeChar::Int, 2) => (ElementType::F64, convert_integers::<i16, T>),
        (TypeChar::Int, 4) => (ElementType::F64, convert_integers::<i32, T>),
        (TypeChar::Int, 8) => (ElementType::F64, convert_integers::<i64, T>),
        (TypeChar::Uint, 1) => (ElementType::F64, convert_integers::<u8, T>),
        (TypeChar::Uint, 2) => (ElementType::F64, convert_integers::<u16, T>),
        (TypeChar::Uint, 4) => (ElementType::F64, convert_integers::<u32, T>),
        (TypeChar::Uint, 8) => (ElementType::F64, convert_integers::<u64, T>),
        (TypeChar::Complex, 8) => (ElementType::C32, convert_floats::<Complex32, T>),
        (TypeChar::Complex, 16) => (ElementType::C64, convert_floats::<Complex64, T>),
        _ => {
            return Err(format!(
                "holds elements of type {kind}; wanted f4, f8, c8, c16, or integers of 1 to 8 bytes"
            ));
        }
    })
}

fn read_numbers<S: Pod>(bytes: &[u8]) -> impl Iterator<Item = S> {
    bytes.chunks_exact(size_of::<S>()).map(bytemuck::pod_read_unaligned)
}

fn convert_floats<S: Scalar, T: Scalar>(bytes: &[u8], out: &mut [T]) -> Losses {
    let mut losses = Losses::default();
    let numbers = out.iter_mut().zip(read_numbers::<S>(bytes));
    // Only a type of less precision has a smaller range.
    if T::EPSILON > S::EPSILON {
        numbers.for_each(|(element, number)| *element = losses.convert(number.value()));
    } else {
        numbers.for_each(|(element, number)| *element = T::of(number.value()));
    }
    losses
}

fn convert_integers<S: Pod + Into<i128>, T: Scalar>(bytes: &[u8], out: &mut [T]) -> Losses {
    let mut losses = Losses::default();
    for (element, number) in out.iter_mut().zip(read_numbers::<S>(bytes)) {
        let integer = number.into();
        losses.note_integer::<T>(integer);
        *element = T::of(Complex64::new(integer as f64, 0.0));
    }
    losses
}

/// Content of a file's header.
pub(super) struct Header<T> {
    pub shape: FileShape,
    /// First byte of the elements.
    pub start: u64,
    /// Bytes of a stored number.
    pub width: usize,
    convert: Conversion<T>,
    /// `true` if the numbers are not in this host's byte order.
    is_foreign: bool,
}

impl<T: Scalar> Header<T> {
    /// Fills `out` with numbers from the beginning of `bytes`. Numbers in foreign byte order are reversed in place.
    pub(super) fn decode_numbers(&self, bytes: &mut [u8], out: &mut [T]) -> Losses {
        let bytes = &mut bytes[..out.len() * self.width];
        if self.is_foreign {
            let parts = 1 + usize::from(self.shape.element.is_complex());
            bytes.chunks_exact_mut(self.width / parts).for_each(<[u8]>::reverse);
        }
        (self.convert)(bytes, out)
    }
}

/// Returns the number of bytes before the elements, as the first bytes of a file tell it; `None` if these are of no version
/// of the format.
fn count_header(first: &[u8]) -> Option<u64> {
    match *first {
        [_, _, _, _, _, _, 1, _, low, high, ..] => {
            Some(10 + u64::from(u16::from_le_bytes([low, high])))
        }
        [_, _, _, _, _, _, 2 | 3, _, a, b, c, d, ..] => {
            Some(12 + u64::from(u32::from_le_bytes([a, b, c, d])))
        }
        _ => None,
    }
}

/// Reads the bytes before the elements. No length is believed before the file has it.
fn read_header_bytes(file: &WatchedFile) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; file.len().min(12) as usize];
    file.read_exact_at(&mut bytes, 0).map_err(read_failure)?;
    let len = match count_header(&bytes) {
        Some(len) if bytes.starts_with(b"\x93NUMPY") => len,
        _ => return Ok(bytes),
    };
    if len > file.len() {
        let found = file.len();
        return Err(format!("truncated: a header of {len} bytes in a file of {found}"));
    }
    if len > MAX_HEADER {
        return Err(format!(
            "not a matrix: its header has {len} bytes, wanted at most {MAX_HEADER}"
        ));
    }
    bytes.resize(len as usize, 0);
    file.read_exact_at(&mut bytes, 0).map_err(read_failure)?;
    Ok(bytes)
}

/// NumPy's other names of number types on Linux, behind the name that has a size.
const NAMES: [(&str, &str); 12] = [
    ("f4", "f float32 single"),
    ("f8", "d float64 double float"),
    ("c8", "F complex64 csingle"),
    ("c16", "D complex128 cdouble complex"),
    ("i1", "b int8 byte"),
    ("i2", "h int16 short"),
    ("i4", "i int32 intc"),
    ("i8", "l q p int64 int intp longlong"),
    ("u1", "B uint8 ubyte"),
    ("u2", "H uint16 ushort"),
    ("u4", "I uint32 uintc"),
    ("u8", "L Q P uint64 uint uintp ulonglong"),
];

/// Returns a header whose type has the name that npyz knows. NumPy reads all names that it has for a type, with any sign
/// of the byte order; a header without a type in quotes stays as it is.
fn name_type(header: &[u8]) -> Result<Vec<u8>, String> {
    let start = if header[6] == 1 { 10 } else { 12 };
    let text = String::from_utf8_lossy(&header[start..]);
    let found = text.find("descr").and_then(|key| {
        let (_, value) = text[key..].split_once(':')?;
        let value = value.trim_start();
        let quote = value.chars().next().filter(|quote| "'\"".contains(*quote))?;
        value[1..].split_once(quote)
    });
    let Some((given, rest)) = found else {
        return Ok(header.to_vec());
    };
    let name = given.trim_start_matches(['<', '>', '=', '|']);
    let known = NAMES
        .iter()
        .find(|(sized, names)| *sized == name || names.split(' ').any(|other| other == name));
    let Some((sized, _)) = known.filter(|_| given.len() - name.len() < 2) else {
        return Err(format!(
            "holds elements of type {given}; wanted f4, f8, c8, c16, or integers of 1 to 8 bytes"
        ));
    };
    let order = match given.chars().next() {
        _ if sized.ends_with('1') => Endianness::Irrelevant,
        Some('<') => Endianness::Little,
        Some('>') => Endianness::Big,
        _ => Endianness::of_machine(),
    };
    let before = &text[..text.len() - rest.len() - given.len() - 1];
    let text = format!("{before}{order}{sized}{}", &text[text.len() - rest.len() - 1..]);
    let length = u32::try_from(text.len()).map_err(|error| error.to_string())?;
    Ok([b"\x93NUMPY\x03\0", &length.to_le_bytes()[..], text.as_bytes()].concat())
}

/// Reads the header, and checks that the file has the length that it says.
pub(super) fn read_header<T: Scalar>(file: &WatchedFile) -> Result<Header<T>, String> {
    let bytes = read_header_bytes(file)?;
    if count_header(&bytes).is_none() || !bytes.starts_with(b"\x93NUMPY") {
        return Err("not a NumPy file of version 1, 2 or 3".to_owned());
    }
    let header = NpyHeader::from_reader(&name_type(&bytes)?[..]).map_err(|_| {
        "not a NumPy file: its header tells no descr, fortran_order and shape".to_owned()
    })?;
    let (rows, cols) = match *header.shape() {
        [rows, cols] => (rows, cols),
        // A vector is a column.
        [rows] => (rows, 1),
        ref shape => {
            return Err(format!(
                "holds an array of {} dimensions; wanted a matrix or a vector",
                shape.len()
            ));
        }
    };
    let DType::Plain(kind) = header.dtype() else {
        return Err("holds records; wanted numbers".to_string());
    };
    let (element, convert) = choose_conversion(&kind)?;
    let start = bytes.len() as u64;
    let wanted = rows.checked_mul(cols).and_then(|n| n.checked_mul(kind.size_field()));
    let wanted = wanted.ok_or_else(|| format!("claims an impossible shape {rows}×{cols}"))?;
    let found = file.len() - start;
    if found != wanted {
        let word = if found < wanted { "truncated" } else { "too long" };
        return Err(format!("{word}: {found} bytes of elements where {rows}×{cols} need {wanted}"));
    }
    let shape = FileShape {
        rows: rows as usize,
        cols: cols as usize,
        element,
        order: match header.order() {
            npyz::Order::C => Order::Rows,
            npyz::Order::Fortran => Order::Columns,
        },
    };
    let own_orders = [Endianness::of_machine(), Endianness::Irrelevant];
    Ok(Header {
        shape,
        start,
        width: kind.size_field() as usize,
        convert,
        is_foreign: !own_orders.contains(&kind.endianness()),
    })
}

/// Opens a file of integers of 1 to 8 bytes, floating-point numbers (except half precision) or complex numbers. Integers
/// beyond 2⁵³ are rounded.
pub(super) fn open_npy<T: Scalar>(file: Rc<WatchedFile>) -> Result<OpenFile<T>, String> {
    let header = read_header(&file)?;
    let shape = header.shape;
    let (mut bytes, mut at) = (Vec::new(), header.start);
    let read_elements = Box::new(move |out: &mut [T]| {
        bytes.resize(out.len() * header.width, 0);
        file.read_exact_at(&mut bytes, at).map_err(read_failure)?;
        at += bytes.len() as u64;
        Ok(header.decode_numbers(&mut bytes, out)) // The length was checked with the header.
    });
    Ok((shape, read_elements))
}

/// Describes why elements could not be read.
pub(super) fn read_failure(error: std::io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "truncated while it was read".to_string(),
        _ => error.to_string(),
    }
}

/// Returns the length of a file that is written here. Its header is padded to 128 bytes.
pub(super) fn count_bytes(elements: u64, element: ElementType) -> u64 {
    elements.saturating_mul(element.bytes() as u64).saturating_add(128)
}

/// Writes a header for a matrix of this type, column after column.
pub(super) fn write_header<T: Scalar>(
    file: &mut BufWriter<PartialFile>,
    rows: usize,
    cols: usize,
) -> std::io::Result<()> {
    let letter = if T::TYPE.is_complex() { 'c' } else { 'f' };
    let kind = format!("{}{letter}{}", Endianness::of_machine(), size_of::<T>());
    let kind: TypeStr = kind.parse().map_err(std::io::Error::other)?;
    npyz::WriteOptions::new_header_only()
        .dtype(DType::new_scalar(kind))
        .shape(&[rows as u64, cols as u64])
        .order(npyz::Order::Fortran)
        .writer(file)
        .write_header_only()
        .map(drop)
}

pub(super) fn write_elements<T: Scalar>(
    file: &mut BufWriter<PartialFile>,
    elements: &[T],
) -> std::io::Result<()> {
    file.write_all(bytemuck::cast_slice(elements))
}

#[cfg(test)]
mod tests {
    use super::super::open;
    use super::*;
    use crate::comm::LocalComm;
    use crate::matrix::Spread;

    /// Returns what is lost of a column of numbers of this type in a matrix of `T`.
    fn read_column<T: Scalar, S: Pod>(kind: &str, numbers: &[S]) -> String {
        let rows = numbers.len();
        let mut header =
            format!("{{'descr': '{kind}', 'fortran_order': True, 'shape': ({rows}, 1), }}");
        header += &" ".repeat(117 - header.len());
        let head =
            [b"\x93NUMPY\x01\0", &118u16.to_le_bytes()[..], header.as_bytes(), b"\n"].concat();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        std::fs::write(&path, [&head, bytemuck::cast_slice(numbers)].concat()).unwrap();
        let comm = LocalComm::new();
        let file = open(&comm, &path).unwrap();
        file.read::<T>(&comm, Spread::whole(rows, 1)).unwrap();
        file.describe_losses(&comm).unwrap().unwrap_or_default()
    }

    #[test]
    fn every_name_of_numpy_for_a_type_is_read() {
        let header = |kind: &str, quote: char| {
            let text = format!("{{{quote}descr{quote}: {quote}{kind}{quote}, 'shape': (2, 1), }}");
            [b"\x93NUMPY\x01\0", &[text.len() as u8, 0][..], text.as_bytes()].concat()
        };
        let own = Endianness::of_machine().to_string();
        for (sized, names) in NAMES {
            for (name, order) in names
                .split(' ')
                .chain([sized])
                .flat_map(|name| ["", "=", "|", "<", ">"].map(|order| (name, order)))
            {
                let named = name_type(&header(&format!("{order}{name}"), '"')).unwrap();
                let order = match order {
                    _ if sized.ends_with('1') => "|",
                    "<" | ">" => order,
                    _ => &own,
                };
                let wanted = header(&format!("{order}{sized}"), '"');
                assert_eq!(named[12..], wanted[10..], "{name}");
            }
        }
        for kind in ["<f2", "U8", "<<f8", "O", "", "float16", "[us]"] {
            let told = name_type(&header(kind, '\'')).unwrap_err();
            assert!(told.starts_with(&format!("holds elements of type {kind}; ")), "{told}");
        }
    }

    #[test]
    fn numbers_that_become_others_are_told() {
        const LARGEST: i64 = 1 << 53;
        for (told, wanted) in [
            (read_column::<f64, i64>("<i8", &[LARGEST, -LARGEST, 3]), ""),
            (
                read_column::<f64, i64>("<i8", &[LARGEST + 1, i64::MAX, i64::MIN]),
                "2 integers were rounded (not held by f64)",
            ),
            (
                read_column::<f64, u64>("<u8", &[u64::MAX]),
                "1 integer was rounded (not held by f64)",
            ),
            (
                read_column::<f32, i32>("<i4", &[(1 << 24) + 1, 1 << 24]),
                "1 integer was rounded (not held by f32)",
            ),
            (read_column::<f64, f64>("<f8", &[1e300, f64::INFINITY]), ""),
            (
                read_column::<f32, f64>("<f8", &[1e39, 1.0, f64::NAN]),
                "1 number became infinite (beyond the range of f32)",
            ),
            (read_column::<f64, f32>("<f4", &[3e38]), ""),
        ] {
            assert_eq!(told.is_empty(), wanted.is_empty(), "{told:?}");
            assert!(told.contains(wanted), "{told:?}: {wanted:?}");
        }
    }
}

//! The names of element types.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

/// The name of an element type, in Rust and in files: `f32`, `f64`, `c32` or `c64`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[derive(Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown_type)]
pub enum ElementType {
    /// Real numbers in single precision.
    F32,
    /// Real numbers in double precision.
    #[default]
    F64,
    /// Complex numbers in single precision.
    C32,
    /// Complex numbers in double precision.
    C64,
}

fn unknown_type(text: &str) -> String {
    format!("unknown element type `{text}`: use f32, f64, c32 or c64")
}

impl ElementType {
    /// Every type.
    pub const ALL: [Self; 4] = [Self::F32, Self::F64, Self::C32, Self::C64];

    /// Returns `true` for complex numbers.
    pub fn is_complex(self) -> bool {
        matches!(self, Self::C32 | Self::C64)
    }

    /// Returns the bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F64 | Self::C32 => 8,
            Self::C64 => 16,
        }
    }

    /// Returns the real operations of one multiplication with addition: 2, or 8 for complex numbers.
    pub fn flop(self) -> f64 {
        if self.is_complex() { 8.0 } else { 2.0 }
    }

    /// Returns the smallest type that holds all numbers of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::F64, Self::C32) | (Self::C32, Self::F64) => Self::C64,
            // Of any other two the later one holds both.
            _ => self.max(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_type_of_both_is_found() {
        use ElementType::{C32, C64, F32, F64};
        let cases = [(F32, F64, F64), (F32, C32, C32), (F64, C32, C64), (C64, F32, C64)];
        for (one, other, both) in cases {
            assert_eq!([one.and(other), other.and(one)], [both; 2]);
            assert_eq!(one.and(one), one);
        }
    }

    #[test]
    fn types_are_read_by_their_names() {
        for kind in ElementType::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert_eq!(kind.flop() == 8.0, kind.to_string().starts_with('c'));
        }
        assert!("double".parse::<ElementType>().unwrap_err().contains("c64"));
    }
}

//! The matrix multiplication.

use std::ops::{Add, Mul};

/// The element types of cuBLAS's gemm functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GemmElement {
    F32,
    F64,
    C32,
    C64,
}

impl GemmElement {
    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F64 | Self::C32 => 8,
            Self::C64 => 16,
        }
    }
}

/// `C = alpha·A·B + beta·C` by device addresses; A: `m×k`, B: `k×n`, C: `m×n`, column-major. Scalars are complex.
#[derive(Debug, Clone)]
pub struct DeviceGemm {
    pub kind: GemmElement,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub alpha: [f64; 2],
    pub a: u64,
    pub lda: usize,
    pub b: u64,
    pub ldb: usize,
    pub beta: [f64; 2],
    pub c: u64,
    pub ldc: usize,
}

/// A complex number, as cuBLAS lays it out.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
pub struct Complex<T> {
    re: T,
    im: T,
}

impl<T: Copy + Add<Output = T>> Add for Complex<T> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }
}

impl<T: Copy + Add<Output = T> + Mul<Output = T> + std::ops::Sub<Output = T>> Mul for Complex<T> {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }
}

impl DeviceGemm {
    /// Returns `true` if the leading dimensions are large enough.
    pub fn fits(&self) -> bool {
        self.lda >= self.m.max(1) && self.ldb >= self.k.max(1) && self.ldc >= self.m.max(1)
    }

    /// Multiplies the matrices at these addresses, where `prepare` has found A, B and C.
    pub fn run(&self, a: *const u8, b: *const u8, c: *mut u8) {
        let [(ar, ai), (br, bi)] = [self.alpha, self.beta].map(|[re, im]| (re, im));
        match self.kind {
            GemmElement::F32 => self.multiply([ar as f32, br as f32, 0.0], a, b, c),
            GemmElement::F64 => self.multiply([ar, br, 0.0], a, b, c),
            GemmElement::C32 => {
                let scalars = [(ar, ai), (br, bi), (0.0, 0.0)]
                    .map(|(re, im)| Complex { re: re as f32, im: im as f32 });
                self.multiply(scalars, a, b, c);
            }
            GemmElement::C64 => {
                let scalars = [(ar, ai), (br, bi), (0.0, 0.0)].map(|(re, im)| Complex { re, im });
                self.multiply(scalars, a, b, c);
            }
        }
    }

    fn multiply<T>(&self, [alpha, beta, zero]: [T; 3], a: *const u8, b: *const u8, c: *mut u8)
    where
        T: Copy + PartialEq + Add<Output = T> + Mul<Output = T>,
    {
        let (a, b, c) = (a.cast::<T>(), b.cast::<T>(), c.cast::<T>());
        for j in 0..self.n {
            // SAFETY: C holds `n` columns of `m` elements, `ldc` apart, and no other view of it exists in this call.
            let c = unsafe { std::slice::from_raw_parts_mut(c.add(j * self.ldc), self.m) };
            for value in c.iter_mut() {
                *value = if beta == zero { zero } else { beta * *value };
            }
            if alpha == zero {
                continue;
            }
            for p in 0..self.k {
                // SAFETY: B holds `n` columns of `k` elements, `ldb` apart.
                let factor = alpha * unsafe { *b.add(j * self.ldb + p) };
                // SAFETY: A holds `k` columns of `m` elements, `lda` apart; A and C are different allocations or
                // different parts of one.
                let a = unsafe { std::slice::from_raw_parts(a.add(p * self.lda), self.m) };
                for (value, &element) in c.iter_mut().zip(a) {
                    *value = *value + element * factor;
                }
            }
        }
    }
}

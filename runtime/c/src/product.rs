//! Products of matrices in the program's memory.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::rc::Rc;

use isochron::prelude::{
    Distribution, Element, Factors, Op, Product, ProductConfig, ProductRun, Scalars,
};
use isochron_core::internal::{AnyProduct, ProductWork};

use crate::element::read_type;
use crate::handles::{self, HandleKind, Kept, OpenSession, SessionHandle};
use crate::matrix::MatrixTable;
use crate::memory::hand_over;
use crate::operands::Operands;
use crate::pointers;
use crate::status::{CallFailure, agree_on, call};
use crate::structs::{SizedStruct, write_struct};

/// Reports which matrices a product used in place, and the cost of moving the others on this rank. Set
/// struct_size to sizeof(isochron_last_run_t). Later versions may append fields. They accept this struct as it is, and
/// write the fields that it has.
///
/// A matrix that is not where the plan needs it is moved, on all ranks.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct LastRunTable {
    /// Bytes of this struct.
    pub struct_size: i64,
    /// 1 if A was used in place; 0 if it was moved.
    pub a_in_place: i64,
    /// 1 if B was used in place; 0 if it was moved.
    pub b_in_place: i64,
    /// 1 if C was written in place; 0 if it was moved.
    pub c_in_place: i64,
    /// Messages that this rank sent to move A, B and C to the plan's layout, and C back.
    pub messages: i64,
    /// Bytes of these messages.
    pub bytes: i64,
    /// Seconds of these moves on this rank.
    pub seconds: f64,
}

// SAFETY: numbers, with the size first.
unsafe impl SizedStruct for LastRunTable {
    const NAME: &'static str = "isochron_last_run_t";
    const SIZES: &'static [usize] = &[size_of::<Self>()];
}

impl From<&ProductRun> for LastRunTable {
    fn from(run: &ProductRun) -> Self {
        let [a, b, c] = run.in_place.map(i64::from);
        Self {
            struct_size: size_of::<Self>() as i64,
            a_in_place: a,
            b_in_place: b,
            c_in_place: c,
            messages: run.moved.messages as i64,
            bytes: run.moved.bytes as i64,
            seconds: run.moved.seconds,
        }
    }
}

/// A product that is planned once and run many times.
#[derive(Debug)]
pub struct ProductHandle(());

impl HandleKind for ProductHandle {
    type Object = PreparedProduct;
    const KIND: &'static str = "product";
}

/// A product and its session.
pub(crate) struct PreparedProduct {
    session: Rc<Kept<OpenSession>>,
    product: GivenProduct,
}

/// A product of matrices as a program has them.
struct GivenProduct {
    product: AnyProduct,
    /// The matrices as they were described, without pointers.
    tables: [MatrixTable; 3],
    on: [Distribution; 3],
}

/// The letters of the operations on A and B.
type OpLetters = [c_char; 2];

/// The matrices A, B and C of a program.
type GivenMatrices = [*const MatrixTable; 3];

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Multiplies once: `C = alpha·op(A)·op(B) + beta·C`. `type` is one of `ISOCHRON_F32` to `ISOCHRON_C64`. `trans_a` and
/// `trans_b` are `'N'`, `'T'` or `'C'`. `alpha` and `beta` point to one element each. If `beta` is 0, C is not read.
/// Prepare a product that runs more than once.
///
/// C shares no element with A and B. All three may be parts of one array, whose lines lie between each other.
///
/// Collective: all ranks of the session, with the same arguments except their memory.
///
/// # Safety
/// The matrices have the memory that they describe. Nothing else writes it, or reads C, during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_gemm(
    session: *mut SessionHandle,
    r#type: c_int,
    trans_a: c_char,
    trans_b: c_char,
    alpha: *const c_void,
    a: *const MatrixTable,
    b: *const MatrixTable,
    beta: *const c_void,
    c: *const MatrixTable,
) -> c_int {
    call(|| {
        let session = handles::find(session)?;
        let operands = [a, b, c];
        session.use_object(|open| {
            // SAFETY: as the caller says.
            let mut product =
                unsafe { prepare(open, r#type, [trans_a, trans_b], operands, Ok(()))? };
            // SAFETY: as the caller says.
            unsafe { product.run(open, [alpha, beta], operands) }
        })
    })
}

/// Plans a product to be run many times. The memory of the matrices is not used. Close the product by
/// isochron_close_product.
///
/// Collective: all ranks of the session, with the same arguments.
///
/// # Safety
/// The arrays of the matrices are as long as they say, and `product` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_prepare(
    session: *mut SessionHandle,
    r#type: c_int,
    trans_a: c_char,
    trans_b: c_char,
    a: *const MatrixTable,
    b: *const MatrixTable,
    c: *const MatrixTable,
    product: *mut *mut ProductHandle,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe { pointers::clear(product, ptr::null_mut()) };
        let kept = handles::find(session)?;
        let made = kept.use_object(|open| {
            let place = pointers::check(product, "product");
            // SAFETY: as the caller says.
            unsafe { prepare(open, r#type, [trans_a, trans_b], [a, b, c], place) }
        })?;
        let (comm, session) = (kept.comm().clone(), Rc::clone(&kept));
        let made = PreparedProduct { session, product: made };
        // SAFETY: as the caller says.
        unsafe { pointers::write(product, "product", handles::keep(comm, made)) }
    })
}

/// Runs a product with matrices that are described as when it was prepared. Their memory may differ.
///
/// Collective: all ranks of the session, with the same scalars.
///
/// # Safety
/// As isochron_gemm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_run(
    product: *mut ProductHandle,
    alpha: *const c_void,
    a: *const MatrixTable,
    b: *const MatrixTable,
    beta: *const c_void,
    c: *const MatrixTable,
) -> c_int {
    call(|| {
        let product = handles::find(product)?;
        product.use_object(|PreparedProduct { session, product }| {
            // SAFETY: as the caller says.
            session.use_object(|open| unsafe { product.run(open, [alpha, beta], [a, b, c]) })
        })
    })
}

/// Reports which matrices the session's last product used in place, and what it cost this rank to move and copy the others.
///
/// Not collective.
///
/// # Safety
/// `run` is null, or points to a struct that may be written, of as many bytes as its first field says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_last_run(
    session: *const SessionHandle,
    run: *mut LastRunTable,
) -> c_int {
    call(|| {
        let answer = handles::find(session)?.use_object(|open| {
            let (_, last_run) = open.find_last_run()?;
            Ok(LastRunTable::from(last_run))
        })?;
        // SAFETY: as the caller says.
        unsafe { write_struct(run, "run", &answer) }
    })
}

/// Writes the plan of a product as JSON. Free the text by isochron_free.
///
/// # Safety
/// `json` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_plan(
    product: *const ProductHandle,
    json: *mut *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe { pointers::clear(json, ptr::null()) };
        pointers::check(json, "json")?;
        let product = handles::find(product)?;
        let plan = product.use_object(|product| to_json(product.product.product.plan()))?;
        // SAFETY: as the caller says.
        unsafe { pointers::write(json, "json", hand_over(plan)) }
    })
}

/// Closes a product.
///
/// # Safety
/// No call of it is under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_close_product(product: *mut ProductHandle) -> c_int {
    call(|| handles::close(product))
}

/// Plans a product. `place` tells whether this rank can take it.
///
/// # Safety
/// The arrays of the matrices are as long as they say.
unsafe fn prepare(
    open: &mut OpenSession,
    element: c_int,
    letters: OpLetters,
    operands: GivenMatrices,
    place: Result<(), CallFailure>,
) -> Result<GivenProduct, CallFailure> {
    let comm = open.session.comm().clone();
    // SAFETY: as the caller says.
    let described = place.and_then(|()| unsafe { describe_all(operands, comm.size()) });
    let asked = described.and_then(|described| {
        let ops = [read_op("trans_a", letters[0])?, read_op("trans_b", letters[1])?];
        Ok((described, ops, read_type(element)?))
    });
    let ((tables, on), ops, element) = agree_on(&*comm, asked)?;
    let config = ProductConfig { ops, ..open.products.to_config() };
    let of = (on.each_ref(), config);
    let product = AnyProduct::prepare(&mut open.session, element, of)?;
    Ok(GivenProduct { product, tables, on })
}

fn read_op(name: &str, letter: c_char) -> Result<Op, CallFailure> {
    // `c_char` has a sign on some processors.
    match letter as u8 {
        b'N' | b'n' => Ok(Op::N),
        b'T' | b't' => Ok(Op::T),
        b'C' | b'c' => Ok(Op::C),
        other => {
            let letter = char::from(other).escape_default();
            let reason = format!("'{letter}' is none of 'N', 'T' and 'C'");
            Err(CallFailure::argument(name, reason))
        }
    }
}

/// Reads three matrices, and returns them without pointers and as distributions.
///
/// # Safety
/// The arrays of the matrices are as long as they say.
unsafe fn describe_all(
    operands: GivenMatrices,
    n_ranks: usize,
) -> Result<([MatrixTable; 3], [Distribution; 3]), CallFailure> {
    // SAFETY: as the caller says.
    let tables = unsafe { read_all(operands)? };
    // SAFETY: as the caller says.
    let describe = |side: usize| unsafe { tables[side].describe(NAMES[side], n_ranks) };
    let on = [describe(0)?, describe(1)?, describe(2)?];
    Ok((tables.map(MatrixTable::without_pointers), on))
}

/// # Safety
/// The conditions of [`MatrixTable::read`].
unsafe fn read_all(operands: GivenMatrices) -> Result<[MatrixTable; 3], CallFailure> {
    // SAFETY: as the caller says.
    let read = |side: usize| unsafe { MatrixTable::read(operands[side], NAMES[side]) };
    Ok([read(0)?, read(1)?, read(2)?])
}

impl GivenProduct {
    /// Runs the product, and keeps what its report needs.
    ///
    /// # Safety
    /// The conditions of [`isochron_gemm`].
    unsafe fn run(
        &mut self,
        open: &mut OpenSession,
        scalars: [*const c_void; 2],
        operands: GivenMatrices,
    ) -> Result<(), CallFailure> {
        let Self { product, tables, on } = self;
        let run = product.apply(GivenRun { open, tables, on, scalars, operands })?;
        open.last_run = Some((product.plan().clone(), run));
        Ok(())
    }
}

/// A run of a product with the memory of a program.
///
/// Whoever makes one keeps the promises of [`isochron_gemm`] until it has run.
struct GivenRun<'r> {
    open: &'r mut OpenSession,
    tables: &'r [MatrixTable; 3],
    on: &'r [Distribution; 3],
    scalars: [*const c_void; 2],
    operands: GivenMatrices,
}

impl ProductWork for GivenRun<'_> {
    type Output = Result<ProductRun, CallFailure>;

    fn apply_to<T: Element>(self, product: &mut Product<T>) -> Self::Output {
        let Self { open, tables, on, scalars, operands } = self;
        let comm = open.session.comm().clone();
        // SAFETY: as the maker of the run promises.
        let read = unsafe { read_run(tables, on, comm.rank(), scalars, operands) };
        let (scalars, Operands { a, b, c }) = agree_on(&*comm, read)?;
        Ok(product.run(&mut open.session, scalars, Factors::of(a, b), c)?)
    }
}

/// Reads the scalars of a run, and the memory of A, B and C on this rank.
///
/// # Safety
/// The conditions of [`isochron_gemm`], as long as the memory is viewed.
unsafe fn read_run<'m, T: Element>(
    tables: &[MatrixTable; 3],
    on: &[Distribution; 3],
    rank: usize,
    [alpha, beta]: [*const c_void; 2],
    operands: GivenMatrices,
) -> Result<(Scalars<T>, Operands<'m, T>), CallFailure> {
    // SAFETY: as the caller says.
    let given = unsafe { read_all(operands)? };
    for side in 0..3 {
        if given[side].without_pointers() != tables[side] {
            let reason = "is not described as when the product was prepared";
            return Err(CallFailure::argument(NAMES[side], reason));
        }
    }
    // SAFETY: as the caller says.
    unsafe {
        let scalars = Scalars {
            alpha: pointers::read(alpha.cast::<T>(), "alpha")?,
            beta: pointers::read(beta.cast::<T>(), "beta")?,
        };
        let list = |side: usize| given[side].list_pieces::<T>(NAMES[side], &on[side], rank);
        let pieces = [list(0)?, list(1)?, list(2)?];
        Ok((scalars, Operands::view(pieces)?))
    }
}

/// Returns a document as JSON.
pub(crate) fn to_json(document: &impl serde::Serialize) -> Result<Vec<u8>, CallFailure> {
    serde_json::to_vec(document).map_err(|error| CallFailure::argument("json", error.to_string()))
}

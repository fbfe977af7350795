//! Products of matrices in the memory of the program.

use isochron::devices::MatrixView;
use isochron::hierarchy::balance::BalanceConfig;
use isochron::matrix::{MemoryLines, OperandLines};
use isochron::prelude::{
    Comm, Complex64, Distribution, Element, ElementType, Error, Factors, Op, Order, Product,
    ProductConfig, ProductRun, Scalars, Session,
};
use isochron_core::internal::{AnyProduct, ProductWork};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::arrays::{ArrayMemory, list_arrays, make_array, name_element, read_element};
use crate::errors::{Count, Number, RaisedError, agree_on};
use crate::session::{PySession, SessionState};
use crate::settings::{read_setting, to_python};
use crate::thread_bound::{ThreadBound, run_detached};

/// The names of the matrices.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The keywords that say how a product is planned.
pub(crate) struct ProductKeywords<'k> {
    pub ops: &'k str,
    pub block: Option<Count>,
    pub panel: Option<Count>,
    pub split: Option<&'k str>,
    pub strategy: Option<&'k str>,
    pub epsilon: Option<Number>,
}

impl ProductKeywords<'_> {
    fn read_ops(&self) -> Result<[Op; 2], Error> {
        let letters: Vec<char> = self.ops.chars().collect();
        let [a, b] = letters[..] else {
            let reason = "two letters, one for A and one for B: N, T or C";
            return Err(Error::parameter("ops", self.ops, reason));
        };
        Ok([self.read_op(a)?, self.read_op(b)?])
    }

    fn read_op(&self, letter: char) -> Result<Op, Error> {
        letter.to_string().parse().map_err(|error: String| Error::parameter("ops", self.ops, error))
    }

    fn read_config(&self) -> Result<ProductConfig, RaisedError> {
        let defaults = ProductConfig::default();
        Ok(ProductConfig {
            ops: self.read_ops()?,
            block: self.block.map(|width| width.0),
            panel: self.panel.map(|width| width.0),
            split: read_setting("split", self.split)?.unwrap_or(defaults.split),
            balance: BalanceConfig {
                strategy: read_setting("strategy", self.strategy)?
                    .unwrap_or(defaults.balance.strategy),
                epsilon: (self.epsilon).map_or(defaults.balance.epsilon, |epsilon| epsilon.0),
                ..defaults.balance
            },
        })
    }
}

/// The arrays of this rank for A, B and C, as a call gives them.
pub(crate) struct PyMatrices<'py>([Option<Bound<'py, PyAny>>; 3]);

impl<'py> PyMatrices<'py> {
    /// Takes the arguments of a call. A rank without elements gives None.
    pub fn new(
        a: &Bound<'py, PyAny>,
        b: &Bound<'py, PyAny>,
        c: Option<&Bound<'py, PyAny>>,
    ) -> Self {
        let sides = [Some(a), Some(b), c];
        Self(sides.map(|side| side.filter(|side| !side.is_none()).cloned()))
    }

    /// Returns the arrays of a matrix: none, one, or its blocks.
    fn list_arrays(&self, side: usize) -> Vec<Bound<'py, PyAny>> {
        let Some(given) = &self.0[side] else {
            return Vec::new();
        };
        list_arrays(given)
    }

    /// Returns the type of the first array, if there is one.
    fn find_element(&self) -> Result<Option<ElementType>, RaisedError> {
        let mut arrays = (0..3).flat_map(|side| {
            self.list_arrays(side)
                .into_iter()
                .map(move |array| ArrayMemory::lock(NAMES[side], &array))
        });
        Ok(arrays.next().transpose()?.map(|memory| memory.element()))
    }

    /// Returns where a single rank has its matrices.
    fn find_on(&self, ops: [Op; 2]) -> Result<[Distribution; 3], RaisedError> {
        let a = self.find_local(0)?;
        let b = self.find_local(1)?;
        let c = if self.0[2].is_some() {
            self.find_local(2)?
        } else {
            let rows = if ops[0].transposes() { a.cols() } else { a.rows() };
            let cols = if ops[1].transposes() { b.rows() } else { b.cols() };
            Distribution::on_one(rows, cols, 0, 1)?.row_major()
        };
        Ok([a, b, c])
    }

    fn find_local(&self, side: usize) -> Result<Distribution, RaisedError> {
        let arrays = self.list_arrays(side);
        let [array] = &arrays[..] else {
            let value = format!("{} arrays", arrays.len());
            let reason = "one array is needed, or a distribution (on) that says what they are";
            return Err(RaisedError::refuse(NAMES[side], value, reason));
        };
        let memory = ArrayMemory::lock(NAMES[side], array)?;
        let (rows, cols) = memory.shape();
        let on = Distribution::on_one(rows, cols, 0, 1)?;
        Ok(match memory.find_order()? {
            Order::Rows => on.row_major(),
            Order::Columns => on,
        })
    }

    /// Locks the arrays of a matrix, which lie as the plan has them.
    fn lock_side(
        &self,
        side: usize,
        on: &Distribution,
        rank: usize,
        element: ElementType,
    ) -> Result<Vec<ArrayMemory>, RaisedError> {
        let (name, shapes, arrays) = (NAMES[side], on.local_shapes(rank), self.list_arrays(side));
        if arrays.is_empty() && shapes.iter().all(|(rows, cols)| rows * cols == 0) {
            return Ok(Vec::new());
        }
        if arrays.len() != shapes.len() {
            let value = format!("{} arrays", arrays.len());
            let reason = format!("this rank has {} of this distribution", shapes.len());
            return Err(RaisedError::refuse(name, value, reason));
        }
        arrays
            .iter()
            .zip(shapes)
            .map(|(array, shape)| lock_piece(name, array, shape, on.order(), element))
            .collect()
    }
}

/// Locks an array of this shape, order and type.
fn lock_piece(
    name: &'static str,
    array: &Bound<'_, PyAny>,
    shape: (usize, usize),
    order: Order,
    element: ElementType,
) -> Result<ArrayMemory, RaisedError> {
    let memory = ArrayMemory::lock(name, array)?;
    if memory.element() != element {
        let [found, wanted] = [memory.element(), element].map(name_element);
        let reason = format!("the product has {wanted}: all three matrices have one type");
        return Err(RaisedError::refuse(name, format!("an array of {found}"), reason));
    }
    if memory.shape() != shape {
        let (found, wanted) = (memory.shape(), shape);
        let value = format!("an array of {}×{}", found.0, found.1);
        let reason = format!("this rank's part has {}×{}", wanted.0, wanted.1);
        return Err(RaisedError::refuse(name, value, reason));
    }
    memory.find_ld(order)?;
    Ok(memory)
}

/// The memory of A, B and C on this rank.
struct LockedMatrices {
    factors: [Vec<ArrayMemory>; 2],
    result: Vec<ArrayMemory>,
    orders: [Order; 3],
}

impl LockedMatrices {
    fn lock(
        given: &PyMatrices<'_>,
        on: &[Distribution; 3],
        rank: usize,
        element: ElementType,
    ) -> Result<Self, RaisedError> {
        let a = given.lock_side(0, &on[0], rank, element)?;
        let b = given.lock_side(1, &on[1], rank, element)?;
        let locked = Self {
            factors: [a, b],
            result: given.lock_side(2, &on[2], rank, element)?,
            orders: on.each_ref().map(Distribution::order),
        };
        locked.result.iter().try_for_each(ArrayMemory::check_writable)?;
        check_shared(&locked.find_lines()?)?;
        Ok(locked)
    }

    /// Returns the lines of all arrays.
    fn find_lines(&self) -> Result<OperandLines, Error> {
        let [a, b, c] = self.orders;
        let [of_a, of_b] = &self.factors;
        Ok(OperandLines {
            factors: [list_lines(of_a, a)?, list_lines(of_b, b)?],
            result: list_lines(&self.result, c)?,
        })
    }
}

/// Returns the lines of the arrays of a matrix.
fn list_lines(arrays: &[ArrayMemory], order: Order) -> Result<Vec<Option<MemoryLines>>, Error> {
    arrays.iter().map(|array| array.find_lines(order)).collect()
}

/// Refuses a result that shares elements with a factor, or with itself.
fn check_shared(lines: &OperandLines) -> Result<(), Error> {
    let Some(side) = lines.find_shared() else {
        return Ok(());
    };
    let value = format!("in the memory of {}", NAMES[side]);
    let reason = "the result needs memory of its own";
    Err(Error::parameter("c", value, reason))
}

/// Reports which matrices a product used in place, and the cost of moving the others on this rank. A matrix that is not where
/// the plan needs it is moved, on all ranks.
#[pyclass(name = "LastRun", module = "isochron", frozen, get_all)]
pub struct PyLastRun {
    /// True for each of A, B and C that was used in place; False if it was moved.
    in_place: (bool, bool, bool),
    /// Messages that this rank sent to move A, B and C to the plan's layout, and C back.
    messages: u64,
    /// Bytes of these messages.
    bytes: u64,
    /// Seconds of these moves on this rank.
    seconds: f64,
}

impl From<&ProductRun> for PyLastRun {
    fn from(run: &ProductRun) -> Self {
        Self {
            in_place: run.in_place.into(),
            messages: run.moved.messages,
            bytes: run.moved.bytes,
            seconds: run.moved.seconds,
        }
    }
}

#[pymethods]
impl PyLastRun {
    fn __repr__(&self) -> String {
        let Self { in_place, bytes, .. } = self;
        format!("<LastRun {in_place:?} in place, {bytes} bytes>")
    }
}

/// A product that is planned once and run many times.
#[pyclass(name = "Product", module = "isochron", frozen)]
pub struct PyProduct {
    session: Py<PySession>,
    product: ThreadBound<AnyProduct>,
    on: [Distribution; 3],
    element: ElementType,
}

impl PyProduct {
    /// Plans a product of these arrays.
    pub(crate) fn prepare_for(
        session: &Bound<'_, PySession>,
        given: &PyMatrices<'_>,
        on: Option<[Distribution; 3]>,
        keywords: &ProductKeywords<'_>,
    ) -> Result<Self, RaisedError> {
        let comm = session.get().comm()?;
        let on = match on {
            Some(on) => check_ranks(on, comm.size()).map_err(RaisedError::from),
            None if comm.size() == 1 => match keywords.read_ops() {
                Ok(ops) => given.find_on(ops),
                Err(error) => Err(error.into()),
            },
            None => {
                let reason = "with several ranks, give the distributions of a, b and c";
                Err(RaisedError::refuse("on", "None", reason))
            }
        };
        let found = on.and_then(|on| Ok((on, given.find_element()?)));
        let (on, element) = agree_on(&*comm, found)?;
        let element = agree_on_element(&*comm, element)?;
        Self::prepare(session, on, element, keywords)
    }

    /// Plans a product of elements of a type of NumPy.
    pub(crate) fn prepare_as(
        session: &Bound<'_, PySession>,
        on: [Distribution; 3],
        dtype: &Bound<'_, PyAny>,
        keywords: &ProductKeywords<'_>,
    ) -> Result<Self, RaisedError> {
        let comm = session.get().comm()?;
        let element = read_element("dtype", dtype);
        let asked = element.and_then(|element| Ok((check_ranks(on, comm.size())?, element)));
        let (on, element) = agree_on(&*comm, asked)?;
        Self::prepare(session, on, element, keywords)
    }

    fn prepare(
        session: &Bound<'_, PySession>,
        on: [Distribution; 3],
        element: ElementType,
        keywords: &ProductKeywords<'_>,
    ) -> Result<Self, RaisedError> {
        let mut state = session.get().state().borrow()?;
        let config = agree_on(state.session.comm().as_ref(), keywords.read_config())?;
        let product = run_detached(session.py(), || {
            AnyProduct::prepare(&mut state.session, element, (on.each_ref(), config))
        })?;
        Ok(Self {
            session: session.clone().unbind(),
            product: ThreadBound::new("product", product),
            on,
            element,
        })
    }

    /// Multiplies. Returns the array of C, a list of its blocks, or None on a rank without elements.
    pub(crate) fn multiply<'py>(
        &self,
        py: Python<'py>,
        given: &PyMatrices<'py>,
        scalars: [Option<&Bound<'py, PyAny>>; 2],
    ) -> Result<Bound<'py, PyAny>, RaisedError> {
        let mut state = self.session.get().state().borrow()?;
        let mut product = self.product.borrow()?;
        let comm = std::sync::Arc::clone(state.session.comm());
        let fitted = self.fit_matrices(py, given, comm.rank(), scalars);
        let (c, locked, scalars) = agree_on(&*comm, fitted)?;
        let SessionState { session, last_run, .. } = &mut *state;
        let run =
            run_detached(py, || product.apply(LockedRun { session, locked: &locked, scalars }))?;
        *last_run = Some((product.plan().clone(), run));
        Ok(c)
    }

    /// Checks the arguments of a multiplication on this rank, and makes C if there is none.
    fn fit_matrices<'py>(
        &self,
        py: Python<'py>,
        given: &PyMatrices<'py>,
        rank: usize,
        [alpha, beta]: [Option<&Bound<'py, PyAny>>; 2],
    ) -> Result<(Bound<'py, PyAny>, LockedMatrices, [Complex64; 2]), RaisedError> {
        let alpha = read_scalar("alpha", alpha, 1.0, self.element)?;
        let beta = read_scalar("beta", beta, 0.0, self.element)?;
        let [a, b, c] = &given.0;
        let c = match c {
            Some(c) => c.clone(),
            None if beta == Complex64::default() => self.make_result(py, rank)?,
            None => {
                let reason = "c is read unless beta is 0";
                return Err(RaisedError::refuse("c", "None", reason));
            }
        };
        let result = Some(c.clone()).filter(|c| !c.is_none());
        let given = PyMatrices([a.clone(), b.clone(), result]);
        let locked = LockedMatrices::lock(&given, &self.on, rank, self.element)?;
        Ok((c, locked, [alpha, beta]))
    }

    /// Makes the arrays of C on this rank.
    fn make_result<'py>(&self, py: Python<'py>, rank: usize) -> Result<Bound<'py, PyAny>, Error> {
        self.make_arrays(py, rank)
            .map_err(|error| Error::parameter("c", "None", format!("it cannot be made: {error}")))
    }

    fn make_arrays<'py>(&self, py: Python<'py>, rank: usize) -> PyResult<Bound<'py, PyAny>> {
        let dtype = name_element(self.element).into_pyobject(py)?.into_any();
        let shapes = self.on[2].local_shapes(rank).into_iter();
        let arrays =
            shapes.map(|(rows, cols)| make_array(py, &[rows, cols], &dtype, self.on[2].order()));
        let mut arrays = arrays.collect::<PyResult<Vec<_>>>()?;
        match arrays.len() {
            1 => Ok(arrays.remove(0)),
            _ => Ok(PyList::new(py, arrays)?.into_any()),
        }
    }
}

/// Returns distributions over all ranks of the session.
fn check_ranks(on: [Distribution; 3], ranks: usize) -> Result<[Distribution; 3], Error> {
    let counts = on.each_ref().map(Distribution::n_ranks);
    let wrong = NAMES.iter().zip(counts).find(|&(_, count)| count != ranks);
    match wrong {
        None => Ok(on),
        Some((name, count)) => {
            let value = format!("a distribution of {name} over {count} ranks");
            let reason = format!("the session has {ranks}: a rank may have no elements");
            Err(Error::parameter("on", value, reason))
        }
    }
}

#[pymethods]
impl PyProduct {
    /// Multiplies matrices that lie as those of the plan: `C = alpha·op(A)·op(B) + beta·C`. Returns `c`, or a new array if
    /// there is none. `alpha` is 1 and `beta` 0 unless they are given; then `c` is not read. All ranks call it together.
    #[pyo3(signature = (a, b, c=None, *, alpha=None, beta=None))]
    fn run<'py>(
        &self,
        a: &Bound<'py, PyAny>,
        b: &Bound<'py, PyAny>,
        c: Option<&Bound<'py, PyAny>>,
        alpha: Option<&Bound<'py, PyAny>>,
        beta: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>, RaisedError> {
        self.multiply(a.py(), &PyMatrices::new(a, b, c), [alpha, beta])
    }

    /// Returns the plan as a dictionary.
    fn plan<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, RaisedError> {
        Ok(to_python(py, self.product.borrow()?.plan())?)
    }
}

/// A run of a product with the arrays of a call.
struct LockedRun<'r> {
    session: &'r mut Session,
    locked: &'r LockedMatrices,
    scalars: [Complex64; 2],
}

impl ProductWork for LockedRun<'_> {
    type Output = Result<ProductRun, Error>;

    fn apply_to<T: Element>(self, product: &mut Product<T>) -> Self::Output {
        let [alpha, beta] = self.scalars.map(T::of);
        let scalars = Scalars { alpha, beta };
        let [order_a, order_b, order_c] = self.locked.orders;
        let [a, b] = &self.locked.factors;
        // SAFETY: the arrays have elements of the product's type, and stay locked. A and B are only read. C is writable, and
        // shares no element with another array, as has been checked. No other thread may touch them meanwhile, as the module
        // of arrays says.
        let (a, b, c) = unsafe {
            (
                view_arrays::<T, &[T]>(a, order_a)?,
                view_arrays::<T, &[T]>(b, order_b)?,
                view_arrays::<T, &mut [T]>(&self.locked.result, order_c)?,
            )
        };
        product.run(self.session, scalars, Factors::of(a, b), c)
    }
}

/// Views the arrays of a rank; one without elements if there are none.
///
/// # Safety
/// As [`ArrayMemory::view`].
unsafe fn view_arrays<T: Element, D>(
    arrays: &[ArrayMemory],
    order: Order,
) -> Result<Vec<MatrixView<T, D>>, Error> {
    if arrays.is_empty() {
        return Ok(vec![MatrixView::empty(0, 0)]);
    }
    arrays
        .iter()
        // SAFETY: as the caller says.
        .map(|array| unsafe { array.view(order) })
        .collect()
}

/// Returns the type of elements that all ranks with arrays have.
fn agree_on_element(comm: &dyn Comm, mine: Option<ElementType>) -> Result<ElementType, Error> {
    let all = comm.gather(&mine)?;
    let mut given = all.iter().enumerate().filter_map(|(rank, given)| Some((rank, (*given)?)));
    let Some((first, element)) = given.next() else {
        return Err(Error::parameter("a, b and c", "None on all ranks", "no rank has an array"));
    };
    match given.find(|(_, other)| *other != element) {
        None => Ok(element),
        Some((rank, other)) => {
            let [element, other] = [element, other].map(name_element);
            let text = format!("dtype is {element} on rank {first}, {other} on rank {rank}");
            Err(Error::Settings(text))
        }
    }
}

/// Reads a factor of a product of these elements.
fn read_scalar(
    name: &'static str,
    value: Option<&Bound<'_, PyAny>>,
    default: f64,
    element: ElementType,
) -> Result<Complex64, RaisedError> {
    let Some(value) = value else {
        return Ok(Complex64::new(default, 0.0));
    };
    let [re, im] = ["real", "imag"].map(|part| value.getattr(part)?.extract::<Number>());
    let (re, im) = match (re, im) {
        (Ok(re), Ok(im)) => (re.0, im.0),
        (Err(error), _) | (_, Err(error)) => {
            // What has no such parts is no number.
            let is_value = error.is_instance_of::<PyValueError>(value.py());
            return Err(if is_value {
                error.into()
            } else {
                RaisedError::refuse_type(name, value, "a number is needed")
            });
        }
    };
    if im != 0.0 && !element.is_complex() {
        return Err(RaisedError::refuse(name, value, "the matrices are real"));
    }
    Ok(Complex64::new(re, im))
}

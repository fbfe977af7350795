//! Products of matrices in the memory of the program.

use isochron::comm::agree;
use isochron::hierarchy::balance::BalanceConfig;
use isochron::matrix::MemoryLines;
use isochron::prelude::{
    Comm, Complex32, Complex64, Distribution, Element, ElementType, Error, Gemm, GemmConfig,
    GemmRun, Op, Order, Plan, Scalars, Session,
};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::arrays::{ArrayMemory, copy_array, make_array, name_element, read_element};
use crate::errors::RaisedError;
use crate::session::{PySession, SessionState};
use crate::settings::{read_setting, to_python};
use crate::thread_bound::{ThreadBound, run_detached};

/// The names of the matrices.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// A product of one of the four types.
enum TypedGemm {
    F32(Gemm<f32>),
    F64(Gemm<f64>),
    C32(Gemm<Complex32>),
    C64(Gemm<Complex64>),
}

/// Does the same for a product of any type.
macro_rules! with_gemm {
    ($any:expr, $gemm:ident => $body:expr) => {
        match $any {
            TypedGemm::F32($gemm) => $body,
            TypedGemm::F64($gemm) => $body,
            TypedGemm::C32($gemm) => $body,
            TypedGemm::C64($gemm) => $body,
        }
    };
}

/// The keywords that say how a product is planned.
pub(crate) struct ProductKeywords<'k> {
    pub ops: &'k str,
    pub block: Option<usize>,
    pub panel: Option<usize>,
    pub split: Option<&'k str>,
    pub strategy: Option<&'k str>,
    pub epsilon: Option<f64>,
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
        let read = letter.to_string().parse();
        read.map_err(|error: String| Error::parameter("ops", self.ops, error))
    }

    fn read_config(&self) -> Result<GemmConfig, Error> {
        let defaults = GemmConfig::default();
        Ok(GemmConfig {
            ops: self.read_ops()?,
            block: self.block,
            panel: self.panel,
            split: read_setting("split", self.split)?.unwrap_or(defaults.split),
            balance: BalanceConfig {
                strategy: read_setting("strategy", self.strategy)?
                    .unwrap_or(defaults.balance.strategy),
                epsilon: self.epsilon.unwrap_or(defaults.balance.epsilon),
                ..defaults.balance
            },
        })
    }
}

/// The arrays of this rank for A, B and C, as a call gives them.
pub(crate) struct GivenMatrices<'py>([Option<Bound<'py, PyAny>>; 3]);

impl<'py> GivenMatrices<'py> {
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
        if let Ok(list) = given.cast::<PyList>() {
            return list.iter().collect();
        }
        match given.cast::<PyTuple>() {
            Ok(tuple) => tuple.iter().collect(),
            Err(_) => vec![given.clone()],
        }
    }

    /// Returns the type of the first array, if there is one.
    fn find_element(&self) -> Result<Option<ElementType>, Error> {
        let mut arrays = (0..3).flat_map(|side| {
            let arrays = self.list_arrays(side).into_iter();
            arrays.map(move |array| ArrayMemory::lock(NAMES[side], &array))
        });
        Ok(arrays.next().transpose()?.map(|memory| memory.element()))
    }

    /// Returns where a single rank has its matrices.
    fn find_on(&self, ops: [Op; 2]) -> Result<[Distribution; 3], Error> {
        let a = self.find_local(0)?;
        let b = self.find_local(1)?;
        let c = match self.0[2].is_some() {
            true => self.find_local(2)?,
            false => {
                let rows = if ops[0].transposes() {
                    a.cols()
                } else {
                    a.rows()
                };
                let cols = if ops[1].transposes() {
                    b.rows()
                } else {
                    b.cols()
                };
                Distribution::on_one(rows, cols, 0, 1)?.row_major()
            }
        };
        Ok([a, b, c])
    }

    fn find_local(&self, side: usize) -> Result<Distribution, Error> {
        let arrays = self.list_arrays(side);
        let [array] = &arrays[..] else {
            let value = format!("{} arrays", arrays.len());
            let reason = "one array is needed, or a distribution (on) that says what they are";
            return Err(Error::parameter(NAMES[side], value, reason));
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
        (rank, element): (usize, ElementType),
    ) -> Result<Vec<ArrayMemory>, Error> {
        let (name, shapes, arrays) = (NAMES[side], on.local_shapes(rank), self.list_arrays(side));
        if arrays.is_empty() && shapes.iter().all(|(rows, cols)| rows * cols == 0) {
            return Ok(Vec::new());
        }
        if arrays.len() != shapes.len() {
            let value = format!("{} arrays", arrays.len());
            let reason = format!("this rank has {} of this distribution", shapes.len());
            return Err(Error::parameter(name, value, reason));
        }
        let arrays = arrays.iter().zip(shapes);
        arrays
            .map(|(array, shape)| lock_piece(name, array, (shape, on.order(), element)))
            .collect()
    }
}

/// Locks an array of this shape, order and type.
fn lock_piece(
    name: &'static str,
    array: &Bound<'_, PyAny>,
    (shape, order, element): ((usize, usize), Order, ElementType),
) -> Result<ArrayMemory, Error> {
    let memory = ArrayMemory::lock(name, array)?;
    if memory.element() != element {
        let [found, wanted] = [memory.element(), element].map(name_element);
        let reason = format!("the product has {wanted}: all three matrices have one type");
        return Err(Error::parameter(
            name,
            format!("an array of {found}"),
            reason,
        ));
    }
    if memory.shape() != shape {
        let (found, wanted) = (memory.shape(), shape);
        let value = format!("an array of {}×{}", found.0, found.1);
        let reason = format!("this rank's part has {}×{}", wanted.0, wanted.1);
        return Err(Error::parameter(name, value, reason));
    }
    memory.find_ld(order)?;
    Ok(memory)
}

/// The memory of A, B and C on this rank.
struct LockedMatrices {
    factors: [Vec<ArrayMemory>; 2],
    result: Vec<ArrayMemory>,
    orders: [Order; 3],
    /// Arrays that stand for blocks of C, and these blocks.
    copies: Vec<[Py<PyAny>; 2]>,
}

impl LockedMatrices {
    fn lock(
        given: &GivenMatrices<'_>,
        on: &[Distribution; 3],
        rank_and_type: (usize, ElementType),
    ) -> Result<Self, Error> {
        let a = given.lock_side(0, &on[0], rank_and_type)?;
        let b = given.lock_side(1, &on[1], rank_and_type)?;
        let mut locked = Self {
            factors: [a, b],
            result: given.lock_side(2, &on[2], rank_and_type)?,
            orders: on.each_ref().map(Distribution::order),
            copies: Vec::new(),
        };
        locked
            .result
            .iter()
            .try_for_each(ArrayMemory::check_writable)?;
        locked.check_overlap()?;
        locked.copy_between(given)?;
        Ok(locked)
    }

    /// Refuses a result that shares elements with a factor, or with itself.
    fn check_overlap(&self) -> Result<(), Error> {
        let mut others = Vec::new();
        for (side, (factor, name)) in self.factors.iter().zip(NAMES).enumerate() {
            for piece in factor {
                others.push((name, piece.find_lines(self.orders[side])?));
            }
        }
        for piece in &self.result {
            let own = piece.find_lines(self.orders[2])?;
            let shared = others.iter().find(|(_, other)| {
                (own.zip(*other)).is_some_and(|(own, other)| own.shares_elements(&other))
            });
            if let Some((name, _)) = shared {
                let value = format!("in the memory of {name}");
                let reason = "the result needs memory of its own";
                return Err(Error::parameter("c", value, reason));
            }
            others.push(("c", own));
        }
        Ok(())
    }

    /// Puts copies in the place of arrays whose lines lie between those of another one that is written.
    fn copy_between(&mut self, given: &GivenMatrices<'_>) -> Result<(), Error> {
        let order = self.orders[2];
        let lines = self.result.iter().map(|piece| piece.find_lines(order));
        let lines = lines.collect::<Result<Vec<_>, Error>>()?;
        let mut written = Vec::new();
        for (index, array) in given.list_arrays(2).iter().enumerate() {
            let mut others = lines
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != index);
            if others.any(|(_, other)| lie_between(lines[index], *other)) {
                let copy = copy_array("c", array, order)?;
                self.result[index] = ArrayMemory::lock("c", &copy)?;
                self.copies.push([copy.unbind(), array.clone().unbind()]);
            } else {
                written.push(lines[index]);
            }
        }
        for (side, factor) in self.factors.iter_mut().enumerate() {
            let (name, order) = (NAMES[side], self.orders[side]);
            for (piece, array) in factor.iter_mut().zip(given.list_arrays(side)) {
                let lines = piece.find_lines(order)?;
                if written.iter().any(|other| lie_between(lines, *other)) {
                    *piece = ArrayMemory::lock(name, &copy_array(name, &array, order)?)?;
                }
            }
        }
        Ok(())
    }

    /// Writes the blocks of C that were computed in arrays of their own.
    fn write_back(&self, py: Python<'_>) -> PyResult<()> {
        for [copy, block] in &self.copies {
            py.import("numpy")?.call_method1("copyto", (block, copy))?;
        }
        Ok(())
    }
}

/// Returns `true` if slices of both would overlap.
fn lie_between(one: Option<MemoryLines>, other: Option<MemoryLines>) -> bool {
    one.zip(other)
        .is_some_and(|(one, other)| one.spans_overlap(&other))
}

/// Reports which matrices a product used in place, and the cost of moving the others on this rank.
#[pyclass(name = "LastRun", module = "isochron", frozen, get_all)]
pub struct PyLastRun {
    /// True for each of A, B and C that was used in place, on all ranks; False if it was moved.
    in_place: (bool, bool, bool),
    /// Messages that this rank sent to move A, B and C to the plan's layout, and C back.
    messages: u64,
    /// Bytes of these messages.
    bytes: u64,
    /// Seconds of these moves on this rank.
    seconds: f64,
}

impl From<&GemmRun> for PyLastRun {
    fn from(run: &GemmRun) -> Self {
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
        let Self {
            in_place, bytes, ..
        } = self;
        format!("<LastRun {in_place:?} in place, {bytes} bytes>")
    }
}

/// A product that is planned once and run many times.
#[pyclass(name = "Product", module = "isochron", frozen)]
pub struct PyProduct {
    session: Py<PySession>,
    gemm: ThreadBound<TypedGemm>,
    on: [Distribution; 3],
    element: ElementType,
}

impl PyProduct {
    /// Plans a product of these arrays.
    pub(crate) fn prepare_for(
        session: &Bound<'_, PySession>,
        given: &GivenMatrices<'_>,
        on: Option<[Distribution; 3]>,
        keywords: &ProductKeywords<'_>,
    ) -> Result<Self, RaisedError> {
        let comm = session.get().comm()?;
        let on = match on {
            Some(on) => check_ranks(on, comm.size()),
            None if comm.size() == 1 => keywords.read_ops().and_then(|ops| given.find_on(ops)),
            None => {
                let reason = "with several ranks, give the distributions of a, b and c";
                Err(Error::parameter("on", "None", reason))
            }
        };
        let found = on.and_then(|on| Ok((on, given.find_element()?)));
        let (on, element) = agree(&*comm, found)?;
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
        let element = read_element(dtype)
            .unwrap_or_else(|error| Err(Error::parameter("dtype", dtype, error.to_string())));
        let asked = element.and_then(|element| Ok((check_ranks(on, comm.size())?, element)));
        let (on, element) = agree(&*comm, asked)?;
        Self::prepare(session, on, element, keywords)
    }

    fn prepare(
        session: &Bound<'_, PySession>,
        on: [Distribution; 3],
        element: ElementType,
        keywords: &ProductKeywords<'_>,
    ) -> Result<Self, RaisedError> {
        let mut state = session.get().state().borrow()?;
        let config = agree(state.session.comm().as_ref(), keywords.read_config())?;
        let gemm = run_detached(session.py(), || {
            prepare_typed(&mut state.session, on.each_ref(), element, &config)
        })?;
        Ok(Self {
            session: session.clone().unbind(),
            gemm: ThreadBound::new("product", gemm),
            on,
            element,
        })
    }

    /// Multiplies. Returns the array of C, a list of its blocks, or None on a rank without elements.
    pub(crate) fn multiply<'py>(
        &self,
        py: Python<'py>,
        given: &GivenMatrices<'py>,
        scalars: [Option<&Bound<'py, PyAny>>; 2],
    ) -> Result<Bound<'py, PyAny>, RaisedError> {
        let mut state = self.session.get().state().borrow()?;
        let mut gemm = self.gemm.borrow()?;
        let comm = std::sync::Arc::clone(state.session.comm());
        let fitted = self.fit_matrices(py, (given, comm.rank()), scalars);
        let (c, mut locked, scalars) = agree(&*comm, fitted)?;
        let SessionState {
            session, last_run, ..
        } = &mut *state;
        run_detached(py, || {
            let run =
                with_gemm!(&mut *gemm, gemm => run_typed(gemm, session, &mut locked, scalars))?;
            *last_run = Some((with_gemm!(&*gemm, gemm => gemm.plan().clone()), run));
            Ok::<(), Error>(())
        })?;
        locked.write_back(py)?;
        Ok(c)
    }

    /// Checks the arguments of a multiplication on this rank, and makes C if there is none.
    fn fit_matrices<'py>(
        &self,
        py: Python<'py>,
        (given, rank): (&GivenMatrices<'py>, usize),
        [alpha, beta]: [Option<&Bound<'py, PyAny>>; 2],
    ) -> Result<(Bound<'py, PyAny>, LockedMatrices, [Complex64; 2]), Error> {
        let alpha = read_scalar("alpha", alpha, (1.0, self.element))?;
        let beta = read_scalar("beta", beta, (0.0, self.element))?;
        let [a, b, c] = &given.0;
        let c = match c {
            Some(c) => c.clone(),
            None if beta == Complex64::default() => self.make_result(py, rank)?,
            None => {
                let reason = "c is read unless beta is 0";
                return Err(Error::parameter("c", "None", reason));
            }
        };
        let result = Some(c.clone()).filter(|c| !c.is_none());
        let given = GivenMatrices([a.clone(), b.clone(), result]);
        let locked = LockedMatrices::lock(&given, &self.on, (rank, self.element))?;
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
    /// there is none. All ranks call it together.
    #[pyo3(signature = (a, b, c=None, *, alpha=None, beta=None))]
    fn run<'py>(
        &self,
        a: &Bound<'py, PyAny>,
        b: &Bound<'py, PyAny>,
        c: Option<&Bound<'py, PyAny>>,
        alpha: Option<&Bound<'py, PyAny>>,
        beta: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>, RaisedError> {
        self.multiply(a.py(), &GivenMatrices::new(a, b, c), [alpha, beta])
    }

    /// Returns the plan as a dictionary.
    fn plan<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, RaisedError> {
        let gemm = self.gemm.borrow()?;
        let plan: &Plan = with_gemm!(&*gemm, gemm => gemm.plan());
        Ok(to_python(py, plan)?)
    }
}

fn prepare_typed(
    session: &mut Session,
    on: [&Distribution; 3],
    element: ElementType,
    config: &GemmConfig,
) -> Result<TypedGemm, Error> {
    Ok(match element {
        ElementType::F32 => TypedGemm::F32(session.prepare_gemm(on, config)?),
        ElementType::F64 => TypedGemm::F64(session.prepare_gemm(on, config)?),
        ElementType::C32 => TypedGemm::C32(session.prepare_gemm(on, config)?),
        ElementType::C64 => TypedGemm::C64(session.prepare_gemm(on, config)?),
    })
}

/// Runs a product of elements of this type.
fn run_typed<T: Element>(
    gemm: &mut Gemm<T>,
    session: &mut Session,
    locked: &mut LockedMatrices,
    [alpha, beta]: [Complex64; 2],
) -> Result<GemmRun, Error> {
    let scalars = Scalars {
        alpha: T::of(alpha),
        beta: T::of(beta),
    };
    let [order_a, order_b, order_c] = locked.orders;
    let [a, b] = &locked.factors;
    // SAFETY: the arrays have elements of this type, and stay locked; A and B are only read. C is writable, and its slices
    // overlap no others: `copy_between` has copied what would. No other thread may touch them meanwhile, as the module of
    // arrays says.
    let (a, b, c) = unsafe {
        let a = a.iter().map(|piece| piece.read::<T>(order_a));
        let b = b.iter().map(|piece| piece.read::<T>(order_b));
        let c = locked
            .result
            .iter_mut()
            .map(|piece| piece.write::<T>(order_c));
        (
            a.collect::<Result<Vec<_>, _>>()?,
            b.collect::<Result<Vec<_>, _>>()?,
            c.collect::<Result<Vec<_>, _>>()?,
        )
    };
    let (a, b, c) = (or_nothing(a), or_nothing(b), or_nothing(c));
    gemm.run(session, scalars, a, b, c)
}

/// Returns the pieces of a rank; one without elements if there are none.
fn or_nothing<D: Default>(mut pieces: Vec<(D, usize)>) -> Vec<(D, usize)> {
    if pieces.is_empty() {
        pieces.push((D::default(), 1));
    }
    pieces
}

/// Returns the type of elements that all ranks with arrays have.
fn agree_on_element(comm: &dyn Comm, mine: Option<ElementType>) -> Result<ElementType, Error> {
    let all = comm.gather(&mine)?;
    let mut given = all
        .iter()
        .enumerate()
        .filter_map(|(rank, given)| Some((rank, (*given)?)));
    let Some((first, element)) = given.next() else {
        return Err(Error::parameter(
            "a, b and c",
            "None on all ranks",
            "no rank has an array",
        ));
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
    (default, element): (f64, ElementType),
) -> Result<Complex64, Error> {
    let Some(value) = value else {
        return Ok(Complex64::new(default, 0.0));
    };
    let [re, im] = ["real", "imag"].map(|part| value.getattr(part)?.extract::<f64>());
    let (Ok(re), Ok(im)) = (re, im) else {
        return Err(Error::parameter(name, value, "a number is needed"));
    };
    if im != 0.0 && !element.is_complex() {
        return Err(Error::parameter(name, value, "the matrices are real"));
    }
    Ok(Complex64::new(re, im))
}

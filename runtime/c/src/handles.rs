//! Handles: numbers in the shape of pointers, which are looked up and never followed.
//!
//! So a handle that was closed, is of another kind or was never made is found out. The tables belong to threads, since the
//! objects do.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::sync::Arc;

use isochron::devices::internal::HomeProcess;
use isochron::prelude::{Comm, Plan, ProductRun, Session};

use crate::settings::ProductSettings;
use crate::status::CallFailure;

/// A session: the ranks of a communicator and their devices.
#[derive(Debug)]
pub struct SessionHandle(());

/// A kind of handle.
pub(crate) trait HandleKind {
    /// The objects that handles of this kind stand for.
    type Object: 'static;
    /// The kind, for messages.
    const KIND: &'static str;
}

impl HandleKind for SessionHandle {
    type Object = OpenSession;
    const KIND: &'static str = "session";
}

/// A session, the settings of its products, and its last run.
pub(crate) struct OpenSession {
    pub session: Session,
    pub products: ProductSettings,
    pub last_run: Option<(Plan, ProductRun)>,
}

impl OpenSession {
    /// Returns the plan and the measurements of the last product.
    pub(crate) fn find_last_run(&self) -> Result<&(Plan, ProductRun), CallFailure> {
        let reason = "has run no product yet";
        (self.last_run.as_ref()).ok_or_else(|| CallFailure::argument("session", reason))
    }
}

/// An object that a handle stands for, its process and its ranks.
pub(crate) struct Kept<T> {
    home: HomeProcess,
    comm: Arc<dyn Comm>,
    object: RefCell<T>,
}

thread_local! {
    /// Never dropped: objects that a program forgets live until the process ends, and no destructor runs after `main`.
    static OBJECTS: ManuallyDrop<RefCell<HashMap<usize, Rc<dyn Any>>>> = ManuallyDrop::default();
    static NEXT: Cell<usize> = const { Cell::new(1) };
}

/// Distance of handles, so that none looks like an index or an aligned small number of the program.
const STRIDE: usize = 64;

/// Keeps an object under a new handle.
pub(crate) fn keep<H: HandleKind>(comm: Arc<dyn Comm>, object: H::Object) -> *mut H {
    let number = NEXT.get() * STRIDE;
    NEXT.set(NEXT.get() + 1);
    let kept: Rc<dyn Any> =
        Rc::new(Kept { home: HomeProcess::current(), comm, object: RefCell::new(object) });
    OBJECTS.with(|objects| objects.borrow_mut().insert(number, kept));
    std::ptr::without_provenance_mut(number)
}

/// Returns the object that a handle stands for. A forked child has copies of its parent's handles, and may not use them.
pub(crate) fn find<H: HandleKind>(handle: *const H) -> Result<Rc<Kept<H::Object>>, CallFailure> {
    let kept = OBJECTS.with(|objects| objects.borrow().get(&handle.addr()).cloned());
    let kept = kept.and_then(|kept| kept.downcast::<Kept<H::Object>>().ok());
    let kept = kept.ok_or_else(|| {
        let kind = H::KIND;
        CallFailure::handle(if handle.is_null() {
            format!("the {kind} is a null pointer")
        } else {
            format!("this thread has no open {kind} of this handle: was it closed?")
        })
    })?;
    kept.home.check(H::KIND).map_err(|error| CallFailure::handle(error.to_string()))?;
    Ok(kept)
}

/// Forgets a handle. Its object is dropped, unless another one needs it.
pub(crate) fn close<H: HandleKind>(handle: *mut H) -> Result<(), CallFailure> {
    // A handle of another kind stays.
    find::<H>(handle)?;
    let closed = OBJECTS.with(|objects| objects.borrow_mut().remove(&handle.addr()));
    drop(closed);
    Ok(())
}

impl<T> Kept<T> {
    pub(crate) fn comm(&self) -> &Arc<dyn Comm> {
        &self.comm
    }

    /// Has a call use the object. If it panics, the other ranks wait for this one no longer.
    pub(crate) fn use_object<R>(
        &self,
        body: impl FnOnce(&mut T) -> Result<R, CallFailure>,
    ) -> Result<R, CallFailure> {
        let object = self.object.try_borrow_mut();
        let mut object =
            object.map_err(|_| CallFailure::handle("a call on this handle is under way"))?;
        let _teller = PanicTeller(&*self.comm);
        body(&mut object)
    }
}

/// Tells the other ranks of a panic of this one.
struct PanicTeller<'c>(&'c dyn Comm);

impl Drop for PanicTeller<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abandon("it panicked");
        }
    }
}

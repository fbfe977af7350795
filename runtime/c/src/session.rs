//! Sessions.

use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::Arc;

use isochron::prelude::{Comm, LocalComm, Report, Session, SessionBuilder};

use crate::handles::{self, OpenSession, SessionHandle};
use crate::memory::hand_over;
use crate::pointers;
use crate::product::to_json;
use crate::settings::{self, OF_PRODUCTS, ProductSettings};
use crate::status::{CallFailure, agree_on, call};

/// The names that [`isochron_get`] knows apart from settings.
const FACTS: [&str; 5] = ["rank", "ranks", "host", "devices", "mpi"];

/// Opens a session: finds the devices of all ranks of a communicator. comm is its handle in Fortran, which MPI_Comm_c2f
/// returns, or MPI_Comm_toint with the standard ABI of MPI. The communicator is duplicated and stays as it is.
/// isochron_open_comm takes an MPI_Comm instead.
///
/// config is null, or has settings of the form name=value. Separate them by spaces, or by semicolons or line breaks if
/// values have spaces. Settings of products are accepted too: see isochron_set.
///
/// | setting | ranks | meaning |
/// |---|---|---|
/// | platform | same | platform file; without one, every rank uses the devices of its host |
/// | grouping | may differ | the cores that form a device: auto, package, numa, kind, node |
/// | blas | may differ | the BLAS of the CPU devices: auto, embedded, openblas, blis, mkl or a file |
/// | element | same | type of the elements for which blas=auto compares libraries: f32, f64 (the default), c32 or c64 |
/// | store | same | use of the model store: none (the default), read or read-write |
/// | models | same | folder with a points file of each device, used instead of measurements |
/// | reserved_cores | same on a host | cores left to threads of the program, by their logical numbers, such as 0,1 |
/// | host_scope | same | world: all sessions and ranks of the launcher divide the host (the default); comm: only the ranks of this session do |
///
/// Collective: all ranks of comm. The column "ranks" says which settings all of them give alike. A setting that differs and must
/// not is an error on every rank, which names it and its values.
///
/// # Safety
/// `comm` is the number of a communicator, which may have been freed; `config` is null or a string; `session` is null or may
/// be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_open(
    comm: c_int,
    config: *const c_char,
    session: *mut *mut SessionHandle,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        pointers::clear(session, ptr::null_mut());
        call(|| open(adopt(comm)?, config, session))
    }
}

/// Opens a session of this process alone, without MPI. config is as for isochron_open.
///
/// # Safety
/// `config` is null or a string, and `session` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_open_local(
    config: *const c_char,
    session: *mut *mut SessionHandle,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        pointers::clear(session, ptr::null_mut());
        call(|| open(Arc::new(LocalComm::new()), config, session))
    }
}

/// Changes a setting of products that are prepared later.
///
/// | setting | ranks | meaning |
/// |---|---|---|
/// | block | same | block size, or auto |
/// | panel | same | width of the panels, or auto |
/// | split | same | what is divided among the nodes: c (rows and columns of C), k (the inner dimension) or auto |
/// | strategy | same | adaptive (learns in the run, the default); fpm, multi-cpm or single-cpm (measure before it); homogeneous (even) |
/// | epsilon | same | imbalance at which strategies that measure before the run stop |
///
/// Not collective, but all ranks must have the same settings when they prepare a product. One that differs is then an error on
/// every rank, which names it and its values.
///
/// # Safety
/// `name` and `value` are null or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_set(
    session: *mut SessionHandle,
    name: *const c_char,
    value: *const c_char,
) -> c_int {
    call(|| {
        let session = handles::find(session)?;
        // SAFETY: as the caller says.
        let (name, value) =
            unsafe { (pointers::read_text(name, "name")?, pointers::read_text(value, "value")?) };
        session.use_object(|open| {
            let mut changed = open.products;
            if !changed.apply(name, value)? {
                return Err(settings::refuse_name(name, &OF_PRODUCTS));
            }
            changed.to_config().check()?;
            open.products = changed;
            Ok(())
        })
    })
}

/// Writes a setting of products, or rank, ranks, host, devices (their number) or mpi, as text. Free it by
/// isochron_free.
///
/// # Safety
/// `name` is null or a string, and `value` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_get(
    session: *const SessionHandle,
    name: *const c_char,
    value: *mut *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe { pointers::clear(value, ptr::null()) };
        pointers::check(value, "value")?;
        let session = handles::find(session)?;
        // SAFETY: as the caller says.
        let name = unsafe { pointers::read_text(name, "name")? };
        let text = session.use_object(|open| {
            show_setting(open, name)
                .ok_or_else(|| settings::refuse_name(name, &[&OF_PRODUCTS[..], &FACTS].concat()))
        })?;
        // SAFETY: as the caller says.
        unsafe { pointers::write(value, "value", hand_over(text.into_bytes())) }
    })
}

/// Writes the report of the session's last product as JSON: the work and the times of every device. Free it by
/// isochron_free.
///
/// Collective: all ranks of the session.
///
/// # Safety
/// `json` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_report(
    session: *const SessionHandle,
    json: *mut *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe { pointers::clear(json, ptr::null()) };
        let session = handles::find(session)?;
        let report = session.use_object(|open| {
            let ready = pointers::check(json, "json").and_then(|()| open.find_last_run());
            let (plan, run) = agree_on(&**session.comm(), ready)?;
            to_json(&Report::gather(&open.session, plan, &run.execution, None)?)
        })?;
        // SAFETY: as the caller says.
        unsafe { pointers::write(json, "json", hand_over(report)) }
    })
}

/// Adds the times that a session has learnt to the model store, so that later sessions begin with them. It does nothing
/// without store=read-write, or if there is nothing new. isochron_close does not save: call this after the last product, once
/// its result is known to be right.
///
/// A store that cannot be written is no error: a notice of isochron_report has the reason.
///
/// Collective: all ranks of the session.
///
/// # Safety
/// No call of the session is under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_save_models(session: *mut SessionHandle) -> c_int {
    call(|| handles::find(session)?.use_object(|open| Ok(open.session.save_models()?)))
}

/// Closes a session. Its products and balancers stay open, and keep what they need of it.
///
/// Collective: all ranks.
///
/// # Safety
/// No call of it is under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_close(session: *mut SessionHandle) -> c_int {
    call(|| handles::close(session))
}

/// Makes a communicator over the ranks of the one that has this number in Fortran.
///
/// # Safety
/// The conditions of [`isochron_open`].
#[cfg(feature = "mpi")]
unsafe fn adopt(number: c_int) -> Result<Arc<dyn Comm>, CallFailure> {
    // SAFETY: as the caller says.
    let comm = unsafe { isochron::prelude::MpiComm::adopt_fortran(number)? };
    Ok(comm.into())
}

#[cfg(not(feature = "mpi"))]
unsafe fn adopt(_number: c_int) -> Result<Arc<dyn Comm>, CallFailure> {
    let reason = "this library was built without MPI: call isochron_open_local";
    Err(CallFailure::argument("comm", reason))
}

/// Opens a session on the ranks of a communicator.
///
/// # Safety
/// `config` is null or a string, and `session` is null or may be written.
unsafe fn open(
    comm: Arc<dyn Comm>,
    config: *const c_char,
    session: *mut *mut SessionHandle,
) -> Result<(), CallFailure> {
    let asked = pointers::check(session, "session");
    let asked = asked.and_then(|()| {
        // SAFETY: as the caller says.
        read_settings(unsafe { pointers::read_config(config, "config")? })
    });
    let (builder, products) = agree_on(&*comm, asked)?;
    let opened =
        OpenSession { session: builder.build(Arc::clone(&comm))?, products, last_run: None };
    // SAFETY: as the caller says.
    unsafe { pointers::write(session, "session", handles::keep(comm, opened)) }
}

fn read_settings(config: &str) -> Result<(SessionBuilder, ProductSettings), CallFailure> {
    let mut products = ProductSettings::default();
    let mut builder = Session::builder();
    for (name, value) in settings::split_settings(config)? {
        if products.apply(name, value)? {
            continue;
        }
        builder = settings::apply_to_session(builder, name, value)?;
    }
    products.to_config().check()?;
    Ok((builder, products))
}

fn show_setting(open: &OpenSession, name: &str) -> Option<String> {
    let comm = open.session.comm();
    Some(match name {
        "rank" => comm.rank().to_string(),
        "ranks" => comm.size().to_string(),
        "host" => comm.host().to_owned(),
        "devices" => open.session.devices().len().to_string(),
        "mpi" => comm.implementation().to_owned(),
        _ => return open.products.show(name),
    })
}

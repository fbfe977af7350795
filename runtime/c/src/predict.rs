//! Algorithms of the program, predicted before they run, and the ranks that run the fastest one.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::{mem, ptr};

use isochron::devices::kernel::KernelTable;
use isochron::plan::ModelledCluster;
use isochron::predict::{
    Algorithm, AlgorithmError, Binding, Platform, PredictedRun, Scheme, choose, timeof,
};
use isochron::prelude::{Error, LocalComm};

use crate::handles::{self, HandleKind, SessionHandle};
use crate::memory::hand_over;
use crate::partition::read_kernel;
use crate::pointers::{self, read_sizes, to_size};
use crate::product::to_json;
use crate::settings::{read_benchmark, read_search};
use crate::status::{CallFailure, agree_on, call};
use crate::structs::{SizedStruct, read_structs, write_struct};

/// The places that may run processes, with their speeds, and the network between them.
#[derive(Debug)]
pub struct PlatformHandle(());

impl HandleKind for PlatformHandle {
    type Object = Platform;
    const KIND: &'static str = "platform";
}

/// The order of the work and of the messages of an algorithm, while its function scheme is called.
#[derive(Debug)]
pub struct SchemeHandle(());

impl HandleKind for SchemeHandle {
    type Object = OpenScheme;
    const KIND: &'static str = "scheme";
}

/// A scheme, and the first action that was refused.
#[derive(Default)]
pub(crate) struct OpenScheme {
    scheme: Scheme,
    failure: Option<CallFailure>,
}

/// An algorithm of the program's own. Set struct_size to sizeof(isochron_algorithm_t), and size to null if it is the volume. The
/// functions get the context. They give the same answers on all ranks, and send no messages.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct AlgorithmTable {
    /// Bytes of this struct.
    pub struct_size: i64,
    /// Returns the number of processes.
    pub processes: Option<unsafe extern "C" fn(context: *mut c_void) -> i64>,
    /// Returns the work of a process, in units of the kernel that the speeds are measured with.
    pub volume: Option<unsafe extern "C" fn(context: *mut c_void, process: i64) -> f64>,
    /// Returns the units that a process has in its memory at once, at which its speed is taken. Null: its volume.
    pub size: Option<unsafe extern "C" fn(context: *mut c_void, process: i64) -> f64>,
    /// Returns the bytes from one process to another in the whole run. It is not called with from = to.
    pub bytes: Option<unsafe extern "C" fn(context: *mut c_void, from: i64, to: i64) -> f64>,
    /// Gives the order of the work and of the messages by the calls isochron_scheme_..., each in percent of the whole.
    pub scheme: Option<unsafe extern "C" fn(context: *mut c_void, order: *mut SchemeHandle)>,
    /// Passed on to all.
    pub context: *mut c_void,
}

// SAFETY: an integer and pointers that may be null, with the size first.
unsafe impl SizedStruct for AlgorithmTable {
    const NAME: &'static str = "isochron_algorithm_t";
    const SIZES: &'static [usize] = &[size_of::<Self>()];
}

/// The place of the process `bound` computes longest of all.
pub const ISOCHRON_WORK: i64 = 0;
/// The place of the process `bound` sends longest of all.
pub const ISOCHRON_SENDS: i64 = 1;
/// The place of the process `bound` receives longest of all.
pub const ISOCHRON_RECEIVES: i64 = 2;
/// The uplink `bound` of the platform's network is busy longest.
pub const ISOCHRON_UPLINK: i64 = 3;

/// A predicted run. Set struct_size to sizeof(isochron_predicted_t). Later versions may append fields.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct PredictedTable {
    /// Bytes of this struct.
    pub struct_size: i64,
    /// Seconds.
    pub seconds: f64,
    /// The least seconds that nine of ten runs take.
    pub low_s: f64,
    /// The most seconds that nine of ten runs take.
    pub high_s: f64,
    /// Seconds in which the busiest process computes.
    pub compute_s: f64,
    /// The process that computes longest.
    pub slowest: i64,
    /// The kind of the part that is busy longest: ISOCHRON_WORK, ISOCHRON_SENDS, ISOCHRON_RECEIVES or ISOCHRON_UPLINK.
    pub binds: i64,
    /// The process, or the uplink.
    pub bound: i64,
    /// Number of processes.
    pub processes: i64,
    /// The number of the algorithm in the list of isochron_choose, from 0.
    pub chosen: i64,
    /// 1 if isochron_choose has compared all places of the processes; 0 if it has exchanged some as long as that helped.
    pub is_exact: i64,
}

// SAFETY: integers and floats, with the size first.
unsafe impl SizedStruct for PredictedTable {
    const NAME: &'static str = "isochron_predicted_t";
    const SIZES: &'static [usize] = &[size_of::<Self>()];
}

impl PredictedTable {
    fn of(run: &PredictedRun, processes: usize) -> Self {
        let (binds, bound) = match run.binds {
            Binding::Work(process) => (ISOCHRON_WORK, process),
            Binding::Sends(process) => (ISOCHRON_SENDS, process),
            Binding::Receives(process) => (ISOCHRON_RECEIVES, process),
            Binding::Uplink(uplink) => (ISOCHRON_UPLINK, uplink),
        };
        let [low_s, high_s] = run.bounds_s;
        Self {
            struct_size: size_of::<Self>() as i64,
            seconds: run.seconds,
            low_s,
            high_s,
            compute_s: run.compute_s,
            slowest: run.slowest as i64,
            binds,
            bound: bound as i64,
            processes: processes as i64,
            ..Self::default()
        }
    }
}

/// An algorithm whose functions were checked.
struct OwnAlgorithm {
    processes: usize,
    volume: unsafe extern "C" fn(*mut c_void, i64) -> f64,
    size: Option<unsafe extern "C" fn(*mut c_void, i64) -> f64>,
    bytes: unsafe extern "C" fn(*mut c_void, i64, i64) -> f64,
    scheme: unsafe extern "C" fn(*mut c_void, *mut SchemeHandle),
    context: *mut c_void,
    /// The first action that was refused in any scheme of the call.
    failure: Rc<RefCell<Option<CallFailure>>>,
}

impl Algorithm for OwnAlgorithm {
    fn processes(&self) -> usize {
        self.processes
    }

    fn volume(&self, process: usize) -> f64 {
        // SAFETY: the function and its context are the program's, which has promised that they fit.
        unsafe { (self.volume)(self.context, process as i64) }
    }

    fn size(&self, process: usize) -> f64 {
        let size = self.size.unwrap_or(self.volume);
        // SAFETY: as above.
        unsafe { size(self.context, process as i64) }
    }

    fn bytes(&self, from: usize, to: usize) -> f64 {
        // SAFETY: as above.
        unsafe { (self.bytes)(self.context, from as i64, to as i64) }
    }

    fn scheme(&self, order: &mut Scheme) {
        let open = OpenScheme { scheme: mem::take(order), failure: None };
        let handle = handles::keep::<SchemeHandle>(Arc::new(LocalComm::new()), open);
        // SAFETY: as above. The handle is a number that is looked up.
        unsafe { (self.scheme)(self.context, handle) };
        let taken = handles::find(handle)
            .and_then(|kept| kept.use_object(|open: &mut OpenScheme| Ok(mem::take(open))));
        let closed = handles::close(handle);
        let failure = match taken {
            Ok(taken) => {
                *order = taken.scheme;
                taken.failure.or(closed.err())
            }
            Err(failure) => Some(failure),
        };
        if let Some(failure) = failure {
            self.failure.borrow_mut().get_or_insert(failure);
        }
    }
}

/// Measures the speed of each rank by a kernel of the program with each of some numbers of units, as isochron_benchmark does, and the
/// network between the ranks, which takes at most about a second. The places of the platform are the ranks. It is the same on all of them. config is null or settings, those of
/// isochron_benchmark. Close the platform by isochron_close_platform.
///
/// Collective: all ranks of the session, with the same units and settings.
///
/// # Safety
/// `kernel` and `params` are as for isochron_benchmark; `units` is null or has `n_units` numbers; `config` is null or a string;
/// `platform` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_recon(
    session: *mut SessionHandle,
    kernel: *const KernelTable,
    params: *mut c_void,
    units: *const i64,
    n_units: i64,
    config: *const c_char,
    platform: *mut *mut PlatformHandle,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe { pointers::clear(platform, ptr::null_mut()) };
        let session = handles::find(session)?;
        let comm = session.comm();
        let made = session.use_object(|open| {
            // SAFETY: as the caller says.
            let asked = unsafe { read_kernel(kernel, params) }.and_then(|kernel| {
                pointers::check(platform, "platform")?;
                // SAFETY: as the caller says.
                let units = unsafe { read_sizes(units, to_size(n_units, "n_units")?, "units")? };
                // SAFETY: as the caller says.
                let config = unsafe { pointers::read_config(config, "config")? };
                Ok((kernel, units, read_benchmark(config)?))
            });
            let (mut kernel, units, config) = agree_on(&**comm, asked)?;
            let units: Vec<u64> = units.into_iter().map(|units| units as u64).collect();
            Ok(open.session.recon(&mut kernel, &units, &config)?)
        })?;
        let handle = handles::keep(Arc::clone(comm), made);
        // SAFETY: as the caller says.
        unsafe { pointers::write(platform, "platform", handle) }
    })
}

/// Makes a platform of a platform file with a network, whose places are the nodes of the file. Each device has the model of its name in
/// the folder models, or, if models is null, of the points file that the platform file names. A unit is one of the points files. Close it by
/// isochron_close_platform.
///
/// Not collective: it needs no session.
///
/// # Safety
/// `path` and `models` are null or strings, and `platform` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_platform_of_file(
    path: *const c_char,
    models: *const c_char,
    platform: *mut *mut PlatformHandle,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe { pointers::clear(platform, ptr::null_mut()) };
        pointers::check(platform, "platform")?;
        // SAFETY: as the caller says.
        let made = unsafe { load_cluster(path, models)? }.to_platform()?;
        let handle = handles::keep(Arc::new(LocalComm::new()), made);
        // SAFETY: as the caller says.
        unsafe { pointers::write(platform, "platform", handle) }
    })
}

/// Plans a multiplication of an m x k by a k x n matrix on the nodes of a platform file with a network, in every way that is compared, and writes
/// the candidates by predicted seconds, but within 1 % fewest nodes first, and the plan of the first as JSON: the document of `isochron plan --json`. models is as for
/// isochron_platform_of_file. config is null or settings, written as for isochron_open. Free the text by isochron_free.
///
/// | setting | meaning |
/// |---|---|
/// | element | type of the elements (default f64) |
/// | blocks | block sizes that are compared (default 32,64,128,256) |
/// | explain | true: also what changes of the cluster would bring |
/// | equal_ranks | true: also the best ranks for a program that gives all ranks equal parts |
///
/// Not collective: it needs no session.
///
/// # Safety
/// `path`, `models` and `config` are null or strings, and `json` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_search_plan(
    path: *const c_char,
    models: *const c_char,
    m: i64,
    n: i64,
    k: i64,
    config: *const c_char,
    json: *mut *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        let (cluster, config) = unsafe {
            pointers::clear(json, ptr::null());
            pointers::check(json, "json")?;
            (load_cluster(path, models)?, pointers::read_config(config, "config")?)
        };
        let sizes = [to_size(m, "m")?, to_size(n, "n")?, to_size(k, "k")?];
        let (problems, config) = read_search(config, sizes)?;
        let found = to_json(&cluster.search(&problems, config)?)?;
        // SAFETY: as the caller says.
        unsafe { pointers::write(json, "json", hand_over(found)) }
    })
}

/// Reads a platform file with models in a folder, or in the files that it names.
///
/// # Safety
/// `path` and `models` are null or strings.
unsafe fn load_cluster(
    path: *const c_char,
    models: *const c_char,
) -> Result<ModelledCluster, CallFailure> {
    // SAFETY: as the caller says.
    let (path, models) =
        unsafe { (pointers::read_text(path, "path")?, pointers::read_config(models, "models")?) };
    let models = (!models.is_empty()).then(|| Path::new(models));
    Ok(ModelledCluster::load(Path::new(path), models)?)
}

/// Predicts the run of an algorithm with its processes on these places, one for each process.
///
/// Not collective.
///
/// # Safety
/// `algorithm` is null or points to a struct as long as its first field says, whose functions may be called with its context;
/// `places` is null or has `n_places` numbers; `predicted` is null or points to a struct as long as its first field says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_timeof(
    platform: *const PlatformHandle,
    algorithm: *const AlgorithmTable,
    places: *const i64,
    n_places: i64,
    predicted: *mut PredictedTable,
) -> c_int {
    call(|| {
        let run = handles::find(platform)?.use_object(|platform| {
            // SAFETY: as the caller says.
            let places = unsafe { read_sizes(places, to_size(n_places, "n_places")?, "places")? };
            // SAFETY: as the caller says.
            unsafe {
                use_algorithms(algorithm, 1, "algorithm", |algorithms| {
                    timeof(&algorithms[0], platform, &places)
                })
            }
        })?;
        let answer = PredictedTable { is_exact: 1, ..PredictedTable::of(&run, n_places as usize) };
        // SAFETY: as the caller says.
        unsafe { write_struct(predicted, "predicted", &answer) }
    })
}

/// Chooses the algorithm of least predicted seconds, and the place of each of its processes: the first predicted->processes of places,
/// which has room for n_places. Within 1 %, fewer processes win. An algorithm with more processes than the
/// platform has places is left out. Writes the seconds of every algorithm at its best places; seconds may be null.
///
/// Not collective, but all ranks choose alike if they give the same algorithms and have a platform of isochron_recon.
///
/// # Safety
/// `algorithms` is null or has `n_algorithms` structs, whose functions may be called with their contexts; `places` is null or has room
/// for `n_places` numbers; `predicted` is null or points to a struct as long as its first field says; `seconds` is null or has room for
/// `n_algorithms` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_choose(
    platform: *const PlatformHandle,
    algorithms: *const AlgorithmTable,
    n_algorithms: i64,
    places: *mut i64,
    n_places: i64,
    predicted: *mut PredictedTable,
    seconds: *mut f64,
) -> c_int {
    call(|| {
        let choice = handles::find(platform)?.use_object(|platform| {
            let n_algorithms = to_size(n_algorithms, "n_algorithms")?;
            // SAFETY: as the caller says.
            unsafe {
                use_algorithms(algorithms, n_algorithms, "algorithms", |algorithms| {
                    choose(algorithms, platform)
                })
            }
        })?;
        let (processes, room) = (choice.places.len(), to_size(n_places, "n_places")?);
        if room < processes {
            let reason = format!("{room}, and the chosen algorithm has {processes} processes");
            return Err(CallFailure::argument("n_places", reason));
        }
        // SAFETY: as the caller says.
        let to = unsafe { pointers::write_slice(places, processes, "places")? };
        for (to, &place) in to.iter_mut().zip(&choice.places) {
            *to = place as i64;
        }
        if !seconds.is_null() {
            // SAFETY: as the caller says.
            let to = unsafe { pointers::write_slice(seconds, choice.seconds.len(), "seconds")? };
            to.copy_from_slice(&choice.seconds);
        }
        let answer = PredictedTable {
            chosen: choice.candidate as i64,
            is_exact: choice.is_exact.into(),
            ..PredictedTable::of(&choice.run, processes)
        };
        // SAFETY: as the caller says.
        unsafe { write_struct(predicted, "predicted", &answer) }
    })
}

/// Closes a platform.
///
/// # Safety
/// No call of it is under way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_close_platform(platform: *mut PlatformHandle) -> c_int {
    call(|| handles::close(platform))
}

/// Makes a communicator of the ranks that are these places, such as the places of isochron_choose, in their order. comm is the number of their
/// communicator in Fortran, as for isochron_open. group gets the number of a communicator, which the program frees; on the other ranks
/// the number of MPI_COMM_NULL, and after a failure -1, which is no communicator. isochron_group_comm has an MPI_Comm in place of both.
///
/// Collective: all ranks of comm, with the same places.
///
/// # Safety
/// The conditions of isochron_open for `comm`; `places` is null or has `n_places` numbers; `group` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_group(
    comm: c_int,
    places: *const i64,
    n_places: i64,
    group: *mut c_int,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe {
            pointers::clear(group, -1);
            let made = make_group(comm, || {
                pointers::check(group, "group")?;
                read_sizes(places, to_size(n_places, "n_places")?, "places")
            });
            pointers::write(group, "group", made?)
        }
    })
}

/// Makes a group of the places that are read, and returns its number.
///
/// # Safety
/// The conditions of isochron_open for `comm`.
#[cfg(feature = "mpi")]
unsafe fn make_group(
    comm: c_int,
    read: impl FnOnce() -> Result<Vec<usize>, CallFailure>,
) -> Result<c_int, CallFailure> {
    // SAFETY: as the caller says.
    let ranks = unsafe { isochron::prelude::MpiComm::adopt_fortran(comm)? };
    let places = agree_on(&ranks, read())?;
    let process = isochron::predict::find_process(&ranks, &places)?;
    // SAFETY: the ranks are those of this communicator.
    Ok(unsafe { ranks.split_fortran(comm, process)? })
}

#[cfg(not(feature = "mpi"))]
unsafe fn make_group(
    _comm: c_int,
    _read: impl FnOnce() -> Result<Vec<usize>, CallFailure>,
) -> Result<c_int, CallFailure> {
    Err(CallFailure::argument("comm", "this library was built without MPI"))
}

/// Lets a process do this percentage of its whole work. For the function scheme of an algorithm, as all isochron_scheme_... are.
#[unsafe(no_mangle)]
pub extern "C" fn isochron_scheme_compute(
    order: *mut SchemeHandle,
    process: i64,
    percent: f64,
) -> c_int {
    add(order, |scheme| {
        scheme.compute(to_size(process, "process")?, percent);
        Ok(())
    })
}

/// Lets a process send this percentage of its bytes for another one, as one message.
#[unsafe(no_mangle)]
pub extern "C" fn isochron_scheme_transfer(
    order: *mut SchemeHandle,
    from: i64,
    to: i64,
    percent: f64,
) -> c_int {
    add(order, |scheme| {
        scheme.transfer(to_size(from, "from")?, to_size(to, "to")?, percent);
        Ok(())
    })
}

/// Begins actions that begin together: each is a branch, and so is each section of isochron_scheme_begin_repeat.
#[unsafe(no_mangle)]
pub extern "C" fn isochron_scheme_begin_parallel(order: *mut SchemeHandle) -> c_int {
    add(order, |scheme| {
        scheme.begin_par();
        Ok(())
    })
}

/// Begins actions that follow each other and are repeated, with the same percentages each time. A sequence is repeated once.
#[unsafe(no_mangle)]
pub extern "C" fn isochron_scheme_begin_repeat(order: *mut SchemeHandle, times: i64) -> c_int {
    add(order, |scheme| {
        scheme.begin_repeat(to_size(times, "times")?);
        Ok(())
    })
}

/// Ends the section that has begun last.
#[unsafe(no_mangle)]
pub extern "C" fn isochron_scheme_end(order: *mut SchemeHandle) -> c_int {
    add(order, |scheme| {
        scheme.end();
        Ok(())
    })
}

/// Adds to a scheme. The first refusal is kept for the call that has asked for the scheme.
fn add(
    order: *mut SchemeHandle,
    action: impl FnOnce(&mut Scheme) -> Result<(), CallFailure>,
) -> c_int {
    call(|| {
        handles::find(order)?.use_object(|open| {
            let added = action(&mut open.scheme);
            if let Err(failure) = &added {
                open.failure.get_or_insert_with(|| failure.clone());
            }
            added
        })
    })
}

/// Has a call use algorithms of the program.
///
/// # Safety
/// The conditions of [`isochron_choose`].
unsafe fn use_algorithms<R>(
    algorithms: *const AlgorithmTable,
    n_algorithms: usize,
    name: &str,
    body: impl FnOnce(Vec<OwnAlgorithm>) -> Result<R, AlgorithmError>,
) -> Result<R, CallFailure> {
    // SAFETY: as the caller says.
    let tables = unsafe { read_structs(algorithms, n_algorithms, name)? };
    let failure = Rc::<RefCell<Option<CallFailure>>>::default();
    let read = tables.into_iter().enumerate().map(|(index, table)| {
        let name = if name == "algorithm" { name.to_owned() } else { format!("{name}[{index}]") };
        let lacks =
            |function| CallFailure::argument(&name, format!("it has no function {function}"));
        let processes = table.processes.ok_or_else(|| lacks("processes"))?;
        Ok(OwnAlgorithm {
            volume: table.volume.ok_or_else(|| lacks("volume"))?,
            size: table.size,
            bytes: table.bytes.ok_or_else(|| lacks("bytes"))?,
            scheme: table.scheme.ok_or_else(|| lacks("scheme"))?,
            // SAFETY: the function and its context are the program's, which has promised that they fit.
            processes: to_size(unsafe { processes(table.context) }, &format!("{name}.processes"))?,
            context: table.context,
            failure: Rc::clone(&failure),
        })
    });
    let outcome = body(read.collect::<Result<_, CallFailure>>()?);
    match failure.take() {
        Some(failure) => Err(failure),
        None => Ok(outcome.map_err(Error::from)?),
    }
}

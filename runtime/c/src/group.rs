//! A balancer over ranks that the program has without MPI.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use isochron::comm::{Group, GroupComm};
use isochron::prelude::{Comm, Rebalancer};

use crate::balancer::{BalancerHandle, read_loop};
use crate::handles;
use crate::pointers::{self, to_size};
use crate::status::{CallFailure, agree_on, call};
use crate::structs::{SizedStruct, read_struct};

/// Ranks that the program has without MPI, such as threads or the processes of a framework. Set struct_size to
/// sizeof(isochron_group_t).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct GroupTable {
    /// Bytes of this struct.
    pub struct_size: i64,
    /// This rank, from 0.
    pub rank: i64,
    /// Number of ranks.
    pub size: i64,
    /// Gathers this many bytes from every rank, and writes the data of rank r at all + r * bytes. Returns 0, or another number if the group does
    /// not work any more. All ranks call it together.
    pub all_gather: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            data: *const c_void,
            bytes: i64,
            all: *mut c_void,
        ) -> c_int,
    >,
    /// Passed on to all_gather.
    pub context: *mut c_void,
}

// SAFETY: integers and pointers that may be null, with the size first.
unsafe impl SizedStruct for GroupTable {
    const NAME: &'static str = "isochron_group_t";
    const SIZES: &'static [usize] = &[size_of::<Self>()];
}

/// A group of the program, which is checked.
struct OpenGroup {
    rank: usize,
    size: usize,
    all_gather: unsafe extern "C" fn(*mut c_void, *const c_void, i64, *mut c_void) -> c_int,
    context: *mut c_void,
}

impl OpenGroup {
    fn open(table: GroupTable) -> Result<Self, CallFailure> {
        let [rank, size] = [to_size(table.rank, "group.rank")?, to_size(table.size, "group.size")?];
        let all_gather = table.all_gather;
        let all_gather =
            all_gather.ok_or_else(|| CallFailure::argument("group", "all_gather is null"))?;
        Ok(Self { rank, size, all_gather, context: table.context })
    }

    /// Gathers the same number of bytes from every rank.
    fn gather_alike(&self, data: &[u8]) -> Result<Vec<u8>, String> {
        let bytes = self.size.saturating_mul(data.len());
        let mut all = Vec::new();
        all.try_reserve_exact(bytes).map_err(|error| error.to_string())?;
        all.resize(bytes, 0);
        let (from, to) = (data.as_ptr().cast(), all.as_mut_ptr().cast());
        // SAFETY: the program says that it may be called with its context; `all` has room for the bytes of all ranks.
        let status = unsafe { (self.all_gather)(self.context, from, data.len() as i64, to) };
        if status == 0 { Ok(all) } else { Err(format!("all_gather returned {status}")) }
    }
}

impl Group for OpenGroup {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_gather(&self, data: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let lengths = self.gather_alike(&(data.len() as u64).to_le_bytes())?;
        let lengths = lengths.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes) as usize);
        let lengths: Vec<usize> = lengths.collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        if lengths.get(self.rank) != Some(&data.len()) || longest > MOST_BYTES {
            return Err("all_gather gave other values than the ranks have".to_owned());
        }
        let mut mine = data.to_vec();
        mine.resize(longest, 0);
        let all = self.gather_alike(&mine)?;
        let parts = lengths.iter().enumerate();
        Ok(parts.map(|(rank, &length)| all[rank * longest..][..length].to_vec()).collect())
    }
}

/// More bytes than any rank tells the others; a longer message is no message.
const MOST_BYTES: usize = 1 << 30;

/// Divides the units of a loop over ranks that the program has without MPI. Settings and calls of the balancer are those of isochron_balancer,
/// but isochron_move, which needs messages between two ranks: the program moves its data itself, and gives move_unit_s. group is copied.
/// Close the balancer by isochron_close_balancer before the group ends.
///
/// Collective: all ranks of the group, with the same units.
///
/// # Safety
/// `group` is null or points to a struct as long as its first field says, whose function may be called with its context until the balancer is
/// closed; `config` is null or a string, and `balancer` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_balancer_of_group(
    group: *const GroupTable,
    units: i64,
    config: *const c_char,
    balancer: *mut *mut BalancerHandle,
) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        let table = unsafe {
            pointers::clear(balancer, ptr::null_mut());
            read_struct(group, "group")?
        };
        let comm: Arc<dyn Comm> = GroupComm::new(OpenGroup::open(table)?)?.into();
        let asked = pointers::check(balancer, "balancer");
        // SAFETY: as the caller says.
        let asked = asked.and_then(|()| unsafe { read_loop(units, config) });
        let (units, config, part) = agree_on(&*comm, asked)?;
        let made = Rebalancer::new(Arc::clone(&comm), units, &config, part)?;
        let handle = handles::keep(comm, made);
        // SAFETY: as the caller says.
        unsafe { pointers::write(balancer, "balancer", handle) }
    })
}

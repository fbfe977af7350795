//! Messages between ranks.
//!
//! [`Comm`] is the contract. It has three implementations: [`LocalComm`], one rank without MPI; [`GroupComm`], ranks that the program has without
//! MPI; and `MpiComm` in the crate `isochron`. All code takes `&dyn Comm` and runs the same on both. Collectives over
//! values of any type ([`gather`](trait.Comm.html#method.gather) and others) are methods of `dyn Comm`; [`agree()`]
//! turns the failure of one rank into one of all ranks, and [`agree_on_settings`] refuses ranks that were started
//! differently; a [`Transfer`] is messages that travel while the program computes.
//!
//! A program that sends messages by a library of its own implements [`Comm`]. [`Comm::start`] gets the memory of messages as
//! [`MessageSpan`]s and returns an [`InFlight`]. Programs that only use a communicator call neither.
//!
//! Waiting never spins for long: a rank's calling thread shares its cores with the devices. An implementation therefore
//! polls with growing [pauses](Pause).

mod agree;
mod arguments;
pub(crate) mod collectives;
pub(crate) mod contract;
mod exchange;
mod group;
pub(crate) mod launched;
mod letter;
mod local;
pub(crate) mod pairs;
mod pause;
pub(crate) mod probe;
pub(crate) mod rounds;
pub(crate) mod settings;
pub(crate) mod standing;
#[allow(
    unsafe_code,
    reason = "messages in flight refer to memory that a value keeps from all other code"
)]
mod transfer;

pub use agree::{agree, share_outcome};
pub(crate) use agree::{decode_outcome, encode_outcome};
pub(crate) use arguments::{CollectiveCall, EnteredCall, enter_call, hash_arguments};
pub use contract::{Comm, InFlight, MAX_TAG, MessageSpan};
pub(crate) use exchange::measure_exchange_s;
pub use group::{Group, GroupComm, ThreadGroup};
pub(crate) use launched::launched_place;
pub(crate) use letter::{Letter, post};
pub use local::LocalComm;
pub use pause::Pause;
pub(crate) use probe::{NetworkOrigin, NetworkProbe, number_hosts};
pub(crate) use rounds::MeasureRounds;
pub use settings::{Settings, agree_on_settings};
pub(crate) use settings::{add_fields, add_long, add_setting, describe_differences, describe_long};
pub use transfer::{Message, Transfer};

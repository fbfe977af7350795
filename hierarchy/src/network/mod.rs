//! The network between the members of a job: groups of members that reach each other alike, and links that are slow.
//!
//! [`Network`] is what a planner knows of it: functions of the bytes of a message, and shared resources.
//!
//! A member is a host, or a rank if there is one host. [`LinkCheck`] asks for [rounds](list_rounds) of messages in disjoint
//! pairs, short and long ones, so that a round loads all adapters. Members of a [group](LinkReport::groups)
//! reach each other faster than others; pairs that share as many groups are of one level and are compared with each other.
//! The shape of an excess tells the [cause](LinkCause).

mod check;
mod fit;
mod groups;
mod model;
mod rounds;
mod simgrid;
mod survey;
mod table;

pub use check::{
    LinkCause, LinkCheck, LinkFinding, LinkPart, LinkPass, LinkReport, LinkRequest, MessageTimes,
    PairTimes, TimedPair, list_lossy,
};
pub use model::{MessageCurve, Network, PhaseTraffic, Traffic, Uplink, count_rounds};
pub use rounds::list_rounds;
pub use simgrid::{REPLAY_FLOPS, describe_platform};
pub use survey::{Survey, SurveyedPair};

/// Ratio to the links like it from which a link is slow, if noise allows.
const LONGER: f64 = 1.2;

//! The decision how a multiplication is divided among nodes: plain data, the same on every node.

mod decision;
mod division;

pub use decision::{BalanceOutcome, Decision, LeftOut};
pub use division::{Division, SplitChoice};

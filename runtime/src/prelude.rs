//! What most programs need, but for ranks over MPI.

pub use isochron_devices::{
    BlasChoice, DeviceInfo, ElementType, Grouping, MeasureConfig, View, ViewMut,
};
pub use isochron_hierarchy::balance::{BalanceConfig, Strategy};
pub use isochron_hierarchy::problem::Split;
pub use num_complex::{Complex32, Complex64};

pub use crate::comm::{Comm, LocalComm};
pub use crate::matrix::{
    BlockCyclic, BlockList, Distribution, Generator, Matrix, Op, Order, Pieces, ProcessGrid,
    Region, Spread, Stored, StoredMut,
};
pub use crate::plan::{Plan, Problem};
pub use crate::product::{
    Element, Execution, Factors, Product, ProductConfig, ProductOf, ProductRun, RunConfig, Scalars,
};
pub use crate::progress::{DeviceCall, Observer, Progress};
pub use crate::rebalance::{LoopPart, RebalanceConfig, Rebalancer, UnitArray, UnitMemory};
pub use crate::report::Report;
pub use crate::session::{
    Cores, DeviceSpec, HostScope, LogLevel, NodeSpec, PlatformSpec, Session, SessionBuilder,
};
pub use crate::store::StoreMode;
pub use crate::{Error, ErrorClass};

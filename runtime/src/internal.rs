//! Items for the other crates of this workspace. They may change at any time.

// For the communicator over MPI.
pub use crate::comm::collectives::{decode, encode};
pub use crate::comm::contract::check_rank;
pub use crate::comm::launched::launched_size;
pub use crate::comm::settings::describe_differences;
pub use crate::comm::standing::{Standing, find_standing, has_other_ranks};
// For the command, which reads and writes files, and measures outside of a session.
pub use crate::comm::launched::launched_rank;
pub use crate::comm::pairs::{
    LengthTimes, SHORT_BYTES, choose_long_bytes, time_lengths, time_pairs,
};
pub use crate::comm::probe::measure_network;
pub use crate::comm::rounds::MeasureRounds;
pub use crate::input::points::{AnyPointsFile, read_measured, read_points, read_surface};
pub use crate::partition::benchmark::repeat_in_step;
pub use crate::plan::format_utc;
pub use crate::plan::{check_hpopta, refuse_hpopta};
pub use crate::session::bind::bind_rank;
pub use crate::session::find::FoundDevices;
pub use crate::session::models::measure_session_network;
pub use crate::session::updates::{
    describe_devices, expect_alone, find_histories, keep_samples, prepare_updates,
};
pub use crate::store::known::KnownTimes;
// For schemas of documents.
#[cfg(feature = "schemars")]
pub use crate::store::segment::SegmentLine;
// For interfaces to other languages.
pub use crate::product::any::{AnyProduct, ProductWork};
// For tests, which force changes of the division, and let made-up times decide.
pub use crate::plan::place::RunConditions;
pub use crate::product::director::{Director, StepTimes};
pub use crate::product::learning::LearningDirector;
pub use crate::product::learning_run::run_directed;
pub use crate::session::models::make_up_times;

// For tests of the command: faults, and changes that do not pay.
pub use crate::fault::{obey_tests, read_forced_changes};
pub use crate::matrix::flip_element;
/// The watch over silent ranks.
pub mod watch {
    pub use crate::watch::*;
}

/// Input files of the command.
pub mod input {
    pub use crate::input::*;
}

/// Output files of the command.
pub mod output {
    pub use crate::output::*;
}

//! The progress of planning and of a multiplication.

use std::rc::Rc;

use isochron_devices::UpdateTime;

use crate::watch;

/// A point that a rank has reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress<'p> {
    /// All nodes are measured, for the `iteration`-th time since planning began.
    Measuring {
        /// From 1.
        iteration: u32,
    },
    /// All nodes have been measured, and every rank knows the results.
    Measured {
        /// Rank of the node that takes longest for its part, or whose devices are slowest if no division was
        /// measured.
        slowest: usize,
        /// Imbalance `(max t_i - min t_i) / min t_i` of the nodes' times; `None` if no division was measured.
        imbalance: Option<f64>,
    },
    /// This rank begins a step of the multiplication.
    Multiplying {
        /// From 0.
        step: usize,
        /// Number of its steps, those of all parts of k together.
        steps: usize,
    },
    /// The head rank has seen the steps of all nodes of a run that learns, and all wait for this one.
    Slowest {
        /// Its rank.
        rank: usize,
    },
    /// The devices of this rank begin a call.
    Calling {
        /// The call.
        call: DeviceCall,
        /// Columns of C of each device. A device without columns is not called.
        cols: &'p [usize],
    },
    /// The devices have ended the call. After a failure they never do.
    Called {
        /// The time of each device; empty for a measurement, in which a device repeats its update.
        times: &'p [UpdateTime],
    },
    /// This rank sends panels of a step to other ranks, or is to receive some. A step without messages has no such point.
    PanelsUnderWay {
        /// The step, from 0.
        step: usize,
        /// Number of messages to this rank.
        messages: usize,
        /// Bytes of messages to this rank.
        bytes: usize,
        /// Bytes of this rank's messages to others.
        sent_bytes: usize,
    },
    /// The messages of a step have arrived and left. It is noticed between other work, so it may be a little late.
    PanelsHere {
        /// The step, from 0.
        step: usize,
    },
    /// This rank waits for the panels of the step that it has begun.
    AwaitingPanels,
    /// The division changes before the next step.
    Changing {
        /// `true` if parts of C move between ranks.
        moves_c: bool,
    },
    /// The division has changed.
    Changed {
        /// Bytes of C that this rank has sent.
        bytes: u64,
    },
    /// The ranks' contributions to C are summed.
    Summing,
    /// This rank has done its part of the multiplication, and waits for the others.
    AwaitingRanks,
}

/// A call of a rank's devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceCall {
    /// Updates are repeated to measure their time.
    Measure {
        /// Rows of C.
        rows: usize,
        /// Inner dimension of the updates.
        k: usize,
    },
    /// A job begins: devices with memory of their own may copy C.
    Begin,
    /// The update of a step.
    Update {
        /// The step, from 0.
        step: usize,
        /// Rows of C.
        rows: usize,
        /// Inner dimension of the update.
        k: usize,
    },
    /// The columns change between the devices in the middle of a job.
    Redivide,
    /// The job ends: C is back in the host's memory.
    Finish,
}

/// Tells the watch over silent ranks, and the observer if there is one, that this rank has reached a point.
pub(crate) fn tell(observer: Option<&dyn Observer>, progress: Progress<'_>) {
    match progress {
        Progress::Multiplying { step, steps } => watch::begin_step(step, steps),
        Progress::Measuring { .. } | Progress::Measured { .. } | Progress::Slowest { .. } => {
            watch::note_progress();
        }
        // Devices and messages are watched where they work.
        _ => {}
    }
    if let Some(observer) = observer {
        observer.observe(progress);
    }
}

/// Receives the progress of this rank.
pub trait Observer {
    /// Takes notice. It is called between measurements and steps, and while the devices compute, so it has to return soon.
    fn observe(&self, progress: Progress<'_>);
}

/// Several observers, told one after another.
impl Observer for Vec<Rc<dyn Observer>> {
    fn observe(&self, progress: Progress<'_>) {
        for observer in self {
            observer.observe(progress);
        }
    }
}

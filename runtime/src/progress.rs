//! The progress of planning and of a multiplication.

use crate::watch;

/// A point that a rank has reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress {
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
}

/// Tells the watch over silent ranks, and the observer if there is one, that this rank has reached a point.
pub(crate) fn tell(observer: Option<&dyn Observer>, progress: Progress) {
    match progress {
        Progress::Multiplying { step, steps } => watch::begin_step(step, steps),
        Progress::Measuring { .. } | Progress::Measured { .. } | Progress::Slowest { .. } => {
            watch::note_progress();
        }
    }
    if let Some(observer) = observer {
        observer.observe(progress);
    }
}

/// Receives the progress of this rank.
pub trait Observer {
    /// Takes notice. It is called between measurements and between steps, so it has to return soon.
    fn observe(&self, progress: Progress);
}

//! A run on a made-up cluster: what a contender sees of it, and what it pays.

use std::ops::Range;

use isochron_devices::MeasureConfig;
use isochron_hierarchy::layout::{Layout, Rect};
use isochron_hierarchy::network::{Network, PhaseTraffic, Traffic};
use isochron_hierarchy::times::Sample;

use super::instance::{BLOCK, ELEMENT_BYTES, KnownCluster};
use super::noise::{NodeNoise, RepeatedTimes, student_t};

/// Steps that share the noise of a burst: from the first number up to the second, unless the layout changes before.
const BURST: [f64; 2] = [8.0, 24.0];

/// Part of the run that the repetitions of one measurement may take, beyond the fewest: as in a session.
const MEASUREMENT_SHARE: f64 = 0.035;

/// Latency, and bytes per second, of links of 1 Gbit/s.
const LATENCY_S: f64 = 100e-6;
const BYTES_PER_S: f64 = 117e6;

/// A simulated run: `steps` steps on a made-up cluster.
///
/// The clock adds up true times, those of the slowest node in each repetition and in each step. Noise only disturbs what
/// a contender sees, and so do other programs: the clock would else charge the luck of the draw, and the more the more nodes
/// there are.
pub struct SimulatedRun<'a> {
    /// The cluster. A contender may know its number of nodes and the size of C, and nothing else.
    cluster: &'a KnownCluster,
    steps: u64,
    done: u64,
    /// Number of steps done after which the next burst begins.
    burst_end: u64,
    noise: NodeNoise,
    /// The layout that steps run in, and the true seconds of each node in it.
    place: Option<(Layout, Vec<f64>)>,
    /// `true` until a step has the layout.
    is_placed: bool,
    cost: RunCost,
}

/// The seconds of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RunCost {
    /// Measuring before the first step.
    pub measuring_s: f64,
    /// Moving parts of C between steps.
    pub moving_s: f64,
    /// Steps.
    pub running_s: f64,
    /// Number of times that C moved.
    pub moves: u32,
}

impl RunCost {
    /// Returns all seconds.
    pub fn total_s(&self) -> f64 {
        self.measuring_s + self.moving_s + self.running_s
    }
}

impl<'a> SimulatedRun<'a> {
    /// Starts a run; `seed` gives its noise.
    pub fn new(cluster: &'a KnownCluster, steps: u64, seed: u64) -> Self {
        Self {
            cluster,
            steps,
            done: 0,
            burst_end: 0,
            noise: NodeNoise::new(cluster.nodes.len(), seed),
            place: None,
            is_placed: false,
            cost: RunCost::default(),
        }
    }

    /// Returns `true` if the nodes are of one kind, and have memory for all of C.
    pub fn is_one_kind(&self) -> bool {
        self.cluster.is_one_kind
    }

    /// Returns the number of nodes.
    pub fn n_nodes(&self) -> usize {
        self.cluster.nodes.len()
    }

    /// Returns the rows and columns of C in blocks.
    pub fn side(&self) -> u64 {
        self.cluster.side
    }

    /// Returns the steps that are left.
    pub fn steps_left(&self) -> u64 {
        self.steps - self.done
    }

    /// Returns what the run has cost so far.
    pub fn cost(&self) -> RunCost {
        self.cost
    }

    /// Repeats an update of `blocks` on all nodes in step, until every node knows its mean as precisely as a session asks for,
    /// or has used up its repetitions. All repetitions count as measuring.
    pub fn measure(&mut self, blocks: &[u64]) -> Vec<Sample> {
        let true_s = self.cluster.times_s(blocks);
        let most_reps: Vec<u32> = blocks.iter().map(|&d| self.limit_reps(d)).collect();
        let mut times = vec![RepeatedTimes::default(); true_s.len()];
        self.noise.begin_burst();
        loop {
            self.cost.measuring_s += find_longest(&true_s);
            for (times, t_s) in times.iter_mut().zip(self.noise.blur(&true_s)) {
                times.add(t_s);
            }
            let found: Vec<Sample> =
                times.iter().zip(blocks).map(|(times, &d)| times.summarize(d)).collect();
            let mut nodes = found.iter().zip(&most_reps);
            if nodes.all(|(found, &most)| is_enough(found, most)) {
                return found;
            }
        }
    }

    /// Runs one repetition of `blocks` on all nodes before the first step. It counts as measuring.
    pub fn look_once(&mut self, blocks: &[u64]) -> Vec<Sample> {
        let true_s = self.cluster.times_s(blocks);
        self.noise.begin_burst();
        self.cost.measuring_s += find_longest(&true_s);
        self.noise.sample(blocks, &true_s, 0.0)
    }

    /// Returns the most repetitions of a measurement of `d` blocks.
    fn limit_reps(&self, d: u64) -> u32 {
        let config = MeasureConfig::default();
        let part = (d as f64 / self.cluster.even_share()).clamp(f64::MIN_POSITIVE, 1.0);
        let affordable = MEASUREMENT_SHARE * self.steps as f64 / part;
        (affordable as u32).clamp(config.min_reps, config.max_reps)
    }

    /// Takes this layout for the steps to come. Where steps were run before, the parts of C move.
    pub fn place(&mut self, layout: Layout) {
        if let Some((before, _)) = self.place.as_ref().filter(|_| self.done > 0) {
            self.cost.moving_s += find_move_s(before, &layout);
            self.cost.moves += 1;
        }
        let true_s = self.cluster.times_s(&layout.areas());
        self.place = Some((layout, true_s));
        self.is_placed = true;
        self.burst_end = self.done;
    }

    /// Runs a step and returns the time of each node, as its clock shows it.
    ///
    /// # Panics
    /// Without a layout, and after the last step.
    pub fn step(&mut self) -> Vec<Sample> {
        assert!(self.done < self.steps, "the run is over");
        let Some((layout, true_s)) = &self.place else { panic!("a step needs a layout") };
        let is_first = std::mem::take(&mut self.is_placed);
        if self.done == self.burst_end {
            self.noise.begin_burst();
            self.burst_end += self.noise.draw(BURST) as u64;
        }
        self.cost.running_s += find_longest(true_s);
        self.done += 1;
        let mut shown_s = true_s.clone();
        if is_first && self.cluster.cold > 1.0 {
            for shown_s in &mut shown_s {
                *shown_s *= self.noise.draw([1.0, self.cluster.cold]);
            }
        }
        self.noise.sample(&layout.areas(), &shown_s, self.cluster.disturbed)
    }

    /// Runs all steps that are left.
    ///
    /// # Panics
    /// Without a layout.
    pub fn finish(&mut self) {
        let Some((_, true_s)) = &self.place else { panic!("a step needs a layout") };
        self.cost.running_s += self.steps_left() as f64 * find_longest(true_s);
        self.done = self.steps;
    }
}

fn find_longest(times_s: &[f64]) -> f64 {
    times_s.iter().copied().fold(0.0, f64::max)
}

/// Returns `true` if a node needs no further repetition.
fn is_enough(found: &Sample, most_reps: u32) -> bool {
    let config = MeasureConfig::default();
    let half_width_s = student_t(found.reps) * found.error_s;
    let is_precise = half_width_s <= config.precision * found.seconds;
    found.reps >= config.min_reps && (is_precise || found.reps >= most_reps)
}

/// Returns the seconds in which C moves from one layout to another.
pub fn find_move_s(before: &Layout, after: &Layout) -> f64 {
    let moved = PhaseTraffic::of(count_moved(before, after));
    Network::flat(LATENCY_S, BYTES_PER_S).phase_s(&moved, ELEMENT_BYTES)
}

/// Returns the traffic of every node when C moves from one layout to another: what it sends or what it receives, whichever is
/// more, since links carry both ways at once.
fn count_moved(before: &Layout, after: &Layout) -> Vec<Traffic> {
    let sent = count_shared(before.rects(), after.rects());
    let received = count_shared(after.rects(), before.rects());
    sent.into_iter()
        .zip(received)
        .map(|(sent, received)| Traffic {
            elements: sent.elements.max(received.elements),
            messages: sent.messages.max(received.messages),
        })
        .collect()
}

/// Returns the traffic between the rectangle of each node in one layout and those of all others in another.
fn count_shared(rects: &[Rect], others: &[Rect]) -> Vec<Traffic> {
    let mut by_column: Vec<(usize, &Rect)> = others.iter().enumerate().collect();
    by_column.sort_by_key(|(_, other)| other.col);
    let widest = others.iter().map(|other| other.cols).max().unwrap_or(0);
    let mut nodes = vec![Traffic::default(); rects.len()];
    for (node, (traffic, rect)) in nodes.iter_mut().zip(rects).enumerate() {
        // No other one reaches so far to the right.
        let first = by_column.partition_point(|(_, other)| other.col + widest <= rect.col);
        for (_, other) in by_column[first..]
            .iter()
            .take_while(|(_, other)| other.col < rect.col + rect.cols)
            .filter(|(other, _)| *other != node)
        {
            let rows = overlap(rect.row..rect.row + rect.rows, other.row..other.row + other.rows);
            let cols = overlap(rect.col..rect.col + rect.cols, other.col..other.col + other.cols);
            if rows * cols > 0 {
                traffic.elements += (rows * cols) as f64 * BLOCK * BLOCK;
                traffic.messages += 1.0;
            }
        }
    }
    nodes
}

/// Returns the length that two ranges have in common.
fn overlap(a: Range<u64>, b: Range<u64>) -> u64 {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learning::instance::Setting;
    use isochron_hierarchy::layout::slice_cols;

    #[test]
    fn a_move_costs_the_blocks_of_the_busiest_node() -> anyhow::Result<()> {
        let cluster = KnownCluster::draw(Setting::Alike, 4, 0);
        let side = cluster.side;
        let even = slice_cols(side, &[side / 4; 4])?;
        // The border between the first two moves by 5 columns, that of the others stays.
        let other = slice_cols(side, &[side / 4 + 5, side / 4 - 5, side / 4, side / 4])?;
        let mut run = SimulatedRun::new(&cluster, 10, 1);
        run.place(even.clone());
        run.place(other.clone());
        assert_eq!(run.cost().moving_s, 0.0, "no sum is there to move");
        run.step();
        run.place(even);
        let bytes = 5.0 * side as f64 * BLOCK * BLOCK * ELEMENT_BYTES as f64;
        let expected_s = LATENCY_S + bytes / BYTES_PER_S;
        assert!((run.cost().moving_s / expected_s - 1.0).abs() < 1e-12);
        run.place(other);
        assert_eq!(run.cost().moves, 2);
        Ok(())
    }

    #[test]
    fn the_clock_adds_up_true_times_and_contenders_see_noise() -> anyhow::Result<()> {
        let cluster = KnownCluster::draw(Setting::Unlike, 4, 0);
        let side = cluster.side;
        let layout = slice_cols(side, &[side / 4; 4])?;
        let step_s = find_longest(&cluster.times_s(&layout.areas()));
        let mut run = SimulatedRun::new(&cluster, 10, 1);
        run.look_once(&layout.areas());
        assert_eq!(run.cost().measuring_s, step_s);
        run.place(layout);
        let [first, second] = [run.step(), run.step()];
        assert_ne!(first, second);
        run.finish();
        assert!((run.cost().running_s / step_s - 10.0).abs() < 1e-9);
        assert_eq!(run.steps_left(), 0);
        Ok(())
    }

    #[test]
    fn measurements_repeat_as_a_session_does() {
        let cluster = KnownCluster::draw(Setting::Alike, 4, 0);
        let share = cluster.even_share() as u64;
        // 3.5 % of 30 steps are no three repetitions of whole shares, but 16 of sixteenths.
        let mut run = SimulatedRun::new(&cluster, 30, 1);
        assert!(run.measure(&[share; 4]).iter().all(|found| found.reps == 3));
        assert_eq!(run.limit_reps(share / 16), 16);
        let found = run.measure(&[share / 16; 4]);
        let precise = found.iter().all(|found| is_enough(found, u32::MAX));
        assert!(precise && found[0].reps < 16, "{found:?}");
    }
}

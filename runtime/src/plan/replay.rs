//! A plan as a time-independent trace: the processes that SimGrid replays, with their computations and messages.
//!
//! A trace has no "whichever comes first", and the thread of a rank drives the messages of several steps while its devices
//! compute. So a rank is one process that computes, and one for each set of panels, which brings the panels of a step, passes
//! relayed pieces on, and hands the set over. Handing over takes no time.

use std::fmt::Write as _;

use isochron_hierarchy::network::REPLAY_FLOPS;

use super::Plan;
use super::reduction::plan_sum;
use super::schedule::{A, B, PanelPiece, StepSchedule};
use crate::matrix::redistribute::MovePlan;

/// Number and bytes of the message that hands a set over.
const TOKEN: &str = "0 1";

impl Plan {
    /// Number of processes of each rank. The numbers of rank `r` begin with `r` times this.
    fn count_replayed(&self) -> usize {
        if self.division().shares().is_some() { 1 } else { 1 + self.panel_sets() }
    }

    /// Returns the actions of a rank's processes, as `smpirun -replay` reads them, for hosts of [`REPLAY_FLOPS`]. The
    /// arithmetic of a step is its part of [`node_s`](Self::node_s).
    pub fn replay(&self, rank: usize) -> Vec<String> {
        let seconds = self.node_s(rank).unwrap_or(0.0);
        let process = |place: usize| Actions::begin(rank * self.count_replayed() + place);
        let mut processes: Vec<Actions> = (0..self.count_replayed()).map(process).collect();
        if self.division().shares().is_some() {
            processes[0].compute(seconds);
            self.replay_sum(rank, &mut processes[0]);
        } else {
            self.replay_steps(rank, seconds, &mut processes);
        }
        processes.into_iter().map(Actions::end).collect()
    }

    fn replay_steps(&self, rank: usize, seconds: f64, processes: &mut [Actions]) {
        let schedule = StepSchedule::new(self, rank);
        let (steps, sets) = (schedule.piece_count(), self.panel_sets());
        for step in 0..steps {
            let place = 1 + step % sets;
            let [computing, driver] = [processes[0].process, processes[place].process];
            // The set is free; the first steps are sent for when the panels of step 0 are here.
            if step > 0 {
                processes[place].add(format_args!("recv {computing} {TOKEN}"));
            }
            self.replay_panels(&schedule, step, &mut processes[place]);
            processes[place].add(format_args!("send {computing} {TOKEN}"));
            processes[0].add(format_args!("recv {driver} {TOKEN}"));
            if step == 0 {
                for later in 1..sets.min(steps) {
                    processes[0].add(format_args!("send {} {TOKEN}", driver + later));
                }
            }
            processes[0]
                .compute(seconds * schedule.count_k(step) as f64 / self.problem().k() as f64);
            if step + sets < steps {
                processes[0].add(format_args!("send {driver} {TOKEN}"));
            }
        }
    }

    /// Adds the messages of a step. A piece goes to the processes of the same set.
    fn replay_panels(&self, schedule: &StepSchedule, step: usize, actions: &mut Actions) {
        let (process, place) = (actions.process, 1 + step % self.panel_sets());
        let find_process = |rank: usize| rank * self.count_replayed() + place;
        let describe = |piece: &PanelPiece, side: usize| {
            let bytes = piece.block.len() * self.problem().element().bytes();
            (find_process(piece.rank), 2 * piece.tag as usize + side, bytes)
        };
        let mut passed = Vec::new();
        for side in [A, B] {
            let transfers = schedule.step_transfers(step, side);
            for piece in &transfers.sends {
                actions.message("isend", describe(piece, side));
            }
            for piece in transfers.recvs {
                let message = describe(&piece, side);
                actions.message("irecv", message);
                if !piece.forward.is_empty() {
                    passed.push((message, piece.forward));
                }
            }
        }
        for ((from, tag, bytes), readers) in passed {
            actions.add(format_args!("wait {from} {process} {tag}"));
            for reader in readers {
                actions.message("isend", (find_process(reader), tag, bytes));
            }
        }
        actions.add(format_args!("waitall"));
    }

    /// Adds the messages of the sum: while a round travels, the next one has begun.
    fn replay_sum(&self, rank: usize, actions: &mut Actions) {
        let (contributions, c, rounds) = plan_sum(self);
        let moves = MovePlan::new(&contributions, &c, rank, rounds);
        let mut under_way: Vec<[usize; 3]> = Vec::new();
        for round in 0..=moves.rounds {
            let before = std::mem::take(&mut under_way);
            let messages =
                if round < moves.rounds { moves.list_messages(round) } else { Default::default() };
            for (is_sent, messages) in [true, false].into_iter().zip(messages) {
                for message in messages.iter().filter(|message| !message.range.is_empty()) {
                    let (other, bytes) =
                        (message.rank, message.range.len() * self.problem().element().bytes());
                    actions.message(if is_sent { "isend" } else { "irecv" }, (other, round, bytes));
                    under_way.push(if is_sent {
                        [rank, other, round]
                    } else {
                        [other, rank, round]
                    });
                }
            }
            for [from, to, round] in before {
                actions.add(format_args!("wait {from} {to} {round}"));
            }
        }
    }
}

/// The actions of one process, one a line.
struct Actions {
    process: usize,
    text: String,
}

impl Actions {
    fn begin(process: usize) -> Self {
        let mut actions = Self { process, text: String::new() };
        actions.add(format_args!("init"));
        actions
    }

    fn end(mut self) -> String {
        self.add(format_args!("finalize"));
        self.text
    }

    fn add(&mut self, action: std::fmt::Arguments<'_>) {
        // Writing to a string never fails.
        let _ = writeln!(self.text, "{} {action}", self.process);
    }

    fn compute(&mut self, seconds: f64) {
        self.add(format_args!("compute {}", seconds * REPLAY_FLOPS));
    }

    /// Adds a message to or from another process, with its number and its bytes.
    fn message(&mut self, action: &str, (other, tag, bytes): (usize, usize, usize)) {
        self.add(format_args!("{action} {other} {tag} {bytes}"));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use isochron_hierarchy::layout::columns;
    use proptest::prelude::*;

    use super::*;
    use crate::matrix::Spread;
    use crate::plan::Problem;

    /// The actions of all processes of a plan, each as its words.
    fn list_actions(plan: &Plan) -> Vec<Vec<Vec<String>>> {
        let all = (0..plan.n_ranks()).flat_map(|rank| plan.replay(rank));
        all.map(|text| {
            text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
        })
        .collect()
    }

    proptest! {
        #[test]
        fn every_message_that_is_sent_is_received(
            areas in prop::collection::vec(0.1f64..5.0, 1..12),
            [m, n, k] in [1usize..60, 1usize..60, 1usize..60], panel in 1usize..20, divides_k: bool,
        ) {
            let problem = Problem::new(m, n, k, 3).unwrap().with_panel(panel).unwrap();
            let plan = if divides_k {
                let mut shares = vec![0; areas.len()];
                (0..problem.k().div_ceil(3)).for_each(|block| shares[block % areas.len()] += 1);
                let slices: Vec<_> = shares.iter().map(|&share| if share > 0 { vec![n] } else { vec![] }).collect();
                Plan::along_k(problem, shares, &slices).unwrap()
            } else {
                let (rows, cols) = problem.c_blocks();
                let layout = columns::br(&areas, rows, cols).unwrap();
                let on_layout = Spread::on_layout(m, n, 3, &layout);
                let slices: Vec<_> = (0..areas.len()).map(|rank| vec![on_layout.part(rank).cols]).collect();
                Plan::with_layout(problem, layout, &slices).unwrap()
            };
            let (mut sent, mut received, mut bytes) = (BTreeMap::new(), BTreeMap::new(), vec![0; areas.len()]);
            for (process, actions) in list_actions(&plan).into_iter().enumerate() {
                let rank = process / plan.count_replayed();
                for words in actions {
                    let numbers: Vec<usize> = words.iter().skip(2).filter_map(|word| word.parse().ok()).collect();
                    prop_assert_eq!(&words[0], &process.to_string());
                    match (&*words[1], &*numbers) {
                        ("isend" | "send", &[to, tag, len]) => {
                            *sent.entry((process, to, tag, len)).or_insert(0) += 1;
                        }
                        ("irecv" | "recv", &[from, tag, len]) => {
                            *received.entry((from, process, tag, len)).or_insert(0) += 1;
                            if words[1] == "irecv" {
                                bytes[rank] += len as u64;
                            }
                        }
                        ("wait", &[from, to, _]) => prop_assert!(from == process || to == process),
                        ("init" | "finalize" | "compute" | "waitall", _) => {}
                        _ => prop_assert!(false, "{words:?}"),
                    }
                }
            }
            prop_assert_eq!(sent, received);
            let counted: Vec<u64> = (0..areas.len()).map(|rank| plan.count_received(rank).bytes).collect();
            prop_assert_eq!(bytes, counted);
        }
    }

    #[test]
    fn the_next_panels_travel_while_a_step_computes() {
        let problem = Problem::new(4, 8, 8, 4).unwrap().with_panel(2).unwrap();
        let layout = columns::br(&[1.0, 1.0], 1, 2).unwrap();
        let plan = Plan::with_layout(problem, layout, &[vec![4], vec![4]]).unwrap();
        assert_eq!((plan.count_replayed(), plan.steps(0)), (4, 4));
        let processes = plan.replay(0);
        let [computes, first, second, _] = &processes[..] else { panic!("four: {processes:?}") };
        let expect = |found: &str, process: usize, actions: &str| {
            let lines = actions.split(", ").map(|action| format!("{process} {action}\n"));
            assert_eq!(found, lines.collect::<String>());
        };
        let steps = "compute 0, send 1 0 1, recv 2 0 1, compute 0, recv 3 0 1, compute 0, recv 1 0 1, compute 0";
        expect(
            computes,
            0,
            &format!("init, recv 1 0 1, send 2 0 1, send 3 0 1, {steps}, finalize"),
        );
        // The steps with a panel of its own, and the ones with the other rank's, take turns.
        let travels = |process: usize| {
            format!("recv 0 0 1, isend {process} 0 64, irecv {process} 0 64, waitall, send 0 0 1")
        };
        expect(first, 1, &format!("init, waitall, send 0 0 1, {}, finalize", travels(5)));
        expect(second, 2, &format!("init, {}, finalize", travels(6)));
    }
}

//! The CPU seconds of one decision on a large cluster.

use isochron_devices::thread_cpu_time_s;
use isochron_hierarchy::learn::{Adaptive, Observed, Request, Tuning};

use super::in_run::{Placer, make_parts};
use super::instance::{KnownCluster, Setting};
use super::noise::NodeNoise;

/// Devices of each node.
const DEVICES: usize = 4;

/// Steps of the run.
const STEPS: u64 = 150;

/// Runs on a cluster of `nodes` nodes with unlike devices and returns the CPU seconds of each request, laying out included. Most requests
/// go on as before; the others are decisions.
///
/// # Errors
/// Returns the errors of the learner.
pub fn time_decisions(nodes: usize) -> anyhow::Result<Vec<f64>> {
    let cluster = KnownCluster::draw(Setting::LongStartUp, nodes * DEVICES, 0);
    let mut noise = NodeNoise::new(nodes * DEVICES, 1);
    let mut placer = Placer { side: cluster.side, devices: DEVICES, held: None };
    let total = cluster.side * cluster.side;
    let parts = make_parts(nodes * DEVICES, DEVICES);
    let mut learner = Adaptive::new(Tuning::default(), total, STEPS, parts)?;
    let mut held = Vec::new();
    let mut decisions_s = Vec::new();
    for burst in 0.. {
        let start_s = thread_cpu_time_s();
        let request = learner.request_next(|units| placer.propose(units))?;
        decisions_s.push(thread_cpu_time_s() - start_s);
        let (is_measurement, units, count) = match request {
            Request::Done => break,
            Request::Measure(units) => (true, units, 1),
            Request::Steps { units, count } => {
                if learner.is_changed() {
                    let layout = placer.lay_out(&units);
                    held = placer.share_out(&layout, &units);
                    placer.held = Some(layout);
                }
                (false, held.clone(), count)
            }
        };
        noise.begin_burst();
        for _ in 0..count {
            let times_s = noise.blur(&cluster.times_s(&units));
            learner.observe(&Observed::undisturbed(is_measurement, burst, &units, &times_s))?;
        }
    }
    Ok(decisions_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_cluster_is_decided_on_after_1_2_4_steps() -> anyhow::Result<()> {
        let decisions_s = time_decisions(1000)?;
        assert!(decisions_s.len() > 8 && decisions_s.iter().all(|&s| s > 0.0));
        Ok(())
    }
}

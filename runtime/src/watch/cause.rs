//! The cause of a standstill, in words.

use super::seen::{ProcessState, SeenRank};

/// Most ranks that a line names.
const MOST_NAMED: usize = 4;

/// The way in which ranks hold up a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// They give no signs any more.
    Silent,
    /// They make no progress, and wait for no other rank.
    Busy,
    /// All ranks wait for each other.
    Waiting,
    /// Their processes are stopped or gone, no sign of them has ever come, and all others wait.
    Held,
    /// This rank waits, and signs of some others have never come here.
    Alone,
}

/// The cause of a standstill.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cause {
    pub kind: Kind,
    /// The ranks, at least one.
    pub ranks: Vec<usize>,
    /// Seconds of standstill.
    pub stands_s: f64,
}

impl Cause {
    /// Returns `true` if both are about the same rank.
    pub fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind
            && (self.kind == Kind::Waiting || self.ranks.contains(&other.ranks[0]))
    }

    /// Describes the cause in one line. `states` are those of the ranks' processes.
    pub fn describe(&self, seen: &[SeenRank], states: &[ProcessState]) -> String {
        let rank = self.ranks[0];
        let names = name_ranks(&self.ranks, seen).unwrap_or_default();
        let seconds = self.stands_s;
        let either = |one, many| if self.ranks.len() == 1 { one } else { many };
        let activity = seen[rank].sign.map(|sign| sign.describe()).unwrap_or_default();
        match self.kind {
            Kind::Silent => {
                let (have, was) = either(("has", "it was"), ("have", "they were"));
                let guess = describe_state(states[0]);
                format!("{names} {have} been silent for {seconds:.0} s: {was} {activity} ({guess})")
            }
            Kind::Busy => {
                let (makes, is) = either(("makes", "it is"), ("make", "they are"));
                let details = self.describe_work(seen);
                format!("{names} {makes} no progress for {seconds:.0} s: {is} {activity}{details}")
            }
            Kind::Waiting if seen.len() == 1 => {
                format!("{names} has waited for {seconds:.0} s: it is {activity}")
            }
            Kind::Waiting => format!(
                "all ranks have waited for messages for {seconds:.0} s: {names} longest, {activity} (a link is gone, or a message \
                 is lost)"
            ),
            Kind::Held => {
                let guess = describe_state(states[0]);
                format!(
                    "the other ranks have waited for {seconds:.0} s, and {names} gave no sign since the start ({guess})"
                )
            }
            Kind::Alone => format!(
                "{names} has waited for other ranks for {seconds:.0} s: it is {activity} (some of them give no signs here, and may \
                 be at work)"
            ),
        }
    }

    /// Describes the work of a rank that makes no progress, in brackets.
    fn describe_work(&self, seen: &[SeenRank]) -> String {
        let Some(sign) = seen[self.ranks[0]].sign else {
            return String::new();
        };
        let mut details = Vec::new();
        if sign.step_s > 0.0 {
            details.push(format!("the steps before took {:.2} s each", sign.step_s));
        }
        if !sign.is_busy {
            details.push("it uses no processor".to_owned());
        }
        if details.is_empty() { String::new() } else { format!(" ({})", details.join("; ")) }
    }

    /// Describes the end of the standstill.
    pub fn describe_end(&self, seen: &[SeenRank]) -> String {
        let seconds = self.stands_s;
        if matches!(self.kind, Kind::Waiting | Kind::Held) {
            return format!("the ranks go on after {seconds:.0} s");
        }
        let names = name_ranks(&self.ranks, seen).unwrap_or_default();
        let go = if self.ranks.len() == 1 { "goes" } else { "go" };
        format!("{names} {go} on after {seconds:.0} s")
    }
}

/// Names ranks with the host of the first one, and the others' where they differ; `None` for no ranks.
pub(super) fn name_ranks(ranks: &[usize], seen: &[SeenRank]) -> Option<String> {
    if let [rank] = ranks {
        return Some(format!("rank {rank} on {}", seen[*rank].host));
    }
    let mut hosts: Vec<&str> = Vec::new();
    for &rank in ranks {
        if !hosts.contains(&seen[rank].host.as_str()) {
            hosts.push(&seen[rank].host);
        }
    }
    let ranks: Vec<_> = ranks.iter().map(ToString::to_string).collect();
    (!ranks.is_empty()).then(|| format!("ranks {} on {}", join_few(&ranks), join_few(&hosts)))
}

/// Describes why a rank is silent.
pub(super) fn describe_state(state: ProcessState) -> &'static str {
    match state {
        ProcessState::Stopped => "its process is stopped",
        ProcessState::Traced => "a debugger holds it",
        ProcessState::Gone => "its process is gone",
        ProcessState::Unknown => "stopped, or its host or link is gone",
    }
}

/// Joins the first words, and the number of the others.
fn join_few(words: &[impl AsRef<str>]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        _ if words.len() > MOST_NAMED => {
            let others = words.len() - (MOST_NAMED - 1);
            format!("{} and {others} others", words[..MOST_NAMED - 1].join(", "))
        }
        Some((last, [])) => (*last).to_owned(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
        None => String::new(),
    }
}

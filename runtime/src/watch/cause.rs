//! The cause of a standstill, in words.

use super::sign::Sign;

/// Most ranks that a line names.
const MOST_NAMED: usize = 4;

/// The state of a process that sends no signs, as its host tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessState {
    /// It is stopped by a signal.
    Stopped,
    /// A debugger holds it.
    Traced,
    /// There is no such process.
    Gone,
    /// It exists; or its host is another one, and nothing is known.
    Unknown,
}

impl ProcessState {
    /// Describes the reason why a rank is silent.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Stopped => "its process is stopped",
            Self::Traced => "a debugger holds it",
            Self::Gone => "its process is gone",
            Self::Unknown => "stopped, or its host or link is gone",
        }
    }
}

/// A rank as another one sees it.
#[derive(Debug, Clone)]
pub(super) struct SeenRank {
    pub host: String,
    /// The last sign; `None` if there was none.
    pub sign: Option<Sign>,
    /// The time of that sign, or of the start.
    pub heard_s: f64,
}

/// The way in which ranks hold up a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// They give no signs any more.
    Silent,
    /// They make no progress, and wait for no other rank.
    Busy,
    /// All ranks wait for each other.
    Waiting,
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

    /// Describes the cause in one line. `state` is that of the first rank's process.
    pub fn describe(&self, seen: &[SeenRank], state: ProcessState) -> String {
        let names = name_ranks(&self.ranks, seen);
        let seconds = self.stands_s;
        let sign = seen[self.ranks[0]].sign.unwrap_or_default();
        let activity = sign.describe();
        let is_one = self.ranks.len() == 1;
        match self.kind {
            Kind::Silent => {
                let (have, were) = if is_one { ("has", "it was") } else { ("have", "they were") };
                let guess = state.describe();
                format!(
                    "{names} {have} been silent for {seconds:.0} s: {were} {activity} ({guess})"
                )
            }
            Kind::Busy => {
                let (makes, is) = if is_one { ("makes", "it is") } else { ("make", "they are") };
                let details = describe_work(&sign);
                format!("{names} {makes} no progress for {seconds:.0} s: {is} {activity}{details}")
            }
            Kind::Waiting if seen.len() == 1 => {
                format!("{names} has waited for {seconds:.0} s: it is {activity}")
            }
            Kind::Waiting => format!(
                "all ranks have waited for messages for {seconds:.0} s: {names} longest, {activity} (a link is gone, or a message \
                 is lost)"
            ),
        }
    }

    /// Describes the end of the standstill.
    pub fn describe_end(&self, seen: &[SeenRank]) -> String {
        let seconds = self.stands_s;
        if self.kind == Kind::Waiting {
            return format!("the ranks go on after {seconds:.0} s");
        }
        let names = name_ranks(&self.ranks, seen);
        let go = if self.ranks.len() == 1 { "goes" } else { "go" };
        format!("{names} {go} on after {seconds:.0} s")
    }
}

/// Describes the work of a rank that makes no progress, in brackets.
fn describe_work(sign: &Sign) -> String {
    let steps = format!("the steps before took {:.2} s each", sign.step_s);
    match (sign.step_s > 0.0, sign.is_busy) {
        (true, true) => format!(" ({steps})"),
        (true, false) => format!(" ({steps}; it uses no processor)"),
        (false, true) => String::new(),
        (false, false) => " (it uses no processor)".to_owned(),
    }
}

/// Names ranks, at least one, with the host of the first one, and the others' where they differ.
pub(super) fn name_ranks(ranks: &[usize], seen: &[SeenRank]) -> String {
    let mut hosts: Vec<&str> = Vec::new();
    for &rank in ranks {
        if !hosts.contains(&seen[rank].host.as_str()) {
            hosts.push(&seen[rank].host);
        }
    }
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    let ranks: Vec<_> = ranks.iter().map(ToString::to_string).collect();
    format!("{noun} {} on {}", join_few(&ranks), join_few(&hosts))
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

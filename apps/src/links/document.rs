//! The links between members as a document and as text.

use isochron_core::internal::{LengthTimes, SHORT_BYTES};
use isochron_hierarchy::network::{
    LinkCause, LinkFinding, LinkPart, LinkReport, MessageCurve, MessageTimes, TimedPair,
};
use isochron_hierarchy::printable::show_name;
use isochron_hierarchy::times::{find_median, find_scatter};
use isochron_plot::HeatMap;
use serde::Serialize;

use crate::documents::FormatVersion;
use crate::lines::{count, wrap};
use crate::shades::show_speed;
use crate::table::TextTable;

/// Findings that the line names.
const NAMED: usize = 3;

/// Most members whose matrix is printed.
const PRINTED: usize = 32;

/// The links between the hosts of a job, or between the ranks of one host.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct LinksDocument {
    /// Version of the format.
    schema: FormatVersion<1>,
    /// The same in one line.
    line: String,
    /// Bytes of the short messages and of the long ones.
    bytes: [usize; 2],
    /// The members, between which messages were timed.
    members: Vec<MemberDocument>,
    /// The levels of the network, from members that share no group to those that share the most.
    levels: Vec<LevelDocument>,
    /// What is slower than the links like it.
    findings: Vec<FindingDocument>,
    /// Median seconds of short messages while all members exchange messages, by sender and receiver; `null` where none were
    /// exchanged.
    short_s: Vec<Vec<Option<f64>>>,
    /// Median seconds of long messages, by sender and receiver; `null` where none were exchanged.
    long_s: Vec<Vec<Option<f64>>>,
}

/// A member.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct MemberDocument {
    /// Its name.
    pub name: String,
    /// Its rank.
    rank: usize,
    /// Numbers of the groups that hold it, the outermost first; empty if all are of one.
    groups: Vec<usize>,
}

/// A level.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct LevelDocument {
    /// Number of groups that two members of a pair share.
    shared: usize,
    /// Number of directed pairs.
    pairs: usize,
    /// Median seconds of a short message.
    short_s: f64,
    /// Median seconds of a long message.
    long_s: f64,
    /// Relative standard deviation of repeated messages of one length, by their median absolute deviation, in one of the pairs alone.
    noise: f64,
    /// The time of a message as a function of its bytes, in that pair.
    function: MessageCurve,
}

/// A part of the network that is slow.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct FindingDocument {
    /// Its members: one, or those of a pair or of two groups.
    members: Vec<String>,
    /// The likely cause.
    cause: LinkCause,
    /// The time of a message over that of the links like it; `null` for a loss.
    times: Option<f64>,
    /// The part of the data that was sent again, of a loss; else `null`.
    lost: Option<f64>,
    /// The same in words.
    line: String,
}

impl LinksDocument {
    /// Makes the document of what was found between these members, given by names and ranks, with long messages of these bytes and the [times](isochron_core::internal::time_lengths) of one pair of each level.
    pub fn new(
        members: &[(String, usize)],
        long_bytes: usize,
        found: LinkReport,
        functions: &[Vec<LengthTimes>],
    ) -> Self {
        let levels = found.list_levels().into_iter().zip(functions);
        let levels = levels.map(|(level, lengths)| describe_level(level, lengths)).collect();
        let findings: Vec<FindingDocument> =
            found.findings.iter().map(|finding| describe_finding(finding, members)).collect();
        let names = members.iter().zip(&found.groups);
        let matrix = |of: fn(&MessageTimes) -> f64| {
            let rows = found.times.iter();
            rows.map(|row| row.iter().map(|times| times.as_ref().map(of)).collect()).collect()
        };
        Self {
            schema: FormatVersion,
            line: describe_all(&findings, members.len()),
            bytes: [SHORT_BYTES, long_bytes],
            members: names
                .map(|((name, rank), groups)| MemberDocument {
                    name: name.clone(),
                    rank: *rank,
                    groups: groups.clone(),
                })
                .collect(),
            levels,
            findings,
            short_s: matrix(|times| times.short_s),
            long_s: matrix(|times| times.long_s),
        }
    }

    /// Lists the seconds of long messages, by their members and bytes.
    pub fn list_long(&self) -> Vec<(String, f64)> {
        let [_, bytes] = self.bytes;
        let mut all = Vec::new();
        for (from, row) in self.members.iter().zip(&self.long_s) {
            for (to, time_s) in self.members.iter().zip(row) {
                let name = format!("{} to {}, {bytes} bytes", from.name, to.name);
                all.extend(time_s.map(|time_s| (name, time_s)));
            }
        }
        all
    }

    /// Returns `true` if nothing is slow.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    /// Draws the rates of long messages as a heat map (SVG).
    pub fn draw(&self) -> String {
        let fastest_s = self.find_fastest_s();
        let rows = self.long_s.iter();
        let map = HeatMap {
            title: self.title(),
            names: self.members.iter().map(|member| member.name.clone()).collect(),
            x_title: "to".to_owned(),
            values: rows
                .map(|row| row.iter().map(|time_s| Some(fastest_s / (*time_s)?)).collect())
                .collect(),
            unit: "of the fastest rate".to_owned(),
        };
        map.draw()
    }

    /// Returns the seconds of the fastest long message.
    fn find_fastest_s(&self) -> f64 {
        self.long_s.iter().flatten().flatten().copied().fold(f64::INFINITY, f64::min)
    }

    /// Returns what the document is about.
    fn title(&self) -> String {
        let [short, long] = self.bytes;
        format!("messages of {short} B and {}, in pairs at once", show_bytes(long))
    }

    /// Lists the members and the cause of each finding.
    pub fn list_findings(&self) -> impl Iterator<Item = (&[String], LinkCause)> {
        self.findings.iter().map(|finding| (&*finding.members, finding.cause))
    }

    /// Returns what was found in one line.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Formats the text for people; its last line tells it all. Prose has at most `width` characters a line.
    pub fn format(&self, width: usize) -> String {
        self.describe(width) + &self.line + "\n"
    }

    /// Formats the text for people without the line.
    pub fn describe(&self, width: usize) -> String {
        let mut table = TextTable::new(1, "level|pairs|short|long|rate|noise");
        for level in &self.levels {
            let rate = self.bytes[1] as f64 / level.long_s;
            table.add_row([
                self.name_level(level.shared),
                level.pairs.to_string(),
                show_seconds(level.short_s),
                show_seconds(level.long_s),
                format!("{}/s", show_bytes(rate as usize)),
                format!("{:.1} %", 100.0 * level.noise),
            ]);
        }
        let mut text = format!("{}\n{table}\n", wrap(&self.title(), width));
        if self.members.len() <= PRINTED {
            text += &self.draw_matrix(width);
            text.push('\n');
        }
        for finding in self.findings.iter().filter(|_| self.findings.len() > NAMED) {
            text += &wrap(&format!("slow: {}", finding.line), width);
        }
        text
    }

    fn name_level(&self, shared: usize) -> String {
        match (shared, self.levels.len()) {
            (_, 1) => "all".to_owned(),
            (0, _) => "between groups".to_owned(),
            (1, 2) => "within a group".to_owned(),
            (shared, _) => format!("within a group {shared}"),
        }
    }

    /// Draws the rates of long messages in percent of the fastest, the darker the slower.
    fn draw_matrix(&self, width: usize) -> String {
        let fastest_s = self.find_fastest_s();
        let numbers: String = (1..=self.members.len()).map(|number| format!("|{number}")).collect();
        let mut table = TextTable::new(2, &format!("|from \\ to{numbers}"));
        for (number, (member, row)) in self.members.iter().zip(&self.long_s).enumerate() {
            let cells = row.iter().map(|time| match time {
                Some(time_s) => show_speed(Some(fastest_s / time_s)),
                None => "- ".to_owned(),
            });
            table.add_row([(number + 1).to_string(), member.name.clone()].into_iter().chain(cells));
        }
        format!("{}{table}", wrap("rate of long messages in % of the fastest", width))
    }
}

/// Describes a level by the times of its pairs, and of messages of growing lengths in one of them.
fn describe_level(
    (shared, pairs): (usize, Vec<TimedPair>),
    lengths: &[LengthTimes],
) -> LevelDocument {
    let median = |of: fn(&MessageTimes) -> f64| {
        find_median(&pairs.iter().map(|(_, times)| of(times)).collect::<Vec<_>>())
    };
    let points = lengths.iter().map(|(bytes, times_s)| (*bytes as f64, find_median(times_s)));
    let noise = lengths.iter().map(|(_, times_s)| find_scatter(times_s) / find_median(times_s));
    LevelDocument {
        shared,
        pairs: pairs.len(),
        short_s: median(|times| times.short_s),
        long_s: median(|times| times.long_s),
        noise: find_median(&noise.collect::<Vec<_>>()),
        function: MessageCurve::new(points),
    }
}

fn describe_finding(finding: &LinkFinding, members: &[(String, usize)]) -> FindingDocument {
    let name = |member: usize| members[member].0.clone();
    let all = |list: &[usize]| list.iter().map(|&member| name(member)).collect::<Vec<String>>();
    let join = |list: &[usize]| {
        let shown: Vec<String> =
            all(list).iter().map(|name| show_name(name).into_owned()).collect();
        shown.join(", ")
    };
    let (of, what) = match &finding.part {
        LinkPart::Member { member, sends, receives } => {
            let side = match (sends, receives) {
                (true, false) => "what it sends",
                (false, true) => "what it receives",
                _ => "both ways",
            };
            (all(&[*member]), format!("{}, {side}", join(&[*member])))
        }
        LinkPart::Pair { from, to } => {
            (all(&[*from, *to]), format!("{} and {}", join(&[*from]), join(&[*to])))
        }
        LinkPart::Groups([one, other]) => {
            ([all(one), all(other)].concat(), format!("between {} and {}", join(one), join(other)))
        }
    };
    let cause = describe_cause(finding.cause);
    let is_loss = finding.cause == LinkCause::Loss;
    FindingDocument {
        members: of,
        cause: finding.cause,
        times: (!is_loss).then_some(finding.times),
        lost: is_loss.then_some(finding.times),
        line: if is_loss {
            format!("{what}: {:.2} % sent again: {cause}", 100.0 * finding.times)
        } else {
            format!("{what}: {:.1} times as long: {cause}", finding.times)
        },
    }
}

/// Describes a cause, with the shape that shows it.
fn describe_cause(cause: LinkCause) -> &'static str {
    match cause {
        LinkCause::Adapter => "slower with all others (adapter, cable or driver)",
        LinkCause::Uplink => "slower between the two groups (uplink or switch)",
        LinkCause::Route => "slower between the two alone (route)",
        LinkCause::Latency => "slower at short messages (interrupts or power saving)",
        LinkCause::Contention => "slower only when others send too (contention or flow control)",
        LinkCause::Progress => "slower only while devices compute (progress of messages)",
        LinkCause::Loss => "it loses more than others (cable, connector or switch port)",
    }
}

fn describe_all(findings: &[FindingDocument], members: usize) -> String {
    if findings.is_empty() {
        return format!("sound: links of {}", count(members as u64, "member"));
    }
    let named: Vec<&str> =
        findings.iter().take(NAMED).map(|finding| finding.line.as_str()).collect();
    let more = match findings.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {}", count(more as u64, "more finding")),
    };
    format!("slow: {}{more}", named.join("; "))
}

fn show_seconds(seconds: f64) -> String {
    match seconds {
        _ if seconds < 1e-3 => format!("{:.1} µs", 1e6 * seconds),
        _ if seconds < 1.0 => format!("{:.2} ms", 1e3 * seconds),
        _ => format!("{seconds:.2} s"),
    }
}

fn show_bytes(bytes: usize) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{:.0} kB", bytes as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.0} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

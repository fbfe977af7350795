//! The result of a check as a document and as text.

use std::collections::BTreeMap;

use isochron_devices::measure::ProductCount;
use isochron_hierarchy::health::{
    ComparedWith, DeviceHealth, DeviceRound, Health, SlowCause, find_apart,
};
use isochron_hierarchy::printable::{escape, show_name};
use isochron_hierarchy::times::find_median;
use serde::Serialize;
use serde_json::{Map, Value};

use super::devices::{HealthDevices, JobDevice};
use super::heat_map::{HeatRow, format_heat_map};
use super::history::ChangeDocument;
use super::sizes::SIZES;
use crate::documents::FormatVersion;
use crate::lines::{count, wrap};
use crate::links::document::LinksDocument;
use crate::table::TextTable;

/// Facts of a host that tell a device from others, and not its state.
const OF_PLACE: [&str; 2] = ["machine", "uuid"];

/// Devices that the line names.
const NAMED: usize = 3;

/// The result of a check.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct HealthDocument {
    /// Version of the format.
    schema: FormatVersion<1>,
    /// Condition of the job: that of its worst device.
    health: Health,
    /// The same in one line, with the devices that are not healthy and the causes.
    line: String,
    /// Work that was timed.
    measured_with: String,
    /// Rounds of measurements.
    rounds: usize,
    /// Unusual findings about the hosts, the devices and the model store, one line each.
    notices: Vec<String>,
    /// Devices of the job.
    pub(super) devices: Vec<CheckedDeviceDocument>,
    /// Hosts that are slower than those like them, several together, by the means of their devices' speeds.
    slow_hosts: Vec<SlowHostDocument>,
    /// Links between the hosts; `null` for one host, and if the check was cut off before.
    pub(super) links: Option<LinksDocument>,
    /// Devices and links that have changed since earlier checks of `--history`.
    pub(super) changes: Vec<ChangeDocument>,
}

/// A host that is slower than those like it.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct SlowHostDocument {
    /// The host.
    host: String,
    /// Its speed over the median of all hosts with devices of this model.
    speed: f64,
}

/// A device of the job.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct CheckedDeviceDocument {
    /// Its rank.
    pub(super) rank: usize,
    /// Its host.
    pub(super) host: String,
    /// Its name.
    pub(super) device: String,
    /// Its model: devices of equal models and limits are compared.
    pub(super) model: String,
    /// Limits of its host; empty without any.
    limits: String,
    /// Its condition.
    pub(super) health: Health,
    /// The likely cause; `null` if it is not slow.
    cause: Option<SlowCause>,
    /// The times that it was compared with: `class` (devices of its model and limits), `other-limits` (devices of its model,
    /// because few have its limits), `history` (its own in the model store), or `nothing`.
    compared_with: ComparedWith,
    /// Its speed over that of its class, where it is slow, or else over all sizes; `null` without a comparison.
    pub(super) speed: Option<f64>,
    /// Part by which it has to be slower to be found beyond the noise; `null` without a comparison.
    found_from: Option<f64>,
    /// Facts of its host that differ from those of most healthy devices of its model, or from those of its history.
    facts: Vec<String>,
    /// The reason why it failed; `null` if it did not.
    failure: Option<String>,
    /// Products of whole numbers of each of its cores, of which every element was compared.
    pub(super) products: u64,
    /// Number of wrong products, at least.
    pub(super) wrong_products: u64,
    /// Its speeds by size.
    pub(super) sizes: Vec<CheckedSizeDocument>,
}

/// The speed of a device at a size.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct CheckedSizeDocument {
    /// Elements of C.
    pub(super) units: u64,
    /// Median time of an update with all devices at work, in seconds; `null` if it has none.
    t_s: Option<f64>,
    /// Speed over that of the class with all devices at work; `null` without a comparison.
    pub(super) speed: Option<f64>,
    /// Speed over that of the class with the other devices of the host idle; `null` if that was not measured.
    pub(super) alone: Option<f64>,
    /// Speed of copies of C to the device and back over that of the class; `null` if there are none.
    pub(super) transfers: Option<f64>,
}

/// A relative speed of a size, as far as it was measured.
type SpeedOf = fn(&CheckedSizeDocument) -> Option<f64>;

impl HealthDocument {
    /// Makes the document of the devices, from what was found about each.
    pub fn new(
        devices: &HealthDevices,
        found: Vec<DeviceHealth>,
        failures: &[Option<String>],
        products: &[ProductCount],
        links: Option<LinksDocument>,
        notices: Vec<String>,
    ) -> Self {
        let healthy: Vec<bool> =
            found.iter().map(|device| device.health == Health::Healthy).collect();
        let found = found.into_iter().zip(failures).enumerate();
        let documents: Vec<CheckedDeviceDocument> = found
            .map(|(index, (found, failure))| {
                let JobDevice { rank, source, .. } = &devices.devices[index];
                CheckedDeviceDocument {
                    rank: *rank,
                    host: source.place.clone(),
                    device: source.device.name.clone(),
                    model: devices.model(index).to_owned(),
                    limits: devices.devices[index].describe_limits(),
                    facts: list_facts(devices, index, &healthy, &found),
                    failure: failure.clone(),
                    products: products[index].all,
                    wrong_products: products[index].wrong,
                    sizes: list_sizes(devices, index, &found),
                    health: found.health,
                    cause: found.cause,
                    compared_with: found.compared_with,
                    speed: found.speed,
                    found_from: found.found_from,
                }
            })
            .collect();
        let work = devices.work();
        let of_devices =
            documents.iter().map(|device| device.health).max().unwrap_or(Health::Unknown);
        let slow_links = links.as_ref().filter(|links| !links.is_sound()).map(LinksDocument::line);
        let health = if slow_links.is_some() { of_devices.max(Health::Slow) } else { of_devices };
        let line = describe_job(of_devices, &documents);
        let line = match slow_links {
            None => line,
            Some(slow) if of_devices < Health::Slow => slow.to_owned(),
            Some(slow) => format!("{line}; {}", slow.trim_start_matches("slow: ")),
        };
        Self {
            schema: FormatVersion,
            health,
            line,
            measured_with: format!("update of C, {}, panels of {}", work.element, work.width),
            rounds: devices.rounds.len(),
            notices,
            devices: documents,
            slow_hosts: Vec::new(),
            links,
            changes: Vec::new(),
        }
    }

    /// Finds hosts that are slower than those like them, several together. `usual_s` may tell a device's usual seconds in earlier checks by
    /// its [name](Self::list_times).
    pub fn find_slow_hosts(&mut self, usual_s: impl Fn(&str) -> Option<f64>) {
        let mut classes: BTreeMap<[&str; 2], BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
        for device in &self.devices {
            let Some((units, t_s)) = device.find_largest() else { continue };
            let rate = units as f64 / usual_s(&device.name_at(units)).unwrap_or(t_s);
            let class = classes.entry([&device.model, &device.limits]).or_default();
            class.entry(&device.host).or_default().push(rate);
        }
        let mut slow = Vec::new();
        for hosts in classes.values() {
            let means = hosts.values().map(|rates| rates.iter().sum::<f64>() / rates.len() as f64);
            let speeds: Vec<f64> = means.collect();
            let usual = find_median(&speeds);
            slow.extend(find_apart(&speeds).into_iter().filter_map(|host| {
                let name = hosts.keys().nth(host)?;
                Some(SlowHostDocument { host: (*name).to_owned(), speed: speeds[host] / usual })
            }));
        }
        self.slow_hosts = slow;
        if self.slow_hosts.is_empty() {
            return;
        }
        let together = self.describe_slow_hosts();
        self.line = match self.health {
            Health::Slow | Health::Wrong | Health::Failed => format!("{}; {together}", self.line),
            _ => format!("{}: {together}", Health::Slow),
        };
        self.health = self.health.max(Health::Slow);
    }

    /// Describes the hosts that are slow together, the slowest first.
    fn describe_slow_hosts(&self) -> String {
        let parts = self.slow_hosts.iter().map(|slow| slow.speed);
        let [least, most] =
            [f64::min, f64::max].map(|choose| 100.0 * parts.clone().reduce(choose).unwrap_or(1.0));
        let names: Vec<_> = self.slow_hosts.iter().map(|slow| show_name(&slow.host)).collect();
        let hosts = count(names.len() as u64, "host");
        format!("{hosts} at {least:.0} to {most:.0} % of the others, {}", names.join(", "))
    }

    /// Lists the seconds of an update of each device's largest size, and those of the links' long messages, by name.
    pub fn list_times(&self) -> [BTreeMap<String, f64>; 2] {
        let devices = self.devices.iter().filter_map(|device| {
            let (units, seconds) = device.find_largest()?;
            Some((device.name_at(units), seconds))
        });
        let links = self.links.iter().flat_map(LinksDocument::list_long);
        [devices.collect(), links.collect()]
    }

    /// The condition of the job.
    pub fn health(&self) -> Health {
        self.health
    }

    /// Formats the text for people; its last line tells it all. Prose has at most `width` characters a line.
    pub fn format(&self, width: usize) -> String {
        let rounds = count(self.rounds as u64, "round");
        let above = format!("{}: {rounds} of {SIZES} sizes", self.measured_with);
        let mut table = TextTable::new(3, "host|device|health|rank|speed|found from|10⁹ op/s");
        for device in &self.devices {
            table.add_row([
                device.host.clone(),
                device.device.clone(),
                device.health.to_string(),
                device.rank.to_string(),
                show_percent(device.speed),
                show_percent(device.found_from.map(|part| 1.0 - part)),
                self.show_rate(device),
            ]);
        }
        let mut text = format!("{}\n{table}\n", wrap(&above, width));
        let mut models: Vec<&str> = self.devices.iter().map(|device| &*device.model).collect();
        models.sort_unstable();
        models.dedup();
        for model in models {
            text += &self.draw_heat_map(model, width);
            text.push('\n');
        }
        text += &self.links.as_ref().map_or(String::new(), |links| links.describe(width) + "\n");
        text += &wrap(&self.describe_products(), width);
        for change in &self.changes {
            text += &wrap(&format!("changed: {}", change.describe()), width);
        }
        for notice in &self.notices {
            text += &wrap(&format!("note: {notice}"), width);
        }
        text + &self.line + "\n"
    }

    /// Draws the speeds of the devices of a model. A device has further lines for the speeds while its neighbours were idle, and for
    /// those of copies, if they were measured.
    fn draw_heat_map(&self, model: &str, width: usize) -> String {
        let members = self.devices.iter().filter(|device| device.model == model);
        let mut sizes = members.clone().flat_map(|device| device.sizes.iter());
        if sizes.all(|size| size.speed.is_none()) {
            return String::new();
        }
        let passes: [(&str, SpeedOf); 3] = [
            ("together", |size| size.speed),
            ("alone", |size| size.alone),
            ("copies", |size| size.transfers),
        ];
        let rows = members.clone().flat_map(|device| {
            passes.map(|(pass, speed)| HeatRow {
                names: [&device.host, &device.device, pass].map(str::to_owned),
                speeds: device.sizes.iter().map(speed).collect(),
            })
        });
        let rows = rows.filter(|row| row.speeds.iter().any(Option::is_some));
        let first = members.clone().next().into_iter();
        let units: Vec<u64> =
            first.flat_map(|device| device.sizes.iter().map(|size| size.units)).collect();
        format_heat_map(model, &units, rows.collect(), width)
    }

    /// Says how many products were compared, and the rate of errors that they would have shown with 99.9 %.
    fn describe_products(&self) -> String {
        let compared =
            self.devices.iter().map(|device| device.products).filter(|&products| products > 0);
        match compared.min() {
            Some(least) => {
                let rate = 1.0 - 1e-3_f64.powf(1.0 / least as f64);
                format!(
                    "{least} products of each core of the devices that took part were compared element by element: one wrong in {:.0} would have been \
                     found with 99.9 %",
                    1.0 / rate
                )
            }
            None => "no products were compared".to_owned(),
        }
    }

    /// Shows the operations per second of the largest size.
    fn show_rate(&self, device: &CheckedDeviceDocument) -> String {
        let panels = self.measured_with.rsplit(' ').next();
        let width: Option<f64> = panels.and_then(|width| width.parse().ok());
        let largest = device.sizes.last();
        let rate = largest
            .zip(width)
            .and_then(|(size, width)| Some(2.0 * width * size.units as f64 / size.t_s? / 1e9));
        rate.map_or("-".to_owned(), |rate| format!("{rate:.2}"))
    }
}

impl CheckedDeviceDocument {
    /// Returns the elements of C and the seconds of its largest size that was timed.
    fn find_largest(&self) -> Option<(u64, f64)> {
        self.sizes.iter().rev().find_map(|size| Some((size.units, size.t_s?)))
    }

    /// Names the device at these elements of C, as checks are kept.
    fn name_at(&self, units: u64) -> String {
        format!("{} {} at {units} units", self.host, self.device)
    }

    /// Describes a device that is not healthy.
    fn describe(&self) -> String {
        let name = format!(
            "{} of rank {} on {}",
            show_name(&self.device),
            self.rank,
            show_name(&self.host)
        );
        match (self.health, self.cause) {
            (Health::Failed, _) => {
                let reason = self.failure.as_deref().unwrap_or("it did not compute");
                format!("{name} failed: {}", escape(reason))
            }
            (Health::Wrong, _) => {
                let Self { products, wrong_products, .. } = self;
                format!("{name} computed {wrong_products} of {products} products wrongly")
            }
            (Health::Slow, Some(cause)) => {
                let percent = 100.0 * self.speed.unwrap_or(0.0);
                let digits = usize::from(percent < 1.0);
                let facts: String = self.facts.iter().map(|fact| format!(", {fact}")).collect();
                let than = match self.compared_with {
                    ComparedWith::History => "of earlier",
                    _ => "of its class",
                };
                format!("{name} at {percent:.digits$} % {than}: {}{facts}", describe_cause(cause))
            }
            _ if self.compared_with != ComparedWith::Nothing => {
                format!("{name}: the check was cut off before it was compared")
            }
            _ => format!("{name}: no class of its model and no history"),
        }
    }
}

/// Describes a cause, with the shape that shows it.
fn describe_cause(cause: SlowCause) -> &'static str {
    match cause {
        SlowCause::Clock => "slower at every size (clock, quota or power cap)",
        SlowCause::Memory => "slower at large sizes (its memory)",
        SlowCause::Start => "slower at small sizes (start of an update)",
        SlowCause::Link => "slower copies (PCIe or host link)",
        SlowCause::Neighbours => "slower beside its neighbours (shared memory, NUMA or quota)",
        SlowCause::Heat => "slower and slower during the check (heat)",
    }
}

/// Describes the health of the job in one line.
fn describe_job(health: Health, devices: &[CheckedDeviceDocument]) -> String {
    if devices.is_empty() {
        return format!("{health}: there are no devices");
    }
    let mut hosts: Vec<&str> = devices.iter().map(|device| &*device.host).collect();
    hosts.sort_unstable();
    hosts.dedup();
    if health == Health::Healthy {
        let (devices, hosts) = (devices.len() as u64, hosts.len() as u64);
        return format!("healthy: {} on {}", count(devices, "device"), count(hosts, "host"));
    }
    let mut unwell: Vec<&CheckedDeviceDocument> =
        devices.iter().filter(|device| device.health != Health::Healthy).collect();
    unwell.sort_by(|a, b| {
        let speed = |device: &CheckedDeviceDocument| device.speed.unwrap_or(1.0);
        b.health.cmp(&a.health).then(speed(a).total_cmp(&speed(b)))
    });
    let named = unwell.iter().take(NAMED).map(|device| device.describe());
    let named = named.collect::<Vec<String>>().join("; ");
    match unwell.len().saturating_sub(NAMED) {
        0 => format!("{health}: {named}"),
        more => format!("{health}: {named}; and {}", count(more as u64, "more device")),
    }
}

/// Lists the facts of a slow device's host that differ from those of most healthy devices of its model, or of its history.
fn list_facts(
    devices: &HealthDevices,
    index: usize,
    healthy: &[bool],
    found: &DeviceHealth,
) -> Vec<String> {
    if found.health != Health::Slow {
        return Vec::new();
    }
    let device = &devices.devices[index];
    if found.compared_with == ComparedWith::History {
        let changed = device.history.iter().flat_map(|known| &known.changed);
        return changed.map(|fact| format!("other {fact} than then")).collect();
    }
    let peers = (0..devices.devices.len())
        .filter(|&other| healthy[other] && devices.model(other) == devices.model(index))
        .map(|other| read_facts(&devices.devices[other]));
    compare_facts(&read_facts(device), &peers.collect::<Vec<_>>())
}

/// Returns the facts of a device's host.
fn read_facts(device: &JobDevice) -> Map<String, Value> {
    match serde_json::to_value(&device.source.conditions) {
        Ok(Value::Object(facts)) => facts,
        _ => Map::new(),
    }
}

/// Describes the facts that differ from those of most peers.
fn compare_facts(own: &Map<String, Value>, peers: &[Map<String, Value>]) -> Vec<String> {
    let show = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    own.iter()
        .filter(|(name, _)| !OF_PLACE.contains(&name.as_str()))
        .filter_map(|(name, value)| {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            for peer in peers {
                *counts.entry(show(peer.get(name)?)).or_default() += 1;
            }
            let (usual, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
            let (name, value) = (name.replace('_', " "), show(value));
            (value != usual).then(|| format!("{name} {value}, others {usual}"))
        })
        .collect()
}

/// Lists the speeds of a device by size.
fn list_sizes(
    devices: &HealthDevices,
    index: usize,
    found: &DeviceHealth,
) -> Vec<CheckedSizeDocument> {
    let of_size = |speeds: &[Option<f64>], size: usize| speeds.get(size).copied().flatten();
    let rounds: Vec<&DeviceRound> =
        devices.rounds.iter().filter_map(|round| round[index].as_ref()).collect();
    let sizes = (0..SIZES).map(|size| {
        let times_s = rounds.iter().filter_map(|round| of_size(&round.together_s, size));
        let times_s: Vec<f64> = times_s.collect();
        CheckedSizeDocument {
            units: devices.count_units(index, size),
            t_s: (!times_s.is_empty()).then(|| find_median(&times_s)),
            speed: of_size(&found.speeds, size),
            alone: of_size(&found.alone, size),
            transfers: of_size(&found.transfers, size),
        }
    });
    sizes.collect()
}

/// Shows a part in percent.
fn show_percent(part: Option<f64>) -> String {
    part.map_or("-".to_owned(), |part| format!("{:.0} %", 100.0 * part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(host: &str, health: Health, cause: Option<SlowCause>) -> CheckedDeviceDocument {
        CheckedDeviceDocument {
            rank: 1,
            host: host.to_owned(),
            device: "cpu".to_owned(),
            model: "processor, 1 core".to_owned(),
            limits: String::new(),
            health,
            cause,
            compared_with: if health == Health::Unknown {
                ComparedWith::Nothing
            } else {
                ComparedWith::Class
            },
            speed: cause.map(|_| 0.512),
            found_from: Some(0.05),
            facts: cause.map(|_| "quota 0.40, others 0.80".to_owned()).into_iter().collect(),
            failure: (health == Health::Failed).then(|| "lost\nits bus".to_owned()),
            products: 70_000,
            wrong_products: 0,
            sizes: vec![CheckedSizeDocument {
                units: 1_000_000,
                t_s: Some(0.512),
                speed: cause.map(|_| 0.512),
                alone: None,
                transfers: None,
            }],
        }
    }

    #[test]
    fn a_line_tells_the_worst_first_and_counts_the_others() {
        let healthy = || device("a", Health::Healthy, None);
        assert_eq!(
            describe_job(Health::Healthy, &[healthy(), healthy()]),
            "healthy: 2 devices on 1 host"
        );
        let none = describe_job(Health::Unknown, &[]);
        assert_eq!(none, "unknown: there are no devices");
        let unknown = || device("c", Health::Unknown, None);
        let slow = device("b", Health::Slow, Some(SlowCause::Clock));
        let line = describe_job(Health::Slow, &[unknown(), healthy(), slow]);
        assert_eq!(
            line,
            "slow: cpu of rank 1 on b at 51 % of its class: slower at every size (clock, quota or power cap), \
             quota 0.40, others 0.80; cpu of rank 1 on c: no class of its model and no history"
        );
        let failed = device("d", Health::Failed, None);
        let line = describe_job(Health::Failed, &[unknown(), unknown(), unknown(), failed]);
        assert!(
            line.starts_with("failed: cpu of rank 1 on d failed: lost\\nits bus; cpu of"),
            "{line}"
        );
        assert!(line.ends_with("; and 1 more device"), "{line}");
    }

    #[test]
    fn a_text_has_a_table_a_heat_map_and_the_line_last() {
        let devices = vec![
            device("a", Health::Healthy, None),
            device("b", Health::Slow, Some(SlowCause::Memory)),
        ];
        let document = HealthDocument {
            schema: FormatVersion,
            health: Health::Slow,
            line: describe_job(Health::Slow, &devices),
            measured_with: "update of C, f64, panels of 256".to_owned(),
            rounds: 10,
            notices: vec!["a notice".to_owned()],
            devices,
            slow_hosts: Vec::new(),
            links: None,
            changes: Vec::new(),
        };
        let text = document.format(80);
        // 2 × 256 × 10⁶ operations in 0.512 s.
        for part in ["10 rounds of 7 sizes", "1.00", "51 %", "95 %", "51▓", "note: a notice"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(text.lines().last(), Some(&*document.line));
    }

    #[test]
    fn hosts_that_are_slow_together_are_named_by_the_means_of_their_devices() {
        let hosts = (0..20).flat_map(|host| {
            let t_s = if host < 3 { 0.55 + 0.01 * f64::from(host) } else { 0.5 };
            [0.99, 1.01].map(|part| {
                let mut device = device(&format!("node-{host}"), Health::Healthy, None);
                device.sizes[0].t_s = Some(part * t_s);
                device
            })
        });
        let devices: Vec<CheckedDeviceDocument> = hosts.collect();
        let mut document = HealthDocument {
            schema: FormatVersion,
            health: Health::Healthy,
            line: describe_job(Health::Healthy, &devices),
            measured_with: String::new(),
            rounds: 5,
            notices: Vec::new(),
            devices,
            slow_hosts: Vec::new(),
            links: None,
            changes: Vec::new(),
        };
        document.find_slow_hosts(|_| Some(0.5));
        assert_eq!(document.health(), Health::Healthy);
        document.find_slow_hosts(|_| None);
        let line = "slow: 3 hosts at 88 to 91 % of the others, node-2, node-1, node-0";
        assert_eq!((document.health(), &*document.line), (Health::Slow, line));
    }

    #[test]
    fn facts_that_differ_from_those_of_most_are_told() {
        let facts = |quota: Value| {
            let facts =
                serde_json::json!({ "quota": quota, "governor": "performance", "machine": quota });
            facts.as_object().expect("facts").clone()
        };
        let peers = [Value::Null, Value::Null, "0.80".into()].map(facts);
        let told = compare_facts(&facts("0.40".into()), &peers);
        assert_eq!(told, ["quota 0.40, others none"]);
        assert_eq!(compare_facts(&facts(Value::Null), &peers), Vec::<String>::new());
        assert_eq!(compare_facts(&facts(Value::Null), &[]), Vec::<String>::new());
    }
}

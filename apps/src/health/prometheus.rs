//! The result of a check as metrics for Prometheus's node exporter.

use std::fmt::Write as _;

use super::document::{CheckedDeviceDocument, HealthDocument};

/// A metric of each device: its name, its meaning and its value.
type DeviceMetric = (&'static str, &'static str, fn(&CheckedDeviceDocument) -> Option<f64>);

const METRICS: [DeviceMetric; 4] = [
    ("isochron_device_health", "0 healthy, 1 unknown, 2 slow, 3 wrong, 4 failed", |device| {
        Some(f64::from(device.health as u8))
    }),
    ("isochron_device_speed_ratio", "Speed over that of the class", |device| device.speed),
    ("isochron_device_products", "Products that were compared element by element", |device| {
        Some(device.products as f64)
    }),
    ("isochron_device_wrong_products", "Number of wrong products, at least", |device| {
        Some(device.wrong_products as f64)
    }),
];

impl HealthDocument {
    /// Formats the metrics of a check that ended at this moment, in seconds since 1970.
    ///
    /// # References
    /// Prometheus's text format, version 0.0.4, which the textfile collector of the node exporter reads.
    pub fn format_metrics(&self, at_s: u64) -> String {
        let mut text = String::new();
        let head = |name: &str, help: &str| format!("# HELP {name} {help}\n# TYPE {name} gauge\n");
        text += &head(
            "isochron_health",
            "The worst of the job: 0 healthy, 1 unknown, 2 slow, 3 wrong, 4 failed",
        );
        let _ = writeln!(text, "isochron_health {}", self.health() as u8);
        text += &head("isochron_health_timestamp_seconds", "End of the check");
        let _ = writeln!(text, "isochron_health_timestamp_seconds {at_s}");
        for (name, help, value) in METRICS {
            text += &head(name, help);
            for device in &self.devices {
                if let Some(value) = value(device) {
                    let [host, of] = [&device.host, &device.device].map(|label| escape(label));
                    let rank = device.rank;
                    let _ = writeln!(
                        text,
                        "{name}{{host=\"{host}\",device=\"{of}\",rank=\"{rank}\"}} {value}"
                    );
                }
            }
        }
        if let Some(links) = &self.links {
            let name = "isochron_link_slow";
            text += &head(name, "Slow links, by their members and the likely cause");
            for (members, cause) in links.list_findings() {
                let members = escape(&members.join(","));
                let _ = writeln!(text, "{name}{{members=\"{members}\",cause=\"{cause}\"}} 1");
            }
        }
        text
    }
}

/// Writes a label as the format has it.
fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_stay_in_their_quotes() {
        assert_eq!(escape("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}

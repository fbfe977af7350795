//! Hosts as boxes within boxes, coloured by device.

use isochron_plot::{Anchor, Svg, SvgRect};

use super::boxes::{Labelled, label_host};
use super::host::{HostReport, ranges_text};

/// Pixels between boxes, and from a box to its parts.
const GAP: f64 = 6.0;

/// Pixels from one line of text to the next, and of a character of average width.
const LINE: f64 = 15.0;
const CHARACTER: f64 = 6.4;

/// Pixels from one entry of a legend to the next.
const ENTRY: f64 = 1.4 * LINE;

/// Width over height that a box with many parts aims for.
const ASPECT: f64 = 1.6;

/// Fills of the devices, which the colour-blind can tell apart.
const COLORS: [&str; 8] =
    ["#a6cee3", "#fdbf6f", "#b2df8a", "#cab2d6", "#fb9a99", "#ffff99", "#8dd3c7", "#d9a97c"];
const HOST_COLOR: &str = "#c8c8c8";
const GPU_COLOR: &str = "#d7f0c0";
const MEMORY_COLOR: &str = "#f2ead0";

/// A box with its place in the one around it.
struct PlacedBox {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    lines: Vec<String>,
    /// A core that several devices share has a stripe of each.
    fills: Vec<&'static str>,
    parts: Vec<PlacedBox>,
}

/// A host with its legend below it.
struct Sheet {
    root: PlacedBox,
    /// Colours with their meaning.
    legend: Vec<(&'static str, String)>,
    width: f64,
    height: f64,
}

impl Sheet {
    fn new(host: &HostReport, is_named: bool) -> Self {
        let devices = list_devices(host);
        let mut labelled = label_host(host);
        labelled.facts.extend(is_named.then(|| host.caption()));
        let root = place_part(&labelled, &devices);
        let legend = make_legend(host, &devices);
        let entries = legend.iter().map(|(_, text)| text_width(text) + 4.0 * GAP);
        Self {
            width: entries.fold(root.width, f64::max),
            height: root.height + GAP + ENTRY * legend.len() as f64,
            root,
            legend,
        }
    }

    fn draw(&self, svg: &mut Svg, x: f64, y: f64) {
        self.root.draw(svg, x, y);
        for (i, (color, label)) in self.legend.iter().enumerate() {
            let y = y + self.root.height + GAP + ENTRY * i as f64;
            let sample = SvgRect { x, y: y + 3.0, width: 12.0, height: 12.0 };
            svg.outlined_rect(sample, color);
            svg.text((x + 20.0, y + 13.0), Anchor::Start, label);
        }
    }
}

/// Draws hosts as an SVG document; of several, each has its name and ranks.
pub fn draw_hosts(hosts: &[HostReport]) -> String {
    let sheets = hosts.iter().map(|host| Sheet::new(host, hosts.len() > 1));
    let sheets: Vec<Sheet> = sheets.collect();
    let sizes: Vec<(f64, f64)> = sheets.iter().map(|s| (s.width, s.height)).collect();
    let rows = Rows::arrange(&sizes, 0.0);
    let mut svg = Svg::new(rows.width, rows.height + GAP, 11);
    for (sheet, (x, y)) in sheets.iter().zip(rows.places) {
        sheet.draw(&mut svg, x, y + GAP);
    }
    svg.finish()
}

/// Returns the fill of a part that serves this device. `devices` are all devices' names, in the order of the legend.
fn choose_fill(devices: &[String], name: &str) -> &'static str {
    match devices.iter().position(|device| device == name) {
        Some(device) => COLORS[device % COLORS.len()],
        None if name.starts_with("host of") => HOST_COLOR,
        None => "white",
    }
}

fn list_devices(host: &HostReport) -> Vec<String> {
    let names = host.devices();
    names.map(|(rank, device)| host.device_name(rank, &device.name)).collect()
}

fn make_legend(host: &HostReport, devices: &[String]) -> Vec<(&'static str, String)> {
    let mut lines: Vec<(&str, String)> = Vec::new();
    for (name, (_, device)) in devices.iter().zip(host.devices()) {
        let n_cores = device.cores.len();
        let s = if n_cores == 1 { "" } else { "s" };
        let cores = ranges_text(&device.cores);
        let text = format!("{name}: {n_cores} core{s}, {cores}");
        lines.push((choose_fill(devices, name), text));
    }
    if host.gpus.iter().any(|gpu| gpu.driven.is_some()) {
        lines.push((HOST_COLOR, "host cores of GPUs".to_owned()));
    }
    lines
}

fn text_width(text: &str) -> f64 {
    CHARACTER * text.chars().count() as f64
}

/// Returns the lines of text in the box of a part.
fn text_lines(part: &Labelled) -> Vec<String> {
    let mut lines = vec![part.title.clone()];
    if part.is_leaf() {
        lines.extend(part.facts.iter().cloned());
        if part.cores.is_empty() && !part.role.is_empty() {
            lines.push(part.role.clone());
        }
    } else if !part.facts.is_empty() {
        lines[0] = format!("{}: {}", part.title, part.facts.join(", "));
    }
    lines
}

/// Returns the box of a part with its parts placed in it.
fn place_part(part: &Labelled, devices: &[String]) -> PlacedBox {
    let lines = text_lines(part);
    let fills = if !part.cores.is_empty() {
        part.role.split(", ").map(|name| choose_fill(devices, name)).collect()
    } else if part.is_leaf() {
        vec![GPU_COLOR]
    } else {
        vec!["white"]
    };
    let head = LINE * lines.len() as f64 + GAP;
    let titles = lines.iter().map(|line| text_width(line) + 2.0 * GAP);
    let bars = part.memory.iter().map(|line| text_width(line) + 4.0 * GAP);
    let least_width = titles.chain(bars).fold(0.0, f64::max);
    let children = part.parts.iter().map(|child| place_part(child, devices));
    let mut children: Vec<PlacedBox> = children.collect();
    let sizes: Vec<(f64, f64)> = children.iter().map(|b| (b.width, b.height)).collect();
    let rows = Rows::arrange(&sizes, least_width);
    let bars = place_memory_bars(&part.memory, rows.width - 2.0 * GAP, head);
    let below = head + bars.len() as f64 * (LINE + 2.0 * GAP);
    for (child, (x, y)) in children.iter_mut().zip(&rows.places) {
        (child.x, child.y) = (*x, y + below);
    }
    PlacedBox {
        x: 0.0,
        y: 0.0,
        width: rows.width,
        height: below + rows.height,
        lines,
        fills,
        parts: bars.into_iter().chain(children).collect(),
    }
}

/// Returns a box of this width for each NUMA node, from `top` downwards.
fn place_memory_bars(memory: &[String], width: f64, top: f64) -> Vec<PlacedBox> {
    memory
        .iter()
        .enumerate()
        .map(|(i, text)| PlacedBox {
            x: GAP,
            y: top + i as f64 * (LINE + 2.0 * GAP),
            width,
            height: LINE + GAP,
            lines: vec![text.clone()],
            fills: vec![MEMORY_COLOR],
            parts: Vec::new(),
        })
        .collect()
}

/// Boxes in rows of equally many.
struct Rows {
    /// The place of each box.
    places: Vec<(f64, f64)>,
    /// Size of all rows together, with the gaps around them.
    width: f64,
    height: f64,
}

impl Rows {
    /// Arranges boxes of these sizes so that all together come near [`ASPECT`]; they are at least `least_width` wide.
    fn arrange(sizes: &[(f64, f64)], least_width: f64) -> Self {
        let all = (1..=sizes.len().max(1)).map(|n_columns| {
            let (width, height) = size_of_rows(sizes, n_columns, least_width);
            let distance = (width / height / ASPECT).ln().abs();
            (distance, n_columns, width, height)
        });
        // There is at least one column.
        let best = all.min_by(|a, b| a.0.total_cmp(&b.0));
        let (_, n_columns, width, height) = best.unwrap_or_default();
        let (mut places, mut y) = (Vec::new(), 0.0);
        for row in sizes.chunks(n_columns) {
            let mut x = GAP;
            for (width, _) in row {
                places.push((x, y));
                x += width + GAP;
            }
            y += size_of_row(row).1;
        }
        Self { places, width, height }
    }
}

fn size_of_row(row: &[(f64, f64)]) -> (f64, f64) {
    let width: f64 = row.iter().map(|(width, _)| width + GAP).sum();
    let height = row.iter().map(|(_, height)| *height).fold(0.0, f64::max);
    (width + GAP, height + GAP)
}

fn size_of_rows(sizes: &[(f64, f64)], n_columns: usize, least_width: f64) -> (f64, f64) {
    sizes
        .chunks(n_columns)
        .map(size_of_row)
        .fold((least_width, 0.0), |all, row| (all.0.max(row.0), all.1 + row.1))
}

impl PlacedBox {
    fn draw(&self, svg: &mut Svg, x: f64, y: f64) {
        let width = self.width / self.fills.len() as f64;
        for (i, fill) in self.fills.iter().enumerate() {
            let column = SvgRect { x: x + width * i as f64, y, width, height: self.height };
            svg.outlined_rect(column, fill);
        }
        for (i, line) in self.lines.iter().enumerate() {
            let place = (x + GAP, y + LINE * (i + 1) as f64 - 1.0);
            svg.text(place, Anchor::Start, line);
        }
        for part in &self.parts {
            part.draw(svg, x + part.x, y + part.y);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::job::made_up::make_test_hosts;
    use super::super::job::plan_host;
    use super::*;
    use isochron_devices::{Grouping, Topology};

    fn read_host(xml: &str, ranks: usize) -> HostReport {
        let topology = Topology::from_xml(xml).expect("a topology");
        plan_host(&topology, Grouping::Auto, ranks)
    }

    /// Checks that no text and no box sticks out of the box around it, and that none lies on a neighbour.
    fn check_box(part: &PlacedBox) {
        for line in &part.lines {
            assert!(text_width(line) + GAP <= part.width, "{line}");
        }
        for (i, a) in part.parts.iter().enumerate() {
            let (right, bottom) = (a.x + a.width, a.y + a.height);
            assert!(a.x >= GAP && right <= part.width - GAP + 1e-9, "{:?}", a.lines);
            assert!(a.y >= LINE && bottom <= part.height - GAP + 1e-9, "{:?}", a.lines);
            for b in &part.parts[i + 1..] {
                let apart = b.x >= right || b.y >= bottom || b.y + b.height <= a.y;
                assert!(apart, "{:?} and {:?}", a.lines, b.lines);
            }
            check_box(a);
        }
    }

    #[test]
    fn boxes_lie_within_and_next_to_each_other() {
        let files = [
            include_str!("../../../devices/tests/topologies/eight-sockets.xml"),
            include_str!("../../../devices/tests/topologies/hybrid.xml"),
            include_str!("../../../devices/tests/topologies/gpu-on-second-socket.xml"),
            include_str!("../../../devices/tests/topologies/smt-in-a-cgroup.xml"),
        ];
        for xml in files {
            let host = read_host(xml, 2);
            check_box(&place_part(&label_host(&host), &list_devices(&host)));
        }
    }

    #[test]
    fn hosts_lie_next_to_each_other_with_their_names() {
        let hosts = make_test_hosts();
        let text = draw_hosts(&hosts);
        for words in ["a, ranks 0,2", "b, ranks 1,3", "c, ranks 4-5", "rank 3 cpu0"] {
            assert!(text.contains(words), "{words} in {text}");
        }
        assert_eq!(text.matches("</svg>").count(), 1);
        let sizes: Vec<(f64, f64)> = hosts
            .iter()
            .map(|host| Sheet::new(host, true))
            .map(|sheet| (sheet.width, sheet.height))
            .collect();
        let Rows { places, width, height } = Rows::arrange(&sizes, 0.0);
        for (i, ((x, y), (w, h))) in places.iter().zip(&sizes).enumerate() {
            assert!(x + w <= width && y + h <= height);
            for ((x2, y2), (w2, h2)) in places.iter().zip(&sizes).skip(i + 1) {
                let apart = *x2 >= x + w || *y2 >= y + h || x2 + w2 <= *x || y2 + h2 <= *y;
                assert!(apart, "{places:?} {sizes:?}");
            }
        }
    }

    #[test]
    fn a_core_that_ranks_share_has_the_colour_of_each() {
        let topology = Topology::from_synthetic("core:1 pu:1").expect("a topology");
        let text = draw_hosts(&[plan_host(&topology, Grouping::Auto, 2)]);
        for color in &COLORS[..2] {
            // In the core, and in the legend.
            assert_eq!(text.matches(color).count(), 2, "{color} in {text}");
        }
    }

    #[test]
    fn everything_is_drawn_in_the_colour_of_its_device() {
        let xml = include_str!("../../../devices/tests/topologies/gpu-on-second-socket.xml");
        let text = draw_hosts(&[read_host(xml, 1)]);
        // Eight and seven cores, and one box each in the legend.
        assert_eq!((text.matches(COLORS[0]).count(), text.matches(COLORS[1]).count()), (9, 8));
        assert_eq!(text.matches(HOST_COLOR).count(), 2);
        assert_eq!(text.matches(GPU_COLOR).count(), 1);
        assert_eq!(text.matches(MEMORY_COLOR).count(), 2);
        for words in ["GPU 0000:81:00.0", "31.5 GB/s", "host core 8", "core 15", "L3 48 MiB"] {
            assert!(text.contains(words), "{words}");
        }
        assert!(text.ends_with("</svg>\n"));
    }
}

//! A host as boxes within boxes, coloured by device.

use super::boxes::{Labelled, labelled};
use super::host::{Host, ranges};
use crate::plot::words;

/// Pixels between boxes, and from a box to what is in it.
const GAP: f64 = 6.0;

/// Pixels from one line of text to the next, and of a character of average width.
const LINE: f64 = 15.0;
const CHARACTER: f64 = 6.4;

/// How much wider than high a box with many parts should be.
const ASPECT: f64 = 1.6;

/// Fills of the devices, told apart by eyes that see colours differently too.
const COLORS: [&str; 8] = [
    "#a6cee3", "#fdbf6f", "#b2df8a", "#cab2d6", "#fb9a99", "#ffff99", "#8dd3c7", "#d9a97c",
];
const HOST_COLOR: &str = "#c8c8c8";
const GPU_COLOR: &str = "#d7f0c0";
const MEMORY_COLOR: &str = "#f2ead0";

/// A box with its place in the one around it.
struct Placed {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    lines: Vec<String>,
    fill: String,
    parts: Vec<Placed>,
}

/// The host as an SVG document.
pub fn svg(host: &Host) -> String {
    let colors = Colors::of(host);
    let root = placed(&labelled(host), &colors);
    let legend = legend(host, &colors);
    let legend_height = LINE * 1.4 * legend.len() as f64;
    let longest = legend
        .iter()
        .map(|(_, text)| text_width(text))
        .fold(0.0, f64::max);
    let width = (root.width + 2.0 * GAP).max(longest + 5.0 * GAP);
    let height = root.height + 3.0 * GAP + legend_height;
    let mut text = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" viewBox="0 0 {width:.0} {height:.0}" font-family="sans-serif" font-size="11">
<rect width="{width:.0}" height="{height:.0}" fill="white"/>
"#
    );
    draw(&root, GAP, GAP, &mut text);
    for (i, (color, label)) in legend.iter().enumerate() {
        let y = root.height + 2.0 * GAP + LINE * 1.4 * i as f64;
        text += &rect(GAP, y + 3.0, 12.0, 12.0, color);
        text += &words(GAP + 20.0, y + 13.0, "start", label);
    }
    text + "</svg>\n"
}

/// The devices in the order of the legend.
struct Colors {
    devices: Vec<String>,
}

impl Colors {
    fn of(host: &Host) -> Self {
        let ranks = host.ranks.iter().enumerate();
        let names = ranks.flat_map(|(rank, devices)| {
            let names = devices.devices.iter();
            names.map(move |device| host.device_name(rank, &device.name))
        });
        Self {
            devices: names.collect(),
        }
    }

    /// The fill for a part that has this role.
    fn of_role(&self, role: &str) -> &'static str {
        // A core that several ranks share has the colour of the first.
        let first = role.split(", ").next().unwrap_or(role);
        let device = self.devices.iter().position(|device| device == first);
        match device {
            Some(device) => COLORS[device % COLORS.len()],
            None if role.starts_with("host of") => HOST_COLOR,
            None => "white",
        }
    }
}

fn legend(host: &Host, colors: &Colors) -> Vec<(&'static str, String)> {
    let ranks = host.ranks.iter().enumerate();
    let mut lines: Vec<(&str, String)> = ranks
        .flat_map(|(rank, devices)| devices.devices.iter().map(move |device| (rank, device)))
        .map(|(rank, device)| {
            let name = host.device_name(rank, &device.name);
            let n_cores = device.cores.len();
            let s = if n_cores == 1 { "" } else { "s" };
            let cores = ranges(&device.cores);
            let text = format!("{name}: {n_cores} core{s}, {cores}");
            (colors.of_role(&name), text)
        })
        .collect();
    if host.gpus.iter().any(|gpu| gpu.driven.is_some()) {
        lines.push((HOST_COLOR, "host cores of GPUs".to_owned()));
    }
    lines
}

fn text_width(text: &str) -> f64 {
    CHARACTER * text.chars().count() as f64
}

/// A part with its parts laid out in it.
fn placed(part: &Labelled, colors: &Colors) -> Placed {
    let is_leaf = part.parts.is_empty() && part.memory.is_empty();
    let mut lines = vec![part.title.clone()];
    if is_leaf {
        lines.extend(part.facts.iter().cloned());
    } else if !part.facts.is_empty() {
        lines[0] = format!("{}: {}", part.title, part.facts.join(", "));
    }
    let fill = match () {
        () if !part.cores.is_empty() => colors.of_role(&part.role),
        () if is_leaf => GPU_COLOR,
        () => "white",
    };
    if is_leaf && part.cores.is_empty() && !part.role.is_empty() {
        lines.push(part.role.clone());
    }
    let head = LINE * lines.len() as f64 + GAP;
    let titles = lines.iter().map(|line| text_width(line) + 2.0 * GAP);
    let bars = part.memory.iter().map(|line| text_width(line) + 4.0 * GAP);
    let own = titles.chain(bars).fold(0.0, f64::max);
    let children = part.parts.iter().map(|child| placed(child, colors));
    let (mut children, width, height) = arranged(children.collect(), own);
    let bars = memory_bars(&part.memory, width - 2.0 * GAP, head);
    let below = head + bars.len() as f64 * (LINE + 2.0 * GAP);
    children.iter_mut().for_each(|child| child.y += below);
    let height = below + height;
    Placed {
        x: 0.0,
        y: 0.0,
        width,
        height,
        lines,
        fill: fill.to_owned(),
        parts: bars.into_iter().chain(children).collect(),
    }
}

/// A box as wide as the part for each of its NUMA nodes, below its title.
fn memory_bars(memory: &[String], width: f64, top: f64) -> Vec<Placed> {
    let bar = |(i, text): (usize, &String)| Placed {
        x: GAP,
        y: top + i as f64 * (LINE + 2.0 * GAP),
        width,
        height: LINE + GAP,
        lines: vec![text.clone()],
        fill: MEMORY_COLOR.to_owned(),
        parts: Vec::new(),
    };
    memory.iter().enumerate().map(bar).collect()
}

/// The boxes in rows of equally many, so that all together come near the wanted shape; with the width, at least `least`,
/// and the height that they take, gaps included.
fn arranged(boxes: Vec<Placed>, least: f64) -> (Vec<Placed>, f64, f64) {
    if boxes.is_empty() {
        return (boxes, least, 0.0);
    }
    let size = |per_row: usize| {
        let row = |row: &[Placed]| {
            let width: f64 = row.iter().map(|b| b.width + GAP).sum();
            let height = row.iter().map(|b| b.height).fold(0.0, f64::max);
            (width + GAP, height + GAP)
        };
        let rows = boxes.chunks(per_row).map(row);
        rows.fold((least, 0.0), |(w, h): (f64, f64), (width, height)| {
            (w.max(width), h + height)
        })
    };
    let off = |per_row: &usize| {
        let (width, height) = size(*per_row);
        (width / height / ASPECT).ln().abs()
    };
    let per_row = (1..=boxes.len()).min_by(|a, b| off(a).total_cmp(&off(b)));
    let per_row = per_row.unwrap_or(1);
    let (width, height) = size(per_row);
    let (mut boxes, mut y) = (boxes, 0.0);
    for row in boxes.chunks_mut(per_row) {
        let mut x = GAP;
        for placed in row.iter_mut() {
            (placed.x, placed.y) = (x, y);
            x += placed.width + GAP;
        }
        y += row.iter().map(|b| b.height).fold(0.0, f64::max) + GAP;
    }
    (boxes, width, height)
}

fn draw(part: &Placed, x: f64, y: f64, text: &mut String) {
    *text += &rect(x, y, part.width, part.height, &part.fill);
    for (i, line) in part.lines.iter().enumerate() {
        *text += &words(x + GAP, y + LINE * (i + 1) as f64 - 1.0, "start", line);
    }
    for child in &part.parts {
        draw(child, x + child.x, y + child.y, text);
    }
}

fn rect(x: f64, y: f64, width: f64, height: f64, fill: &str) -> String {
    format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\" fill=\"{fill}\" stroke=\"#555\"/>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use isochron_devices::{Grouping, Topology};

    fn host(xml: &str, ranks: usize) -> Host {
        let topology = Topology::from_xml(xml).expect("a topology");
        Host::new(&topology, Grouping::Auto, ranks)
    }

    /// Checks that no text and no box sticks out of the box around it, and that none lies on a neighbour.
    fn check(part: &Placed) {
        for line in &part.lines {
            assert!(text_width(line) + GAP <= part.width, "{line}");
        }
        for (i, a) in part.parts.iter().enumerate() {
            let (right, bottom) = (a.x + a.width, a.y + a.height);
            assert!(
                a.x >= GAP && right <= part.width - GAP + 1e-9,
                "{:?}",
                a.lines
            );
            assert!(
                a.y >= LINE && bottom <= part.height - GAP + 1e-9,
                "{:?}",
                a.lines
            );
            for b in &part.parts[i + 1..] {
                let apart = b.x >= right || b.y >= bottom || b.y + b.height <= a.y;
                assert!(apart, "{:?} and {:?}", a.lines, b.lines);
            }
            check(a);
        }
    }

    #[test]
    fn boxes_lie_within_and_beside_each_other() {
        let files = [
            include_str!("../../../devices/tests/topologies/eight-sockets.xml"),
            include_str!("../../../devices/tests/topologies/hybrid.xml"),
            include_str!("../../../devices/tests/topologies/gpu-on-second-socket.xml"),
            include_str!("../../../devices/tests/topologies/smt-in-a-cgroup.xml"),
        ];
        for xml in files {
            let host = host(xml, 2);
            check(&placed(&labelled(&host), &Colors::of(&host)));
        }
    }

    #[test]
    fn everything_is_drawn_in_the_colour_of_its_device() {
        let xml = include_str!("../../../devices/tests/topologies/gpu-on-second-socket.xml");
        let text = svg(&host(xml, 1));
        let count = |part: &str| text.matches(part).count();
        // Eight and seven cores, and one box each in the legend.
        assert_eq!((count(COLORS[0]), count(COLORS[1])), (9, 8));
        assert_eq!(count(HOST_COLOR), 2);
        assert_eq!(count(GPU_COLOR), 1);
        assert_eq!(count(MEMORY_COLOR), 2);
        for words in [
            "GPU 0000:81:00.0",
            "31.5 GB/s",
            "host core 8",
            "core 15",
            "L3 48 MiB",
        ] {
            assert!(text.contains(words), "{words}");
        }
        assert!(text.ends_with("</svg>\n"));
    }
}

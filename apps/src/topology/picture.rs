//! A host as boxes within boxes, coloured by device.

use super::boxes::{Labelled, labelled};
use super::host::{Host, ranges};
use crate::plot::words;

/// Pixels between boxes, and from a box to what is in it.
const GAP: f64 = 6.0;

/// Pixels from one line of text to the next, and of a character of average width.
const LINE: f64 = 15.0;
const CHARACTER: f64 = 6.4;

/// Pixels from one entry of a legend to the next.
const ENTRY: f64 = 1.4 * LINE;

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

/// A host with its legend below it.
struct Sheet {
    root: Placed,
    legend: Vec<(&'static str, String)>,
    width: f64,
    height: f64,
}

impl Sheet {
    fn new(host: &Host, caption: Option<String>) -> Self {
        let colors = Colors::of(host);
        let mut labelled = labelled(host);
        labelled.facts.extend(caption);
        let root = placed(&labelled, &colors);
        let legend = legend(host, &colors);
        let entries = legend.iter().map(|(_, text)| text_width(text) + 4.0 * GAP);
        Self {
            width: entries.fold(root.width, f64::max),
            height: root.height + GAP + ENTRY * legend.len() as f64,
            root,
            legend,
        }
    }

    fn draw(&self, x: f64, y: f64, text: &mut String) {
        draw(&self.root, x, y, text);
        for (i, (color, label)) in self.legend.iter().enumerate() {
            let y = y + self.root.height + GAP + ENTRY * i as f64;
            *text += &rect(x, y + 3.0, 12.0, 12.0, color);
            *text += &words(x + 20.0, y + 13.0, "start", label);
        }
    }
}

/// The hosts as an SVG document, each with its name and ranks where there are several.
pub fn svg(hosts: &[Host]) -> String {
    let caption = |host: &Host| (hosts.len() > 1).then(|| host.caption());
    let sheets = hosts.iter().map(|host| Sheet::new(host, caption(host)));
    let sheets: Vec<Sheet> = sheets.collect();
    let sizes: Vec<(f64, f64)> = sheets.iter().map(|s| (s.width, s.height)).collect();
    let (places, width, height) = in_rows(&sizes, 0.0);
    let height = height + GAP;
    let mut text = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" viewBox="0 0 {width:.0} {height:.0}" font-family="sans-serif" font-size="11">
<rect width="{width:.0}" height="{height:.0}" fill="white"/>
"#
    );
    for (sheet, (x, y)) in sheets.iter().zip(places) {
        sheet.draw(x, y + GAP, &mut text);
    }
    text + "</svg>\n"
}

/// The devices in the order of the legend.
struct Colors {
    devices: Vec<String>,
}

impl Colors {
    fn of(host: &Host) -> Self {
        let names = host.devices();
        let names = names.map(|(rank, device)| host.device_name(rank, &device.name));
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
    let mut lines: Vec<(&str, String)> = host
        .devices()
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

/// The boxes in rows; with the width, at least `least`, and the height that they take, gaps included.
fn arranged(mut boxes: Vec<Placed>, least: f64) -> (Vec<Placed>, f64, f64) {
    let sizes: Vec<(f64, f64)> = boxes.iter().map(|b| (b.width, b.height)).collect();
    let (places, width, height) = in_rows(&sizes, least);
    for (placed, place) in boxes.iter_mut().zip(places) {
        (placed.x, placed.y) = place;
    }
    (boxes, width, height)
}

/// Places for boxes of these sizes, in rows of equally many, so that all together come near the wanted shape; with the
/// width, at least `least`, and the height that they take, gaps included.
fn in_rows(sizes: &[(f64, f64)], least: f64) -> (Vec<(f64, f64)>, f64, f64) {
    let row = |row: &[(f64, f64)]| {
        let width: f64 = row.iter().map(|(width, _)| width + GAP).sum();
        let height = row.iter().map(|(_, height)| *height).fold(0.0, f64::max);
        (width + GAP, height + GAP)
    };
    let size = |per_row: usize| {
        let rows = sizes.chunks(per_row).map(row);
        rows.fold((least, 0.0), |(w, h): (f64, f64), (width, height)| {
            (w.max(width), h + height)
        })
    };
    let off = |per_row: &usize| {
        let (width, height) = size(*per_row);
        (width / height / ASPECT).ln().abs()
    };
    let per_row = (1..=sizes.len()).min_by(|a, b| off(a).total_cmp(&off(b)));
    let per_row = per_row.unwrap_or(1);
    let (width, height) = size(per_row);
    let (mut places, mut y) = (Vec::new(), 0.0);
    for chunk in sizes.chunks(per_row) {
        let mut x = GAP;
        for (width, _) in chunk {
            places.push((x, y));
            x += width + GAP;
        }
        y += row(chunk).1;
    }
    (places, width, height)
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
    use super::super::job::{made_up, planned};
    use super::*;
    use isochron_devices::{Grouping, Topology};

    fn host(xml: &str, ranks: usize) -> Host {
        let topology = Topology::from_xml(xml).expect("a topology");
        planned(&topology, Grouping::Auto, ranks)
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
    fn hosts_lie_beside_each_other_with_their_names() {
        let hosts = made_up();
        let text = svg(&hosts);
        for words in [
            "a, ranks 0,2",
            "b, ranks 1,3",
            "c, ranks 4-5",
            "rank 3 cpu0",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
        assert_eq!(text.matches("</svg>").count(), 1);
        let sizes: Vec<(f64, f64)> = hosts
            .iter()
            .map(|host| Sheet::new(host, Some(host.caption())))
            .map(|sheet| (sheet.width, sheet.height))
            .collect();
        let (places, width, height) = in_rows(&sizes, 0.0);
        for (i, ((x, y), (w, h))) in places.iter().zip(&sizes).enumerate() {
            assert!(x + w <= width && y + h <= height);
            for ((x2, y2), (w2, h2)) in places.iter().zip(&sizes).skip(i + 1) {
                let apart = *x2 >= x + w || *y2 >= y + h || x2 + w2 <= *x || y2 + h2 <= *y;
                assert!(apart, "{places:?} {sizes:?}");
            }
        }
    }

    #[test]
    fn everything_is_drawn_in_the_colour_of_its_device() {
        let xml = include_str!("../../../devices/tests/topologies/gpu-on-second-socket.xml");
        let text = svg(&[host(xml, 1)]);
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

//! The rectangle inside the axes of a plot, with its frame and legend.

use crate::axis::Tick;
use crate::svg::{Anchor, Svg};

/// The rectangle inside the axes, in pixels.
#[derive(Debug, Clone, Copy)]
pub struct Area {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
}

impl Area {
    /// Returns the pixel of a fraction of the horizontal axis.
    pub fn x_at(&self, fraction: f64) -> f64 {
        self.left + fraction * self.width
    }

    /// Returns the pixel of a fraction of the vertical axis.
    pub fn y_at(&self, fraction: f64) -> f64 {
        self.bottom() - fraction * self.height
    }

    /// Returns the area that many pixels below this one.
    pub fn move_down(self, pixels: f64) -> Self {
        let top = self.top + pixels;
        Self { top, ..self }
    }

    pub fn right(&self) -> f64 {
        self.left + self.width
    }

    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Draws grid, numbers, both axes and the texts above, below and to the left of the plot.
    pub fn draw_frame(
        &self,
        svg: &mut Svg,
        [above, below, beside]: [&str; 3],
        x_ticks: &[Tick],
        y_ticks: &[Tick],
    ) {
        let middle = self.left + self.width / 2.0;
        svg.text((middle, self.top - 14.0), Anchor::Middle, above);
        for (fraction, text) in x_ticks {
            let x = self.x_at(*fraction);
            svg.grid_line((x, self.top), (x, self.bottom()));
            svg.text((x, self.bottom() + 18.0), Anchor::Middle, text);
        }
        self.draw_heights(svg, y_ticks);
        svg.text((middle, self.bottom() + 40.0), Anchor::Middle, below);
        svg.upward_text((self.left - 60.0, self.top + self.height / 2.0), beside);
        let corner = (self.left, self.bottom());
        svg.line((self.left, self.top), corner, "black");
        svg.line(corner, (self.right(), self.bottom()), "black");
    }

    /// Draws the numbers of the vertical axis, each with its line.
    pub fn draw_heights(&self, svg: &mut Svg, ticks: &[Tick]) {
        for (fraction, text) in ticks {
            let y = self.y_at(*fraction);
            svg.grid_line((self.left, y), (self.right(), y));
            svg.text((self.left - 8.0, y + 4.0), Anchor::End, text);
        }
    }

    /// Draws the name of entry `index` of the legend; returns the middle of its sample, which is 24 pixels wide.
    pub fn draw_legend_name(&self, svg: &mut Svg, index: usize, name: &str) -> (f64, f64) {
        let (x, y) = (self.right() + 16.0, self.top + 10.0 + 20.0 * index as f64);
        svg.text((x + 32.0, y + 4.0), Anchor::Start, name);
        (x + 12.0, y)
    }
}

//! Many devices asked for nearly the same time, again and again.

use crate::model::{Piece, SpeedModel};

/// The devices' speed functions, each with the straight piece of it that was looked at last.
///
/// A search over very many devices spends its time waiting for their models to come from memory. The
/// pieces lie side by side, and as the search closes in on a time hardly any device leaves its piece.
pub(super) struct Devices<'a> {
    pub models: &'a [&'a dyn SpeedModel],
    pieces: Vec<Piece>,
}

impl<'a> Devices<'a> {
    pub fn new(models: &'a [&'a dyn SpeedModel]) -> Self {
        Self {
            models,
            pieces: vec![Piece::NONE; models.len()],
        }
    }

    /// Writes the units that each device fits into `time_s`, at most `total`, and returns their sum.
    pub fn give_out(&mut self, total: f64, time_s: f64, shares: &mut [f64]) -> f64 {
        let mut sum = 0.0;
        let devices = self.models.iter().zip(&mut self.pieces);
        for ((model, piece), share) in devices.zip(shares) {
            // The order of the two bounds turns what is not a number into no units.
            *share = units_within(*model, piece, time_s).max(0.0).min(total);
            sum += *share;
        }
        sum
    }

    /// Seconds that a device takes for `d` units.
    pub fn time_s(&self, device: usize, d: f64) -> f64 {
        let piece = &self.pieces[device];
        if piece.holds(d) {
            piece.time_s(d)
        } else {
            self.models[device].time_s(d)
        }
    }
}

fn units_within(model: &dyn SpeedModel, piece: &mut Piece, time_s: f64) -> f64 {
    if !piece.holds_time(time_s) {
        match model.piece_within(time_s) {
            Some(around) => *piece = around,
            None => return model.units_within(time_s),
        }
    }
    piece.units_within(time_s)
}

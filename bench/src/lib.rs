//! NVIDIA's own copies and products, for the campaign `gpu` and for tests.

pub mod yardsticks;

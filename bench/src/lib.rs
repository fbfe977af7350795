//! NVIDIA's own copies and products, for the campaigns of a GPU and for tests.

pub mod yardsticks;

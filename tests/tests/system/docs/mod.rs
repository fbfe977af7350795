//! The documentation: its commands run, its generated parts are current, its links lead somewhere, and what the command
//! prints is as its schemas say.
//!
//! With `ISOCHRON_WRITE_DOCS=1` the generated parts are written in place of being compared.

mod deviations;
mod generated;
mod links;
mod outputs;
mod pages;
mod results;
mod schema;
mod shell;

pub use pages::find_root;
pub use shell::write_program;

//! `isochron links`: the network between the hosts of the job, its levels, and links that are slow.

pub(crate) mod document;
pub(crate) mod members;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use isochron_core::comm::{Comm, agree};
use isochron_core::internal::measure_session_network;
use isochron_core::session::Session;
use isochron_core::store::StoreMode;
use isochron_devices::blas::BlasChoice;
use isochron_hierarchy::network::{LinkPass, LinkRequest};

use crate::failure::Failure;
use crate::lines::output_width;
use crate::output::{Answer, create_file};
use crate::terminal_line::TerminalLine;
use crate::watch::WatchArguments;
use members::Members;

/// The form of the answer.
#[derive(Args)]
pub struct LinksArguments {
    /// File for the matrix of pairs as a heat map (SVG)
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    pub watch: WatchArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command on every rank; the head rank has an answer, whose exit status is 1 if something is slow.
pub fn run(shared: &Arc<dyn Comm>, arguments: &LinksArguments) -> Result<Option<Answer>, Failure> {
    let comm = shared.as_ref();
    let members = Members::find(comm)?;
    if members.ranks.len() < 2 {
        return Err(Failure::input("there are no links: start at least two ranks by mpirun"));
    }
    let file = agree(comm, create_file(arguments.svg.as_deref().filter(|_| comm.rank() == 0)))?;
    let progress = TerminalLine::of_rank(comm.rank() == 0);
    let mut rounds = 0;
    let mut show = |request: &LinkRequest| {
        rounds += 1;
        let pass = match request.pass {
            LinkPass::Together => "all at once",
            LinkPass::Alone => "one pair",
            LinkPass::Computing => "while devices compute",
        };
        progress.show(&format!("links: round {rounds}, {pass}"));
    };
    let found = members.check(comm, &mut show, &|| false, None)?;
    // What a session changes, as the places of threads, comes after the check.
    let settings = Session::builder().blas(BlasChoice::Embedded).store(StoreMode::ReadWrite);
    let mut session = settings.build(Arc::clone(shared))?;
    measure_session_network(&mut session)?;
    session.save_models()?;
    drop(progress);
    let Some(document) = found else {
        return Ok(None);
    };
    if let Some(file) = file {
        file.fill(&document.draw())?;
    }
    let is_sound = document.is_sound();
    let answer =
        Answer::new(arguments.json, &document, |document| document.format(output_width()))?;
    let failure = Failure { message: String::new(), status: 1 };
    Ok(Some(if is_sound { answer } else { answer.with_failure(failure) }))
}

//! Ranks in namespaces, in which they stand for other hosts: they change names and mounts.

use super::*;
use crate::command::unshare;

/// Makes a job of `isochron` on two ranks that uses the store. A script starts each rank, whose command is its arguments, in
/// namespaces of the job. Returns `None` if the system allows no namespaces.
pub fn start_by_script(
    mpi: &Mpi,
    folder: &Folder,
    script: &str,
    words: &[&str],
) -> Option<Command> {
    let mut command = unshare(&["--map-root-user", "--mount", "--uts"])?;
    let script = folder.write("rank.sh", script);
    let isochron = mpi.isochron.display().to_string();
    let words = [&[&*script, &isochron][..], words].concat();
    let job = mpi.command(2, Path::new("sh"), &words);
    command.arg(job.get_program()).args(job.get_args());
    command.envs(job.get_envs().filter_map(|(name, value)| Some((name, value?))));
    use_store(&mut command, &folder.path("store"));
    Some(command)
}

//! Examples at the end of the help texts.

use clap::Command;

/// Command lines by the words of the command that they show.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "mxm",
        &["mpirun -n 4 isochron mxm --size 4096", "isochron mxm --a a.npy --b b.npy --out c.npy"],
    ),
    (
        "check",
        &[
            "isochron mxm --a a.npy --b b.npy --out c.npy --report c.json",
            "isochron check c.npy --report c.json",
        ],
    ),
    (
        "config",
        &[
            "mpirun -n 4 isochron config --out cluster.toml",
            "mpirun -n 4 isochron mxm --size 4096 --platform cluster.toml",
        ],
    ),
    ("topology", &["mpirun -n 4 isochron topology", "isochron topology --ranks-per-host 2"]),
    (
        "layout",
        &[
            "isochron layout 1 2 4 --rows 32 --cols 32",
            "isochron layout --models a.points b.points --dividing npa",
        ],
    ),
    (
        "measure",
        &[
            "mpirun -n 2 isochron measure jacobi --from 16 --to 4096 --adaptive --out models",
            "mpirun -n 2 isochron measure mxm --to 32 --points 6 --out models",
            "isochron measure mxm --alone --budget 60 --out models --svg alone.svg",
            "isochron measure ./kernel.so --isolate --out models",
        ],
    ),
    ("health", &["mpirun --map-by ppr:1:node isochron health", "isochron health --json"]),
    ("links", &["mpirun --map-by ppr:1:node isochron links --svg links.svg"]),
    ("balance", &["mpirun -n 2 isochron balance jacobi --units 4000 --out models"]),
    (
        "partition",
        &[
            "isochron partition --units 4000 --models models/rank0-jacobi.points models/rank1-jacobi.points",
        ],
    ),
    (
        "trace-model",
        &["isochron trace-model run1.prv run2.prv --event Iteration --size Bodies --out models"],
    ),
    ("models show", &["isochron models show models/rank0-jacobi.points --fit akima --plot"]),
    (
        "campaign",
        &[
            "isochron campaign run sizes.toml",
            "isochron campaign report sizes",
            "isochron campaign compare sizes-2026-04 sizes-2026-05",
        ],
    ),
    (
        "models",
        &[
            "isochron models list",
            "isochron models prune --older-than 90",
            "isochron models export models.segment",
        ],
    ),
];

/// Adds the examples of a command, and of those within it, to their help texts.
pub fn add_examples(command: Command) -> Command {
    let name = command.get_name().to_owned();
    add_examples_of(command, &name)
}

/// Adds the examples of a command that these words call.
fn add_examples_of(command: Command, words: &str) -> Command {
    let command = command.mut_subcommands(|inner| {
        let words = format!("{words} {}", inner.get_name());
        add_examples_of(inner, &words)
    });
    match EXAMPLES.iter().find(|(name, _)| *name == words) {
        Some((_, lines)) => command.after_help(format!("Examples:\n  {}", lines.join("\n  "))),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::CliArguments;

    #[test]
    fn every_example_is_a_command_line_of_its_own_help() {
        for (name, lines) in EXAMPLES {
            for line in *lines {
                let (_, words) = line.split_once("isochron ").expect("a command");
                let words = ["isochron"].into_iter().chain(words.split(' '));
                let read = CliArguments::command().try_get_matches_from(words);
                assert!(read.is_ok(), "{line}: {read:?}");
            }
            let mut all = CliArguments::command();
            let found = name
                .split(' ')
                .try_fold(&mut all, |command, word| command.find_subcommand_mut(word));
            let help = found.expect("a command").render_long_help().to_string();
            assert!(lines.iter().all(|line| help.contains(line)), "{help}");
        }
    }
}

//! The reference of a program's flags in Markdown, made of the definitions that parse them.

use std::collections::HashSet;
use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

/// What the definitions do not say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Theirs<'a> {
    /// Other spellings of flags, as pairs (theirs, ours) without dashes.
    pub spellings: &'a [(&'a str, &'a str)],
    /// Flags that are accepted and do nothing, without dashes.
    pub without_effect: &'a [&'a str],
}

/// A chapter about a program: a table for each command. Flags that were described for an earlier command are only named.
pub fn markdown(mut command: Command, theirs: &Theirs<'_>) -> String {
    command.build();
    let name = command.get_name().to_owned();
    let mut page = format!("## {name}\n");
    let mut described = HashSet::new();
    let commands = command.get_subcommands();
    for sub in commands.filter(|sub| sub.get_name() != "help") {
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        let about = about.trim_end_matches('.');
        // Writing to a String cannot fail.
        let _ = writeln!(page, "\n### {name} {}\n\n{about}.", sub.get_name());
        let aliases: Vec<String> = sub.get_all_aliases().map(code).collect();
        if !aliases.is_empty() {
            let _ = writeln!(page, "Other names: {}.", aliases.join(", "));
        }
        let flags = sub.get_arguments();
        let flags = flags.filter(|flag| !["help", "version"].contains(&flag.get_id().as_str()));
        let (new, known): (Vec<_>, Vec<_>) =
            flags.partition(|flag| described.insert(row(flag, theirs)));
        if !new.is_empty() {
            page.push_str(
                "\n| flag | default | environment | other spelling | |\n|---|---|---|---|---|\n",
            );
        }
        new.iter()
            .for_each(|flag| page.push_str(&row(flag, theirs)));
        if !known.is_empty() {
            let names: Vec<String> = known.iter().map(|flag| code(&title(flag))).collect();
            let _ = writeln!(page, "\nAs above: {}.", names.join(", "));
        }
    }
    if !theirs.without_effect.is_empty() {
        let names: Vec<String> = theirs
            .without_effect
            .iter()
            .map(|f| code(&format!("--{f}")))
            .collect();
        let _ = writeln!(
            page,
            "\nAccepted, and without effect: {}.",
            names.join(", ")
        );
    }
    page
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

/// `--flag`, or the name of what stands without a flag.
fn title(flag: &Arg) -> String {
    match flag.get_long() {
        Some(long) => format!("--{long}"),
        None => flag.get_id().as_str().to_uppercase(),
    }
}

fn row(flag: &Arg, theirs: &Theirs<'_>) -> String {
    let mut name = title(flag);
    if let Some(short) = flag.get_short() {
        name = format!("-{short}, {name}");
    }
    let choices: Vec<String> = flag
        .get_possible_values()
        .iter()
        .map(|value| value.get_name().to_owned())
        .collect();
    let takes_value = !matches!(flag.get_action(), ArgAction::SetTrue | ArgAction::SetFalse);
    if takes_value && flag.get_long().is_some() {
        let names = flag.get_value_names().unwrap_or_default();
        let shown = match (&choices[..], names) {
            ([], [value, ..]) => value.to_string(),
            ([], []) => "VALUE".to_owned(),
            (choices, _) => choices.join("\\|"),
        };
        name = format!("{name} {shown}");
    }
    let default = match flag.get_default_values() {
        _ if flag.is_required_set() => "required".to_owned(),
        [] => String::new(),
        [value] if value.is_empty() => "empty".to_owned(),
        values => {
            let values: Vec<String> = values.iter().map(|v| code(&v.to_string_lossy())).collect();
            values.join(", ")
        }
    };
    let default = if takes_value {
        default
    } else {
        "off".to_owned()
    };
    let environment = flag.get_env().map(|name| code(&name.to_string_lossy()));
    let other = theirs
        .spellings
        .iter()
        .filter(|(_, ours)| Some(*ours) == flag.get_long());
    let other: Vec<String> = other
        .map(|(theirs, _)| code(&format!("--{theirs}")))
        .collect();
    let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
    format!(
        "| {} | {default} | {} | {} | {} |\n",
        code(&name),
        environment.unwrap_or_default(),
        other.join(", "),
        help.replace('|', "\\|").replace('\n', " "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    /// Does things.
    #[derive(Debug, Parser)]
    #[command(name = "prog")]
    enum Args {
        /// Serve it.
        Serve {
            /// Where | how
            #[arg(long, env = "ADDR", default_value = ":80", value_name = "ADDRESS")]
            address: String,
            /// Switch
            #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1)]
            status: bool,
            /// Must be
            #[arg(long, short)]
            file: String,
        },
        /// Print it
        Print {
            /// Must be
            #[arg(long, short)]
            file: String,
            /// Loudly
            #[arg(long)]
            loud: bool,
        },
    }

    #[test]
    fn flags_are_described_once() {
        let theirs = Theirs {
            spellings: &[("addr", "address")],
            without_effect: &["old"],
        };
        let expected = "\
## prog

### prog serve

Serve it.

| flag | default | environment | other spelling | |
|---|---|---|---|---|
| `--address ADDRESS` | `:80` | `ADDR` | `--addr` | Where \\| how |
| `--status true\\|false` | `true` |  |  | Switch |
| `-f, --file FILE` | required |  |  | Must be |

### prog print

Print it.

| flag | default | environment | other spelling | |
|---|---|---|---|---|
| `--loud` | off |  |  | Loudly |

As above: `--file`.

Accepted, and without effect: `--old`.
";
        assert_eq!(
            markdown(<Args as clap::CommandFactory>::command(), &theirs),
            expected
        );
    }
}

//! Command lines: other spellings of our flags, and mistakes answered in one line.

use std::ffi::OsString;

use clap::Parser;
use clap::error::ErrorKind;

/// Exit code for mistakes in flags or in files named by flags.
pub const USAGE: u8 = 2;

/// Rewrites other spellings of flags, e.g. Higress's camelCase, to ours. `table` holds pairs (theirs, ours) without the
/// leading dashes; what is not listed and what follows `--` stays as it is.
pub fn rewrite_camel_case(
    args: impl IntoIterator<Item = OsString>,
    table: &[(&str, &str)],
) -> Vec<OsString> {
    let mut literal = false;
    let rewrite = |arg: OsString| {
        literal |= arg == "--";
        let Some(text) = arg.to_str().filter(|_| !literal) else {
            return arg;
        };
        let Some(flag) = text.strip_prefix("--") else {
            return arg;
        };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (flag, None),
        };
        let Some((_, ours)) = table.iter().find(|(theirs, _)| *theirs == name) else {
            return arg;
        };
        match value {
            Some(value) => format!("--{ours}={value}").into(),
            None => format!("--{ours}").into(),
        }
    };
    args.into_iter().map(rewrite).collect()
}

/// The names in a list with commas between them; empty ones are passed over.
pub fn names(list: &str) -> impl Iterator<Item = String> {
    let names = list.split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned)
}

/// Parses a command line. Mistakes are printed as one line, and the process ends with code 2; `--help` and `--version`
/// end it with code 0.
pub fn parse_or_exit<P: Parser>(args: Vec<OsString>) -> P {
    match P::try_parse_from(args) {
        Ok(parsed) => parsed,
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) =>
        {
            error.exit()
        }
        Err(error) => {
            eprintln!("{}", one_line(&error.to_string()));
            std::process::exit(USAGE.into())
        }
    }
}

/// The reason and its tip out of clap's message, on one line.
fn one_line(message: &str) -> String {
    let mut parts = Vec::new();
    for line in message.lines().map(str::trim).filter(|l| !l.is_empty()) {
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        parts.push(line);
    }
    format!("{}; see --help", parts.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn camel_case_becomes_ours() {
        let args = [
            "x",
            "--gatewayHttpPort",
            "80",
            "--clusterID=a",
            "--other",
            "--",
            "--clusterID",
        ];
        let table = [
            ("gatewayHttpPort", "gateway-http-port"),
            ("clusterID", "cluster-id"),
        ];
        let rewritten = rewrite_camel_case(args.map(OsString::from), &table);
        let expected = [
            "x",
            "--gateway-http-port",
            "80",
            "--cluster-id=a",
            "--other",
            "--",
            "--clusterID",
        ];
        assert_eq!(rewritten, expected.map(OsString::from));
    }

    #[test]
    fn mistakes_take_one_line() {
        #[derive(Debug, Parser)]
        struct Args {
            #[arg(long)]
            port: u16,
        }
        let wrong = Args::try_parse_from(["x", "--port", "many"]).unwrap_err();
        assert_eq!(
            one_line(&wrong.to_string()),
            "error: invalid value 'many' for '--port <PORT>': invalid digit found in string; see --help"
        );
        let absent = Args::try_parse_from(["x"]).unwrap_err().to_string();
        assert_eq!(
            one_line(&absent),
            "error: the following required arguments were not provided: --port <PORT>; see --help"
        );
        assert_eq!(Args::try_parse_from(["x", "--port", "1"]).unwrap().port, 1);
    }
}

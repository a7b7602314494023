//! Test targets whose trials are reported as ignored, with the reason, where something that they need is absent.

use std::process::ExitCode;
use std::sync::LazyLock;

use anyhow::{Context as _, Result};
use libtest_mimic::{Arguments, Failed, Trial};

use crate::{api_server, envoy, network, stack};

/// What a trial needs besides the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// Envoy.
    EnvoyAlone,
    /// Controller and pilot.
    Programs,
    /// Controller, pilot and Envoy.
    Envoy,
    /// Controller, pilot and the programs of a Kubernetes API.
    ApiServer,
    /// Controller, pilot, Envoy and the programs of a Kubernetes API.
    AllPrograms,
    /// The same, in a network of their own.
    ApiServerAndEnvoy,
}

static NO_ENVOY: LazyLock<Option<String>> =
    LazyLock::new(|| envoy::find().err().map(|error| format!("{error:#}")));
static NO_PROGRAMS: LazyLock<Option<String>> =
    LazyLock::new(|| stack::programs().err().map(|error| format!("{error:#}")));

/// Why something is absent; `None` = it is there.
type Absent = fn() -> Option<&'static str>;

/// What trials with certain needs look for.
const LOOKED_FOR: [(&[Needs], Absent); 4] = {
    use Needs::{AllPrograms, ApiServer, ApiServerAndEnvoy, Envoy, EnvoyAlone, Programs};
    [
        (
            &[Programs, Envoy, ApiServer, AllPrograms, ApiServerAndEnvoy],
            || NO_PROGRAMS.as_deref(),
        ),
        (&[Envoy, EnvoyAlone, AllPrograms, ApiServerAndEnvoy], || {
            NO_ENVOY.as_deref()
        }),
        (
            &[ApiServer, AllPrograms, ApiServerAndEnvoy],
            api_server::missing,
        ),
        (&[ApiServerAndEnvoy], network::missing),
    ]
};

/// Why trials with these needs are ignored, `None` = they run.
pub fn missing(needs: Needs) -> Option<&'static str> {
    let looked_for = LOOKED_FOR.iter().filter(|(who, _)| who.contains(&needs));
    looked_for.into_iter().find_map(|(_, absent)| absent())
}

/// A trial that runs `test` on a runtime of its own.
pub fn trial<F, Fut>(name: impl Into<String>, needs: Needs, test: F) -> Trial
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = Result<()>>,
{
    let run = move || {
        if needs == Needs::ApiServerAndEnvoy {
            return network::inside_own(test).map_err(|error| Failed::from(format!("{error:#}")));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let result = runtime
            .context("no runtime")
            .and_then(|runtime| runtime.block_on(test()));
        result.map_err(|error| Failed::from(format!("{error:#}")))
    };
    Trial::test(name, run).with_ignored_flag(missing(needs).is_some())
}

/// Runs the trials, at most `parallel` at a time unless `--test-threads` says otherwise.
pub fn run(trials: Vec<Trial>, parallel: usize) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(parallel);
    // A trial that lacks what it needs must stay ignored even when all ignored ones are asked for.
    if trials.iter().any(Trial::has_ignored_flag) {
        for reason in LOOKED_FOR.iter().filter_map(|(_, absent)| absent()) {
            eprintln!("ignored are the trials that need it: {reason}");
        }
        arguments.include_ignored = false;
        arguments.ignored = false;
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

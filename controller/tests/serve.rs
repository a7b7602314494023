//! The program itself: files in, MCP out, over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use shared_proto::Kind;
use tokio::sync::mpsc;
use xds_engine::client::ClientSession;
use xds_engine::discovery::{Any, Node};
use xds_engine::transport::{ClientEvent, Timing, run};

struct Controller {
    child: Child,
    log: Receiver<String>,
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Controller {
    fn start(directory: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_controller"))
            .args([
                "serve",
                "--mcp-address",
                "127.0.0.1:0",
                "--http-address",
                "127.0.0.1:0",
                "--log-format",
                "json",
            ])
            .arg("--config-dir")
            .arg(directory)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, log) = channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, log }
    }

    /// The address in the log line with this message.
    fn address(&self, message: &str) -> String {
        loop {
            let line = self
                .log
                .recv_timeout(Duration::from_secs(20))
                .expect(message);
            let line: serde_json::Value = serde_json::from_str(&line).expect("every line is JSON");
            if line["message"] == message {
                return line["address"].as_str().unwrap().to_owned();
            }
        }
    }
}

fn ingress(name: &str, service: &str) -> String {
    format!(
        "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{name: {name}}}\nspec:\n  ingressClassName: higress\n  \
         rules:\n  - host: {name}.test\n    http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: {service}, \
         port: {{number: 80}}}}}}}}]}}\n"
    )
}

fn get(address: &str, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn metric(address: &str, series: &str) -> f64 {
    let answer = get(address, "/metrics");
    let line = answer
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} in {answer}"))
        .parse()
        .unwrap()
}

/// Waits for what follows a delivery: counters and reports come after the configs.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} does not come");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

const MESH_CONFIG: &str = "core/v1alpha1/MeshConfig";
const SENT_VS: &str = "isthmus_mcp_resources_sent_total{type=\"VirtualService\"}";

#[tokio::test]
async fn edits_reach_an_mcp_client_as_deltas() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    std::fs::write(&file, ingress("one", "s") + &ingress("two", "s")).unwrap();
    let mut controller = Controller::start(dir.path());
    let http = controller.address("serving http");
    let mcp = controller.address("serving mcp");
    assert!(get(&http, "/ready").starts_with("HTTP/1.1 200"));

    let types: Vec<&str> = Kind::ALL
        .iter()
        .map(|kind| kind.type_url())
        .chain(["networking.istio.io/v1/Gateway"])
        .collect();
    let node = Node {
        id: "sidecar~127.0.0.1~pilot.test~test.svc.cluster.local".to_owned(),
        ..Node::default()
    };
    let session = ClientSession::wildcard(node, types.iter().copied().chain([MESH_CONFIG]));
    let (events, mut changes) = mpsc::channel(64);
    let name = |_: &Any| None;
    // MeshConfig is never answered: a client that waits for it must not give up delta for that.
    let timing = Timing {
        delta_patience: Duration::from_secs(600),
        ..Timing::default()
    };
    let client = tokio::spawn(run(mcp, session, timing, name, events));
    let mut next = async || {
        loop {
            let event = tokio::time::timeout(Duration::from_secs(20), changes.recv()).await;
            if let ClientEvent::Update { update, .. } = event.expect("an event").unwrap() {
                return update;
            }
        }
    };
    let mut answers = BTreeMap::new();
    while answers.len() < types.len() {
        let update = next().await;
        answers.insert(update.type_url, update.upserts.len());
    }
    assert!(!answers.contains_key(MESH_CONFIG));
    for (url, count) in &answers {
        let expected = if url.ends_with("/Gateway") || url.ends_with("/VirtualService") {
            2
        } else {
            0
        };
        assert_eq!(*count, expected, "{url}");
    }

    std::fs::write(&file, ingress("one", "s") + &ingress("two", "t")).unwrap();
    let update = next().await;
    assert_eq!(update.type_url, Kind::VirtualService.type_url());
    assert_eq!((update.upserts.len(), update.removed.len()), (1, 0));
    assert!(update.upserts[0].0.contains("-default-two-"));
    until("the count of sent resources", || {
        metric(&http, SENT_VS) >= 3.0
    })
    .await;
    assert_eq!(metric(&http, SENT_VS), 3.0);
    assert_eq!(metric(&http, "isthmus_units_translated_total"), 3.0);

    // A broken edit of one document costs nothing, and is reported.
    std::fs::write(&file, ingress("one", "u") + "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: two}\nspec: [").unwrap();
    let update = next().await;
    assert!(update.upserts[0].0.contains("-default-one-") && update.removed.is_empty());
    until("the report of the broken document", || {
        let report = get(&http, "/debug/diagnostics");
        report.contains("InvalidSyntax") && report.contains("last good version")
    })
    .await;
    assert!(get(&http, "/debug/configz").contains("t.default.svc.cluster.local"));

    let pid = controller.child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    let status = tokio::task::spawn_blocking(move || controller.child.wait().unwrap());
    let status = tokio::time::timeout(Duration::from_secs(5), status)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(status.code(), Some(0));
    client.abort();
}

fn run_controller(args: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_controller"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn translate_prints_objects_and_mistakes() {
    let good = ingress("one", "s");
    let (code, out, err) = run_controller(&["translate", "-f", "-"], &good);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("kind: Gateway") && out.contains("kind: VirtualService"));
    let (code, out, err) = run_controller(
        &["translate", "-f", "-", "-o", "json"],
        &(good + "---\nkind: Ingress\n"),
    );
    assert_eq!(code, Some(1));
    let list: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    assert!(err.starts_with("error: -:11: "), "{err}");
}

#[test]
fn mistakes_in_flags_take_one_line_and_code_2() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for args in [
        &["serve"][..],
        &["serve", "--config-dir", "/no/such/folder"],
        &["serve", "--config-dir", "/", "--mcp-address", "here"],
        &["serve", "--config-dir", "/tmp", "--http-address", &address],
        &["serve", "--config-dir", "/tmp", "--gateway-http-port", "0"],
        &["translate", "-f", "/no/such/file"],
        &["nonsense"],
    ] {
        let (code, out, err) = run_controller(args, "");
        assert_eq!((code, out.as_str()), (Some(2), ""), "{args:?}: {err}");
        assert_eq!(err.lines().count(), 1, "{args:?}: {err}");
    }
}

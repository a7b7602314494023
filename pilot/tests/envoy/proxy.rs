//! A real Envoy, started with the pilot's bootstrap.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use pilot::bootstrap::{BootstrapOptions, XdsProtocol, bootstrap};
use tokio::net::TcpSocket;

use crate::http;

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The Envoy to use: `$ISTHMUS_ENVOY`, one on the PATH, or the one that `scripts/envoy` installed.
pub fn find() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("ISTHMUS_ENVOY") {
        return Some(path.into());
    }
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let libraries = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/venv/lib");
    let installed = std::fs::read_dir(libraries)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("site-packages/envoy/_bin/envoy"));
    std::env::split_paths(&on_path)
        .map(|folder| folder.join("envoy"))
        .chain(installed)
        .find(|path| path.is_file())
}

/// A port for one listener of an Envoy, given to no one else while this program runs.
///
/// Envoys set `SO_REUSEPORT`: two that are told the same port both get it, and share its connections. A port that is
/// merely free may be given to the next test too before its Envoy listens. So each stays bound here, by a socket that
/// never listens, and thus takes no connection from the Envoy beside it.
pub fn free_port() -> u16 {
    static HELD: Mutex<Vec<TcpSocket>> = Mutex::new(Vec::new());
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.set_reuseport(true).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    HELD.lock().unwrap().push(socket);
    port
}

/// Of 400 ports that are merely free, two are the same in all but one of 100,000 runs: the kernel has some 7,000.
pub fn ports_are_given_once() {
    let ports: HashSet<u16> = (0..400).map(|_| free_port()).collect();
    assert_eq!(ports.len(), 400);
}

/// A running Envoy; ends when dropped.
pub struct Envoy {
    process: Child,
    admin: SocketAddr,
    folder: tempfile::TempDir,
}

impl Envoy {
    /// Starts one that asks the server at `xds`.
    pub fn start(xds: SocketAddr, protocol: XdsProtocol) -> Self {
        Self::start_with(&BootstrapOptions {
            xds_host: xds.ip().to_string(),
            xds_port: xds.port(),
            protocol,
            admin_port: free_port(),
            ..BootstrapOptions::default()
        })
    }

    /// Starts one with a bootstrap of these options.
    pub fn start_with(options: &BootstrapOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("envoy.json");
        std::fs::write(&config, bootstrap(options).to_string()).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let process = Command::new(find().unwrap())
            .arg("-c")
            .arg(&config)
            .args([
                "--concurrency",
                "1",
                "--disable-hot-restart",
                "-l",
                "warning",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let admin = SocketAddr::from(([127, 0, 0, 1], options.admin_port));
        Self {
            process,
            admin,
            folder,
        }
    }

    /// The first warnings and errors.
    pub fn log(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        text.chars().take(4000).collect()
    }

    /// One counter or gauge; 0 when there is none.
    pub fn stat(&self, name: &str) -> u64 {
        let mut page = String::new();
        let mut admin = TcpStream::connect(self.admin).unwrap();
        let request = http::head("GET", "admin", &format!("/stats?filter=^{name}$"), &[]);
        admin.write_all(request.as_bytes()).unwrap();
        // Of unknown length: it ends with the connection.
        admin.read_to_string(&mut page).unwrap();
        let marked = format!("{name}: ");
        let line = page.lines().find_map(|line| line.strip_prefix(&*marked));
        line.and_then(|value| value.trim().parse().ok())
            .unwrap_or(0)
    }

    /// Waits until something holds.
    pub fn wait(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(
                start.elapsed() < PATIENCE,
                "{what}: not within {PATIENCE:?}\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a port answers.
    pub fn wait_for_port(&self, port: u16) {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        self.wait("listener", || TcpStream::connect(address).is_ok());
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

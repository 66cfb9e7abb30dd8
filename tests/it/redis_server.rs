//! A real redis-server in a test's own directory; it stops with the test.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;

/// The program on `PATH`: Redis or Valkey, as `.ci/run` installs it.
const SERVER: &str = "redis-server";
/// A generous limit that only bounds a hang.
const PATIENCE: Duration = Duration::from_secs(20);
/// Polling interval for state that is not announced.
const POLL: Duration = Duration::from_millis(20);
/// Part of the log line that a ready server prints.
const READY: &str = "eady to accept connections";

/// A running server, reached by a socket in its directory, and by TCP if its settings enable that.
pub(crate) struct RedisServer {
    child: Child,
    dir: TempDir,
    settings: Vec<String>,
}

/// State of a server after a restart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Data {
    /// All data.
    Kept,
    /// No data.
    Lost,
}

/// Returns a port that is free and outside the range of ephemeral ports.
///
/// Systems assign ephemeral ports from 32,768 (Linux) or 49,152 upwards. Another test could use
/// such a port for a connection or a listener before the server binds it. No two calls of a process
/// return one port, and two concurrent processes start far apart.
pub(crate) fn free_port() -> u16 {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    /// Coprime to `COUNT`, so that the processes' start points cover all ports.
    const APART: u32 = 127;
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id() % COUNT * APART;
    let mut ports = std::iter::repeat_with(|| {
        let next = begin + TAKEN.fetch_add(1, Ordering::Relaxed);
        u16::try_from(FIRST + next % COUNT).unwrap()
    })
    .take(COUNT as usize);
    ports.find(|&port| TcpListener::bind(("0.0.0.0", port)).is_ok()).expect("a free port")
}

impl RedisServer {
    /// Starts a server with the default settings, without a port.
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server with these command line settings before those of every test.
    pub(crate) fn with(settings: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let settings: Vec<String> = settings.iter().map(|&one| one.to_owned()).collect();
        Self { child: launch(dir.path(), &settings), dir, settings }
    }

    /// Returns the server's URL.
    pub(crate) fn url(&self) -> String {
        format!("redis+unix://{}", self.socket())
    }

    fn socket(&self) -> String {
        let path = self.dir.path().join("redis.sock");
        path.into_os_string().into_string().unwrap()
    }

    /// Returns the reply to a command.
    pub(crate) fn asked(&self, command: &[&str]) -> String {
        let output =
            Command::new("redis-cli").args(["-s", &self.socket()]).args(command).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Kills the server.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Restarts the server at its previous address.
    pub(crate) fn start_again(&mut self, data: Data) {
        if data == Data::Lost {
            std::fs::remove_dir_all(self.dir.path().join("appendonlydir")).unwrap();
        }
        self.child = launch(self.dir.path(), &self.settings);
    }

    /// Suspends the server: it accepts connections but does not answer.
    pub(crate) fn freeze(&self) {
        self.signal("STOP");
    }

    /// Resumes the server.
    pub(crate) fn thaw(&self) {
        self.signal("CONT");
    }

    fn is_whole_cluster(&self) -> bool {
        let info = self.asked(&["CLUSTER", "INFO"]);
        info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
    }

    fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }
}

/// A server that accepts only TLS over TCP.
pub(crate) struct Certified {
    _server: RedisServer,
    port: u16,
    /// Directory of the certificate.
    dir: TempDir,
}

impl Certified {
    /// Starts a server with these settings in addition to the TLS settings.
    pub(crate) fn start(settings: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let issued = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let (certificate, key) = (dir.path().join("ca.pem"), dir.path().join("key.pem"));
        std::fs::write(&certificate, issued.cert.pem()).unwrap();
        std::fs::write(&key, issued.signing_key.serialize_pem()).unwrap();
        let port = free_port();
        let (port_text, key) = (port.to_string(), key.to_str().unwrap().to_owned());
        let mut all = vec!["--port", "0", "--tls-port", &port_text];
        all.extend(["--tls-cert-file", certificate.to_str().unwrap()]);
        all.extend(["--tls-key-file", &key, "--tls-auth-clients", "no"]);
        all.extend(settings);
        Self { _server: RedisServer::with(&all), port, dir }
    }

    /// Returns the URL without a password.
    pub(crate) fn url(&self) -> String {
        self.url_with("")
    }

    /// Returns the URL with the user part `user`.
    pub(crate) fn url_with(&self, user: &str) -> String {
        format!("rediss://{user}localhost:{}", self.port)
    }

    /// Path of the CA certificate.
    pub(crate) fn ca_file(&self) -> String {
        let path = self.dir.path().join("ca.pem");
        path.into_os_string().into_string().unwrap()
    }
}

/// Three servers, each with a third of the keys.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<RedisServer>,
    port: u16,
}

impl Cluster {
    /// Starts the servers and waits until each has joined the others.
    pub(crate) fn start() -> Self {
        let ports: Vec<[String; 2]> =
            (0..3).map(|_| [free_port(), free_port()].map(|port| port.to_string())).collect();
        let slots = [["0", "5460"], ["5461", "10922"], ["10923", "16383"]];
        let start = |([port, bus], [from, to]): (&[String; 2], [&str; 2])| {
            let cluster = ["--cluster-enabled", "yes", "--cluster-port", bus];
            let node = RedisServer::with(&[&["--port", port][..], &cluster].concat());
            node.asked(&["CLUSTER", "ADDSLOTSRANGE", from, to]);
            node
        };
        let nodes: Vec<RedisServer> = ports.iter().zip(slots).map(start).collect();
        let [port, bus] = &ports[0];
        for node in &nodes {
            node.asked(&["CLUSTER", "MEET", "127.0.0.1", port, bus]);
        }
        let began = std::time::Instant::now();
        while !nodes.iter().all(RedisServer::is_whole_cluster) {
            assert!(began.elapsed() < PATIENCE, "the cluster does not meet");
            std::thread::sleep(POLL);
        }
        let port = port.parse().unwrap();
        Self { nodes, port }
    }

    /// Returns the URL of a node.
    pub(crate) fn url(&self) -> String {
        format!("redis+cluster://127.0.0.1:{}", self.port)
    }
}

/// Sends a signal to one of the test's own processes.
pub(crate) fn signal(process: u32, name: &str) {
    let kill = format!("kill -{name} {process}");
    let sent = Command::new("sh").args(["-c", &kill]).status().unwrap();
    assert!(sent.success(), "{kill}");
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // Both calls fail only if the process is already gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server and waits until it is ready.
fn launch(dir: &Path, settings: &[String]) -> Child {
    let mut child = Command::new(SERVER)
        .args(settings)
        .args(["--dir", dir.to_str().unwrap(), "--unixsocket", "redis.sock"])
        // Every write is on disk before its reply; snapshots are off.
        .args(["--appendonly", "yes", "--appendfsync", "always"])
        .args(["--save", "", "--daemonize", "no", "--logfile", ""])
        .args(if settings.iter().any(|setting| setting.contains("port")) {
            &[][..]
        } else {
            &["--port", "0"][..]
        })
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = Vec::new();
    for line in lines.by_ref().map_while(Result::ok) {
        if line.contains(READY) {
            // Later output must be read too, or the server would block on a full pipe.
            std::thread::spawn(move || lines.for_each(drop));
            return child;
        }
        said.push(line);
    }
    // The server closed its output, so it has exited or soon will.
    let _ = child.wait();
    panic!("redis-server does not start: {said:#?}");
}

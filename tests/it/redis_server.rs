//! A real redis-server of a test's own, in a directory of its own; it ends with the test.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;

/// The program, from `PATH`: Redis or Valkey, as `.ci/run` installs it.
const SERVER: &str = "redis-server";
/// Only bounds a hang.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at what says nothing by itself.
const POLL: Duration = Duration::from_millis(20);
/// What it says when it can be asked.
const READY: &str = "eady to accept connections";

/// A running server, reached by a socket in its directory and by TCP where its settings say so.
pub(crate) struct RedisServer {
    child: Child,
    dir: TempDir,
    settings: Vec<String>,
}

/// What a server knows when it is started again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Data {
    /// Everything it was told.
    Kept,
    /// Nothing.
    Lost,
}

/// Whether there is a server to test with. Without one a test says that it did not run; under `CI`
/// it fails.
pub(crate) fn is_missing() -> bool {
    let version = Command::new(SERVER).arg("--version").output();
    if version.is_ok() {
        return false;
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "install redis-server before the tests"
    );
    println!("DID NOT RUN: install redis-server for this test");
    true
}

/// A port of this machine that nobody listens on, and that nobody is given who asks for any: systems
/// give those from 32,768 (Linux) or 49,152 upwards. One of those may be in use by another test, for
/// a connection or a listener, before the server that is told of it is there. No two calls of a
/// process have the same, and two processes at once begin far from each other.
pub(crate) fn free_port() -> u16 {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    /// Prime to `COUNT`, so that processes begin at as many places as there are.
    const APART: u32 = 127;
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id() % COUNT * APART;
    let mut ports = std::iter::repeat_with(|| {
        let next = begin + TAKEN.fetch_add(1, Ordering::Relaxed);
        u16::try_from(FIRST + next % COUNT).unwrap()
    })
    .take(COUNT as usize);
    ports
        .find(|&port| TcpListener::bind(("0.0.0.0", port)).is_ok())
        .expect("a free port")
}

impl RedisServer {
    /// A server as it is installed, without a port.
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// A server with these settings, as on its command line, before those of every test.
    pub(crate) fn with(settings: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let settings: Vec<String> = settings.iter().map(|&one| one.to_owned()).collect();
        Self {
            child: launch(dir.path(), &settings),
            dir,
            settings,
        }
    }

    /// Where it is.
    pub(crate) fn url(&self) -> String {
        format!("redis+unix://{}", self.socket())
    }

    fn socket(&self) -> String {
        let path = self.dir.path().join("redis.sock");
        path.into_os_string().into_string().unwrap()
    }

    /// What it answers to one command.
    pub(crate) fn asked(&self, command: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["-s", &self.socket()])
            .args(command)
            .output()
            .unwrap();
        String::from_utf8(output.stdout)
            .unwrap()
            .trim_end()
            .to_owned()
    }

    /// Kills it in the midst of what it does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again where it was.
    pub(crate) fn start_again(&mut self, data: Data) {
        if data == Data::Lost {
            std::fs::remove_dir_all(self.dir.path().join("appendonlydir")).unwrap();
        }
        self.child = launch(self.dir.path(), &self.settings);
    }

    /// Stops it: it takes connections and answers nothing.
    pub(crate) fn freeze(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
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

/// A server that speaks TLS and nothing else by TCP.
pub(crate) struct Certified {
    _server: RedisServer,
    port: u16,
    /// Keeps the certificate.
    dir: TempDir,
}

impl Certified {
    /// One with these settings beside those.
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
        Self {
            _server: RedisServer::with(&all),
            port,
            dir,
        }
    }

    /// Where it is, without a password.
    pub(crate) fn url(&self) -> String {
        self.url_with("")
    }

    /// Where it is, for who says `user` first.
    pub(crate) fn url_with(&self, user: &str) -> String {
        format!("rediss://{user}localhost:{}", self.port)
    }

    /// Who vouches for it.
    pub(crate) fn ca_file(&self) -> String {
        let path = self.dir.path().join("ca.pem");
        path.into_os_string().into_string().unwrap()
    }
}

/// Three servers that have a third of the keys each.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<RedisServer>,
    port: u16,
}

impl Cluster {
    /// Starts them and waits until each knows the others.
    pub(crate) fn start() -> Self {
        let ports: Vec<[String; 2]> = (0..3)
            .map(|_| [free_port(), free_port()].map(|port| port.to_string()))
            .collect();
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

    /// Where it is: one of its nodes.
    pub(crate) fn url(&self) -> String {
        format!("redis+cluster://127.0.0.1:{}", self.port)
    }
}

/// Sends a signal to a process of the test's own.
pub(crate) fn signal(process: u32, name: &str) {
    let kill = format!("kill -{name} {process}");
    let sent = Command::new("sh").args(["-c", &kill]).status().unwrap();
    assert!(sent.success(), "{kill}");
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // Both fail only for a process that is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts one and waits until it can be asked.
fn launch(dir: &Path, settings: &[String]) -> Child {
    let mut child = Command::new(SERVER)
        .args(settings)
        .args(["--dir", dir.to_str().unwrap(), "--unixsocket", "redis.sock"])
        // What it was told is on disk when it answers, and it makes no snapshots beside that.
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
            // What it says later is read too, or it would block on a full pipe.
            std::thread::spawn(move || lines.for_each(drop));
            return child;
        }
        said.push(line);
    }
    // It has closed its output: it is gone, or soon will be.
    let _ = child.wait();
    panic!("redis-server does not start: {said:#?}");
}

//! A real redis-server of a test's own, in a directory of its own; it ends with the test.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// The program, from `PATH`: Redis or Valkey, as `.ci/run` installs it.
const SERVER: &str = "redis-server";
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

/// A port of this machine that nobody listens on.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
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

    fn signal(&self, name: &str) {
        signal(self.child.id(), name);
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
    panic!("redis-server does not start: {said:#?}");
}

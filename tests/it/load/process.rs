//! The program and the store as child processes, and the kernel's figures for their resources.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// Time between two polls for the exit of a process.
const POLL: Duration = Duration::from_millis(20);

/// The resources of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
    pub(crate) memory_kib: u64,
    /// Processor time so far, in clock ticks of the kernel.
    pub(crate) ticks: u64,
}

/// The compiled longhaul program.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start(binary: &Path, upstream: SocketAddr, store: Option<&Store>) -> Self {
        let mut command = Command::new(binary);
        command
            .env_clear()
            .env("LONGHAUL_UPSTREAM_ASK", "false")
            .env("LONGHAUL_SUMMARY_MODEL", "none")
            .env("LONGHAUL_LOG_LEVEL", "error")
            // Small enough that histories are cut and records stored.
            .env("LONGHAUL_WINDOW", "1000")
            // Full long before the middle, so that later growth is not caused by the cache.
            .env("LONGHAUL_STORE_MEMORY", "8MiB")
            .env("LONGHAUL_STORE_SCOPE_SECRET", "a secret of thirty-two characters")
            .args(["--listen", "127.0.0.1:0", "--upstream"])
            .arg(format!("http://{upstream}/v1"));
        if let Some(store) = store {
            command.arg("--store").arg(store.url());
        }
        let help = Command::new(binary).arg("--help").output().expect("it runs");
        if String::from_utf8_lossy(&help.stdout).contains("--admin") {
            command.args(["--admin", "off"]);
        }
        Self::run(&mut command)
    }

    /// Runs a command that starts the program, and waits for its address.
    pub(crate) fn run(command: &mut Command) -> Self {
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                let (_, rest) = line.split_once("http://")?;
                rest.split([' ', '/']).next()?.parse().ok()
            })
            .expect("it says where it listens");
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    /// Reads the resources that the process holds now.
    pub(crate) fn held(&self) -> Held {
        let place = format!("/proc/{}", self.child.id());
        let status = fs::read_to_string(format!("{place}/status")).unwrap_or_default();
        let number = |name: &str| -> u64 {
            let line = status.lines().find(|line| line.starts_with(name));
            let words = line.and_then(|line| line.split_whitespace().nth(1));
            words.and_then(|word| word.parse().ok()).unwrap_or_default()
        };
        let descriptors = fs::read_dir(format!("{place}/fd")).map_or(0, Iterator::count);
        Held {
            descriptors,
            threads: usize::try_from(number("Threads:")).unwrap_or_default(),
            memory_kib: number("VmRSS:"),
            ticks: ticks(&fs::read_to_string(format!("{place}/stat")).unwrap_or_default()),
        }
    }

    /// Sends SIGHUP: the program reads its settings again.
    pub(crate) fn reload(&self) {
        signal(self.child.id(), "HUP");
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        signal(self.child.id(), "TERM");
    }

    /// Waits for the process to exit; returns the exit code.
    pub(crate) async fn ended(&mut self) -> i32 {
        loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                return status.code().unwrap_or(-1);
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both calls fail only if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A redis-server with its own directory.
pub(crate) struct Store {
    child: Child,
    dir: TempDir,
}

impl Store {
    /// Starts a server and waits until it replies; `None` if no redis-server is installed.
    pub(crate) fn start() -> Option<Self> {
        let dir = tempfile::tempdir().ok()?;
        let mut child = Command::new("redis-server")
            .args(["--port", "0", "--unixsocket", "redis.sock", "--save", ""])
            .args(["--daemonize", "no", "--logfile", ""])
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut lines = BufReader::new(child.stdout.take()?).lines();
        let mut said = lines.by_ref().map_while(Result::ok);
        said.find(|line| line.contains("eady to accept connections"))?;
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self { child, dir })
    }

    fn url(&self) -> String {
        format!("redis+unix://{}/redis.sock", self.dir.path().display())
    }

    /// Sends SIGSTOP: the server accepts connections and never replies.
    pub(crate) fn stop(&self) {
        signal(self.child.id(), "STOP");
    }

    /// Resumes a stopped server.
    pub(crate) fn go_on(&self) {
        signal(self.child.id(), "CONT");
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Both calls fail only if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns user and system time of a line of `/proc/PID/stat`: the 14th and 15th field. The second field
/// may hold spaces.
fn ticks(stat: &str) -> u64 {
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    let times = behind.split_whitespace().skip(11).take(2);
    times.filter_map(|field| field.parse::<u64>().ok()).sum()
}

fn signal(process: u32, name: &str) {
    let kill = format!("kill -{name} {process}");
    let sent = Command::new("sh").args(["-c", &kill]).status();
    assert!(sent.is_ok_and(|status| status.success()), "{kill}");
}

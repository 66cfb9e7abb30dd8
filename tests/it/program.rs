//! The compiled program, started by a test on a free port and stopped with it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempfile::NamedTempFile;

/// Time limit for the program to print its address. Generous: it only bounds a hang.
const START: Duration = Duration::from_secs(20);

/// Delay between two reads of the log.
const LOOK: Duration = Duration::from_millis(10);

/// A user that owns no files.
#[cfg(unix)]
const NOBODY: u32 = 65_534;

/// A running longhaul; dropping it kills it.
pub(crate) struct Program {
    child: Child,
    address: SocketAddr,
    admin: Option<SocketAddr>,
    log: Option<Log>,
}

/// Address of the admin listener. Programs of several tests run at once, so only the test of the
/// default uses the default address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Admin {
    /// The default address, if it is free.
    Default,
    /// A free port.
    Free,
    /// No admin listener.
    Off,
}

/// Destination of the program's standard error.
enum Log {
    /// A file that can be read at any time.
    File(NamedTempFile),
    /// A thread that reads a pipe.
    Pipe(JoinHandle<String>),
}

impl Program {
    /// Starts longhaul in front of `upstream`, or of the upstream in its settings if that is empty.
    /// The environment contains only `environment`.
    pub(crate) fn start(upstream: &str, environment: &[(&str, &str)]) -> Self {
        let command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        Self::spawn(command, upstream, environment, Admin::Off, Stdio::null())
    }

    /// Like [`start`](Self::start), with these arguments.
    pub(crate) fn with_arguments(arguments: &[String], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(arguments);
        Self::spawn(command, "", environment, Admin::Off, Stdio::null())
    }

    /// Like [`start`](Self::start), with its log captured and a file size limit of `blocks` blocks
    /// of 512 bytes.
    pub(crate) fn on_a_small_disk(
        upstream: &str,
        environment: &[(&str, &str)],
        blocks: u64,
    ) -> Self {
        let mut command = Command::new("/bin/sh");
        let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        command.args(["-c", &limited, env!("CARGO_BIN_EXE_longhaul")]);
        Self::spawn(command, upstream, environment, Admin::Off, Stdio::piped()).piped()
    }

    /// Like [`start`](Self::start), with a soft limit of `first` descriptors and a hard limit of
    /// `most`.
    #[cfg(target_os = "linux")]
    pub(crate) fn with_descriptors(upstream: &str, first: u64, most: u64) -> Self {
        let mut command = Command::new("/bin/sh");
        let limited = format!("ulimit -Sn {first} && ulimit -Hn {most} && exec \"$0\" \"$@\"");
        command.args(["-c", &limited, env!("CARGO_BIN_EXE_longhaul")]);
        Self::spawn(command, upstream, &[], Admin::Off, Stdio::null())
    }

    /// Like [`start`](Self::start), with its log captured and as an unprivileged user: file modes
    /// do not bind root.
    #[cfg(unix)]
    pub(crate) fn without_privileges(upstream: &str, environment: &[(&str, &str)]) -> Self {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
        use std::os::unix::process::CommandExt as _;

        let ours = env!("CARGO_BIN_EXE_longhaul");
        let place = tempfile::tempdir().expect("a directory for the program");
        if place.path().metadata().expect("it is there").uid() != 0 {
            return Self::spawn(
                Command::new(ours),
                upstream,
                environment,
                Admin::Off,
                Stdio::piped(),
            )
            .piped();
        }
        // Other users may not have access to a build by root.
        let copy = place.path().join("longhaul");
        std::fs::copy(ours, &copy).expect("room for the program");
        for path in [place.path(), &copy] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("it is ours");
        }
        let mut command = Command::new(copy);
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
        Self::spawn(command, upstream, environment, Admin::Off, Stdio::piped()).piped()
    }

    /// Like [`start`](Self::start), with its log captured: [`Program::said`] and [`Program::ended`]
    /// return it.
    pub(crate) fn told(upstream: &str, environment: &[(&str, &str)]) -> Self {
        Self::with_admin(upstream, environment, Admin::Off)
    }

    /// Like [`told`](Self::told), with the admin listener at `admin`.
    pub(crate) fn with_admin(upstream: &str, environment: &[(&str, &str)], admin: Admin) -> Self {
        let log = NamedTempFile::new().expect("a file for the log");
        let stderr = log.reopen().expect("the file is there");
        let command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        let mut program = Self::spawn(command, upstream, environment, admin, stderr.into());
        program.log = Some(Log::File(log));
        program
    }

    /// Captures the log through a pipe, which file size limits do not affect.
    fn piped(mut self) -> Self {
        let mut log = self.child.stderr.take().expect("stderr is piped");
        self.log = Some(Log::Pipe(thread::spawn(move || {
            let mut said = String::new();
            log.read_to_string(&mut said).expect("the log is text");
            said
        })));
        self
    }

    /// Returns the log so far. Warnings are present before the reply they belong to; less severe
    /// lines follow soon after.
    pub(crate) fn said(&self) -> String {
        let Some(Log::File(log)) = &self.log else {
            panic!("its log is no file");
        };
        std::fs::read_to_string(log.path()).expect("the log is text")
    }

    /// Terminates the program, whatever it is doing. Returns its log.
    pub(crate) fn ended(mut self) -> String {
        let process = self.process().to_string();
        // The first signal waits for requests in flight; the second does not wait.
        while self.child.try_wait().expect("it is ours").is_none() {
            let told = Command::new("kill").args(["-TERM", &process]).status();
            assert!(told.expect("there is a kill").success());
            thread::sleep(LOOK);
        }
        self.written()
    }

    /// Ends the program with one signal, so that the program closes its store. Returns its log.
    pub(crate) fn closed(mut self) -> String {
        let process = self.process().to_string();
        let told = Command::new("kill").args(["-TERM", &process]).status();
        assert!(told.expect("there is a kill").success());
        self.child.wait().expect("it ends");
        self.written()
    }

    /// Kills the program as a power failure would. Returns its log.
    pub(crate) fn killed(mut self) -> String {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
        self.written()
    }

    fn written(&mut self) -> String {
        match self.log.take().expect("it was listened to") {
            Log::File(log) => std::fs::read_to_string(log.path()).expect("the log is text"),
            Log::Pipe(log) => log.join().expect("the log was read"),
        }
    }

    /// Sends SIGHUP, so that the program reloads its settings, and waits until its log contains
    /// these words `times` times.
    pub(crate) async fn reads_again(&self, words: &str, times: usize) {
        let process = self.process().to_string();
        let told = Command::new("kill").args(["-HUP", &process]).status();
        assert!(told.expect("there is a kill").success());
        self.logs(|said| said.matches(words).count() >= times).await;
    }

    /// Waits until the log is as `is_wanted` says.
    pub(crate) async fn logs(&self, is_wanted: impl Fn(&str) -> bool) {
        let wanted = async {
            while !is_wanted(&self.said()) {
                tokio::time::sleep(LOOK).await;
            }
        };
        let waited = tokio::time::timeout(START, wanted).await;
        assert!(waited.is_ok(), "not as wanted: {}", self.said());
    }

    /// Returns the process id.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    fn spawn(
        mut command: Command,
        upstream: &str,
        environment: &[(&str, &str)],
        admin: Admin,
        log: Stdio,
    ) -> Self {
        command.env_clear().env("LONGHAUL_UPSTREAM_ASK", "false");
        // A program that does not wait for a busy disk repeats what is stored.
        let on_disk =
            |(name, value): &(&str, &str)| *name == "LONGHAUL_STORE" && value.starts_with("file:");
        if environment.iter().any(on_disk) {
            command.env("LONGHAUL_STORE_WAIT", "10s");
        }
        command.envs(environment.iter().copied());
        command.args(["--listen", "127.0.0.1:0"]);
        if !upstream.is_empty() {
            command.args(["--upstream", upstream]);
        }
        match admin {
            Admin::Default => {}
            Admin::Free => _ = command.args(["--admin", "127.0.0.1:0"]),
            Admin::Off => _ = command.args(["--admin", "off"]),
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the program starts");
        let output = child.stdout.take().expect("stdout is piped");
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        // From here on, a failure stops the child too.
        let mut program = Self { child, address: unknown, admin: None, log: None };
        let addresses = listening_addresses(BufReader::new(output));
        let next = || addresses.recv_timeout(START);
        program.address = next().expect("it prints `http://ADDRESS` first, where it listens");
        if admin != Admin::Off {
            for _ in ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"] {
                next().expect("then what agents are pointed at");
            }
            program.admin = Some(next().expect("then where it tells of itself"));
        }
        program
    }

    /// Waits until the program exits by itself.
    pub(crate) fn exit(&mut self) -> ExitStatus {
        self.child.wait().expect("it ends")
    }

    /// Returns the address of the admin listener.
    pub(crate) fn admin(&self) -> SocketAddr {
        self.admin.expect("it was started with such a listener")
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both calls fail only if the process is already gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the program with `input` on its standard input. The environment contains only
/// `environment`.
pub(crate) fn fed(arguments: &[&str], environment: &[(&str, &str)], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(arguments)
        .env_clear()
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    // A command that refuses its arguments exits before it reads.
    _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

/// Reads the program's output to its end, so that it never blocks on a full pipe. Sends the first
/// address on each line.
fn listening_addresses(output: impl BufRead + Send + 'static) -> Receiver<SocketAddr> {
    let (found, address) = channel();
    thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            let said = line.split_once("://").map(|(_, rest)| rest);
            let text = said.and_then(|rest| rest.split([' ', '/']).next());
            if let Some(address) = text.and_then(|text| text.parse().ok()) {
                // The send fails if the test has already ended.
                let _ = found.send(address);
            }
        }
    });
    address
}

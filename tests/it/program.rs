//! The compiled program, started by a test on a free port and ended with it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempfile::NamedTempFile;

/// How long the program may take to say where it listens. Generous: it only bounds a hang.
const START: Duration = Duration::from_secs(20);

/// Between two looks at its log, which tells nobody that it grows.
const LOOK: Duration = Duration::from_millis(10);

/// Owns nothing anywhere.
#[cfg(unix)]
const NOBODY: u32 = 65_534;

/// A running longhaul; dropping it kills it.
pub(crate) struct Program {
    child: Child,
    address: SocketAddr,
    admin: Option<SocketAddr>,
    log: Option<Log>,
}

/// Where the program tells of itself. Programs of several tests run at once, so that none but the
/// test of the default takes that.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Admin {
    /// Where it does by default, if it can.
    Default,
    /// At a free port.
    Free,
    /// Nowhere.
    Off,
}

/// Where its standard error goes.
enum Log {
    /// To a file, which can be looked into at any time.
    File(NamedTempFile),
    /// To a thread.
    Pipe(JoinHandle<String>),
}

impl Program {
    /// Starts longhaul in front of `upstream`, or where that is empty of the one that its settings
    /// name, with `environment` and nothing else from ours.
    pub(crate) fn start(upstream: &str, environment: &[(&str, &str)]) -> Self {
        let command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        Self::spawn(command, upstream, environment, Admin::Off, Stdio::null())
    }

    /// The same, listened to, where no file can grow past so many blocks of 512 bytes.
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

    /// The same, where it begins with so many descriptors and may have `most`.
    #[cfg(target_os = "linux")]
    pub(crate) fn with_descriptors(upstream: &str, first: usize, most: usize) -> Self {
        let mut command = Command::new("/bin/sh");
        let limited = format!("ulimit -Sn {first} && ulimit -Hn {most} && exec \"$0\" \"$@\"");
        command.args(["-c", &limited, env!("CARGO_BIN_EXE_longhaul")]);
        Self::spawn(command, upstream, &[], Admin::Off, Stdio::null())
    }

    /// The same, listened to, as a user whom the modes of files bind, as they do not bind root.
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
        // Where root builds, others may not look.
        let copy = place.path().join("longhaul");
        std::fs::copy(ours, &copy).expect("room for the program");
        for path in [place.path(), &copy] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("it is ours");
        }
        let mut command = Command::new(copy);
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
        Self::spawn(command, upstream, environment, Admin::Off, Stdio::piped()).piped()
    }

    /// The same, listened to: [`Program::said`] and [`Program::ended`] say what it wrote.
    pub(crate) fn told(upstream: &str, environment: &[(&str, &str)]) -> Self {
        Self::with_admin(upstream, environment, Admin::Off)
    }

    /// The same, telling of itself there.
    pub(crate) fn with_admin(upstream: &str, environment: &[(&str, &str)], admin: Admin) -> Self {
        let log = NamedTempFile::new().expect("a file for the log");
        let stderr = log.reopen().expect("the file is there");
        let command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        let mut program = Self::spawn(command, upstream, environment, admin, stderr.into());
        program.log = Some(Log::File(log));
        program
    }

    /// Reads its standard error to the end by a pipe, which no limit on files touches.
    fn piped(mut self) -> Self {
        let mut log = self.child.stderr.take().expect("stderr is piped");
        self.log = Some(Log::Pipe(thread::spawn(move || {
            let mut said = String::new();
            log.read_to_string(&mut said).expect("the log is text");
            said
        })));
        self
    }

    /// What it has written to standard error. A warning is there before the reply that it came with;
    /// a line of less weight, soon after.
    pub(crate) fn said(&self) -> String {
        let Some(Log::File(log)) = &self.log else {
            panic!("its log is no file");
        };
        std::fs::read_to_string(log.path()).expect("the log is text")
    }

    /// Tells it to end, with whatever it is about; what it wrote to standard error.
    pub(crate) fn ended(mut self) -> String {
        let process = self.process().to_string();
        // The first time it waits for what is under way, the second time for nothing.
        while self.child.try_wait().expect("it is ours").is_none() {
            let told = Command::new("kill").args(["-TERM", &process]).status();
            assert!(told.expect("there is a kill").success());
            thread::sleep(LOOK);
        }
        self.written()
    }

    /// Ends it as a power cut does; what it had written to standard error.
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

    /// Tells it to read again what it was given (SIGHUP), and waits until its log has these words for
    /// the `times`th time.
    pub(crate) async fn reads_again(&self, words: &str, times: usize) {
        let process = self.process().to_string();
        let told = Command::new("kill").args(["-HUP", &process]).status();
        assert!(told.expect("there is a kill").success());
        let said = async {
            while self.said().matches(words).count() < times {
                tokio::time::sleep(LOOK).await;
            }
        };
        let waited = tokio::time::timeout(START, said).await;
        assert!(waited.is_ok(), "no {words:?} in: {}", self.said());
    }

    /// Its process id.
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
        // From here on a failure ends the child too.
        let mut program = Self {
            child,
            address: unknown,
            admin: None,
            log: None,
        };
        let addresses = listening_addresses(BufReader::new(output));
        let next = || addresses.recv_timeout(START);
        program.address = next().expect("it prints `http://ADDRESS` first, where it listens");
        if admin == Admin::Free {
            next().expect("then what agents are pointed at");
            program.admin = Some(next().expect("then where it tells of itself"));
        }
        program
    }

    /// Waits until it has ended by itself.
    pub(crate) fn exit(&mut self) -> ExitStatus {
        self.child.wait().expect("it ends")
    }

    /// Where it tells of itself.
    pub(crate) fn admin(&self) -> SocketAddr {
        self.admin.expect("it was started with such a listener")
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only for a process that is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the program does that is given this on its standard input, with `environment` and nothing
/// else from ours.
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
    // A command that refuses its arguments leaves before it reads.
    _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

/// Reads the program's output to its end, so that it never blocks on a full pipe, and sends on
/// the address that each line has first.
fn listening_addresses(output: impl BufRead + Send + 'static) -> Receiver<SocketAddr> {
    let (found, address) = channel();
    thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            let said = line.split_once("://").map(|(_, rest)| rest);
            let text = said.and_then(|rest| rest.split([' ', '/']).next());
            if let Some(address) = text.and_then(|text| text.parse().ok()) {
                // The test may be over, and nobody asking any more.
                let _ = found.send(address);
            }
        }
    });
    address
}

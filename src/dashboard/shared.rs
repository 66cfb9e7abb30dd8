//! The state folder as the longhauls of one user share it: the token of their page, and a socket for each.

use std::error::Error;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderName, Request, StatusCode, request};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

/// Header with the token of the user's page.
pub(crate) const TOKEN: HeaderName = HeaderName::from_static("x-longhaul-token");
const TOKEN_FILE: &str = "page.token";
const SOCKET: &str = "sock";
/// Maximum time for the answer of a longhaul of the user.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum bytes of a page. An explanation of 400 rows with their text takes less.
pub(crate) const MAX_PAGE_BYTES: usize = 4 << 20;
/// Maximum processes that one page shows.
const MAX_PROCESSES: usize = 32;

/// Returns the token of the user's page, which the first process draws. Fails if other users have access to
/// `folder`, or the file cannot be used.
pub(crate) fn token(folder: &Path) -> io::Result<String> {
    check_private(folder)?;
    let path = folder.join(TOKEN_FILE);
    if !path.exists() {
        let mut secret = [0; 32];
        let random = rustls::crypto::ring::default_provider().secure_random;
        random.fill(&mut secret).map_err(|_| io::Error::other("no random numbers"))?;
        let copy = folder.join(format!("{TOKEN_FILE}.{}", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let digits = secret.iter().map(|byte| format!("{byte:02x}"));
        options.open(&copy)?.write_all(digits.collect::<String>().as_bytes())?;
        // The first of several processes wins, and no process reads half a token.
        let linked = fs::hard_link(&copy, &path);
        fs::remove_file(&copy)?;
        linked.or_else(|error| if path.exists() { Ok(()) } else { Err(error) })?;
    }
    fs::read_to_string(path)
}

/// Fails if other users have access to `folder`.
fn check_private(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let found = fs::metadata(folder)?;
        if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o077 != 0 {
            return Err(io::Error::other("the state folder is not for its owner only"));
        }
    }
    fs::metadata(folder).map(drop)
}

/// Returns the processes with a socket in `folder`, without this one.
pub(crate) fn processes(folder: &Path) -> Vec<u32> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let sockets = names.filter(|path| path.extension() == Some(OsStr::new(SOCKET)));
    let ids = sockets.filter_map(|path| path.file_stem()?.to_str()?.parse().ok());
    ids.filter(|id| *id != std::process::id()).take(MAX_PROCESSES).collect()
}

pub(crate) fn socket(folder: &Path, process: u32) -> PathBuf {
    folder.join(format!("{process}.{SOCKET}"))
}

/// Connects to `process`. Removes the socket of a process that has ended. Fails if the process belongs to
/// another user.
#[cfg(unix)]
pub(crate) async fn connect(folder: &Path, process: u32) -> io::Result<tokio::net::UnixStream> {
    check_private(folder)?;
    let path = socket(folder, process);
    let connected = tokio::net::UnixStream::connect(&path).await.inspect_err(|error| {
        if error.kind() == io::ErrorKind::ConnectionRefused {
            _ = fs::remove_file(&path);
        }
    })?;
    if is_own(&connected) { Ok(connected) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

#[cfg(not(unix))]
pub(crate) async fn connect(_: &Path, _: u32) -> io::Result<tokio::net::TcpStream> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Sends a request without a body to `process`, with the token. Returns the body of an answer 200.
pub(crate) async fn ask(folder: &Path, process: u32, request: request::Builder) -> Option<Bytes> {
    let asked = async {
        let socket = connect(folder, process).await.ok()?;
        let request = request.header(HOST, "localhost").header(TOKEN, token(folder).ok()?);
        let (status, body) = exchange(socket, request, MAX_PAGE_BYTES).await.ok()?;
        (status == StatusCode::OK).then_some(body)
    };
    timeout(ANSWER_TIMEOUT, asked).await.ok()?
}

/// Sends a request without a body. Returns the status and the body of the answer. Fails if the answer is not
/// HTTP, or its body exceeds `max_bytes`.
pub(crate) async fn exchange(
    socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: request::Builder,
    max_bytes: usize,
) -> Result<(StatusCode, Bytes), Box<dyn Error + Send + Sync>> {
    let request = request.body(Empty::<Bytes>::new())?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
    // The task ends with the process. If no response arrives, `send_request` returns the error.
    tokio::spawn(connection);
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), max_bytes).collect().await?;
    Ok((status, body.to_bytes()))
}

/// Returns the address at which another longhaul of the user serves the page.
pub(crate) async fn page(folder: &Path) -> Option<SocketAddr> {
    for process in processes(folder) {
        if let Some(page) = ask(folder, process, Request::get("/page")).await {
            return str::from_utf8(&page).ok()?.parse().ok();
        }
    }
    None
}

/// Whether the process at the other end belongs to this user.
#[cfg(unix)]
pub(crate) fn is_own(socket: &tokio::net::UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    socket.peer_cred().is_ok_and(|peer| peer.uid() == own)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_token_is_drawn_once_and_is_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(token(path).is_err(), "others could list the sockets");
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
        let first = token(path).unwrap();
        assert_eq!((first.len(), token(path).unwrap()), (64, first));
        let mode = fs::metadata(path.join(TOKEN_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(socket(path, 7), "").unwrap();
        fs::write(socket(path, std::process::id()), "").unwrap();
        assert_eq!(processes(path), [7]);
    }
}

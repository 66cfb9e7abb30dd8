//! Keys and tokens, each read once from a file or the environment and never shown.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use http::HeaderValue;

use super::listener::is_loopback;
use super::resolved::ResolvedSettings;
use super::setting::Setting;
use super::settings::{CLIENT_TOKENS_FILE, LISTEN, UPSTREAM_API_KEY, UPSTREAM_API_KEY_FILE};
use crate::error::Problem;

/// Maximum size of a key file. No key is longer; a larger file was named by mistake.
const KEY_BYTES: u64 = 16 * 1024;
/// Maximum size of the token file: room for thousands of clients, each with a token of a hundred
/// characters and a comment.
const MAX_TOKENS_FILE_BYTES: u64 = 1 << 20;
/// Minimum length of a token, as for the scope secret; shorter ones can be guessed.
const LEAST: usize = 32;

/// Tokens that clients must present.
#[derive(Clone, Default)]
pub struct ClientTokens {
    /// Digests, compared in constant time.
    digests: Vec<blake3::Hash>,
}

impl fmt::Debug for ClientTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens", self.digests.len())
    }
}

impl ClientTokens {
    /// Whether no token is required.
    pub(crate) fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }

    /// Whether `token` is one of the tokens. The time taken reveals neither which one matched nor
    /// how close a wrong one was.
    pub(crate) fn contains(&self, token: &[u8]) -> bool {
        let shown = blake3::hash(token);
        let same = self.digests.iter().filter(|token| **token == shown);
        // Compares all of them: no early exit.
        same.count() > 0
    }

    /// Reads the file of tokens, one a line. Errors never include a token.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = read_text_file(path, MAX_TOKENS_FILE_BYTES)?;
        let lines = text.lines().map(str::trim);
        let tokens = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut digests = Vec::new();
        for token in tokens {
            if token.len() < LEAST || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(format!(
                    "expected a token a line, each of {LEAST} or more random characters \
                     (openssl rand -hex 32)"
                ));
            }
            digests.push(blake3::hash(token.as_bytes()));
        }
        if digests.is_empty() {
            return Err("found no token, expected a token a line".into());
        }
        Ok(Self { digests })
    }
}

/// Returns the Authorization header for the upstream's key. Without client tokens, only programs on
/// this machine may use that key.
pub(super) fn upstream_authorization(
    found: &ResolvedSettings,
) -> Result<Option<HeaderValue>, Problem> {
    let (direct, file) = (&UPSTREAM_API_KEY, &UPSTREAM_API_KEY_FILE);
    let key = read_secret(found, direct, file, bearer_header)?;
    if key.is_some() {
        require_guarded_key(found, UPSTREAM_API_KEY_FILE.key)?;
    }
    Ok(key)
}

/// Checks that strangers cannot spend longhaul's own key, configured by the setting `whose`. Fails
/// if other machines can connect, and no client token is required.
pub(super) fn require_guarded_key(found: &ResolvedSettings, whose: &str) -> Result<(), Problem> {
    let listen = found.value(&LISTEN)?;
    let is_open = found.value(&CLIENT_TOKENS_FILE)?.is_none();
    if is_open && !is_loopback(listen) {
        let reason = format!(
            "anyone who connects to {listen} would spend the key of {whose}; require client tokens, \
             or listen on 127.0.0.1"
        );
        return Err(found.value_problem(&CLIENT_TOKENS_FILE, reason));
    }
    Ok(())
}

/// Reads a secret from the setting `direct`, or from the file that `file` names. Errors of `parse`
/// must not include the secret.
pub(super) fn read_secret<T>(
    found: &ResolvedSettings,
    direct: &Setting<Option<String>>,
    file: &Setting<Option<PathBuf>>,
    parse: fn(&str) -> Result<T, String>,
) -> Result<Option<T>, Problem> {
    match (found.value(direct)?, found.value(file)?) {
        (Some(_), Some(_)) => {
            let reason = format!("{} is set too; set only one of the two", direct.key);
            Err(found.value_problem(file, reason))
        }
        (Some(text), None) => {
            parse(&text).map(Some).map_err(|reason| found.value_problem(direct, reason))
        }
        (None, _) => from_file(found, file, |path| parse(&read_text_file(path, KEY_BYTES)?)),
    }
}

/// Reads the file that `setting` names; `None` if it names none. Errors of `read` must not include a
/// secret.
pub(super) fn from_file<T>(
    found: &ResolvedSettings,
    setting: &Setting<Option<PathBuf>>,
    read: impl FnOnce(&Path) -> Result<T, String>,
) -> Result<Option<T>, Problem> {
    let Some(path) = found.value(setting)? else {
        return Ok(None);
    };
    read(&path).map(Some).map_err(|reason| {
        let path = displayable_path(&path);
        found.value_problem(setting, format!("{path}: {reason}"))
    })
}

/// Returns the Authorization header for the key in the file at `path`. Errors never include the
/// key.
pub(super) fn authorization_from_file(path: &Path) -> Result<HeaderValue, String> {
    read_text_file(path, KEY_BYTES).and_then(|key| bearer_header(&key))
}

/// Returns the name of a secret's file for messages. If neither the file nor its folder exists, the
/// "name" may be the secret itself, entered into the wrong setting, and is not shown.
pub(super) fn displayable_path(path: &Path) -> String {
    // Any text that begins with a slash has the root as its folder, and the root always exists.
    let folder = path.parent().filter(|folder| folder.parent().is_some());
    if path.exists() || folder.is_some_and(Path::exists) {
        path.display().to_string()
    } else {
        "the named file (name not shown, because it may be the secret itself)".into()
    }
}

/// Reads the text of a file, which may contain a secret. Errors never include the text.
pub(super) fn read_text_file(path: &Path, most: u64) -> Result<String, String> {
    let mut text = String::new();
    File::open(path).and_then(|file| file.take(most + 1).read_to_string(&mut text)).map_err(
        |error| {
            format!("{error}; name a file that exists and is readable, or leave the setting empty")
        },
    )?;
    // A truncated secret would be a different secret.
    if text.len() as u64 > most {
        return Err(format!("expected at most {most} bytes"));
    }
    Ok(text)
}

/// Builds a bearer Authorization header. Errors never include the key.
pub(crate) fn bearer_header(key: &str) -> Result<HeaderValue, String> {
    let key = key.trim();
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("expected one key in printable ASCII and nothing else".into());
    }
    let value = HeaderValue::try_from(format!("Bearer {key}"));
    let mut value = value.map_err(|error| error.to_string())?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::super::Config;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn check(changes: &[(&str, &str)]) -> Result<Config, String> {
        Config::default_with(changes.iter().copied()).map_err(|problems| problems[0].to_string())
    }

    #[test]
    fn reads_the_upstream_key_from_setting_or_file_without_showing_it() {
        let key = file("sk-hunter2\n");
        let path = key.path().to_str().unwrap();
        for settings in [[("upstream.api_key", "sk-hunter2")], [("upstream.api_key_file", path)]] {
            let config = check(&settings).unwrap();
            let value = config.upstream.authorization.as_ref().unwrap();
            assert_eq!(value, "Bearer sk-hunter2");
            assert!(!format!("{config:?}").contains("hunter2"));
        }
        let missing = format!("{path}.not");
        let problem = check(&[("upstream.api_key_file", &missing)]).unwrap_err();
        assert!(problem.contains(&missing) && problem.contains("name a file"), "{problem}");
        let both = [("upstream.api_key", "x"), ("upstream.api_key_file", path)];
        assert!(check(&both).unwrap_err().contains("one of the two"));
        let problem = check(&[("upstream.api_key", "hunter 2")]).unwrap_err();
        assert!(!problem.contains("hunter"), "{problem}");
    }

    #[test]
    fn secret_given_in_place_of_a_file_name_is_not_shown() {
        for key in [
            "client_tokens_file",
            "store.scope_secret_file",
            "summary.api_key_file",
            "upstream.api_key_file",
        ] {
            for secret in ["sk-hunter2", "/hunter2", "hunter2/8=", &"hunter2".repeat(99)] {
                let problem = check(&[(key, secret)]).unwrap_err();
                assert!(problem.contains(key) && problem.contains("name a file"), "{problem}");
                assert!(!problem.contains("hunter2"), "{problem}");
            }
        }
    }

    #[test]
    fn refuses_an_upstream_key_on_a_public_listener_without_client_tokens() {
        let tokens = file(TOKEN);
        let path = tokens.path().to_str().unwrap();
        let key = ("upstream.api_key", "sk-1");
        let public = [key, ("listen", "0.0.0.0:8484"), ("public", "true")];
        let problem = check(&public).unwrap_err();
        assert!(problem.contains("would spend the key"), "{problem}");
        for listen in ["127.0.0.1:8484", "[::1]:8484"] {
            assert!(check(&[key, ("listen", listen)]).is_ok(), "{listen}");
        }
        assert!(check(&[public[0], public[1], ("client_tokens_file", path)]).is_ok());
        assert!(check(&public[1..]).is_ok(), "clients have keys of their own");
    }

    #[test]
    fn warns_of_a_remote_upstream_without_a_key_if_clients_use_tokens() {
        let tokens = file(TOKEN);
        let path = tokens.path().to_str().unwrap();
        let warnings = |changes: &[(&str, &str)]| -> Vec<String> {
            check(changes).unwrap().keyless_upstream_warnings().collect()
        };
        let tokens = ("client_tokens_file", path);
        let named = warnings(&[tokens]);
        assert_eq!(named.len(), 1);
        for word in ["https://api.openai.com", "upstream.api_key_file"] {
            assert!(named[0].contains(word), "{named:?}");
        }
        let none = Vec::<String>::new();
        assert_eq!(warnings(&[]), none);
        assert_eq!(warnings(&[tokens, ("upstream.api_key", "sk-1")]), none);
        assert_eq!(warnings(&[tokens, ("upstream.base", "http://vllm:8000")]), none);
    }

    #[test]
    fn reads_client_tokens_line_by_line_and_rejects_short_ones() {
        let tokens = file(&format!("# the team's\n{TOKEN}\n\n  {TOKEN}2  \n"));
        let path = tokens.path().to_str().unwrap();
        let config = check(&[("client_tokens_file", path)]).unwrap();
        assert!(config.client_tokens.contains(TOKEN.as_bytes()));
        assert!(config.client_tokens.contains(format!("{TOKEN}2").as_bytes()));
        assert!(!config.client_tokens.contains(b"# the team's"));
        assert!(!config.client_tokens.contains(b""));
        assert!(!format!("{config:?}").contains(TOKEN));
        let long = file(&format!("{TOKEN}\n").repeat(40_000));
        let problem = check(&[("client_tokens_file", long.path().to_str().unwrap())]).unwrap_err();
        assert!(problem.contains("at most"), "{problem}");
        for text in ["", "# none\n", "too short\n"] {
            let tokens = file(text);
            let path = tokens.path().to_str().unwrap();
            let problem = check(&[("client_tokens_file", path)]).unwrap_err();
            assert!(problem.contains("a token a line"), "{problem}");
            assert!(!problem.contains("too short"), "{problem}");
        }
    }
}

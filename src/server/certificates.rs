//! TLS towards clients: the listener's certificate, reloaded when its files change.

use std::fs::File;
use std::io::Read as _;
use std::mem::replace;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::config::TlsFiles;
use crate::error::Problem;
use parking_lot::{Mutex, RwLock};

/// Interval between checks of the certificate files. Operators renew certificates days before they
/// expire.
const CERTIFICATE_POLL: Duration = Duration::from_secs(10);
/// Maximum size of a certificate or key file in bytes: ample for a chain of a dozen certificates. A
/// larger file was configured by mistake.
const CERTIFICATE_BYTES: u64 = 1 << 20;

const CERTIFICATE_SETTING: &str = "tls.certificate_file";
const KEY_SETTING: &str = "tls.key_file";

/// First byte of every TLS session: the type of a handshake record (RFC 8446, 5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// The listener's current certificate and key.
pub(crate) struct Certificates {
    files: TlsFiles,
    acceptor: RwLock<TlsAcceptor>,
    /// Digest of the files as last read, usable or not, so that each version is judged once.
    last_digest: Mutex<blake3::Hash>,
}

pub(super) enum HandshakeResult {
    /// The client sent nothing, or the TLS handshake failed.
    NoSession,
    /// The client speaks another protocol than TLS. Nothing was consumed.
    NotTls(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Certificates {
    /// Reads the files for the first time. Fails if the files cannot be read, or do not hold a
    /// matching chain and key.
    pub(crate) fn open(files: TlsFiles) -> Result<Self, Problem> {
        let pair = CertificateAndKey::read(&files)?;
        Ok(Self {
            acceptor: RwLock::new(pair.build_acceptor(&files)?),
            last_digest: Mutex::new(pair.digest()),
            files,
        })
    }

    /// Reads the files again. If the new ones cannot be used, logs that once and keeps the previous
    /// certificate.
    pub(crate) fn reload(&self) {
        // Locked during the read, so that of two concurrent reloads the older does not overwrite
        // the newer.
        let mut seen = self.last_digest.lock();
        let read = CertificateAndKey::read(&self.files);
        let digest = match &read {
            Ok(pair) => pair.digest(),
            Err(problem) => blake3::hash(problem.to_string().as_bytes()),
        };
        if replace(&mut *seen, digest) == digest {
            return;
        }
        match read.and_then(|pair| pair.build_acceptor(&self.files)) {
            Ok(acceptor) => {
                *self.acceptor.write() = acceptor;
                tracing::info!("certificate reloaded; new connections use it");
            }
            Err(problem) => {
                tracing::warn!(
                    "cannot reload the certificate, keeping the previous one: {problem}"
                );
            }
        }
    }

    /// Reloads whenever the files have changed, until dropped.
    pub(super) async fn watch(self: Arc<Self>) {
        loop {
            sleep(CERTIFICATE_POLL).await;
            let own = Arc::clone(&self);
            // Blocking: a file system may be slow.
            _ = tokio::task::spawn_blocking(move || own.reload()).await;
        }
    }

    /// Performs the TLS handshake with a client.
    pub(super) async fn accept(&self, socket: TcpStream) -> HandshakeResult {
        let mut first = [0];
        match socket.peek(&mut first).await {
            Ok(1) if first == [HANDSHAKE_RECORD] => {}
            Ok(1) => return HandshakeResult::NotTls(socket),
            Ok(_) | Err(_) => return HandshakeResult::NoSession,
        }
        let acceptor = self.acceptor.read().clone();
        match acceptor.accept(socket).await {
            Ok(session) => HandshakeResult::Tls(Box::new(session)),
            Err(error) => {
                tracing::debug!(%error, "TLS handshake failed");
                HandshakeResult::NoSession
            }
        }
    }
}

/// Contents of the two files.
struct CertificateAndKey {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl CertificateAndKey {
    fn read(files: &TlsFiles) -> Result<Self, Problem> {
        Ok(Self {
            certificate: read_file(CERTIFICATE_SETTING, &files.certificate)?,
            key: read_file(KEY_SETTING, &files.key)?,
        })
    }

    fn digest(&self) -> blake3::Hash {
        let [certificate, key] = [&self.certificate, &self.key].map(|bytes| blake3::hash(bytes));
        blake3::hash(&[*certificate.as_bytes(), *key.as_bytes()].concat())
    }

    /// Builds the acceptor. Fails if the contents are not a matching chain and key. No error shows
    /// any part of them.
    fn build_acceptor(&self, files: &TlsFiles) -> Result<TlsAcceptor, Problem> {
        let no_chain =
            |reason: &str| certificate_problem(CERTIFICATE_SETTING, &files.certificate, reason);
        let chain = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| no_chain("it is not a PEM file"))?;
        if chain.is_empty() {
            return Err(no_chain("it contains no certificate in PEM"));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| {
            let reason = if matches!(error, PemError::NoItemsFound) {
                "it contains no private key in PEM that is not encrypted"
            } else {
                "it is not a PEM file"
            };
            certificate_problem(KEY_SETTING, &files.key, reason)
        })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| no_chain(&error.to_string()))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| pair_problem(files, &error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// Reads a whole file. A file that is too large is an error, since a truncated chain would be a
/// different chain.
fn read_file(setting: &'static str, path: &Path) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(CERTIFICATE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| certificate_problem(setting, path, &error.to_string()))?;
    if bytes.len() as u64 > CERTIFICATE_BYTES {
        let reason = format!("expected at most {CERTIFICATE_BYTES} bytes");
        return Err(certificate_problem(setting, path, &reason));
    }
    Ok(bytes)
}

/// Returns the problem with a chain and key that were parsed but cannot be used.
fn pair_problem(files: &TlsFiles, error: &rustls::Error) -> Problem {
    if matches!(error, rustls::Error::InconsistentKeys(_)) {
        let whose = files.certificate.display();
        let reason = format!("it is not the key of the first certificate in {whose}");
        certificate_problem(KEY_SETTING, &files.key, &reason)
    } else if matches!(error, rustls::Error::InvalidCertificate(_)) {
        certificate_problem(CERTIFICATE_SETTING, &files.certificate, &error.to_string())
    } else {
        certificate_problem(KEY_SETTING, &files.key, &error.to_string())
    }
}

fn certificate_problem(key: &'static str, path: &Path, reason: &str) -> Problem {
    Problem::Setting(format!("{key} {}: {reason}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs::write;

    use super::*;

    /// Checks the result of opening files with these texts.
    fn check(certificate: &str, key: &str, expect: Result<(), [&str; 2]>) {
        let dir = tempfile::tempdir().unwrap();
        let files = TlsFiles { certificate: dir.path().join("chain"), key: dir.path().join("key") };
        write(&files.certificate, certificate).unwrap();
        write(&files.key, key).unwrap();
        let opened = Certificates::open(files).map(drop);
        match expect {
            Ok(()) => assert!(opened.is_ok()),
            Err(words) => {
                let opened = opened.unwrap_err().to_string();
                for words in words {
                    assert!(opened.contains(words), "{opened}");
                }
            }
        }
    }

    fn issued() -> (String, String) {
        let issued = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        (issued.cert.pem(), issued.signing_key.serialize_pem())
    }

    #[test]
    fn accepts_a_chain_with_its_key_and_names_the_faulty_setting() {
        let ((one, its_key), (other, others_key)) = (issued(), issued());
        check(&one, &its_key, Ok(()));
        check(&format!("{one}{other}"), &its_key, Ok(()));
        check(&format!("{one}{its_key}"), &format!("{one}{its_key}"), Ok(()));
        check("", &its_key, Err([CERTIFICATE_SETTING, "no certificate in PEM"]));
        check(&its_key, &its_key, Err([CERTIFICATE_SETTING, "no certificate in PEM"]));
        check(&one[..one.len() / 2], &its_key, Err([CERTIFICATE_SETTING, "PEM"]));
        let nothing = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        check(nothing, &its_key, Err([CERTIFICATE_SETTING, "certificate"]));
        check(&one, "", Err([KEY_SETTING, "no private key"]));
        check(&one, &one, Err([KEY_SETTING, "no private key"]));
        check(
            &one,
            &its_key.replace("PRIVATE", "ENCRYPTED PRIVATE"),
            Err([KEY_SETTING, "not encrypted"]),
        );
        check(&one, &others_key, Err([KEY_SETTING, "not the key of"]));
        let long = "#".repeat(usize::try_from(CERTIFICATE_BYTES).unwrap() + 1);
        check(&one, &long, Err([KEY_SETTING, "at most"]));
    }

    #[test]
    fn error_names_a_missing_certificate_file() {
        let files = TlsFiles { certificate: "no/chain.pem".into(), key: "no/key.pem".into() };
        let opened = Certificates::open(files).map(drop).unwrap_err().to_string();
        assert!(opened.starts_with("tls.certificate_file no/chain.pem: "), "{opened}");
    }
}

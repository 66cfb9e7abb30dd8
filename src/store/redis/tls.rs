//! Certificate authorities that longhaul trusts for the server.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

/// Returns a connector that trusts the authorities of the operator's file and no others, if there is a file.
/// Otherwise it trusts the machine's, or Mozilla's if it has none. A store is a private server more often
/// than not. The error describes the defect of the file.
pub(super) fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, String> {
    let roots = match ca_file {
        Some(path) => from_file(path).map_err(|why| format!("{}: {why}", path.display()))?,
        None => from_machine(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config).into())
}

fn from_file(path: &Path) -> Result<RootCertStore, String> {
    let text = fs::read(path).map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let added = certificate.map(|certificate| roots.add(certificate));
        added
            .map_err(|error| error.to_string())?
            .map_err(|error| error.to_string())?;
    }
    if roots.is_empty() {
        return Err("it holds no certificate".to_owned());
    }
    Ok(roots)
}

fn from_machine() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trusts_only_the_machines_authorities_without_a_ca_file() {
        let machine = rustls_native_certs::load_native_certs().certs;
        let mut roots = RootCertStore::empty();
        let (usable, _) = roots.add_parsable_certificates(machine);
        let expect = if usable > 0 {
            usable
        } else {
            webpki_roots::TLS_SERVER_ROOTS.len()
        };
        assert_eq!(from_machine().len(), expect);
    }

    #[test]
    fn error_names_a_ca_file_without_certificates() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        fs::write(&path, "hello").unwrap();
        let why = connector(Some(&path)).err().unwrap();
        assert!(why.contains("ca.pem: it holds no certificate"), "{why}");
    }
}

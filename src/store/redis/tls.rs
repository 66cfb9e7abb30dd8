//! Certificate authorities that longhaul trusts for the server.

use std::fs;
use std::path::Path;

use pem::Pem;
use redis::TlsCertificates;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Returns the authorities of the operator's file and no others, if there is a file. Otherwise
/// returns the machine's, or Mozilla's if it has none. A store is a private server more often than
/// not. The error describes the defect of the file.
pub(super) fn certificates(ca_file: Option<&Path>) -> Result<TlsCertificates, String> {
    let root_cert = match ca_file {
        Some(path) => Some(from_file(path).map_err(|why| format!("{}: {why}", path.display()))?),
        // Without any, the library trusts Mozilla's.
        None => from_machine(),
    };
    Ok(TlsCertificates {
        client_tls: None,
        root_cert,
    })
}

fn from_file(path: &Path) -> Result<Vec<u8>, String> {
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
    Ok(text)
}

/// Returns the machine's authorities as PEM, which the library expects. The library accepts all
/// certificates or none, so unusable ones are left out.
fn from_machine() -> Option<Vec<u8>> {
    let mut roots = RootCertStore::empty();
    let mut text = Vec::new();
    for certificate in rustls_native_certs::load_native_certs().certs {
        if roots.add(certificate.clone()).is_ok() {
            let written = Pem::new("CERTIFICATE", certificate.as_ref());
            text.extend_from_slice(pem::encode(&written).as_bytes());
        }
    }
    (!roots.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trusts_only_the_machines_authorities_without_a_ca_file() {
        let machine = rustls_native_certs::load_native_certs().certs;
        let mut roots = RootCertStore::empty();
        let (usable, _) = roots.add_parsable_certificates(machine);
        let text = certificates(None).unwrap().root_cert.unwrap_or_default();
        assert_eq!(CertificateDer::pem_slice_iter(&text).count(), usable);
    }

    #[test]
    fn error_names_a_ca_file_without_certificates() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        fs::write(&path, "hello").unwrap();
        let why = certificates(Some(&path)).unwrap_err();
        assert!(why.contains("ca.pem: it holds no certificate"), "{why}");
    }
}

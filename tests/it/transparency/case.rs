//! A line of the contract: a script that is played twice, and what may differ between the two.

use super::exchange::{Exchange, Transcript, Upstream};
use super::tls::Terminator;
use crate::program::Program;
use std::pin::Pin;
use std::sync::Arc;

/// What a script returns.
pub(super) type BoxFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// How longhaul reaches upstream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scheme {
    Http,
    Https,
}

/// A line of the contract.
pub(super) struct Case {
    /// The fact it states.
    pub(super) name: String,
    /// The exceptions it needs.
    pub(super) allows: &'static [&'static str],
    scheme: Scheme,
    script: Box<dyn for<'a> Fn(&'a mut Exchange) -> BoxFuture<'a> + Send + Sync>,
}

impl Case {
    /// A case whose two sides follow `script`.
    pub(super) fn scripted(
        name: &str,
        allows: &'static [&'static str],
        script: impl for<'a> Fn(&'a mut Exchange) -> BoxFuture<'a> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.to_owned(),
            allows,
            scheme: Scheme::Http,
            script: Box::new(script),
        }
    }

    /// A case of one request, sent whole, and one reply, sent whole.
    pub(super) fn plain(
        name: &str,
        allows: &'static [&'static str],
        request: impl Into<Vec<u8>>,
        reply: impl Into<Vec<u8>>,
    ) -> Self {
        let (request, reply) = (request.into(), reply.into());
        Self::scripted(name, allows, move |x| {
            let (request, reply) = (request.clone(), reply.clone());
            Box::pin(async move { x.passes(request, reply).await })
        })
    }

    /// The same case, named for the path it uses.
    pub(super) fn on(self, path: &str) -> Self {
        Self {
            name: format!("{} ({path})", self.name),
            ..self
        }
    }

    /// The same case with TLS between longhaul and upstream.
    pub(super) fn over_tls(self) -> Self {
        Self {
            name: format!("{} (TLS)", self.name),
            scheme: Scheme::Https,
            ..self
        }
    }

    /// Plays the script both ways; both transcripts, without longhaul first.
    pub(super) async fn play(&self) -> (Transcript, Transcript) {
        let listener = Upstream::listen();
        let address = listener.local_addr().expect("a bound socket");
        let terminator = match self.scheme {
            Scheme::Http => None,
            Scheme::Https => Some(Terminator::in_front_of(address).await),
        };
        // As the client would name upstream if it spoke to it.
        let authority = terminator
            .as_ref()
            .map_or_else(|| address.to_string(), Terminator::authority);

        let upstream = Upstream::on(Arc::clone(&listener));
        let mut exchange = Exchange::open(upstream, address, authority.clone(), None).await;
        (self.script)(&mut exchange).await;
        let direct = exchange.finish().await;

        let program = match &terminator {
            None => Program::start(&format!("http://{authority}/v1"), &[]),
            Some(terminator) => Program::start(
                &format!("https://{authority}/v1"),
                &[("LONGHAUL_UPSTREAM_CA_FILE", terminator.ca_file())],
            ),
        };
        let upstream = Upstream::on(listener);
        upstream.forgets_who_waits().await;
        let reached = program.address();
        let host = reached.to_string();
        let mut exchange = Exchange::open(upstream, reached, host, Some(program)).await;
        (self.script)(&mut exchange).await;
        (direct, exchange.finish().await)
    }
}

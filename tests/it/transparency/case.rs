//! A case of the contract: a script that is played twice, and the permitted differences between the
//! two runs.

use super::between::{Ahead, Between, Middle};
use super::exchange::{Exchange, Transcript, Upstream};
use super::tls::Terminator;
use std::pin::Pin;
use std::sync::Arc;

/// The boxed future of a script.
pub(super) type BoxFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The protocol between longhaul and the upstream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

/// A case of the contract.
pub(crate) struct Case {
    /// The fact that the case states.
    pub(crate) name: String,
    /// The names of the exceptions that the case needs.
    pub(crate) allows: &'static [&'static str],
    pub(crate) scheme: Scheme,
    /// The request and the reply of a case that has no other script.
    pub(super) plain: Option<(Vec<u8>, Vec<u8>)>,
    script: Box<dyn for<'a> Fn(&'a mut Exchange) -> BoxFuture<'a> + Send + Sync>,
}

impl Case {
    /// Builds a case whose two sides follow `script`.
    pub(super) fn scripted(
        name: &str,
        allows: &'static [&'static str],
        script: impl for<'a> Fn(&'a mut Exchange) -> BoxFuture<'a> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.to_owned(),
            allows,
            scheme: Scheme::Http,
            plain: None,
            script: Box::new(script),
        }
    }

    /// Builds a case with one request and one reply, each sent in a single write.
    pub(super) fn plain(
        name: &str,
        allows: &'static [&'static str],
        request: impl Into<Vec<u8>>,
        reply: impl Into<Vec<u8>>,
    ) -> Self {
        let (request, reply) = (request.into(), reply.into());
        let plain = Some((request.clone(), reply.clone()));
        let case = Self::scripted(name, allows, move |x| {
            let (request, reply) = (request.clone(), reply.clone());
            Box::pin(async move { x.passes(request, reply).await })
        });
        Self { plain, ..case }
    }

    /// Adds the path to the case's name.
    pub(super) fn on(self, path: &str) -> Self {
        Self { name: format!("{} ({path})", self.name), ..self }
    }

    /// Changes the case to use TLS between longhaul and the upstream.
    pub(super) fn over_tls(self) -> Self {
        Self { name: format!("{} (TLS)", self.name), scheme: Scheme::Https, ..self }
    }

    /// Plays the script both ways; returns both transcripts, the direct one first.
    pub(super) async fn play(&self, between: &Between) -> (Transcript, Transcript) {
        let listener = match between {
            Between::Each(_) => Upstream::listen(0),
            Between::Running { upstream, .. } => Arc::clone(upstream),
        };
        let address = listener.local_addr().expect("a bound socket");
        let terminator = match self.scheme {
            Scheme::Http => None,
            Scheme::Https => Some(Terminator::in_front_of(address).await),
        };
        // The authority that a client would use to reach the upstream directly.
        let authority =
            terminator.as_ref().map_or_else(|| address.to_string(), Terminator::authority);

        let upstream = Upstream::on(Arc::clone(&listener));
        upstream.forgets_who_waits().await;
        let mut exchange = Exchange::open(upstream, address, authority.clone(), None).await;
        (self.script)(&mut exchange).await;
        let direct = exchange.finish().await;

        let scheme = if terminator.is_some() { "https" } else { "http" };
        let (reached, middle) = match between {
            Between::Each(start) => {
                let standing = start(&Ahead {
                    upstream: &format!("{scheme}://{authority}/v1"),
                    ca_file: terminator.as_ref().map(Terminator::ca_file),
                });
                (standing.address, Middle::Ours(standing.ends_with))
            }
            Between::Running { proxy, .. } => (*proxy, Middle::Theirs),
        };
        let upstream = Upstream::on(listener);
        upstream.forgets_who_waits().await;
        let host = reached.to_string();
        let mut exchange = Exchange::open(upstream, reached, host, Some(middle)).await;
        (self.script)(&mut exchange).await;
        (direct, exchange.finish().await)
    }
}

//! The table of all permitted differences between an exchange through longhaul and a direct one.
//!
//! A case names the exceptions that it needs. An exception has no effect in a case that does not
//! name it. A case fails if it names an exception that it does not need, so every exception is a
//! real difference.

use super::exchange::Transcript;
use super::message::{Message, find, name, value};
use std::fmt::Write;

/// A permitted difference.
pub(crate) struct Exception {
    /// Name by which cases refer to the exception.
    pub(crate) name: &'static str,
    /// Description of the difference.
    pub(crate) what: &'static str,
    /// Reason for the difference.
    pub(crate) why: &'static str,
    /// Removes the difference, and nothing else, from a transcript.
    pub(crate) forgive: fn(&mut Transcript),
    /// Whether the difference occurs in every run of a case, or depends on timing.
    pub(crate) certainty: Certainty,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Certainty {
    /// Depends on how the kernel delivers the bytes.
    Possible,
    /// Occurs whenever a case names it.
    Sure,
}

pub(crate) static EXCEPTIONS: &[Exception] = &[
    Exception {
        name: "host",
        what: "`Host` names the upstream, and is added where there was none",
        why: "the client was pointed at the proxy by its base URL; servers and TLS certificates go by this name",
        forgive: |heard| each(&mut heard.requests, |request| request.drop_fields("host")),
        certainty: Certainty::Sure,
    },
    Exception {
        name: "path",
        what: "a bare API path such as `/models` is joined to the path of the upstream's base URL",
        why: "agents differ in whether their base URL ends in `/v1`",
        forgive: |heard| {
            each(&mut heard.requests, |request| {
                replace(&mut request.start, b" /v1/", b" /");
            });
        },
        certainty: Certainty::Sure,
    },
    Exception {
        name: "absolute target",
        what: "of a target in absolute form, `http://host/path`, the path and query are sent on",
        why: "absolute form names the server to a forward proxy; longhaul's upstream is the one it was started with",
        forgive: |heard| {
            each(&mut heard.requests, |request| {
                replace(&mut request.start, b"http://other.example:81/", b"/");
            });
        },
        certainty: Certainty::Sure,
    },
    Exception {
        name: "fragment",
        what: "a `#` in a request's target is left out, with all behind it",
        why: "the HTTP library reads targets as URIs, and a target has no fragment (RFC 9112, 3.2)",
        forgive: |heard| each(&mut heard.requests, drop_fragment),
        certainty: Certainty::Sure,
    },
    Exception {
        name: "no target",
        what: "a target with `<`, `>`, a back quote, a quotation mark in its query, or bytes that are no UTF-8 is answered `400` here",
        why: "the HTTP library refuses it: no URI has them unencoded (RFC 3986, 2), and HTTP clients encode them",
        forgive: |heard| {
            heard.requests.clear();
            heard.replies.clear();
            heard.end = None;
        },
        certainty: Certainty::Sure,
    },
    Exception {
        name: "own fields",
        what: "request fields that begin with `x-longhaul-` are not sent on",
        why: "they speak to longhaul; upstream has no use for them",
        forgive: |heard| {
            each(&mut heard.requests, |request| {
                request.fields.retain(|line| !name(line).starts_with("x-longhaul-"));
            });
        },
        certainty: Certainty::Sure,
    },
    Exception {
        name: "hop-by-hop",
        what: "`Connection` and the fields it names, `Keep-Alive`, `Proxy-Connection`, `TE` but for `trailers`, and `Upgrade` where nothing is upgraded are not forwarded",
        why: "hop-by-hop fields belong to one connection (RFC 9110, 7.6.1)",
        forgive: |heard| {
            each(&mut heard.requests, drop_hop_by_hop);
            each(&mut heard.replies, drop_hop_by_hop);
            heard.end = None;
        },
        certainty: Certainty::Sure,
    },
    Exception {
        name: "equal names",
        what: "fields of one name that stood apart stand together, where the first one stood, in their order",
        why: "the HTTP library keeps fields by name; RFC 9110, 5.3 gives the order between different names no meaning",
        forgive: |heard| {
            each(&mut heard.requests, gather_equal_names);
            each(&mut heard.replies, gather_equal_names);
        },
        certainty: Certainty::Sure,
    },
    Exception {
        name: "white space",
        what: "one space between a field's colon and its value, none behind the value; one before an empty value comes or goes",
        why: "the HTTP library keeps values without the optional white space around them, which is no part of them (RFC 9110, 5.5)",
        forgive: |heard| {
            each(&mut heard.requests, trim_values);
            each(&mut heard.replies, trim_values);
        },
        certainty: Certainty::Sure,
    },
    Exception {
        name: "chunk sizes",
        what: "a chunked body may be cut into other chunks, without chunk extensions; its bytes and its trailers are the same",
        why: "chunks belong to one connection (RFC 9112, 7.1); bytes go on as they arrive and never wait for the rest of a chunk",
        forgive: |heard| {
            each(&mut heard.requests, forget_chunks);
            each(&mut heard.replies, forget_chunks);
        },
        certainty: Certainty::Possible,
    },
    Exception {
        name: "trailer names",
        what: "the names of trailer fields are written in lower case",
        why: "the HTTP library keeps the spelling of names for heads alone; names mean the same in any case (RFC 9110, 5.1)",
        forgive: |heard| {
            each(&mut heard.requests, lower_trailer_names);
            each(&mut heard.replies, lower_trailer_names);
        },
        certainty: Certainty::Sure,
    },
    Exception {
        name: "unasked trailers",
        what: "trailer fields that `Trailer` did not announce, and those of a reply to a client that sent no `TE: trailers`, do not pass",
        why: "the HTTP library keeps to RFC 9110, 6.5.1: whoever did not ask for trailers may have lost the body's end in them",
        forgive: |heard| {
            each(&mut heard.requests, drop_trailers);
            each(&mut heard.replies, drop_trailers);
        },
        certainty: Certainty::Sure,
    },
    Exception {
        name: "chat framing",
        what: "a chunked chat request goes on with `Content-Length`",
        why: "its body was read whole before it was sent, so its length is known; many model servers read nothing else",
        forgive: |heard| {
            each(&mut heard.requests, |request| {
                forget_chunks(request);
                request.drop_fields("transfer-encoding");
                request.drop_fields("content-length");
            });
        },
        certainty: Certainty::Sure,
    },
    Exception {
        name: "length beside chunks",
        what: "`Content-Length` of a reply that names transfer codings does not pass",
        why: "the codings hold (RFC 9112, 6.3), and who reads the length is cut off from the rest of the reply, or takes what follows for another",
        forgive: |heard| {
            each(&mut heard.replies, |reply| {
                if reply.is_chunked() {
                    reply.drop_fields("content-length");
                }
            });
        },
        certainty: Certainty::Sure,
    },
    Exception {
        name: "end of connection",
        what: "a reply that only the end of its connection ends goes on chunked",
        why: "the client's connection lives on, and a reply that broke off can be told from one that ended",
        forgive: |heard| {
            each(&mut heard.replies, |reply| {
                if reply.values("content-length").is_empty() {
                    forget_chunks(reply);
                    reply.drop_fields("transfer-encoding");
                    reply.complete = true;
                }
            });
            heard.end = None;
        },
        certainty: Certainty::Sure,
    },
    Exception {
        name: "framing of nothing",
        what: "`Content-Length` of a `304`, and `Transfer-Encoding` of a reply to HEAD, do not pass",
        why: "the HTTP library writes no framing where no body follows (RFC 9110, 8.6 and RFC 9112, 6.1 make both optional)",
        forgive: |heard| {
            each(&mut heard.replies, |reply| {
                if reply.status() == b"304" {
                    reply.drop_fields("content-length");
                }
                if reply.wire.is_empty() {
                    reply.drop_fields("transfer-encoding");
                }
            });
        },
        certainty: Certainty::Sure,
    },
    Exception {
        name: "reason phrase",
        what: "a reason phrase with bytes beyond ASCII is left out",
        why: "the HTTP library does not read it; clients ignore the phrase (RFC 9112, 4)",
        forgive: |heard| {
            each(&mut heard.replies, |reply| {
                if !reply.start.is_ascii() {
                    reply.start.truncate("HTTP/1.1 503 ".len());
                }
            });
        },
        certainty: Certainty::Sure,
    },
    Exception {
        name: "expect",
        what: "`Expect: 100-continue` is answered here and not sent on",
        why: "a client waits for it before it sends the body, and a chat body is read before upstream is asked",
        forgive: |heard| {
            each(&mut heard.requests, |request| request.drop_fields("expect"));
            heard.replies.retain(|reply| reply.status() != b"100");
        },
        certainty: Certainty::Sure,
    },
    Exception {
        name: "interim replies",
        what: "`1xx` replies other than `101` do not pass",
        why: "the HTTP library's server has no way to send them; they are advice, and a client may not rely on them (RFC 9110, 15.2)",
        forgive: |heard| {
            heard
                .replies
                .retain(|reply| !reply.status().starts_with(b"1") || reply.status() == b"101");
        },
        certainty: Certainty::Sure,
    },
    Exception {
        name: "version",
        what: "upstream is spoken to in HTTP/1.1 and the client in its own version, whatever the other side speaks",
        why: "the version belongs to one connection (RFC 9110, 2.5)",
        forgive: |heard| {
            each(&mut heard.requests, |request| {
                replace(&mut request.start, b"HTTP/1.0", b"HTTP/1.1");
            });
            each(&mut heard.replies, |reply| {
                replace(&mut reply.start, b"HTTP/1.0", b"HTTP/1.1");
            });
        },
        certainty: Certainty::Sure,
    },
    Exception {
        name: "no reply",
        what: "where upstream breaks off before its head was whole, the client gets a `502` in the API's error shape",
        why: "an error that says what happened, and that SDKs know how to treat, in place of a connection that breaks",
        forgive: |heard| {
            heard.replies.retain(|reply| !(reply.status() == b"502" && is_fault(reply)));
            heard.replies.retain(|reply| !reply.fields.is_empty());
            heard.end = None;
        },
        certainty: Certainty::Sure,
    },
    Exception {
        name: "break",
        what: "a reply that upstream broke off ends in FIN or RST, whichever upstream sent",
        why: "either way the client sees that its reply is not whole",
        forgive: |heard| {
            if heard.replies.last().is_some_and(|reply| !reply.complete) {
                heard.end = None;
            }
        },
        certainty: Certainty::Possible,
    },
];

/// Returns the exception called `name`.
pub(super) fn entry(name: &str) -> &'static Exception {
    let entry = EXCEPTIONS.iter().find(|exception| exception.name == name);
    entry.unwrap_or_else(|| panic!("no exception is called {name}"))
}

/// Renders the table for `docs/reference/wire.md`.
pub(crate) fn markdown() -> String {
    let mut table = "| | what differs | why |\n|---|---|---|\n".to_owned();
    for Exception { name, what, why, .. } in EXCEPTIONS {
        writeln!(table, "| {name} | {what} | {why} |").expect("a string takes all");
    }
    table
}

fn each(messages: &mut [Message], change: impl Fn(&mut Message)) {
    messages.iter_mut().for_each(change);
}

fn drop_hop_by_hop(message: &mut Message) {
    let named = message.values("connection").join(",");
    let upgraded = message.status() == b"101" || named.contains("upgrade");
    for field in named.split(',').map(str::trim).filter(|field| *field != "te") {
        if !(upgraded && field == "upgrade") {
            message.drop_fields(field);
        }
    }
    for field in ["connection", "keep-alive", "proxy-connection"] {
        message.drop_fields(field);
    }
    for line in message.fields.iter_mut().filter(|line| name(line) == "te") {
        let trailers = value(line).split(',').any(|coding| coding.trim() == "trailers");
        *line = if trailers { b"te: trailers".to_vec() } else { Vec::new() };
    }
    message.fields.retain(|line| !line.is_empty());
}

fn gather_equal_names(message: &mut Message) {
    let mut names: Vec<String> = Vec::new();
    for line in &message.fields {
        let name = name(line);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    // The sort is stable, so equal names keep their order.
    message.fields.sort_by_key(|line| names.iter().position(|known| *known == name(line)));
}

fn trim_values(message: &mut Message) {
    for line in &mut message.fields {
        let colon = find(line, b":").expect("a field has a colon");
        let value = line[colon + 1..].trim_ascii().to_vec();
        line.truncate(colon + 1);
        if !value.is_empty() {
            line.push(b' ');
        }
        line.extend(value);
    }
}

fn forget_chunks(message: &mut Message) {
    message.wire.clone_from(&message.content);
    for trailer in &message.trailers {
        message.wire.extend_from_slice(b"\r\n");
        message.wire.extend_from_slice(trailer);
    }
}

fn lower_trailer_names(message: &mut Message) {
    for trailer in &message.trailers {
        let colon = find(trailer, b":").expect("a field has a colon");
        let mut lowered = trailer.clone();
        lowered[..colon].make_ascii_lowercase();
        if let Some(at) = find(&message.wire, trailer) {
            message.wire.splice(at..at + trailer.len(), lowered);
        }
    }
}

fn drop_trailers(message: &mut Message) {
    message.wire.clone_from(&message.content);
}

fn drop_fragment(request: &mut Message) {
    if let Some(from) = find(&request.start, b"#") {
        let to = find(&request.start, b" HTTP/").expect("a request line has a version");
        request.start.drain(from..to);
    }
}

fn replace(line: &mut Vec<u8>, from: &[u8], to: &[u8]) {
    if let Some(at) = find(line, from) {
        line.splice(at..at + from.len(), to.iter().copied());
    }
}

/// Whether longhaul itself sent a reply, with an error in the API's shape.
fn is_fault(reply: &Message) -> bool {
    let body: Option<serde_json::Value> = serde_json::from_slice(&reply.content).ok();
    let error = body.as_ref().and_then(|body| body.get("error"));
    let shaped = ["message", "type", "code", "param"]
        .iter()
        .all(|key| error.is_some_and(|error| error.get(key).is_some()));
    shaped && reply.values("content-type") == ["application/json"]
}

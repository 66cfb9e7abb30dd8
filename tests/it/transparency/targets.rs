//! Methods and request targets.

use super::case::Case;
use super::{CHAT, OK, request};

pub(super) fn cases() -> Vec<Case> {
    let methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "x-Odd!"];
    let methods = methods.map(|method| {
        let name = format!("the method {method} passes");
        Case::plain(&name, &[], request(method, "/v1/files/1", "", ""), OK)
    });
    let targets = [
        "/",
        "/v1",
        "/v1/",
        "/v1/models?",
        "/v1/models??a=b?c",
        "/v1/models?limit=2&after=a%20b+c&&=&x",
        "/v1/models?q=[]{}|^`\\'",
        "/v1/models/openai%2Fgpt-5%3Afree",
        "/v1/models/%c3%a9%C3%A9",
        "/v1/models/\u{e9}",
        "/v1/models;version=1;a/b;c",
        "/v1/files//1",
        "//v1//models",
        "/v1/./models/../files/.",
        "/v1/../../etc",
        "/v1/a:b@c,d!$&'()*+=~_-",
        "/v1/chat/completions?api-version=2024-06-01&x=%2F",
        "/openai/deployments/gpt-4o/chat/completions?api-version=2024-06-01",
        "/v1beta/models/gemini:generateContent",
        "/nowhere/at/all",
    ];
    let targets = targets.map(|target| {
        let name = format!("the target {target} passes");
        Case::plain(&name, &[], request("GET", target, "", ""), OK)
    });
    let long = format!("/v1/models?q={}", "a".repeat(30_000));
    let mut cases = forms(&long);
    cases.extend(no_targets());
    cases.extend(methods);
    cases.extend(targets);
    cases
}

/// Targets that are not valid URIs.
fn no_targets() -> Vec<Case> {
    let mut cases = Vec::new();
    for target in [b"/v1/<".as_slice(), b"/v1/>", b"/v1/`", b"/v1/?\"", b"/v1/\xff"] {
        let name = format!("the target {} is no URI", target.escape_ascii());
        let request = [b"GET ", target, b" HTTP/1.1\r\nHost: {host}\r\n\r\n"].concat();
        cases.push(Case::scripted(&name, &["no target"], move |x| {
            let request = request.clone();
            Box::pin(async move {
                if x.is_proxied() {
                    x.client.says(request).await;
                    x.client.sees("HTTP/1.1 400 Bad Request\r\n").await;
                    x.client.sees_end().await;
                } else {
                    x.passes(request, OK).await;
                }
            })
        }));
    }
    cases
}

/// Targets in forms other than path and query.
fn forms(long: &str) -> Vec<Case> {
    vec![
        Case::plain("a target of 30 kB passes", &[], request("GET", long, "", ""), OK),
        Case::plain(
            "HEAD passes, and its reply has no body",
            &[],
            request("HEAD", "/v1/models", "", ""),
            "HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n",
        ),
        Case::plain("a GET of the chat path passes", &[], request("GET", CHAT, "", ""), OK),
        Case::plain("OPTIONS * passes", &[], request("OPTIONS", "*", "", ""), OK),
        Case::plain(
            "an absolute target",
            &["absolute target"],
            request("GET", "http://other.example:81/v1/models?a=%20", "", ""),
            OK,
        ),
        Case::plain("a request without Host", &["host"], "GET /v1/models HTTP/1.1\r\n\r\n", OK),
        Case::plain(
            "a fragment is cut",
            &["fragment"],
            request("GET", "/v1/models?a#b", "", ""),
            OK,
        ),
        Case::plain(
            "a bare API path is joined to the base",
            &["path"],
            request("GET", "/models?limit=1", "", ""),
            OK,
        ),
    ]
}

//! A real browser, driven through the pipe of its debugging protocol
//! (<https://chromedevtools.github.io/devtools-protocol/>).

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::block_in_place;

const BROWSER: &str = "chromium";
/// A generous limit that only bounds a hang.
const PATIENCE: Duration = Duration::from_mins(1);

/// A page in a browser without a window. Needs a runtime with several threads.
pub(crate) struct Browser {
    process: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    session: String,
    commands_sent: u64,
    /// Errors on the console, and exceptions.
    pub(crate) errors: Vec<String>,
    _home: TempDir,
}

impl Browser {
    /// Opens `url` in a window of this size.
    pub(crate) fn open(url: &str, size: (u32, u32)) -> Self {
        Self::open_after("", url, size)
    }

    /// Opens `url` in a window of this size, and runs `script` before the scripts of the page.
    pub(crate) fn open_after(script: &str, url: &str, (width, height): (u32, u32)) -> Self {
        let own = json!({ "source": script });
        let home = tempfile::tempdir().unwrap();
        // The browser reads commands from descriptor 3 and writes messages to descriptor 4.
        let script = "exec \"$0\" \"$@\" 3<&0 4>&1 1>&2";
        let mut process = Command::new("sh")
            .args(["-c", script, BROWSER, "--headless", "--no-sandbox"])
            .args(["--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-sync"])
            .args(["--disable-component-update", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", home.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let commands = process.stdin.take().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while output.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let value = serde_json::from_slice(&message).unwrap();
                if sender.send(value).is_err() {
                    return;
                }
                message.clear();
            }
        });
        let mut browser = Self {
            process,
            commands,
            messages,
            session: String::new(),
            commands_sent: 0,
            errors: Vec::new(),
            _home: home,
        };
        let target = browser.command("Target.createTarget", &json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.command("Target.attachToTarget", &target);
        attached["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.command(domain, &json!({}));
        }
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1,
            "mobile": width < 500});
        browser.command("Emulation.setDeviceMetricsOverride", &size);
        browser.command("Page.addScriptToEvaluateOnNewDocument", &own);
        browser.command("Page.navigate", &json!({ "url": url }));
        browser
    }

    /// Makes the page see this preference for a colour scheme, `light` or `dark`, and waits until no
    /// colour is on its way to another.
    pub(crate) fn prefers(&mut self, scheme: &str) {
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        self.command("Emulation.setEmulatedMedia", &json!({"features": [feature]}));
        self.wait_for("document.getAnimations().length === 0");
    }

    /// Evaluates an expression in the page and returns its value.
    #[track_caller]
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.command("Runtime.evaluate", &asked);
        let failure = &answer["exceptionDetails"];
        assert!(failure.is_null(), "{expression}: {failure}");
        answer["result"]["value"].clone()
    }

    /// Evaluates an expression whose value is a text.
    #[track_caller]
    pub(crate) fn text(&mut self, expression: &str) -> String {
        let value = self.value(expression);
        value.as_str().unwrap_or_else(|| panic!("{expression}: {value}")).to_owned()
    }

    /// Waits until an expression is true in the page.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, expression: &str) {
        let waits = format!(
            "new Promise((resolve, reject) => {{ let left = 2000; const look = () => {{ let is = false; \
             try {{ is = {expression}; }} catch {{ }} if (is) resolve(true); else if (--left === 0) \
             reject(new Error(document.body.innerText)); else setTimeout(look, 20); }}; look(); }})"
        );
        self.value(&waits);
    }

    /// Presses and releases a key.
    pub(crate) fn press(&mut self, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            let text = if key == "Enter" && kind == "keyDown" { "\r" } else { "" };
            let event = json!({"type": kind, "key": key, "code": key, "text": text,
                "windowsVirtualKeyCode": code});
            self.command("Input.dispatchKeyEvent", &event);
        }
    }

    /// Presses or releases the mouse at a place.
    pub(crate) fn mouse(&mut self, kind: &str, place: &Value) {
        let event = json!({"type": kind, "x": place[0], "y": place[1], "button": "left",
            "clickCount": 1});
        self.command("Input.dispatchMouseEvent", &event);
    }

    fn command(&mut self, method: &str, params: &Value) -> Value {
        block_in_place(|| self.exchange(method, params))
    }

    fn exchange(&mut self, method: &str, params: &Value) -> Value {
        self.commands_sent += 1;
        let mut command = json!({"id": self.commands_sent, "method": method, "params": params});
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        self.commands.write_all(command.to_string().as_bytes()).unwrap();
        self.commands.write_all(&[0]).unwrap();
        loop {
            let message = self.messages.recv_timeout(PATIENCE).unwrap();
            if message["id"] == self.commands_sent {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, message: &Value) {
        let is_error = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => message["params"]["entry"]["level"] == "error",
            Some("Runtime.consoleAPICalled") => message["params"]["type"] == "error",
            Some(_) | None => false,
        };
        if is_error {
            self.errors.push(message.to_string());
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

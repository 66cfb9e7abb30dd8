//! `longhaul connect AGENT --write` and `--undo`, on files as people have them.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A home with the file of one agent.
struct Home {
    folder: TempDir,
    agent: &'static str,
    file: PathBuf,
}

impl Home {
    fn new(agent: &'static str, file: &str, text: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(file);
        if let Some(text) = text {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
        }
        Self { folder, agent, file }
    }

    fn connect(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(["connect", self.agent])
            .args(arguments)
            .env_clear()
            .env("HOME", self.folder.path())
            .output()
            .unwrap()
    }

    /// Runs the command, which succeeds, and returns what it reports.
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.connect(arguments);
        assert!(output.status.success(), "{} {arguments:?}: {output:?}", self.agent);
        String::from_utf8(output.stderr).unwrap()
    }

    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.connect(arguments);
        assert_eq!(output.status.code(), Some(64), "{} {arguments:?}: {output:?}", self.agent);
        String::from_utf8(output.stderr).unwrap()
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.file).unwrap()
    }
}

const WRITE: [&str; 3] = ["--write", "--model", "m-1"];
const BASE: &str = "http://127.0.0.1:8484/v1";

/// Agents with a file of each, and what `--write` adds. `+` begins a line that is added.
const LIVED_IN: &[(&str, &str, &str)] = &[
    (
        "codex",
        ".codex/config.toml",
        "# of mine\nmodel = \"gpt-5\"  # good\n+openai_base_url = \"http://127.0.0.1:8484/v1\"\n\
         +model_context_window = 1000000\n\n# servers\n[mcp_servers.docs]\ncommand = \"npx\"\n",
    ),
    (
        "codex",
        ".codex/config.toml",
        "+openai_base_url = \"http://127.0.0.1:8484/v1\"\n+model_context_window = 1000000\n\
         # tables first\n[tui]\ntheme = \"dark\"\n\n[projects.\"/x\"]\ntrust_level = \"trusted\"",
    ),
    (
        "claude",
        ".claude/settings.json",
        "{\n    \"permissions\": {\"allow\": [\"Bash(ls)\"]},\n    \"statusLine\": {\"type\": \
         \"command\", \"command\": \"mine\"},\n    \"env\": {\n+        \"ANTHROPIC_BASE_URL\": \
         \"http://127.0.0.1:8484\",\n+        \"CLAUDE_CODE_MAX_CONTEXT_TOKENS\": \"1000000\"\n    \
         },\n    \"model\": \"opus\"\n}",
    ),
    (
        "opencode",
        ".config/opencode/opencode.jsonc",
        "{\n\t// mine\n\t\"theme\": \"x\", // dark\n\t\"provider\": {\n+\t\t\"longhaul\": {\n\
         +\t\t\t\"npm\": \"@ai-sdk/openai-compatible\",\n+\t\t\t\"options\": {\n\
         +\t\t\t\t\"baseURL\": \"http://127.0.0.1:8484/v1\",\n\
         +\t\t\t\t\"apiKey\": \"{env:OPENAI_API_KEY}\"\n+\t\t\t},\n+\t\t\t\"models\": {\n\
         +\t\t\t\t\"m-1\": {}\n+\t\t\t}\n+\t\t}\n\t},\n}\n",
    ),
    (
        "gptme",
        ".config/gptme/config.toml",
        "[user]\nname = \"me\"\n\n[[providers]]\nname = \"g\"  # fast\n\n+[[providers]]\n\
         +name = \"longhaul\"\n+base_url = \"http://127.0.0.1:8484/v1\"\n\
         +api_key_env = \"OPENAI_API_KEY\"\n+default_model = \"m-1\"\n+\n[env]\nG = \"k\"\n",
    ),
    (
        "mini-swe-agent",
        ".config/mini-swe-agent/.env",
        "# keys\nexport MSWEA_CONFIGURED='true'\r\nOPENAI_API_KEY='sk'\n\
         +OPENAI_API_BASE='http://127.0.0.1:8484/v1'\n\
         +ANTHROPIC_API_BASE='http://127.0.0.1:8484'\n",
    ),
    (
        "aider",
        ".aider.conf.yml",
        "# aider\nmodel: gpt-5\nread:\n  - A.md  # rules\n\
         +openai-api-base: http://127.0.0.1:8484/v1\n",
    ),
    ("aider", ".aider.conf.yml", "# nothing yet\n+openai-api-base: http://127.0.0.1:8484/v1\n"),
    (
        "continue",
        ".continue/config.yaml",
        "schema: v1\nname: Mine\nversion: 1.0.0\nmodels:\n  # local\n  - name: L\n    \
         provider: ollama\n    model: l\n\n  - name: Second\n    model: s\n\
         +  - name: longhaul m-1\n+    provider: openai\n+    model: m-1\n\
         +    apiBase: http://127.0.0.1:8484/v1\n+    apiKey: ${{ secrets.OPENAI_API_KEY }}\n\
         rules:\n  - be nice\n",
    ),
];

/// Returns the text before `--write` and after.
fn before_and_after(marked: &str) -> (String, String) {
    let lines = marked.split_inclusive('\n');
    let before = lines.clone().filter(|line| !line.starts_with('+')).collect();
    (before, lines.map(|line| line.strip_prefix('+').unwrap_or(line)).collect())
}

#[test]
fn writes_keys_where_they_belong_and_takes_them_back_byte_for_byte() {
    for (agent, file, marked) in LIVED_IN {
        let (before, after) = before_and_after(marked);
        let home = Home::new(agent, file, Some(&before));
        let told = home.done(&WRITE);
        let plain = |text: String| text.replace('\r', "").trim_end().to_owned();
        assert_eq!(plain(home.text()), plain(after), "{agent}: {told}");
        assert!(home.done(&WRITE).contains("has it all"));
        home.done(&["--undo"]);
        assert_eq!(home.text(), before, "{agent}");
        assert!(home.done(&["--undo"]).contains("nothing to undo"));
    }
}

/// Every agent of the table whose file can be written.
const AGENTS: &[(&str, &str)] = &[
    ("aider", ".aider.conf.yml"),
    ("claude", ".claude/settings.json"),
    ("cline", ".cline/data/settings/providers.json"),
    ("codex", ".codex/config.toml"),
    ("continue", ".continue/config.yaml"),
    ("gptme", ".config/gptme/config.toml"),
    ("mini-swe-agent", ".config/mini-swe-agent/.env"),
    ("opencode", ".config/opencode/opencode.json"),
    ("pi", ".pi/agent/models.json"),
    ("qwen", ".qwen/settings.json"),
    ("tunacode", ".config/tunacode.json"),
];

#[test]
fn an_empty_home_is_empty_again() {
    for (agent, file) in AGENTS {
        let home = Home::new(agent, file, None);
        home.done(&WRITE);
        let text = home.text();
        assert!(text.contains("http://127.0.0.1:8484") && !text.contains("4096"), "{text}");
        home.done(&["--undo"]);
        assert!(!home.file.exists(), "{agent}");
    }
}

#[test]
fn what_somebody_adds_stays_and_what_they_change_is_named() {
    let json = "{\n  \"a\": [1, {\"b\": null}]\n}\n";
    for (agent, file) in AGENTS {
        let is_json = PathBuf::from(file).extension().is_some_and(|ending| ending == "json");
        let (before, theirs) = if is_json { (json, "  \"a\": 2,\n") } else { ("", "# theirs\n") };
        let home = Home::new(agent, file, Some(before));
        home.done(&WRITE);
        let written = home.text();
        let touched = if is_json {
            written.replacen("\"a\": [1, {\"b\": null}]", "\"z\": 3", 1)
        } else {
            theirs.to_owned() + &written
        };
        fs::write(&home.file, &touched).unwrap();
        home.done(&["--undo"]);
        let left = home.text();
        assert!(!left.contains("127.0.0.1"), "{agent}: {left}");
        assert!(left.contains(if is_json { "\"z\": 3" } else { "# theirs" }), "{agent}: {left}");

        fs::write(&home.file, before).unwrap();
        home.done(&WRITE);
        let moved = home.text().replace("8484", "9999");
        fs::write(&home.file, &moved).unwrap();
        let told = home.done(&["--undo"]);
        assert!(told.contains("was changed since"), "{agent}: {told}");
        assert!(home.text().contains("9999"), "{agent}");
    }
}

#[test]
fn replaces_the_users_own_value_by_force_only_and_brings_it_back() {
    let before = "openai_base_url = \"https://mine/v1\" # gateway\n\n[tui]\nx = 1\n";
    let home = Home::new("codex", ".codex/config.toml", Some(before));
    let told = home.refused(&["--write"]);
    assert!(told.contains("openai_base_url") && told.contains("--force"), "{told}");
    assert!(!told.contains("https://mine"), "{told}");
    assert_eq!(home.text(), before);
    home.done(&["--write", "--force"]);
    assert!(home.text().starts_with(&format!("openai_base_url = \"{BASE}\" # gateway\n")));
    // Another port replaces our own value without force.
    home.done(&["--write", "--listen", "127.0.0.1:9000"]);
    assert!(home.text().contains("127.0.0.1:9000"));
    home.done(&["--undo"]);
    assert_eq!(home.text(), before);
    home.done(&["--write", "--force"]);
    fs::write(&home.file, home.text() + "y = 2\n").unwrap();
    home.done(&["--undo"]);
    assert_eq!(home.text(), before.to_owned() + "y = 2\n");
}

#[test]
fn refuses_a_file_that_does_not_parse_without_showing_it() {
    for (agent, file, text) in [
        ("codex", ".codex/config.toml", "a = 1\nkey = sk-hunter2\n"),
        ("codex", ".codex/config.toml", "a = 1\na = \"sk-hunter2\"\n"),
        ("claude", ".claude/settings.json", "{\"a\": \"sk-hunter2\"\n"),
        ("claude", ".claude/settings.json", "[\"sk-hunter2\"]"),
        ("claude", ".claude/settings.json", "{\"a\": \"sk-hunter2\",} // not for Claude Code"),
        ("continue", ".continue/config.yaml", "a: [sk-hunter2\n"),
        ("continue", ".continue/config.yaml", "a: 1\n b: sk-hunter2\n"),
        ("continue", ".continue/config.yaml", "models: sk-hunter2\n"),
        ("claude", ".claude/settings.json", "{\"env\": \"sk-hunter2\"}"),
    ] {
        let home = Home::new(agent, file, Some(text));
        let told = home.refused(&WRITE);
        assert!(!told.contains("hunter2"), "{told}");
        assert_eq!(home.text(), text);
        assert!(home.done(&["--undo"]).contains("nothing to undo"));
    }
}

#[cfg(unix)]
#[test]
fn a_link_stays_a_link_and_the_mode_stays() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new("codex", "dotfiles/codex.toml", Some("a = 1\n"));
    fs::set_permissions(&home.file, fs::Permissions::from_mode(0o640)).unwrap();
    let link = home.folder.path().join(".codex/config.toml");
    fs::create_dir(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&home.file, &link).unwrap();
    home.done(&["--write"]);
    assert!(home.text().contains(BASE));
    assert!(link.is_symlink());
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&link), 0o640);
    // The journal has the text of the file.
    assert_eq!(mode(&home.folder.path().join(".local/state/longhaul/connect.json")), 0o600);
}

#[test]
fn an_agent_that_needs_a_model_says_so() {
    for agent in ["continue", "gptme", "qwen"] {
        let told = Home::new(agent, "x", None).refused(&["--write"]);
        assert!(told.contains("--model"), "{told}");
    }
}

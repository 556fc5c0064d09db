//! A Chromium of this machine, driven through the `test/browser.mjs` of a page's sources.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::Namespace;

#[derive(Debug)]
pub struct Browser {
    child: Child,
    network: Option<Namespace>,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Browser {
    /// Starts a browser with the sources in `web`, for a page at `url`.
    pub fn start(web: &Path, url: &str) -> Self {
        Self::run(Command::new("node"), None, web, url)
    }

    /// Starts a browser in its own network, from which only [`Browser::allow`] leads out. Chromium
    /// aborts loading when a link or an address is added or removed (`ERR_NETWORK_CHANGED`), and
    /// the clusters of other tests have links on this machine.
    pub fn start_apart(web: &Path, url: &str) -> Self {
        let network = Namespace::new();
        network.ip("link set lo up");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", network.name(), "node"]);
        Self::run(command, Some(network), web, url)
    }

    /// Gives it access to a port of this machine's loopback, if it has its own network.
    pub fn allow(&self, port: u16) {
        if let Some(network) = &self.network {
            network.forward(port);
        }
    }

    fn run(mut node: Command, network: Option<Namespace>, web: &Path, url: &str) -> Self {
        assert!(
            web.join("node_modules/puppeteer-core").exists(),
            "run `npm ci` in {}, or `cargo xtask test real`, which does",
            web.display()
        );
        node.args(["test/browser.mjs", "/usr/bin/chromium", url]);
        let mut child = node
            .current_dir(web)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Node.js is needed for this test");
        Self {
            commands: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
            network,
        }
    }

    fn command(&mut self, command: &Value) -> Value {
        let input = self.commands.as_mut().unwrap();
        writeln!(input, "{command}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the browser has ended at {command}");
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert!(answer["error"].is_null(), "{command}: {}", answer["error"]);
        answer["ok"].clone()
    }

    pub fn size(&mut self, width: u32, height: u32, theme: &str) {
        self.command(&json!({"do": "size", "width": width, "height": height, "theme": theme}));
    }

    pub fn open(&mut self, view: &str) {
        self.command(&json!({"do": "open", "view": view}));
    }

    /// Waits for an element, and returns when it appeared, in milliseconds since 1970.
    pub fn wait(&mut self, selector: &str) -> u128 {
        let at = self.command(&json!({"do": "wait", "selector": selector}));
        at.as_u64().unwrap().into()
    }

    /// Waits until the element's text begins with these words.
    pub fn says(&mut self, selector: &str, words: &str) {
        self.command(&json!({"do": "says", "selector": selector, "words": words}));
    }

    /// The legend of the map.
    pub fn counts(&mut self) -> Value {
        self.command(&json!({"do": "counts"}))
    }

    /// Moves the mouse to a cell of the map, and returns the text about the cell.
    pub fn hover(&mut self, index: u64) -> String {
        let text = self.command(&json!({"do": "hover", "index": index}));
        text.as_str().unwrap().to_owned()
    }

    pub fn press(&mut self, keys: &[&str]) {
        self.command(&json!({"do": "press", "keys": keys}));
    }

    /// Replaces the content of a field by typing `text`.
    pub fn fill(&mut self, selector: &str, text: &str) {
        self.command(&json!({"do": "fill", "selector": selector, "text": text}));
    }

    pub fn click(&mut self, selector: &str) {
        self.command(&json!({"do": "click", "selector": selector}));
    }

    /// Waits until the text contains these words, and returns all of it.
    pub fn has(&mut self, selector: &str, words: &str) -> String {
        let text = self.command(&json!({"do": "has", "selector": selector, "words": words}));
        text.as_str().unwrap().to_owned()
    }

    /// Whether the element is disabled now.
    pub fn is_disabled(&mut self, selector: &str) -> bool {
        let script = format!("document.querySelector({selector:?}).disabled");
        self.evaluate(&script).as_bool().unwrap()
    }

    /// Opens another page, and returns its status and text.
    pub fn visit(&mut self, address: &str) -> (u64, String) {
        let found = self.command(&json!({"do": "visit", "address": address}));
        let text = found["text"].as_str().unwrap().to_owned();
        (found["status"].as_u64().unwrap(), text)
    }

    /// Returns the value of a script on the open page.
    pub fn evaluate(&mut self, script: &str) -> Value {
        self.command(&json!({"do": "evaluate", "script": script}))
    }

    pub fn faults(&mut self) -> Vec<String> {
        texts(&self.command(&json!({"do": "faults"})))
    }

    pub fn shot(&mut self, path: &Path) {
        self.command(&json!({"do": "shot", "path": path}));
    }

    pub fn errors(&mut self) -> Vec<String> {
        texts(&self.command(&json!({"do": "errors"})))
    }
}

/// The script ends Chromium when its stdin is closed.
impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.commands.take());
        drop(self.child.wait());
    }
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().unwrap().iter();
    texts.map(|text| text.as_str().unwrap().to_owned()).collect()
}

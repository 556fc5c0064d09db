//! `berth dashboard`, and a browser that shows its page.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use berth_api::Subnet;
use berth_e2e::Scene;
use berth_testbed::{Figures, Process};
use berth_testkit::Browser;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

/// The number of changes.
const UPDATES: usize = 20;

pub struct Page {
    url: String,
    browser: Browser,
    server: Server,
}

/// Ends when it is dropped.
struct Server {
    child: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Page {
    pub fn start(scene: &Scene) -> Self {
        let program = std::env::var_os("BERTH_PROGRAM")
            .expect("BERTH_PROGRAM names the program: use `cargo xtask bench dashboard`");
        let mut command = Command::new(program);
        command.args(["dashboard", "--listen=127.0.0.1:0", "--kubeconfig"]);
        command.arg(scene.cluster.kubeconfig()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let url = format!("http://{}", line.trim().split_once("http://").unwrap().1);
        let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/dashboard/web");
        let mut browser = Browser::start(&web, &url);
        browser.size(1440, 900, "light");
        Self {
            url,
            browser,
            server: Server { child },
        }
    }

    /// Measures the overview, and the map of a million addresses.
    pub fn measure_paint(&mut self, figures: &mut Figures) {
        // The server has seen everything once the overview counts it.
        self.browser.open("");
        self.browser.has("main", "5,000");
        for (view, name) in [("", "overview"), ("subnets/pods", "map of the Subnet")] {
            // A new URL makes the browser load the page: an open page would only change its view.
            let begin = milliseconds();
            self.browser.visit(&format!("{}?{begin}#/{view}", self.url));
            self.browser.wait("main h2, main .tile");
            if !view.is_empty() {
                self.browser.counts();
            }
            figures.millis(&format!("{name}: all of it"), (milliseconds() - begin) as f64);
            let script = "performance.getEntriesByName('first-contentful-paint')[0].startTime";
            let paint = self.browser.evaluate(script).as_f64().unwrap();
            figures.millis(&format!("{name}: first paint"), paint);
        }
    }

    /// Measures the time from the API server's answer until the page shows the change.
    pub async fn measure_updates(&mut self, client: &Client, figures: &mut Figures) {
        self.browser.open("subnets");
        let subnets = Api::<Subnet>::all(client.clone());
        let mut times = Vec::new();
        for number in 0..UPDATES {
            let name = format!("extra-{number}");
            let subnet = json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "Subnet", "metadata": {"name": name},
                "spec": {
                    "cidrs": [format!("10.200.{number}.0/24")],
                    "nodeSelector": {"matchLabels": {"no": "node"}},
                },
            });
            let subnet: Subnet = serde_json::from_value(subnet).unwrap();
            subnets.create(&PostParams::default(), &subnet).await.unwrap();
            let written = milliseconds();
            let seen = self.browser.wait(&format!("a[href='#/subnets/{name}']"));
            times.push(seen.saturating_sub(written));
        }
        times.sort_unstable();
        figures.millis("a change is on the page, median", times[UPDATES / 2] as f64);
        figures.millis("a change is on the page, at most", times[UPDATES - 1] as f64);
    }

    pub fn measure_memory(&self, figures: &mut Figures) {
        let process = Process::find(self.server.child.id()).unwrap();
        figures.mebibytes("the server's memory", process.resident().unwrap());
        figures.mebibytes("the server's memory at most", process.most_resident().unwrap());
    }
}

fn milliseconds() -> u128 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap().as_millis()
}

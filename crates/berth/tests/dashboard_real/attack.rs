//! A page of another site, in the same Chromium, that knows even the token: it can't write.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use serde_json::{Value, json};

use super::form::{clusters, make_cluster};
use super::up::Berth;

/// Serves one page to whoever asks for anything, until the test ends. A browser opens connections
/// that it may need later and says nothing on them: each is served for itself.
fn serve(page: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let page: Arc<str> = page.into();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let page = Arc::clone(&page);
            std::thread::spawn(move || answer(stream.unwrap(), &page));
        }
    });
    address
}

fn answer(mut stream: TcpStream, page: &str) {
    let lines = BufReader::new(&stream).lines();
    // The end of the head; what else is there does not matter.
    let head: Vec<String> = lines
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
        .collect();
    if head.is_empty() {
        return;
    }
    let length = page.len();
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{page}"
    );
    drop(stream.write_all(answer.as_bytes()));
}

#[tokio::test]
async fn a_page_of_another_site_can_not_write() {
    let berth = Berth::start(&["--in-memory"]);
    let client = berth.client().await;
    make_cluster(&client, "blue", json!({"vsphere": {}})).await;
    let live = clusters(&client).get("blue").await.unwrap();
    let version = json!({
        "uid": live.metadata.uid, "generation": live.metadata.generation,
    });
    let body = json!({"version": version, "networks": [{"cidr": "10.66.0.0/24"}]}).to_string();
    let target = format!("{}api/clusters/blue", berth.dashboard);
    // A form whose text is JSON, as far as a form can make it.
    let (name, value) = body.split_once("\"networks\"").unwrap();
    let escaped = |text: &str| text.replace('"', "&quot;");
    let page = format!(
        "<!doctype html><title>evil</title><form method=post enctype=text/plain action=\"{target}\">\
         <input name=\"{}&quot;x&quot;:&quot;\" value=\"&quot;,&quot;networks&quot;{}\"></form>",
        escaped(name),
        escaped(value)
    );
    let evil = serve(page);
    let mut browser = berth.browser();
    browser.allow(evil.port());
    browser.size(1440, 900, "light");

    // The same machine, another port: another origin, and for cookies even the same site.
    for origin in [format!("http://localhost:{}/", evil.port()), format!("http://{evil}/")] {
        let (status, _) = browser.visit(&origin);
        assert_eq!(status, 200);
        let fetched = |mode: &str, kind: &str| {
            format!(
                "fetch({target:?}, {{method: 'POST', mode: {mode:?}, body: {body:?}, headers: \
                 {{'Content-Type': {kind:?}, 'Authorization': 'Bearer {}'}}}})\
                 .then((answer) => `${{answer.type}} ${{answer.status}}`, () => 'refused')",
                berth.token
            )
        };
        // The browser asks first, and nobody answers.
        assert_eq!(browser.evaluate(&fetched("cors", "application/json")), "refused");
        assert_eq!(browser.evaluate(&fetched("cors", "text/plain")), "refused");
        // Without asking it sends neither the token nor JSON, and the answer can't be read.
        assert_eq!(browser.evaluate(&fetched("no-cors", "application/json")), "opaque 0");
        // Nor can what anybody may read be read from there.
        let read = format!(
            "fetch({:?}).then((answer) => answer.status, () => 'refused')",
            format!("{}api/state", berth.dashboard)
        );
        assert_eq!(browser.evaluate(&read), "refused");
        // A form goes there, and is turned away at the door.
        browser.evaluate("document.forms[0].submit()");
        browser.says("body", "Content-Type: send application/json.");
        assert_eq!(clusters(&client).get("blue").await.unwrap().data, live.data, "{origin}");
    }

    // A name of another site that leads here: the page itself is not served under it.
    let (status, text) = browser.visit(&format!("http://rebound.test:{}/", berth.port()));
    assert_eq!(status, 403, "{text}");
    let rebound = format!(
        "fetch('/api/clusters/blue', {{method: 'POST', body: {body:?}, headers: \
         {{'Content-Type': 'application/json', 'Authorization': 'Bearer {}'}}}})\
         .then((answer) => answer.status)",
        berth.token
    );
    assert_eq!(browser.evaluate(&rebound), 403);
    assert_eq!(clusters(&client).get("blue").await.unwrap().data, live.data);

    // The very same request from the page itself is let in: it was not refused for what it says.
    browser.open("");
    let own: Value = browser.evaluate(&rebound);
    assert_eq!(own, 200);
    let networks = &clusters(&client).get("blue").await.unwrap().data["spec"]["machineNetworks"];
    assert_eq!(*networks, json!([{"cidr": "10.66.0.0/24"}]));
}

//! How long the extender takes for one answer, over a connection that is kept open.

use std::time::Instant;

use berth_testbed::Figures;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::Size;
use crate::server::{Extender, Server, node_name};

const CALLS: usize = 2_000;

pub async fn measure(server: &Server, size: &Size, figures: &mut Figures) {
    let extender = Extender::start(server).await;
    for names in [500, size.nodes] {
        let mut times = calls(&extender, names.min(size.nodes)).await;
        times.sort_by(f64::total_cmp);
        let at = |share: usize| times[times.len() * share / 1000];
        figures.micros(&format!("filter, {names} names, median"), at(500));
        figures.micros(&format!("filter, {names} names, p99"), at(990));
    }
    extender.stop();
}

async fn calls(extender: &Extender, names: usize) -> Vec<f64> {
    let names: Vec<String> = (0..names).map(node_name).collect();
    let container =
        json!({"name": "web", "image": "nginx", "resources": {"requests": {"cpu": "1m"}}});
    let pod = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u", "labels": {"app": "web"}},
        "spec": {"containers": [container], "schedulerName": "default-scheduler"},
    });
    let body = json!({"Pod": pod, "Nodes": null, "NodeNames": names}).to_string();
    let request = format!(
        "POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: \
         application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream =
        BufReader::new(TcpStream::connect(("127.0.0.1", extender.port)).await.unwrap());
    stream.get_ref().set_nodelay(true).unwrap();
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let begin = Instant::now();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.unwrap();
            if let Some(text) = line.to_lowercase().strip_prefix("content-length:") {
                length = text.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut answer = vec![0; length];
        stream.read_exact(&mut answer).await.unwrap();
        times.push(begin.elapsed().as_secs_f64() * 1e6);
        assert!(answer.starts_with(b"{\"Nodes\":null,\"NodeNames\":[\"node-0000\""));
    }
    times
}
